package vault

import (
	"encoding/json"
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
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/secretstest"
)

// A server stands for Vault, and checks what it checks: the header against forged requests,
// the namespace, tokens and what they may read, and the paths of both engines.
type server struct {
	t         *testing.T
	namespace string
	tokens    map[string]bool
	logins    int
	jwt       string
	v1, v2    map[string]string // secrets, as JSON objects
}

func (s *server) refuse(w http.ResponseWriter, status int, why string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{why}})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Vault-Request") != "true" {
		s.refuse(w, 412, "missing X-Vault-Request")
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	if !ok || r.Header.Get("X-Vault-Namespace") != s.namespace {
		s.refuse(w, 404, "no handler for route")
		return
	}
	if r.Method == http.MethodPost {
		s.login(w, r, path)
		return
	}
	if !s.tokens[r.Header.Get("X-Vault-Token")] {
		s.refuse(w, 403, "permission denied: "+r.Header.Get("X-Vault-Token"))
		return
	}
	if name, ok := strings.CutPrefix(path, "kv/"); ok && s.v1[name] != "" {
		_, _ = io.WriteString(w, `{"lease_duration":2764800,"data":`+s.v1[name]+`}`)
		return
	}
	if name, ok := strings.CutPrefix(path, "team/secret/data/"); ok && s.v2[name] != "" {
		_, _ = io.WriteString(w, `{"data":{"data":`+s.v2[name]+`,"metadata":{"version":3,"destroyed":false}}}`)
		return
	}
	switch {
	case strings.HasPrefix(path, "sys/internal/ui/mounts/team/secret/"):
		_, _ = io.WriteString(w, `{"data":{"path":"team/secret/","type":"kv","options":{"version":"2"}}}`)
	case strings.HasPrefix(path, "sys/internal/ui/mounts/kv/"):
		_, _ = io.WriteString(w, `{"data":{"path":"kv/","type":"kv","options":{"version":"1"}}}`)
	default:
		s.refuse(w, 404, "")
	}
}

func (s *server) login(w http.ResponseWriter, r *http.Request, path string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	of := func(name string) string { return gjson.GetBytes(body, name).Str }
	switch {
	case path == "auth/approle/login" && of("role_id") == "role" && of("secret_id") == "secret-of-the-role":
	case path == "auth/kubernetes/login" && of("role") == "pod" && s.jwt != "" && of("jwt") == s.jwt:
	default:
		s.refuse(w, 400, "invalid role or secret ID")
		return
	}
	s.logins++
	token := "hvs.login" + strings.Repeat("x", s.logins)
	s.tokens[token] = true
	_, _ = io.WriteString(w, `{"auth":{"client_token":"`+token+`","lease_duration":3600,"num_uses":0}}`)
}

func provisioned(t *testing.T, v *Vault) *Vault {
	t.Helper()
	if err := v.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	return v
}

const addr = "https://vault.example.com:8200"

func auth(way string, more ...string) map[string]string {
	out := map[string]string{fieldType: way, fieldAddr: addr}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestSecretsOfBothEnginesByEveryLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("jwt-of-the-pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, namespace: "ns1", tokens: map[string]bool{"hvs.root": true}, jwt: "jwt-of-the-pod",
		v1: map[string]string{"app": `{"key":"one"}`}, v2: map[string]string{"app/prod": `{"key":"two","other":"x"}`},
	}
	hosts := secretstest.Hosts{"vault.example.com:8200": s}
	token := auth(byToken, fieldNamespace, "ns1", fieldToken, "hvs.root")
	role := auth(byAppRole, fieldNamespace, "ns1", fieldRoleID, "role", fieldSecretID, "secret-of-the-role")
	for name, c := range map[string]struct {
		auth       map[string]string
		path, want string
		status     int
	}{
		"version 1":                  {auth: token, path: "kv/app", want: `{"key":"one"}`},
		"version 2":                  {auth: token, path: "team/secret/data/app/prod", want: `{"key":"two","other":"x"}`},
		"version 2, without data":    {auth: token, path: "/team/secret/app/prod", want: `{"key":"two","other":"x"}`},
		"AppRole":                    {auth: role, path: "kv/app", want: `{"key":"one"}`},
		"Kubernetes":                 {auth: auth(byKubernetes, fieldNamespace, "ns1", fieldRole, "pod"), path: "kv/app", want: `{"key":"one"}`},
		"another token":              {auth: auth(byToken, fieldNamespace, "ns1", fieldToken, "hvs.other"), path: "kv/app", status: 403},
		"another namespace":          {auth: auth(byToken, fieldNamespace, "ns2", fieldToken, "hvs.root"), path: "kv/app", status: 404},
		"no such secret":             {auth: token, path: "kv/none", status: 404},
		"no such secret, version 2":  {auth: token, path: "team/secret/none", status: 404},
		"a wrong secret of the role": {auth: auth(byAppRole, fieldNamespace, "ns1", fieldRoleID, "role", fieldSecretID, "wrong"), path: "kv/app", status: 400},
		"another role":               {auth: auth(byKubernetes, fieldNamespace, "ns1", fieldRole, "other"), path: "kv/app", status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			v := provisioned(t, &Vault{Hosts: []string{"vault.example.com"}, KubernetesToken: file})
			r := &secrets.Reference{Path: c.path, Auth: c.auth}
			if err := v.Check(r, nil); err != nil {
				t.Fatal(err)
			}
			got, err := v.Fetch(t.Context(), r, secretstest.Clients(nil, hosts, time.Now))
			var answered *secrets.Error
			switch {
			case c.status != 0:
				if !errors.As(err, &answered) || answered.Status != c.status {
					t.Errorf("got %v, want status %d", err, c.status)
				}
				if err != nil && strings.Contains(err.Error(), "hvs.") {
					t.Errorf("the error repeats a token: %v", err)
				}
			case err != nil || got.Reveal() != c.want:
				t.Errorf("got %s, %v, want %s", got.Reveal(), err, c.want)
			}
		})
	}
}

// A login is used as long as it lasts, and again after its token was revoked.
func TestALoginIsKept(t *testing.T) {
	s := &server{t: t, tokens: map[string]bool{}, v1: map[string]string{"app": `{"key":"one"}`}}
	now := time.Unix(1_800_000_000, 0)
	c := secretstest.Clients(secretstest.Hosts{"vault.example.com:8200": s}, nil, func() time.Time { return now })
	v := provisioned(t, new(Vault))
	r := &secrets.Reference{Path: "kv/app", Auth: auth(byAppRole, fieldRoleID, "role", fieldSecretID, "secret-of-the-role")}
	for _, step := range []struct {
		before func()
		logins int
	}{
		{func() {}, 1},
		{func() { now = now.Add(58 * time.Minute) }, 1},
		{func() { now = now.Add(2 * time.Minute) }, 2},
		{func() { clear(s.tokens) }, 3},
		{func() {}, 3},
	} {
		step.before()
		if _, err := v.Fetch(t.Context(), r, c); err != nil || s.logins != step.logins {
			t.Fatalf("%d logins, %v, want %d", s.logins, err, step.logins)
		}
	}
}

func TestReferencesOfVaultAreChecked(t *testing.T) {
	plain, err := credentials.NewHostGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	token := func(at string) map[string]string {
		return map[string]string{fieldType: byToken, fieldAddr: at, fieldToken: "hvs.x"}
	}
	for name, c := range map[string]struct {
		vault *Vault
		path  string
		auth  map[string]string
		want  string // in the error; "": there is none
	}{
		"public":                        {new(Vault), "kv/app", token(addr), ""},
		"private":                       {new(Vault), "kv/app", token("https://10.0.0.1:8200"), "private"},
		"private, of the operator":      {&Vault{Hosts: []string{"10.0.0.1"}}, "kv/app", token("http://10.0.0.1:8200"), ""},
		"a metadata service":            {new(Vault), "kv/app", token("https://169.254.169.254"), "metadata"},
		"without TLS":                   {new(Vault), "kv/app", token("http://vault.example.com"), "https"},
		"a path in the address":         {new(Vault), "kv/app", token("https://vault.example.com/v1"), "without a path"},
		"a header in the token":         {new(Vault), "kv/app", map[string]string{fieldType: byToken, fieldAddr: addr, fieldToken: "x\r\ny: z"}, "auth_config.vault_token"},
		"a path out of the engine":      {new(Vault), "kv/../sys/raw/x", token(addr), "secret_path"},
		"an escaped path":               {new(Vault), "kv/%2e%2e/x", token(addr), "secret_path"},
		"a query":                       {new(Vault), "kv/app?list=true", token(addr), "secret_path"},
		"a mount only":                  {new(Vault), "kv", token(addr), "secret_path"},
		"Kubernetes without a token":    {new(Vault), "kv/app", auth(byKubernetes, fieldRole, "r"), "vault_auth_type"},
		"Kubernetes to a tenant's host": {&Vault{KubernetesToken: "/x"}, "kv/app", auth(byKubernetes, fieldRole, "r"), "vault_addr"},
	} {
		err := provisioned(t, c.vault).Check(&secrets.Reference{Path: c.path, Auth: c.auth}, plain)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestTheCaddyfileOfVault(t *testing.T) {
	v := new(Vault)
	if err := v.UnmarshalCaddyfile(caddyfile.NewTestDispenser("hashicorp_vault {\nhosts a.internal b.internal\nkubernetes_token /token\n}")); err != nil || len(v.Hosts) != 2 || v.KubernetesToken != "/token" {
		t.Errorf("%+v, %v", v, err)
	}
	for _, text := range []string{"hashicorp_vault {\nhosts\n}", "hashicorp_vault {\nkubernetes_token\n}", "hashicorp_vault {\nnope\n}"} {
		if err := new(Vault).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
