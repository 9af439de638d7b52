// Package azurekv reads secrets from Azure Key Vault, as the Caddy module
// gw.secrets.azure_kv.
package azurekv

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

func init() { caddy.RegisterModule(new(Manager)) }

// Manager reads secrets from Azure Key Vault. It logs in as an application of Entra ID.
type Manager struct {
	// Hosts that may be private, such as those of a private endpoint:
	// *.vault.azure.net. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	hosts  secrets.Hosts
	tokens secrets.Tokens
}

// Fields of auth_config.
const (
	fieldMode   = "azure_auth_mode"
	fieldTenant = "azure_entra_tenant_id"
	fieldClient = "azure_entra_client_id"
	fieldSecret = "azure_entra_client_secret"
	fieldVault  = "azure_vault_url"
)

const apiVersion = "7.4"

// A cloud is one of Azure's: the domain of its vaults, and where applications log in.
type cloud struct{ domain, authority string }

var clouds = []cloud{
	{"vault.azure.net", "https://login.microsoftonline.com"},
	{"vault.azure.cn", "https://login.chinacloudapi.cn"},
	{"vault.usgovcloudapi.net", "https://login.microsoftonline.us"},
}

// cloudOf returns the cloud of a vault. ok: it is in one.
func cloudOf(vault *url.URL) (c cloud, ok bool) {
	for _, c := range clouds {
		if name, ok := strings.CutSuffix(strings.ToLower(vault.Hostname()), "."+c.domain); ok && !strings.Contains(name, ".") {
			return c, true
		}
	}
	return c, false
}

var (
	tenantName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]{0,127}$`)
	secretName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,127}(/[a-zA-Z0-9]{1,64})?$`)
)

// CaddyModule returns the Caddy module information.
func (*Manager) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.azure_kv", New: func() caddy.Module { return new(Manager) }}
}

// Provision checks the configuration.
func (m *Manager) Provision(caddy.Context) (err error) {
	m.hosts, err = secrets.NewHosts(m.Hosts)
	return err
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets azure_kv {
//		hosts <hosts...>
//	}
func (m *Manager) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	m.Hosts, err = secrets.UnmarshalHosts(d)
	return err
}

// Login describes the auth_config.
func (*Manager) Login() secrets.Login {
	return secrets.Login{Mode: fieldMode, Ways: map[string][]secrets.Field{
		"entra": {
			{Name: fieldTenant, Required: true, Place: true},
			{Name: fieldClient, Required: true},
			{Name: fieldSecret, Required: true, Secret: true},
			{Name: fieldVault, Required: true, Place: true},
		},
	}, Unsupported: []string{"managed", "default"}}
}

// Check checks the vault, the tenant and the name.
func (m *Manager) Check(r *secrets.Reference, guard secrets.Guard) error {
	u, err := m.hosts.Check(secrets.AuthField(fieldVault), r.Auth[fieldVault], guard)
	if err != nil {
		return err
	}
	if _, ok := cloudOf(u); !ok || u.Scheme != "https" || u.Port() != "" || strings.Trim(u.Path, "/") != "" {
		return &secrets.FieldError{Field: secrets.AuthField(fieldVault), Message: "expected the address of a key vault, such as https://name.vault.azure.net"}
	}
	switch {
	case !tenantName.MatchString(r.Auth[fieldTenant]):
		return &secrets.FieldError{Field: secrets.AuthField(fieldTenant), Message: "expected the id or the domain of a tenant"}
	case !secretName.MatchString(r.Path):
		return &secrets.FieldError{Field: secrets.FieldPath, Message: "expected the name of a secret, or name/version"}
	}
	return nil
}

// Fetch reads a secret, in its current version unless the path has one.
func (m *Manager) Fetch(ctx context.Context, r *secrets.Reference, c *secrets.Clients) (value credentials.Secret, err error) {
	vault, err := url.Parse(r.Auth[fieldVault])
	if err != nil {
		return value, err
	}
	of, ok := cloudOf(vault)
	if !ok {
		return value, &credentials.HostError{Why: "it is not a key vault"}
	}
	tenant, client, secret := r.Auth[fieldTenant], r.Auth[fieldClient], r.Auth[fieldSecret]
	key := secrets.KeyOf(of.authority, tenant, client, secret)
	return m.tokens.Use(ctx, key, c.Now(), func(ctx context.Context) (secrets.Token, error) {
		form := url.Values{
			"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {secret}, "scope": {"https://" + of.domain + "/.default"},
		}
		return login(ctx, c, of.authority+"/"+tenant+"/oauth2/v2.0/token", form)
	}, func(token string) (credentials.Secret, error) {
		u := vault.JoinPath("secrets", r.Path)
		u.RawQuery = url.Values{"api-version": {apiVersion}}.Encode()
		return read(ctx, m.hosts.Client(c, vault), u, token)
	})
}

func login(ctx context.Context, c *secrets.Clients, address string, form url.Values) (t secrets.Token, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return t, err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, answer, err := secrets.Do(c.Public, q)
	if err != nil {
		return t, err
	}
	token := gjson.GetBytes(answer, "access_token").Str
	if status != http.StatusOK || token == "" {
		return t, &secrets.Error{What: "login", Status: status, Code: secrets.Code(gjson.GetBytes(answer, "error").Str)}
	}
	t.Secret = credentials.NewSecret(token)
	if seconds := gjson.GetBytes(answer, "expires_in").Int(); seconds > 0 {
		t.Until = c.Now().Add(time.Duration(min(seconds, int64(24*time.Hour/time.Second))) * time.Second)
	}
	return t, nil
}

func read(ctx context.Context, client *http.Client, u *url.URL, token string) (value credentials.Secret, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return value, err
	}
	q.Header.Set("Authorization", "Bearer "+token)
	status, answer, err := secrets.Do(client, q)
	if err != nil {
		return value, err
	}
	got := gjson.GetBytes(answer, "value")
	if status != http.StatusOK || got.Type != gjson.String {
		return value, &secrets.Error{What: "secret", Status: status, Code: secrets.Code(gjson.GetBytes(answer, "error.code").Str)}
	}
	return credentials.NewSecret(got.Str), nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Manager)(nil)
	_ caddyfile.Unmarshaler = (*Manager)(nil)
	_ secrets.Manager       = (*Manager)(nil)
)
