package azurekv

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/secretstest"
)

const (
	theVault = "https://v.vault.azure.net"
	ownID    = "0a1b2c3d-0000-4000-8000-000000000001"
)

func provisioned(t *testing.T, config string) (*Manager, error) {
	t.Helper()
	m := new(Manager)
	if err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser("azure_kv {\n" + config + "\n}")); err != nil {
		return nil, err
	}
	return m, m.Provision(caddy.Context{})
}

// metadata stands for the metadata service of a virtual machine, which has an identity of its own and
// another by its client id.
func metadata(logins *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch client := query.Get("client_id"); {
		case r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Metadata") != "true" || r.Method != http.MethodGet || r.URL.Path != "/metadata/identity/oauth2/token":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_request","error_description":"Required metadata header not specified"}`)
		case query.Get("api-version") != "2018-02-01" || query.Get("resource") != "https://vault.azure.net":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_resource","error_description":"d"}`)
		case client != "" && client != ownID:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_request","error_description":"Identity not found"}`)
		default:
			*logins++
			_, _ = io.WriteString(w, `{"access_token":"token-of-the-app","client_id":"`+client+`","expires_in":"3599","expires_on":"1","resource":"https://vault.azure.net","token_type":"Bearer"}`)
		}
	}
}

// federated stands for Entra ID: it checks the assertion of a Kubernetes service account.
func federated(t *testing.T, logins *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		of := r.PostForm.Get
		if r.Method != http.MethodPost || r.URL.Path != "/tenant/oauth2/v2.0/token" || of("grant_type") != "client_credentials" || of("scope") != "https://vault.azure.net/.default" ||
			of("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || of("client_assertion") != "jwt-of-the-pod" || of("client_id") != "app" && of("client_id") != ownID || r.PostForm.Has("client_secret") {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"jwt-of-the-pod"}`)
			return
		}
		*logins++
		_, _ = io.WriteString(w, `{"token_type":"Bearer","expires_in":3599,"access_token":"token-of-the-app"}`)
	}
}

// With each identity, secrets are read with its token, which is kept until shortly before it ends.
func TestSecretsAreReadAsWhatTheMachineIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("jwt-of-the-pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_CLIENT_ID", "app")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	t.Setenv("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/")
	plain, err := credentials.NewHostGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{instance, workload} {
		m, err := provisioned(t, "identity "+way)
		if err != nil {
			t.Fatal(err)
		}
		now, logins := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), 0
		c := secretstest.OnMachine(secretstest.Clients(secretstest.Hosts{
			"login.microsoftonline.com": federated(t, &logins), "v.vault.azure.net": http.HandlerFunc(vault), "v.vault.usgovcloudapi.net": http.HandlerFunc(vault),
		}, nil, func() time.Time { return now }), secretstest.Hosts{"169.254.169.254": metadata(&logins)})
		read := func(auth secrets.Auth) error {
			r := &secrets.Reference{Path: "openai", Auth: auth}
			if err := m.Check(r, plain); err != nil {
				return err
			}
			got, err := m.Fetch(t.Context(), r, c)
			if err == nil && got.Reveal() != "sk-2" {
				t.Errorf("%s: got %q", way, got.Reveal())
			}
			return err
		}
		own, named := secrets.Auth{fieldMode: byDefault, fieldVault: theVault}, secrets.Auth{fieldMode: byManaged, fieldOwn: ownID, fieldVault: theVault}
		for range 2 {
			if err := errors.Join(read(own), read(named)); err != nil {
				t.Errorf("%s: %v", way, err)
			}
		}
		if logins != 2 {
			t.Errorf("%s: %d logins, want one of each identity", way, logins)
		}
		now = now.Add(3598*time.Second - time.Minute)
		if err := read(own); err != nil || logins != 2 {
			t.Errorf("%s: %v, %d logins, before the token ends", way, err, logins)
		}
		now = now.Add(time.Second) // a minute before
		if err := read(own); err != nil || logins != 3 {
			t.Errorf("%s: %v, %d logins, shortly before the token ends", way, err, logins)
		}
		if err := read(secrets.Auth{fieldMode: byManaged, fieldOwn: ownID[:35] + "9", fieldVault: theVault}); err == nil || !secrets.Refusal(err) || strings.Contains(err.Error(), "jwt-of") {
			t.Errorf("%s: another identity: %v", way, err)
		}
		if err := read(secrets.Auth{fieldMode: byManaged, fieldOwn: "x&resource=y", fieldVault: theVault}); err == nil || !strings.Contains(err.Error(), fieldOwn) {
			t.Errorf("%s: no client id: %v", way, err)
		}
		if err := read(secrets.Auth{fieldMode: byDefault, fieldVault: "https://v.vault.usgovcloudapi.net"}); err == nil {
			t.Errorf("%s: a vault of another cloud", way)
		}
		if err := read(secrets.Auth{fieldMode: byDefault, fieldVault: "https://v.evil.example.com"}); err == nil || !strings.Contains(err.Error(), fieldVault) {
			t.Errorf("%s: the token goes to a host that is no vault: %v", way, err)
		}
	}
}

// A machine's identity is the operator's to give: without it in the configuration, no reference uses
// it, also not one that was made while it was there.
func TestOnlyTheOperatorGivesAnIdentity(t *testing.T) {
	for _, name := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"} {
		t.Setenv(name, "")
	}
	m, err := provisioned(t, "")
	if err != nil {
		t.Fatal(err)
	}
	logins := 0
	c := secretstest.OnMachine(secretstest.Clients(secretstest.Hosts{"v.vault.azure.net": http.HandlerFunc(vault)}, nil, time.Now), secretstest.Hosts{"169.254.169.254": metadata(&logins)})
	for _, mode := range []string{byManaged, byDefault} {
		if login := m.Login(); login.Ways[mode] != nil || login.Unavailable[mode] == "" {
			t.Errorf("%s: %+v", mode, login)
		}
		_, err := m.Fetch(t.Context(), &secrets.Reference{Path: "openai", Auth: secrets.Auth{fieldMode: mode, fieldVault: theVault}}, c)
		if field := new(secrets.FieldError); !errors.As(err, &field) || logins > 0 {
			t.Errorf("%s: %v, %d logins", mode, err, logins)
		}
	}
	for config, want := range map[string]string{"identity nope": "identity: expected", "identity workload": "AZURE_CLIENT_ID", "region x": "unrecognized"} {
		if _, err := provisioned(t, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
