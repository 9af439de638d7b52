package handlers_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A call gets its credential from the secret manager, which is asked once, and may be gone
// afterwards. Nothing else ever has the value.
func TestCallsWithSecretsOfASecretManager(t *testing.T) {
	const value, token = "sk-of-the-vault-0123456789", "hvs.token-of-the-gateway"
	vault := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != token || r.Header.Get("X-Vault-Namespace") != "team" || r.URL.Path != "/v1/kv/openai" {
			respond(403, `{"errors":["permission denied"]}`)(w, r)
			return
		}
		respond(200, `{"data":{"key":"`+value+`"}}`)(w, r)
	})
	up := gatewaytest.NewUpstream(t, nil)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "key"), []byte("sk-of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, trustLoopback+"secrets hashicorp_vault {\nhosts 127.0.0.1\n}\nsecrets file {\nroot "+root+"\n}\n")
	key, _ := g.Key("k")
	other := g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "other"}).Get("id").Str
	type object = map[string]any
	reference := func(slug, path string, more object) {
		t.Helper()
		body := object{
			"name": "n", "slug": slug, "manager_type": "hashicorp_vault", "secret_path": path, "secret_key": "key",
			"auth_config": object{"vault_auth_type": "token", "vault_addr": vault.URL, "vault_namespace": "team", "vault_token": token},
		}
		for name, v := range more {
			body[name] = v
		}
		g.Admin("POST", "/v1/secret-references", body)
		g.Admin("POST", "/v1/virtual-keys", object{
			"name": "n", "slug": slug, "provider": "openai", "custom_host": up.URL + "/v1",
			"secret_mappings": []any{object{"target_field": "key", "secret_reference_id": slug}},
		})
	}
	chat := func(slug string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, `"m"`, `"@`+slug+`/m"`, 1), "x-gw-api-key: "+key)
	}
	reference("good", "kv/openai", nil)
	reference("missing", "kv/none", nil)
	reference("in-a-file", "key", object{"manager_type": "file", "auth_config": object{}, "secret_key": nil})
	reference("without-key", "kv/openai", object{"secret_key": "none"})
	// Access of the workspace to a secret may end later.
	reference("elsewhere", "kv/openai", nil)
	g.Admin("PUT", "/v1/secret-references/elsewhere", object{"allowed_workspaces": []string{other}})

	for range 3 {
		if a := chat("good"); a.Status != 200 || up.Last(t).Header.Get("Authorization") != "Bearer "+value {
			t.Fatalf("%d %s, the provider got %v", a.Status, a.Body, up.Last(t).Header)
		}
	}
	if n := len(vault.Calls()); n != 1 {
		t.Errorf("%d requests to the vault, want 1", n)
	}
	if a := chat("in-a-file"); a.Status != 200 || up.Last(t).Header.Get("Authorization") != "Bearer sk-of-the-file" {
		t.Errorf("in a file: %d %s", a.Status, a.Body)
	}
	calls := len(up.Calls())
	for slug, want := range map[string]struct {
		status     int
		code, says string
	}{
		"missing":     {503, "secret_unavailable", "answered with 403"},
		"without-key": {503, "secret_unavailable", "no such key"},
		"elsewhere":   {403, "secret_reference_not_allowed", "may not use the secret reference"},
	} {
		a := chat(slug)
		if a.Status != want.status || a.Get("error.code").Str != want.code || !strings.Contains(a.Body, want.says) || strings.Contains(a.Body, vault.URL) {
			t.Errorf("%s: %d %s", slug, a.Status, a.Body)
		}
	}
	// A config tries the next target where a secret cannot be had.
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key,
		`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"missing"},{"virtual_key":"good"}]}`)
	if a.Status != 200 || len(up.Calls()) != calls+1 {
		t.Errorf("fallback: %d %s", a.Status, a.Body)
	}
	vault.Close()
	g.Load() // values outlive a configuration
	if a := chat("good"); a.Status != 200 {
		t.Errorf("without the vault: %d %s", a.Status, a.Body)
	}
	seen := g.Logs()
	for _, path := range []string{"/v1/virtual-keys", "/v1/secret-references", "/v1/secret-references/good", "/v1/logs"} {
		seen += g.Admin("GET", path, nil).Body
	}
	for _, secret := range []string{value, token, "sk-of-the-file"} {
		if i := strings.Index(seen, secret); i >= 0 {
			t.Errorf("a secret is seen: %.200s", seen[max(0, i-100):])
		}
	}
	if !strings.Contains(g.Logs(), "a secret cannot be fetched") {
		t.Error("nothing is logged about secrets that cannot be fetched")
	}
	g.Stop()
	err := filepath.WalkDir(g.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, secret := range []string{value, token} {
			if strings.Contains(string(b), secret) {
				err = fmt.Errorf("%s has a secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	g.Load()
}

// A manager in a private network is reached only if the operator lists it.
func TestAPrivateSecretManagerIsRefused(t *testing.T) {
	g := gatewaytest.Start(t, "")
	a := g.Do("POST", "/v1/secret-references", `{"name":"n","manager_type":"hashicorp_vault","secret_path":"kv/x","auth_config":{"vault_auth_type":"token","vault_addr":"http://127.0.0.1:8200","vault_token":"t"}}`,
		"x-gw-api-key: "+gatewaytest.OwnerKey)
	if a.Status != 400 || !strings.Contains(a.Body, "private") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
