// Package vault reads secrets from the key/value engines of HashiCorp Vault, of both
// versions, as the Caddy module gw.secrets.hashicorp_vault.
package vault

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

func init() { caddy.RegisterModule(new(Vault)) }

// Vault reads secrets from HashiCorp Vault. It logs in with a token, an AppRole, or the
// service account of a pod in Kubernetes.
type Vault struct {
	// Hosts that may be private and speak plain HTTP: names, addresses, or *.domain. Only
	// they get the token of KubernetesToken. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// The file with the token of the pod's service account, for references that log in to
	// Kubernetes' auth method. Default: none, and these are refused.
	KubernetesToken string `json:"kubernetes_token,omitempty"`

	hosts  secrets.Hosts
	tokens secrets.Tokens
}

// Fields of auth_config.
const (
	fieldType      = "vault_auth_type"
	fieldAddr      = "vault_addr"
	fieldNamespace = "vault_namespace"
	fieldToken     = "vault_token"
	fieldRoleID    = "vault_role_id"
	fieldSecretID  = "vault_secret_id"
	fieldRole      = "vault_role"
)

// Values of vault_auth_type.
const (
	byToken      = "token"
	byAppRole    = "approle"
	byKubernetes = "kubernetes"
)

// CaddyModule returns the Caddy module information.
func (*Vault) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.hashicorp_vault", New: func() caddy.Module { return new(Vault) }}
}

// Provision checks the configuration.
func (v *Vault) Provision(caddy.Context) (err error) {
	v.hosts, err = secrets.NewHosts(v.Hosts)
	return err
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets hashicorp_vault {
//		hosts            <hosts...>
//		kubernetes_token <file>
//	}
func (v *Vault) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch d.Val() {
		case "hosts":
			hosts := d.RemainingArgs()
			if len(hosts) == 0 {
				return d.ArgErr()
			}
			v.Hosts = append(v.Hosts, hosts...)
		case "kubernetes_token":
			if !d.AllArgs(&v.KubernetesToken) {
				return d.ArgErr()
			}
		default:
			return d.Errf("unrecognized subdirective %q", d.Val())
		}
	}
	return nil
}

// Login describes the auth_config.
func (v *Vault) Login() secrets.Login {
	addr, namespace := secrets.Field{Name: fieldAddr, Required: true, Place: true}, secrets.Field{Name: fieldNamespace, Place: true}
	return secrets.Login{Mode: fieldType, Ways: map[string][]secrets.Field{
		byToken:      {addr, namespace, {Name: fieldToken, Required: true, Secret: true}},
		byAppRole:    {addr, namespace, {Name: fieldRoleID, Required: true}, {Name: fieldSecretID, Required: true, Secret: true}},
		byKubernetes: {addr, namespace, {Name: fieldRole, Required: true}},
	}}
}

// Check checks the address, the namespace and the path.
func (v *Vault) Check(r *secrets.Reference, guard secrets.Guard) error {
	u, err := v.hosts.Check(secrets.AuthField(fieldAddr), r.Auth[fieldAddr], guard)
	if err != nil {
		return err
	}
	if strings.Trim(u.Path, "/") != "" {
		return &secrets.FieldError{Field: secrets.AuthField(fieldAddr), Message: "expected an address without a path, such as https://vault.example.com:8200"}
	}
	for _, name := range []string{fieldNamespace, fieldToken} {
		if strings.ContainsFunc(r.Auth[name], func(r rune) bool { return r <= ' ' || r > '~' }) {
			return &secrets.FieldError{Field: secrets.AuthField(name), Message: "expected printable ASCII without spaces"}
		}
	}
	if r.Auth[fieldType] == byKubernetes {
		switch {
		case v.KubernetesToken == "":
			return &secrets.FieldError{Field: secrets.AuthField(fieldType), Message: "kubernetes needs kubernetes_token of secrets hashicorp_vault in the operator's configuration"}
		case !v.hosts.List(u):
			return &secrets.FieldError{Field: secrets.AuthField(fieldAddr), Message: "the token of a service account goes only to hosts of secrets hashicorp_vault in the operator's configuration"}
		}
	}
	path := strings.Trim(r.Path, "/")
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "?#%\\") || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r > '~' }) {
			return &secrets.FieldError{Field: secrets.FieldPath, Message: "expected the path of a secret, such as secret/my-app or secret/data/my-app"}
		}
	}
	if !strings.Contains(path, "/") {
		return &secrets.FieldError{Field: secrets.FieldPath, Message: "expected the mount of a key/value engine and the path of a secret in it, such as secret/my-app"}
	}
	return nil
}

// Fetch reads a secret: a JSON object with all of its keys.
func (v *Vault) Fetch(ctx context.Context, r *secrets.Reference, c *secrets.Clients) (credentials.Secret, error) {
	base, err := url.Parse(r.Auth[fieldAddr])
	if err != nil {
		return credentials.Secret{}, err
	}
	if base.Scheme != "https" && !v.hosts.List(base) { // the configuration may have changed
		return credentials.Secret{}, &credentials.HostError{Why: "the operator does not list it, and it is called without TLS"}
	}
	s := &session{base: base, client: v.hosts.Client(c, base), namespace: r.Auth[fieldNamespace]}
	read := func(token string) (credentials.Secret, error) {
		s.token = token
		return s.read(ctx, strings.Trim(r.Path, "/"))
	}
	way := r.Auth[fieldType]
	if way == byToken {
		return read(r.Auth[fieldToken])
	}
	body := map[string]string{"role_id": r.Auth[fieldRoleID], "secret_id": r.Auth[fieldSecretID]}
	if way == byKubernetes {
		if !v.hosts.List(base) { // the configuration may have changed
			return credentials.Secret{}, &credentials.HostError{Why: "the operator does not list it for the token of a service account"}
		}
		jwt, err := secrets.ReadToken(v.KubernetesToken)
		if err != nil {
			return credentials.Secret{}, err
		}
		body = map[string]string{"role": r.Auth[fieldRole], "jwt": jwt}
	}
	// The pod's token changes all the time, so that it is not part of the key.
	key := secrets.KeyOf(way, base.String(), s.namespace, r.Auth[fieldRoleID], r.Auth[fieldSecretID], r.Auth[fieldRole])
	return v.tokens.Use(ctx, key, c.Now(), func(ctx context.Context) (secrets.Token, error) {
		return s.login(ctx, way, body, c.Now())
	}, read)
}

// A session is a fetch from one server.
type session struct {
	base      *url.URL
	client    *http.Client
	namespace string
	token     string
}

// do sends a request to the API.
func (s *session) do(ctx context.Context, method, path string, body any) (int, []byte, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath("v1", path).String(), content)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Vault-Request", "true") // the server refuses forged requests without it
	if s.namespace != "" {
		r.Header.Set("X-Vault-Namespace", s.namespace)
	}
	if s.token != "" {
		r.Header.Set("X-Vault-Token", s.token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return secrets.Do(s.client, r)
}

// login logs in by an auth method at its default mount.
func (s *session) login(ctx context.Context, way string, body any, now time.Time) (t secrets.Token, err error) {
	s.token = ""
	status, answer, err := s.do(ctx, http.MethodPost, "auth/"+way+"/login", body)
	if err != nil {
		return t, err
	}
	auth := gjson.GetBytes(answer, "auth")
	token := auth.Get("client_token").Str
	if status != http.StatusOK || token == "" {
		return t, &secrets.Error{What: "login", Status: status}
	}
	t.Secret = credentials.NewSecret(token)
	if seconds := auth.Get("lease_duration").Int(); seconds > 0 && auth.Get("num_uses").Int() == 0 {
		t.Until = now.Add(time.Duration(min(seconds, int64(24*time.Hour/time.Second))) * time.Second)
	}
	return t, nil
}

// read reads a secret. Paths in an engine of version 2 have data after the mount, which may
// be left out here, as it may for Vault's own client.
func (s *session) read(ctx context.Context, path string) (value credentials.Secret, err error) {
	status, answer, err := s.do(ctx, http.MethodGet, path, nil)
	if err == nil && status == http.StatusNotFound {
		var other string
		if other, err = s.versioned(ctx, path); err == nil && other != "" {
			status, answer, err = s.do(ctx, http.MethodGet, other, nil)
		}
	}
	if err != nil {
		return value, err
	}
	if status != http.StatusOK {
		return value, &secrets.Error{What: "secret", Status: status}
	}
	data := gjson.GetBytes(answer, "data")
	if inner := data.Get("data"); data.Get("metadata.version").Exists() && (inner.IsObject() || inner.Type == gjson.Null) {
		data = inner // of version 2
	}
	if !data.IsObject() {
		return value, &secrets.Error{What: "secret", Status: http.StatusNotFound} // that version was deleted
	}
	return credentials.NewSecret(data.Raw), nil
}

// versioned returns the path of a secret in an engine of version 2, or "" if it needs no
// change, or the engine is another one.
func (s *session) versioned(ctx context.Context, path string) (string, error) {
	status, answer, err := s.do(ctx, http.MethodGet, "sys/internal/ui/mounts/"+path, nil)
	if err != nil || status != http.StatusOK {
		return "", err
	}
	data := cmp.Or(gjson.GetBytes(answer, "data").Raw, "{}")
	mount := strings.Trim(gjson.Get(data, "path").Str, "/") + "/"
	rest, ok := strings.CutPrefix(path, mount)
	if !ok || gjson.Get(data, "options.version").Str != "2" || strings.HasPrefix(rest, "data/") {
		return "", nil
	}
	return mount + "data/" + rest, nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Vault)(nil)
	_ caddyfile.Unmarshaler = (*Vault)(nil)
	_ secrets.Manager       = (*Vault)(nil)
)
