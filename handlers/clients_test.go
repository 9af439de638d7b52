package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Anthropic's clients send the service key as x-api-key. It is not a provider's, whatever the
// call does, and is in no log.
func TestAServiceKeyInXAPIKeyIsNeverForwarded(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file"))
	key, _ := g.Key("k")
	for name, headers := range map[string][]string{
		"a provider of the file":     {"x-gw-provider: file"},
		"a forwarded header":         {"x-gw-provider: file", "x-gw-forward-headers: x-api-key"},
		"a custom host":              {"x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/v1"},
		"a custom host of Anthropic": {"x-gw-provider: anthropic", "x-gw-custom-host: " + up.URL + "/v1"},
		"with a credential":          {"x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/v1", "authorization: Bearer sk-of-the-caller"},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/anything"} {
			n := len(up.Calls())
			g.Do("POST", path, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, append(headers, "x-api-key: "+key)...)
			for _, call := range up.Calls()[n:] {
				for header, values := range call.Header {
					if strings.Contains(strings.Join(values, " "), key) {
						t.Errorf("%s, %s: the provider got %s: %s", name, path, header, values)
					}
				}
				if name == "with a credential" && call.Header.Get("Authorization") != "Bearer sk-of-the-caller" {
					t.Errorf("%s: the provider got %q", path, call.Header.Get("Authorization"))
				}
			}
		}
	}
	if a := g.Do("GET", "/v1/configs", "", "x-api-key: "+gatewaytest.OwnerKey); a.Status != 200 {
		t.Errorf("the control plane: %d %s", a.Status, a.Body)
	}
	for what, secret := range map[string]string{"a key": key, "the owner's": gatewaytest.OwnerKey} {
		if strings.Contains(g.Logs(), secret) {
			t.Errorf("the logs have %s", what)
		}
	}
}

func TestModelsAreListedInAnthropicsShapeForItsClients(t *testing.T) {
	list := func(body string) http.HandlerFunc { return respond(200, body) }
	openai := gatewaytest.NewUpstream(t, list(`{"object":"list","data":[{"id":"a","object":"model","created":86400,"owned_by":"o"},{"id":"b","object":"model","created":0,"owned_by":"o","display_name":"The B"}]}`))
	claude := `{"data":[{"type":"model","id":"c","display_name":"C","created_at":"2026-01-01T00:00:00Z","more":1}],"has_more":false,"first_id":"c","last_id":"c"}`
	anthropic := gatewaytest.NewUpstream(t, list(claude))
	failing := gatewaytest.NewUpstream(t, respond(401, `{"error":{"message":"no","type":"t"}}`))
	g := gatewaytest.Start(t, openai.Provider("one")+strings.Replace(anthropic.Provider("two"), "type openai", "type anthropic", 1)+failing.Provider("failing")+"alias fast @one/a\n")
	key, _ := g.Key("k")
	const a = `{"type":"model","id":"a","display_name":"a","created_at":"1970-01-02T00:00:00Z"}`
	const b = `{"type":"model","id":"b","display_name":"The B","created_at":"1970-01-01T00:00:00Z"}`
	for name, c := range map[string]struct {
		query, provider, want string
	}{
		"a provider like OpenAI": {"", "one", `{"data":[` + a + `,` + b + `],"has_more":false,"first_id":"a","last_id":"b"}`},
		"Anthropic":              {"", "two", claude},
	} {
		got := g.Do("GET", "/v1/models"+c.query, "", "x-api-key: "+key, "anthropic-version: 2023-06-01", "x-gw-provider: "+c.provider)
		if got.Status != 200 || got.Body != c.want {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	for query, want := range map[string]string{
		"":                                  "fast @one/a @one/b @two/c false",
		"?limit=2":                          "fast @one/a true",
		"?limit=2&after_id=@one/a":          "@one/b @two/c false",
		"?limit=1&before_id=@two/c":         "@one/b true",
		"?limit=100&after_id=nonsense":      "fast @one/a @one/b @two/c false",
		"?after_id=@two/c":                  " false",
		"?limit=0&before_id=fast&beta=true": " false",
		"?after_id=fast&before_id=@two/c":   "@one/a @one/b false",
	} {
		got := g.Do("GET", "/v1/models"+query, "", "x-api-key: "+key, "anthropic-version: 2023-06-01")
		var ids []string
		for _, m := range got.Get("data.#.id").Array() {
			ids = append(ids, m.Str)
		}
		if s := strings.Join(ids, " ") + " " + got.Get("has_more").Raw; got.Status != 200 || s != want {
			t.Errorf("%q: %d %s, want %s: %s", query, got.Status, s, want, got.Body)
		}
		if n := len(ids); n > 0 && (got.Get("first_id").Str != ids[0] || got.Get("last_id").Str != ids[n-1]) {
			t.Errorf("%q: %s", query, got.Body)
		}
	}
	if got := g.Do("GET", "/v1/models", "", "x-api-key: "+key, "anthropic-version: 2023-06-01", "x-gw-provider: failing"); got.Status != 401 || got.Get("error.message").Str == "" {
		t.Errorf("a provider that fails: %d %s", got.Status, got.Body)
	}
	if got := g.Do("GET", "/v1/models", "", "x-gw-api-key: "+key); got.Get("data.0").Raw != `{"id":"fast","object":"model","created":0,"owned_by":"gateway","provider":"one"}` {
		t.Errorf("OpenAI's shape: %s", got.Body)
	}
}

// What an alias stands for is what the provider gets, and what counts.
func TestAModelAliasStandsForAModelOrAConfig(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("one")+up.Provider("two")+`
alias fast @one/real/model
alias lost @nobody/m
alias conf pc-nothing
logs {
	bodies off
}
`)
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "red", "slug": "red"})
	red := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "red", "workspace_id": "red", "scopes": []string{"completions.write"}}).Get("key").Str
	config := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "workspace_id": "red", "config": map[string]any{"provider": "@two", "override_params": map[string]any{"model": "of-the-config"}}}).Get("slug").Str
	bare := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "workspace_id": "red", "config": map[string]any{"retry": map[string]any{"attempts": 1}}}).Get("slug").Str
	g.Admin("POST", "/v1/model-aliases", map[string]any{"name": "fast", "model": "@two/of-red", "workspace_id": "red"})
	g.Admin("POST", "/v1/model-aliases", map[string]any{"name": "openai/gpt", "config": config, "workspace_id": "red"})

	ask := func(key, model string, headers ...string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, `"m"`, `"`+model+`"`, 1), append([]string{"x-gw-api-key: " + key}, headers...)...)
	}
	for name, c := range map[string]struct {
		key, model, provider, sent string
		headers                    []string
	}{
		"of the file":                {key, "fast", "one", "real/model", nil},
		"of the workspace":           {red, "fast", "two", "of-red", nil},
		"for a config":               {red, "openai/gpt", "two", "of-the-config", nil},
		"with a provider":            {red, "fast", "one", "fast", []string{"x-gw-provider: one"}},
		"of the same slug":           {red, "@one/fast", "one", "fast", nil},
		"in a config without target": {red, "fast", "two", "of-red", []string{"x-gw-config: " + bare}},
		"set by a config":            {red, "m", "two", "of-red", []string{`x-gw-config: {"override_params":{"model":"fast"}}`}},
		"with a config's provider":   {red, "fast", "one", "fast", []string{`x-gw-config: {"provider":"@one"}`}},
		"a provider's prefix":        {red, "one/a/b", "one", "a/b", nil},
	} {
		a := ask(c.key, c.model, c.headers...)
		if a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		if got := gjson.Get(up.Last(t).Body, "model").Str; got != c.sent || a.Header.Get("X-Gw-Provider") != c.provider {
			t.Errorf("%s: %s got %q", name, a.Header.Get("X-Gw-Provider"), got)
		}
	}
	for model, want := range map[string]string{"lost": "nobody", "conf": "pc-nothing", "unknown": "provider header is required"} {
		if a := ask(key, model); a.Status != 400 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", model, a.Status, a.Body)
		}
	}

	// A limit on the model counts what the alias stands for.
	policy(g, map[string]any{"value": 1, "conditions": when("model", "real/model")})
	policy(g, map[string]any{"value": 1, "conditions": when("model", "@two/of-red")})
	for _, c := range []struct {
		key    string
		status int
	}{{key, 200}, {key, 429}} {
		if a := ask(c.key, "fast"); a.Status != c.status {
			t.Errorf("a limit on the model: %d %s, want %d", a.Status, a.Body, c.status)
		}
	}
	if a := ask(key, "@one/real/model"); a.Status != 429 {
		t.Errorf("the model itself: %d %s", a.Status, a.Body)
	}
	eventually(t, "the records", func() bool {
		logged := g.Do("GET", "/v1/logs?page_size=100", "", "x-gw-api-key: "+gatewaytest.OwnerKey).Body
		return strings.Contains(logged, `"real/model"`) && strings.Contains(logged, `"of-red"`)
	})
	if logged := g.Do("GET", "/v1/logs?page_size=100", "", "x-gw-api-key: "+gatewaytest.OwnerKey); strings.Contains(logged.Body, `"openai/gpt"`) {
		t.Errorf("a record has the alias: %s", logged.Body)
	}
}

func TestAnUnknownPathNamesTheRouteThatIsSpeltNearlySo(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("one"))
	key, _ := g.Key("k")
	for path, want := range map[string]string{
		"/v1/chat/completion":      "/v1/chat/completions",
		"/v1/chat/compeltions":     "/v1/chat/completions",
		"/v1/embedding":            "/v1/embeddings",
		"/v1/model":                "/v1/models",
		"/v1/message/count_tokens": "/v1/messages/count_tokens",
		"/v1/virtual-key":          "/v1/virtual-keys",
		"/v1/config/pc-x":          "/v1/configs/{slug}",
		"/v1/Chat/completions":     "/v1/chat/completions",
		"/v1/keys":                 "/v1/api-keys",
		"/v1/keys/x":               "/v1/api-keys/{id}",
		"/v1/users":                "/v1/admin/users",
		"/v1/rate-limits":          "/v1/policies/rate-limits",
		"/v1/generations":          "/v1/images/generations",
		"/v1/references":           "/v1/secret-references",
	} {
		for _, headers := range [][]string{nil, {"x-gw-provider: one"}} {
			a := g.Do("POST", path, `{"messages":[]}`, append(headers, "x-gw-api-key: "+key)...)
			if a.Status < 400 || !strings.Contains(a.Body, want) {
				t.Errorf("%s %s: %d %s", path, headers, a.Status, a.Body)
			}
		}
	}
	if a := g.Do("POST", "/v1/api-keys/workspace/servic", `{}`, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 404 || !strings.Contains(a.Body, "did you mean /v1/api-keys/workspace/service?") {
		t.Errorf("the control plane: %d %s", a.Status, a.Body)
	}
	for _, method := range []string{"GET", "POST"} {
		if a := g.Do(method, "/v1/keys", `{"name":"k"}`, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 400 || !strings.HasPrefix(a.Get("error.message").Str, method+" /v1/keys is none of the gateway's endpoints") || !strings.HasSuffix(a.Get("error.message").Str, "did you mean /v1/api-keys?") {
			t.Errorf("%s: %d %s", method, a.Status, a.Body)
		}
	}
	for _, path := range []string{"/v1/something/else", "/v1/x", "/v1/content", "/v1/s", "/v1/" + strings.Repeat("chat/", 200)} {
		if a := g.Do("GET", path, "", "x-gw-api-key: "+key, "x-gw-provider: one"); strings.Contains(a.Body, "did you mean") {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	if n := len(up.Calls()); n != 0 {
		t.Errorf("the provider got %d calls", n)
	}
}
