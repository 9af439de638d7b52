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

// Manager reads secrets from Azure Key Vault. It logs in as an application of Entra ID, or as what
// the machine is.
type Manager struct {
	// Hosts that may be private, such as those of a private endpoint:
	// *.vault.azure.net. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// The identity that references without credentials of their own use: instance, a managed
	// identity of the virtual machine by its metadata service; app_service, one of App Service or
	// Container Apps; or workload, that of the Kubernetes service account. Whoever may make references can read all secrets that it may. Default:
	// none, and such references are refused.
	Identity string `json:"identity,omitempty"`

	hosts    secrets.Hosts
	identity *Identity
	tokens   secrets.Tokens
}

// Fields of auth_config.
const (
	fieldMode   = "azure_auth_mode"
	fieldTenant = "azure_entra_tenant_id"
	fieldClient = "azure_entra_client_id"
	fieldSecret = "azure_entra_client_secret"
	fieldVault  = "azure_vault_url"
	fieldOwn    = "azure_managed_client_id"
)

// Values of azure_auth_mode.
const (
	byEntra   = "entra"
	byManaged = "managed"
	byDefault = "default"
)

const apiVersion = "7.4"

// A cloud is one of Azure's: the domain of its vaults, and where applications log in.
type cloud struct{ domain, authority string }

// resource is what tokens for its vaults are for.
func (c cloud) resource() string { return "https://" + c.domain }

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
	clientID   = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	secretName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,127}(/[a-zA-Z0-9]{1,64})?$`)
)

// CaddyModule returns the Caddy module information.
func (*Manager) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.azure_kv", New: func() caddy.Module { return new(Manager) }}
}

// Provision checks the configuration.
func (m *Manager) Provision(caddy.Context) (err error) {
	if m.hosts, err = secrets.NewHosts(m.Hosts); err == nil && m.Identity != "" {
		m.identity, err = NewIdentity(m.Identity)
	}
	return err
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets azure_kv {
//		hosts    <hosts...>
//		identity instance|app_service|workload
//	}
func (m *Manager) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return secrets.UnmarshalOptions(d, &m.Hosts, map[string]*string{"identity": &m.Identity})
}

// Login describes the auth_config.
func (m *Manager) Login() secrets.Login {
	vault := secrets.Field{Name: fieldVault, Required: true, Place: true}
	l := secrets.Login{Mode: fieldMode, Ways: map[string][]secrets.Field{
		byEntra: {
			{Name: fieldTenant, Required: true, Place: true},
			{Name: fieldClient, Required: true},
			{Name: fieldSecret, Required: true, Secret: true},
			vault,
		},
	}}
	if m.identity == nil {
		const why = "the operator's configuration has no identity of the gateway; see secrets azure_kv"
		l.Unavailable = map[string]string{byManaged: why, byDefault: why}
		return l
	}
	l.Ways[byManaged] = []secrets.Field{{Name: fieldOwn}, vault}
	l.Ways[byDefault] = []secrets.Field{vault}
	return l
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
	own := r.Auth[fieldOwn]
	switch way := r.Auth[fieldMode]; {
	case own != "" && !clientID.MatchString(own):
		return &secrets.FieldError{Field: secrets.AuthField(fieldOwn), Message: "expected the client id of a managed identity, a UUID"}
	case way != byManaged && way != byDefault && !tenantName.MatchString(r.Auth[fieldTenant]):
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
	key, log := secrets.KeyOf(of.authority, r.Auth[fieldTenant], r.Auth[fieldClient], r.Auth[fieldSecret]), asApplication
	if r.Auth[fieldMode] != byEntra {
		if m.identity == nil { // the configuration has changed
			return value, &secrets.FieldError{Field: secrets.AuthField(fieldMode), Message: "the operator's configuration has no identity of the gateway any more"}
		}
		key, log = secrets.KeyOf(m.Identity, of.domain, r.Auth[fieldOwn]), m.identity.login
	}
	return m.tokens.Use(ctx, key, c.Now(), func(ctx context.Context) (secrets.Token, error) {
		return log(ctx, of, r.Auth, c)
	}, func(token string) (credentials.Secret, error) {
		u := vault.JoinPath("secrets", r.Path)
		u.RawQuery = url.Values{"api-version": {apiVersion}}.Encode()
		return read(ctx, m.hosts.Client(c, vault), u, token)
	})
}

// asApplication logs in with the secret of an application.
func asApplication(ctx context.Context, of cloud, auth secrets.Auth, c *secrets.Clients) (secrets.Token, error) {
	return askEntra(ctx, c, of.authority, of.resource(), auth[fieldTenant], url.Values{"client_id": {auth[fieldClient]}, "client_secret": {auth[fieldSecret]}})
}

// askEntra requests the token of an application for a resource.
func askEntra(ctx context.Context, c *secrets.Clients, authority, resource, tenant string, form url.Values) (t secrets.Token, err error) {
	form.Set("grant_type", "client_credentials")
	form.Set("scope", resource+"/.default")
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, authority+"/"+tenant+"/oauth2/v2.0/token", strings.NewReader(form.Encode()))
	if err != nil {
		return t, err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return login(c.Public, q, c.Now())
}

// login sends a request for a token, and reads the answer.
func login(client *http.Client, q *http.Request, now time.Time) (t secrets.Token, err error) {
	status, answer, err := secrets.Do(client, q)
	if err != nil {
		return t, err
	}
	token := gjson.GetBytes(answer, "access_token").Str
	if status != http.StatusOK || token == "" {
		return t, &secrets.Error{What: "login", Status: status, Code: secrets.Code(gjson.GetBytes(answer, "error").Str)}
	}
	t.Secret = credentials.NewSecret(token)
	seconds := gjson.GetBytes(answer, "expires_in").Int()
	if until := gjson.GetBytes(answer, "expires_on").Int(); seconds == 0 && until > 0 { // App Service says only when
		seconds = until - now.Unix()
	}
	if seconds > 0 {
		t.Until = now.Add(time.Duration(min(seconds, int64(24*time.Hour/time.Second))) * time.Second)
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
