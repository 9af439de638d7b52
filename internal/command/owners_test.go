package command_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// owned returns a gateway that runs and made its owner's key itself, with the key, and a terminal for it.
func owned(t *testing.T) (g *gatewaytest.Gateway, key string, c *terminal) {
	t.Helper()
	g = gatewaytest.New(t, "")
	g.AdminAt = gatewaytest.FreeAddress(t)
	config, err := gatewaytest.Adapt(strings.Replace(g.Caddyfile(), "admin_key "+gatewaytest.OwnerKey, "", 1))
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(g.Dir + ".admin-key")
	if err != nil {
		t.Fatal(err)
	}
	return g, strings.TrimSpace(string(raw)), &terminal{t, []string{"--address", g.AdminAt}}
}

// A gateway's own owner's key is in no document: it gives nobody rights in another gateway, and no import takes it away.
func TestOwnersKeysStayWhereTheyAre(t *testing.T) {
	secret := write(t, "passphrase", passphrase+"\n")
	file := filepath.Join(t.TempDir(), "gw.yaml")
	may := func(g *gatewaytest.Gateway, key string) bool {
		t.Helper()
		a := g.Do("GET", "/v1/api-keys", "", "x-gw-api-key: "+key)
		if a.Status != http.StatusOK && a.Status != http.StatusUnauthorized {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return a.Status == http.StatusOK
	}
	owner := func(g *gatewaytest.Gateway, key string) gjson.Result {
		return gjson.Get(g.Do("GET", "/v1/api-keys", "", "x-gw-api-key: "+key).Body, `data.#(name=="Organisation owner")`)
	}

	g, staging, c := owned(t)
	c.ok("key", "create", "checkout", "--scope", "completions.write")
	mine := owner(g, staging).Get("id").Str
	// Its limits are not in documents either, which would name it.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+g.AdminAt+"/gw/v1/api-keys/"+mine, strings.NewReader(`{"rate_limits":[{"type":"requests","unit":"rpm","value":7000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	limited, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = limited.Body.Close(); limited.StatusCode != http.StatusOK {
		t.Fatal(limited.Status)
	}
	c.ok("export", "--output", file, "--passphrase-file", secret)
	text := read(t, file)
	if strings.Contains(text, mine) || strings.Contains(text, "owner: true") || !strings.Contains(text, "checkout") {
		t.Errorf("the owner's key is in the document, or another is not:\n%s", text)
	}
	if out := c.ok("import", file, "--passphrase-file", secret, "--prune"); !strings.HasPrefix(out, "0 objects were written, ") {
		t.Error(out)
	}
	if !may(g, staging) {
		t.Error("the owner's key was deleted by the gateway's own document")
	}
	g.Stop()

	g, production, c := owned(t)
	for _, flags := range [][]string{nil, {"--prune"}} {
		c.ok(append([]string{"import", file, "--passphrase-file", secret}, flags...)...)
		if may(g, staging) || !may(g, production) {
			t.Errorf("%q: the owner's key of another gateway works, or the own one does not", flags)
		}
	}
	again := write(t, "again.yaml", text)
	c.ok("export", "--output", again, "--passphrase-file", secret)
	if got := read(t, again); got != text {
		t.Errorf("the document is another one:\n%s", unified(text, got))
	}
	c.ok("import", write(t, "none.yaml", "format: 1\napi_keys: []\n"), "--prune")
	if !may(g, production) || owner(g, production).Get("id").Str == "" {
		t.Error("a document without keys deleted the owner's key")
	}

	// Documents of earlier versions have it, and say what to do.
	id := owner(g, production).Get("id").Str
	for of, object := range map[string]map[string]any{
		"another gateway's": {"id": mine, "name": "Organisation owner", "kind": "organisation-service", "owner": true, "scopes": []string{}},
		"the gateway's own": {"id": id, "name": "Organisation owner", "kind": "organisation-service", "owner": true, "scopes": []string{}},
		"without the flag":  {"id": id, "name": "Nobody's", "kind": "organisation-service", "scopes": []string{}},
	} {
		t.Run(of, func(t *testing.T) {
			list, err := json.Marshal(map[string]any{"format": 1, "api_keys": []any{object}})
			if err != nil {
				t.Fatal(err)
			}
			c := &terminal{t, c.flags}
			c.fails("api_keys[0].owner: an owner's key", "import", write(t, "gw.json", string(list)))
		})
	}
}
