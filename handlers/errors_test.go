package handlers_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	refusing := gatewaytest.NewUpstream(t, respond(http.StatusUnauthorized, `{"error":{"message":"no such key","type":"auth","code":null}}`))
	named := gatewaytest.NewUpstream(t, respond(http.StatusUnauthorized, `{"error":{"message":"no such key","type":"auth","code":"invalid_api_key"}}`))
	page := gatewaytest.NewUpstream(t, respond(http.StatusUnauthorized, `<html><title>Go away</title></html>`))
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("openai-prod")+strings.Replace(up.Provider("hidden"), "type openai", "type openai\nworkspaces elsewhere", 1)+
		refusing.Provider("refusing")+named.Provider("named")+page.Provider("page"))
	key, _ := g.Key("k")
	const chat = "/v1/chat/completions"
	own, owner := "x-gw-api-key: "+key, "x-gw-api-key: "+gatewaytest.OwnerKey
	const makeKey = "/v1/api-keys/workspace/service"
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code, message      string
		never              string
	}{
		"no key":              {"POST", chat, gatewaytest.Chat, nil, 401, "03", "expected one in x-gw-api-key, as Authorization: Bearer, or in x-api-key", "unknown"},
		"a wrong key":         {"POST", chat, gatewaytest.Chat, []string{"authorization: Bearer nope"}, 401, "03", "is unknown or was deleted", "No service key"},
		"no key, control":     {"GET", "/v1/configs", "", nil, 401, "AB05", "expected one in x-gw-api-key, as Authorization: Bearer, or in x-api-key", "unknown"},
		"a wrong key, either": {"GET", "/v1/configs", "", []string{"x-gw-api-key: nope"}, 401, "AB05", "is unknown or was deleted", "no API key was sent"},

		"an unknown provider":         {"POST", chat, gatewaytest.Chat, []string{own, "x-gw-provider: opnai"}, 400, "invalid_provider", "Invalid provider passed: opnai", "blocked"},
		"an unknown slug":             {"POST", chat, gatewaytest.Chat, []string{own, "x-gw-provider: @openai-prdo"}, 400, "invalid_virtual_key", "openai-prdo; did you mean openai-prod?", ""},
		"an unknown slug, in a model": {"POST", chat, strings.Replace(gatewaytest.Chat, `"m"`, `"@openai_prod/m"`, 1), []string{own}, 400, "invalid_virtual_key", "did you mean openai-prod?", ""},
		"a slug of others":            {"POST", chat, gatewaytest.Chat, []string{own, "x-gw-provider: @hiddn"}, 400, "invalid_virtual_key", "not valid: hiddn", "hidden"},

		"an unknown scope":  {"POST", makeKey, `{"name":"k","scopes":["completion.write"]}`, []string{owner}, 400, "AB01", `scopes[0]: a key of kind workspace-service cannot hold "completion.write"; did you mean completions.write? expected one of agent_integration_skills.create, `, ""},
		"a scope of others": {"POST", makeKey, `{"name":"k","scopes":["workspaces.create"]}`, []string{owner}, 400, "AB01", ", completions.write, ", ""},

		"keys at the path of all":       {"POST", "/v1/api-keys", `{}`, []string{owner}, 405, "AB01", "expected GET; POST is served at /v1/api-keys/organisation/service, /v1/api-keys/workspace/service", ""},
		"keys at the other path of all": {"POST", "/v2/api-keys", `{}`, []string{owner}, 405, "AB01", "/v2/api-keys/workspace/service", "/v1"},

		"a time, in a body":       {"POST", makeKey, `{"name":"k","scopes":["completions.write"],"expires_at":"tomorrow"}`, []string{owner}, 400, "AB01", "expires_at: expected", "2006"},
		"a number for a time":     {"POST", makeKey, `{"name":"k","scopes":["completions.write"],"expires_at":7}`, []string{owner}, 400, "AB01", "expires_at: expected", "Go"},
		"a day of no month":       {"POST", makeKey, `{"name":"k","scopes":["completions.write"],"expires_at":"2026-02-30T00:00:00Z"}`, []string{owner}, 400, "AB01", "expires_at: expected", "2006"},
		"a time, in a query":      {"GET", "/v1/logs?time_of_generation_min=yesterday", "", []string{owner}, 400, "AB01", "time_of_generation_min: expected a time such as 2026-01-31T12:00:00Z", "2006"},
		"a config of no object":   {"POST", "/v1/configs", `{"name":"c","config":"[]"}`, []string{owner}, 400, "AB01", "config: expected a JSON object", "config: config"},
		"a config of no JSON":     {"POST", "/v1/configs", `{"name":"c","config":"{"}`, []string{owner}, 400, "AB01", "config: expected a JSON object", "config: config"},
		"a config with a mistake": {"POST", "/v1/configs", `{"name":"c","config":{"retries":1}}`, []string{owner}, 400, "AB01", "config: retries: unknown key", "config: config"},

		"a provider's 401":             {"POST", chat, gatewaytest.Chat, []string{own, "x-gw-provider: refusing"}, 401, "provider_unauthorized", "no such key", ""},
		"a provider's 401, as a page":  {"POST", chat, gatewaytest.Chat, []string{own, "x-gw-provider: page"}, 401, "provider_unauthorized", "Go away", ""},
		"a provider's 401 with a code": {"POST", chat, gatewaytest.Chat, []string{own, "x-gw-provider: named"}, 401, "invalid_api_key", "no such key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.Do(c.method, c.path, c.body, append(c.headers, "content-type: application/json")...)
			code, message := a.Get("error.code").String(), a.Get("error.message").Str
			if data := a.Get("data"); data.Exists() {
				code, message = data.Get("errorCode").Str, data.Get("message").Str
			}
			if a.Status != c.status || code != c.code || !strings.Contains(message, c.message) || c.never != "" && strings.Contains(a.Body, c.never) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
}

func TestAMistypedHeaderIsNamedInAWarning(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file")+"header_prefix x-acme-\n")
	key, _ := g.Key("k")
	for name, c := range map[string]struct{ header, want string }{
		"a typing error":            {"x-gw-provdier: file", "x-gw-provdier is not a header of the gateway; did you mean x-gw-provider?"},
		"another prefix":            {"x-acme-meta-data: {}", "x-acme-meta-data is not a header of the gateway; did you mean x-acme-metadata?"},
		"a setting":                 {"x-gw-aws-regoin: us-east-1", "x-gw-aws-regoin is not a header of the gateway; did you mean x-gw-aws-region?"},
		"nothing like it":           {"x-gw-nonsense-altogether: 1", ""},
		"headers of other gateways": {"x-acme-runtime-version: v22\nx-acme-package-version: 1\nx-acme-runtime: node\nx-acme-retry-count: 1", ""},
		"one of the gateway's":      {"x-gw-metadata: {}", ""},
		"one of somebody else's":    {"x-provdier: file", ""},
	} {
		for _, provider := range []string{"file", "nobody"} {
			a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(strings.Split(c.header, "\n"), "x-gw-api-key: "+key, "x-gw-provider: "+provider)...)
			if got := a.Header.Get("x-gw-warning"); got != c.want || a.Header.Get("x-acme-warning") != c.want {
				t.Errorf("%s, %d: %q", name, a.Status, got)
			}
		}
	}
}

// A warning about what was left out for one target is not repeated for the next one.
func TestAToolThatWasLeftOutIsNamedInAWarning(t *testing.T) {
	down := gatewaytest.NewUpstream(t, respond(500, `{}`))
	up := gatewaytest.NewUpstream(t, respond(200, gatewaytest.Completion))
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file")+strings.Replace(down.Provider("down"), "type openai", "type mistral-ai", 1)+
		strings.Replace(up.Provider("chat"), "type openai", "type deepseek", 1))
	key, _ := g.Key("k")
	const body = `{"model":"m","input":"x","store":false,"tools":[{"type":"web_search"},{"type":"function","name":"f"}]}`
	const left = "the tool web_search was left out: deepseek has none for this model"
	for header, want := range map[string][]string{
		"x-gw-provider: file":                   nil,
		"x-gw-provider: chat":                   {left},
		"x-gw-provider: chat\nx-gw-provdier: x": {"x-gw-provdier is not a header of the gateway; did you mean x-gw-provider?", left},
		`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@down"},{"provider":"@chat"}]}`: {left},
		`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@down"},{"provider":"@file"}]}`: nil,
	} {
		a := g.Do("POST", "/v1/responses", body, append(strings.Split(header, "\n"), "x-gw-api-key: "+key)...)
		if got := a.Header.Values("x-gw-warning"); a.Status != 200 || !slices.Equal(got, want) {
			t.Errorf("%s: %d %q %s", header, a.Status, got, a.Body)
		}
	}
}

func TestTheServerOfAProviderIsNotNamed(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{"an answer": respond(200, gatewaytest.Completion), "an error": respond(500, `{}`)} {
		up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "uvicorn")
			serve(w, r)
		})
		g := gatewaytest.Start(t, up.Provider("file"))
		key, _ := g.Key("k")
		if a := call(g, key); strings.Contains(strings.Join(a.Header["Server"], " "), "uvicorn") {
			t.Errorf("%s: %v", name, a.Header["Server"])
		}
		g.Stop()
	}
}

// A call over its limit is a call of somebody's, who may ask what became of it.
func TestACallOverItsLimitHasARecord(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	policy(g, map[string]any{"name": "one", "value": 1})
	for _, want := range []int{200, 429} {
		a := call(g, key)
		if a.Status != want {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		r := logOf(g, a)
		if r.Get("response.status").Int() != int64(want) || (want == 429) != (r.Get("failure").Str != "") {
			t.Errorf("%s", r.Body)
		}
		if want == 429 && (r.Get("attempts.#").Int() != 0 || !strings.Contains(r.Get("failure").Str, "one") || gjson.Get(r.Body, "metrics.cost").Float() != 0) {
			t.Errorf("%s", r.Body)
		}
	}
}

// A 503 is a call of somebody's, too, and its record says why it failed.
func TestACallThatGetsA503HasARecordThatSaysWhy(t *testing.T) {
	up := gatewaytest.NewUpstream(t, respond(http.StatusServiceUnavailable, `{"error":{"message":"come back later"}}`))
	g := gatewaytest.Start(t, up.Provider("busy")+gatewaytest.UnreachableProvider(t, "dead"))
	key, _ := g.Key("k")
	for provider, want := range map[string]string{"dead": "dead", "busy": "the provider answered 503 Service Unavailable"} {
		a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: "+provider)
		if r := logOf(g, a); a.Status != 503 || r.Get("response.status").Int() != 503 || !strings.Contains(r.Get("failure").Str, want) {
			t.Errorf("%s: %d %s: %s", provider, a.Status, a.Body, r.Body)
		}
	}
}
