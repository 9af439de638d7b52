package handlers_test

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Which models may be called through an integration, and where those with a host of their own
// are called.
func TestAnIntegrationDecidesAboutModels(t *testing.T) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			respond(200, `{"object":"list","data":[{"id":"good","object":"model","created":1,"owned_by":"o"},{"id":"other","object":"model","created":1,"owned_by":"o"}]}`)(w, r)
			return
		}
		respond(200, gatewaytest.Completion)(w, r)
	}
	main, away := gatewaytest.NewUpstream(t, serve), gatewaytest.NewUpstream(t, serve)
	g := gatewaytest.Start(t, trustLoopback)
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	admin := func(method, path string, body any) {
		t.Helper()
		if a := g.Admin(method, path, body); a.Status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
	}
	type object = map[string]any
	admin("POST", "/v1/integrations", object{
		"name": "n", "slug": "main", "ai_provider_id": "openai", "key": "sk-stored", "workspace_id": workspace,
		"configurations": object{"custom_host": main.URL + "/v1", "custom_headers": object{"X-Main": "of-main"}},
	})
	admin("PUT", "/v1/integrations/main/models", object{"allow_all_models": false, "key": "sk-stored", "models": []any{
		object{"slug": "good", "enabled": true, "pricing_config": object{"type": "static", "pay_as_you_go": object{"request_token": object{"price": 1}, "response_token": object{"price": 2}}}},
		object{"slug": "away", "enabled": true, "configurations": object{"custom_host": away.URL + "/v1"}, "custom_headers": object{"X-Away": "of-away"}},
		object{"slug": "bad", "enabled": false},
	}})
	chat := func(model string, headers ...string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, append(headers, "x-gw-api-key: "+key)...)
	}
	for name, c := range map[string]struct {
		model   string
		headers []string
		at      *gatewaytest.Upstream // nil: refused
	}{
		"allowed":                    {"@main/good", nil, main},
		"by a header":                {"good", []string{"x-gw-provider: @main"}, main},
		"in a config":                {"x", []string{`x-gw-config: {"provider":"@main","override_params":{"model":"good"}}`}, main},
		"of its own host":            {"@main/away", nil, away},
		"disabled":                   {"@main/bad", nil, nil},
		"not listed":                 {"@main/other", nil, nil},
		"in another letter case":     {"@main/Good", nil, nil},
		"not listed, in a config":    {"good", []string{`x-gw-config: {"provider":"@main","override_params":{"model":"other"}}`}, nil},
		"not listed, as virtual key": {"other", []string{"x-gw-virtual-key: main"}, nil},
	} {
		before := len(main.Calls()) + len(away.Calls())
		a := chat(c.model, c.headers...)
		if c.at == nil {
			if a.Status != 412 || a.Get("error.type").Str != "model_not_allowed_error" || a.Get("error.code").Str != "" || len(main.Calls())+len(away.Calls()) != before {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
			continue
		}
		if a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		h := c.at.Last(t).Header
		if h.Get("Authorization") != "Bearer sk-stored" || (h.Get("X-Main") != "") != (c.at == main) || (h.Get("X-Away") != "") != (c.at == away) {
			t.Errorf("%s: the provider got %v", name, h)
		}
	}
	a := g.Do("GET", "/v1/models", "", "x-gw-api-key: "+key)
	if got := a.Get("data.#.id").Raw; got != `["@main/good","@main/away"]` || a.Get("total_count").Int() != 2 {
		t.Errorf("listed are %s", a.Body)
	}
	// A model that is disabled is so in every spelling, where all others are allowed.
	admin("PUT", "/v1/integrations/main/models", object{"allow_all_models": true, "models": []any{}})
	for _, c := range []struct {
		model  string
		status int
	}{{"other", 200}, {"bad", 412}, {"BAD", 412}, {" bad ", 412}} {
		if a := chat("@main/" + c.model); a.Status != c.status {
			t.Errorf("%q: %d %s", c.model, a.Status, a.Body)
		}
	}
	// Other models, of which a provider might let one answer, are none that the integration allows,
	// wherever they stand.
	body := func(members string) string {
		return `{"model":"@main/good","messages":[{"role":"user","content":"hi"}]` + members + `}`
	}
	const fallback = `["bad"]`
	for _, members := range []string{
		`,"models":` + fallback, `,"fallbacks":` + fallback, `,"Fallbacks":` + fallback, `,"\u0066allbacks":` + fallback, `,"fallback":"bad"`, `,"fallback_models":` + fallback,
		`,"preset":"p"`, `,"engine":"bad"`, `,"deployment_id":"bad"`, `,"draft_model":"bad"`, `,"compound_custom":{"models":{"answering_model":"bad"}}`,
		`,"context_window_fallback_dict":{"good":"bad"}`,
	} {
		before := len(main.Calls())
		if a := g.Do("POST", "/v1/chat/completions", body(members), "x-gw-api-key: "+key); a.Status != 400 || a.Get("error.code").Str != "model_unread" || len(main.Calls()) != before {
			t.Errorf("%s: %d %s", members, a.Status, a.Body)
		}
	}
	for _, params := range []string{
		`"override_params":{"models":["bad"]}`, `"default_params":{"models":["bad"]}`, `"override_params":{"Models":["bad"]}`, `"override_params":{"fallbacks":["bad"]}`,
		`"override_params":{"Model":"bad"}`, `"override_params":{"preset":"p"}`, `"override_params":{"models[0]":"bad"}`,
	} {
		config := `x-gw-config: {"provider":"@main",` + params + `}`
		before := len(main.Calls())
		if a := chat("good", config); a.Status != 400 || len(main.Calls()) != before {
			t.Errorf("%s: %d %s", params, a.Status, a.Body)
		}
	}
	// They are none where they are deeper, or null.
	for _, members := range []string{`,"metadata":{"preset":"p","models":"m"}`, `,"fallbacks":null`} {
		if a := g.Do("POST", "/v1/chat/completions", body(members), "x-gw-api-key: "+key); a.Status != 200 {
			t.Errorf("%s: %d %s", members, a.Status, a.Body)
		}
	}
	if a := chat("good", `x-gw-config: {"provider":"@main","override_params":{"temperature":0.5,"metadata.engine":"e"}}`); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	// A call whose model is not read is refused.
	if a := g.Do("POST", "/v1/batches", `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "x-gw-api-key: "+key, "x-gw-provider: @main"); a.Status < 400 || !strings.Contains(a.Body, "integration") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// What an integration says of prices is part of the cost of calls: a model's own adjustments, or
// else those of the integration, multiply its own price or the list price.
func TestAnIntegrationAdjustsPrices(t *testing.T) {
	up := gatewaytest.NewUpstream(t, respond(200, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200}}`))
	g := gatewaytest.Start(t, trustLoopback)
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	type object = map[string]any
	admin := func(method, path string, body any) {
		t.Helper()
		if a := g.Admin(method, path, body); a.Status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
	}
	admin("POST", "/v1/integrations", object{
		"name": "n", "slug": "main", "ai_provider_id": "openai", "key": "sk-stored", "workspace_id": workspace,
		"configurations": object{"custom_host": up.URL + "/v1"}, "pricing_adjustments": object{"multiplier": object{"default": 0.5, "response_token": 3}},
	})
	own := object{"type": "static", "pay_as_you_go": object{"request_token": object{"price": 0.001}, "response_token": object{"price": 0.002}}}
	admin("PUT", "/v1/integrations/main/models", object{"models": []any{
		object{"slug": "own", "enabled": true, "pricing_config": own},
		object{"slug": "gpt-4o", "enabled": true, "pricing_adjustments": object{"multiplier": object{"request_token": 2}}},
		object{"slug": "as-listed", "enabled": true, "base_model_slug": "gpt-4o", "pricing_adjustments": object{"multiplier": object{}}},
	}})
	for model, want := range map[string]float64{ // in cents
		"gpt-4o-mini": 1000*.5*.15e-4 + 200*3*.6e-4,
		"own":         1000*.5*.001 + 200*3*.002,
		"gpt-4o":      1000*2*2.5e-4 + 200*10e-4,
		"as-listed":   1000*2.5e-4 + 200*10e-4,
	} {
		a := g.Do("POST", "/v1/chat/completions", `{"model":"@main/`+model+`","messages":[{"role":"user","content":"hi"}]}`, "x-gw-api-key: "+key)
		if a.Status != 200 {
			t.Fatalf("%s: %d %s", model, a.Status, a.Body)
		}
		record := logOf(g, a)
		if got := record.Get("metrics.cost").Float(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s cost %v cents, want %v", model, got, want)
		}
		if version := record.Get("metrics.price_version").Str; len(version) != len("list12digits+own12digits0") || version[12] != '+' {
			t.Errorf("%s: of the prices %q", model, version)
		}
	}
}
