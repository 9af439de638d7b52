package azurekv

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/secretstest"
)

// authority stands for Entra ID: it checks the grant, the application and the scope.
func authority(t *testing.T, scope string, logins *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		of := r.PostForm.Get
		if r.Method != http.MethodPost || r.URL.Path != "/tenant/oauth2/v2.0/token" || of("grant_type") != "client_credentials" || of("scope") != scope || of("client_id") != "app" || of("client_secret") != "secret-of-the-app" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"secret-of-the-app"}`)
			return
		}
		*logins++
		_, _ = io.WriteString(w, `{"token_type":"Bearer","expires_in":3599,"access_token":"token-of-the-app"}`)
	}
}

// vault stands for Key Vault: it checks the token and the version of the API.
func vault(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"code":"`+code+`","message":"m"}}`)
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer token-of-the-app":
		refuse(http.StatusUnauthorized, "Unauthorized")
	case r.URL.Query().Get("api-version") != "7.4":
		refuse(http.StatusBadRequest, "BadParameter")
	case r.URL.Path == "/secrets/openai":
		_, _ = io.WriteString(w, `{"value":"sk-2","id":"https://v.vault.azure.net/secrets/openai/b2"}`)
	case r.URL.Path == "/secrets/openai/a1":
		_, _ = io.WriteString(w, `{"value":"sk-1","id":"https://v.vault.azure.net/secrets/openai/a1"}`)
	default:
		refuse(http.StatusNotFound, "SecretNotFound")
	}
}

func TestSecretsOfAzure(t *testing.T) {
	logins := 0
	hosts := secretstest.Hosts{
		"login.microsoftonline.com": authority(t, "https://vault.azure.net/.default", &logins),
		"login.microsoftonline.us":  authority(t, "https://vault.usgovcloudapi.net/.default", &logins),
		"v.vault.azure.net":         http.HandlerFunc(vault), "v.vault.usgovcloudapi.net": http.HandlerFunc(vault),
	}
	plain, err := credentials.NewHostGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := new(Manager)
	if err := m.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, vault, secret, want, code string }{
		"the current version": {"openai", "https://v.vault.azure.net", "secret-of-the-app", "sk-2", ""},
		"another version":     {"openai/a1", "https://v.vault.azure.net/", "secret-of-the-app", "sk-1", ""},
		"of the government":   {"openai", "https://v.vault.usgovcloudapi.net", "secret-of-the-app", "sk-2", ""},
		"no such secret":      {"none", "https://v.vault.azure.net", "secret-of-the-app", "", "SecretNotFound"},
		"another application": {"openai", "https://v.vault.azure.net", "secret-of-another", "", "invalid_client"},
	} {
		r := &secrets.Reference{Path: c.path, Auth: map[string]string{fieldMode: "entra", fieldTenant: "tenant", fieldClient: "app", fieldSecret: c.secret, fieldVault: c.vault}}
		if err := m.Check(r, plain); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := m.Fetch(t.Context(), r, secretstest.Clients(hosts, nil, time.Now))
		if c.code == "" && (err != nil || got.Reveal() != c.want) || c.code != "" && (err == nil || !strings.Contains(err.Error(), c.code) || strings.Contains(err.Error(), "secret-of")) {
			t.Errorf("%s: got %q, %v", name, got.Reveal(), err)
		}
	}
	if logins != 2 {
		t.Errorf("%d logins, want one in each cloud", logins)
	}
}

func TestReferencesOfAzureAreChecked(t *testing.T) {
	plain, err := credentials.NewHostGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ vault, tenant, path, want string }{
		"another host":        {"https://vault.example.com", "t", "s", "azure_vault_url"},
		"a name below":        {"https://a.b.vault.azure.net", "t", "s", "azure_vault_url"},
		"the domain itself":   {"https://vault.azure.net", "t", "s", "azure_vault_url"},
		"without TLS":         {"http://v.vault.azure.net", "t", "s", "https"},
		"a path":              {"https://v.vault.azure.net/secrets", "t", "s", "azure_vault_url"},
		"a tenant of a path":  {"https://v.vault.azure.net", "../x", "s", "azure_entra_tenant_id"},
		"a secret of a path":  {"https://v.vault.azure.net", "t", "../keys/x", "secret_path"},
		"a version too many":  {"https://v.vault.azure.net", "t", "a/b/c", "secret_path"},
		"a name with a query": {"https://v.vault.azure.net", "t", "a?b", "secret_path"},
	} {
		m := new(Manager)
		if err := m.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		err := m.Check(&secrets.Reference{Path: c.path, Auth: map[string]string{fieldTenant: c.tenant, fieldVault: c.vault}}, plain)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
