package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestTheUnifiedListOfModelsIsOfTheProvidersThatACallNames(t *testing.T) {
	lists := func(id string) http.HandlerFunc {
		return respond(200, `{"object":"list","data":[{"id":"`+id+`","object":"model","created":1,"owned_by":"o"}]}`)
	}
	one, two := gatewaytest.NewUpstream(t, lists("a")), gatewaytest.NewUpstream(t, lists("b"))
	g := gatewaytest.Start(t, "block_inline_config off\n"+one.Provider("one")+two.Provider("two"))
	key, _ := g.Key("k")
	all := "@one/a @two/b"
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"nobody":                         {nil, all},
		"asked for":                      {[]string{"x-gw-fetch-integrated-models: true"}, all},
		"of a provider":                  {[]string{"x-gw-fetch-integrated-models: true", "x-gw-provider: @two"}, "@two/b"},
		"the other spelling":             {[]string{"x-gw-models-endpoint: true", "x-gw-provider: one"}, "@one/a"},
		"of a config":                    {[]string{`x-gw-config: {"fetch_integrated_models":true,"provider":"@two"}`}, "@two/b"},
		"of its targets":                 {[]string{`x-gw-config: {"fetch_integrated_models":true,"strategy":{"mode":"fallback"},"targets":[{"provider":"@two"},{"virtual_key":"one"}]}`}, all},
		"of a config's rest":             {[]string{`x-gw-config: {"fetch_integrated_models":true,"retry":{"attempts":1}}`}, all},
		"of a config without a provider": {[]string{`x-gw-config: {"retry":{"attempts":1}}`}, all},
		"asked for, with a config":       {[]string{"x-gw-models-endpoint: true", `x-gw-config: {"provider":"@two"}`}, "@two/b"},
		"of a stranger":                  {[]string{"x-gw-fetch-integrated-models: true", "x-gw-provider: @nobody"}, ""},
	} {
		a := g.Do("GET", "/v1/models", "", append(c.headers, "x-gw-api-key: "+key)...)
		var ids []string
		for _, m := range a.Get("data").Array() {
			ids = append(ids, m.Get("id").Str)
		}
		if got := strings.Join(ids, " "); a.Status != 200 || got != c.want || int(a.Get("total_count").Int()) != len(ids) {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.want)
		}
	}
}

// Whoever may list virtual keys or models, or call them, may list models; a provider's own list says whose it is.
func TestModelsAreListedByWhoMayListOrCallThem(t *testing.T) {
	up := gatewaytest.NewUpstream(t, respond(200, `{"object":"list","data":[{"id":"a","object":"model","created":1,"owned_by":"o"}]}`))
	g := gatewaytest.Start(t, up.Provider("one"))
	for scope, want := range map[string]int{"completions.write": 200, "models.list": 200, "virtual_keys.list": 200, "logs.view": 403} {
		key := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "k", "scopes": []string{scope}}).Get("key").Str
		for _, provider := range []string{"", "@one"} {
			a := g.Do("GET", "/v1/models", "", "x-gw-api-key: "+key, "x-gw-provider: "+provider)
			if a.Status != want || want == 403 && !strings.Contains(a.Body, "lacks the scope completions.write or models.list or virtual_keys.list") {
				t.Errorf("%s, of %q: %d %s", scope, provider, a.Status, a.Body)
			}
			if want == 200 && provider != "" && (a.Get("provider").Str != "one" || a.Get("data.0.id").Str != "a") {
				t.Errorf("%s", a.Body)
			}
		}
		if a := g.Do("POST", "/v1/chat/completions", `{"model":"@one/a","messages":[{"role":"user","content":"hi"}]}`, "x-gw-api-key: "+key); (a.Status == 403) != (scope != "completions.write") {
			t.Errorf("%s, a call: %d %s", scope, a.Status, a.Body)
		}
	}
}

// Those that hang are left out, and cost the time of one of them.
func TestProvidersThatHangDoNotHoldUpTheListOfModels(t *testing.T) {
	hang := gatewaytest.NewUpstream(t, silence)
	good := gatewaytest.NewUpstream(t, respond(200, `{"object":"list","data":[{"id":"a","object":"model","created":1,"owned_by":"o"}]}`))
	g := gatewaytest.Start(t, hang.Provider("a")+hang.Provider("b")+good.Provider("good"))
	key, _ := g.Key("k")
	start := time.Now()
	a := g.Do("GET", "/v1/models", "", "x-gw-api-key: "+key)
	if took := time.Since(start); a.Status != 200 || a.Get("data.#.id").Raw != `["@good/a"]` || took > 8*time.Second || len(hang.Calls()) != 2 {
		t.Errorf("%d %s after %v and %d calls that hang", a.Status, a.Body, took, len(hang.Calls()))
	}
}

// A model is found by its id, however that is spelt, and by that of the unified list.
func TestAModelIsFoundByItsID(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		id := strings.TrimPrefix(r.URL.Path, "/v1/models/")
		respond(200, `{"id":"`+id+`","object":"model","created":1,"owned_by":"o"}`)(w, r)
	})
	lists := gatewaytest.NewUpstream(t, respond(200, `{"models":[{"name":"models/gemini-a"},{"name":"models/tuned/b"}]}`))
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file"))
	key, _ := g.Key("k")
	gemini := `x-gw-config: {"provider":"google","api_key":"sk","custom_host":"` + lists.URL + `/v1beta"}`
	for _, c := range []struct {
		path, route, id, sent string
		status                int
	}{
		{"m", "x-gw-provider: file", "m", "m", 200},
		{"ft:gpt-4o:org::x", "x-gw-provider: file", "ft:gpt-4o:org::x", "ft:gpt-4o:org::x", 200},
		{"ft%3Agpt-4o%3Aorg%3A%3Ax", "x-gw-provider: file", "ft:gpt-4o:org::x", "ft:gpt-4o:org::x", 200},
		{"meta/llama-3", "x-gw-provider: file", "meta/llama-3", "meta/llama-3", 200},
		{"meta%2Fllama-3", "x-gw-provider: file", "meta/llama-3", "meta/llama-3", 200},
		{"accounts/fireworks/models/llama", "x-gw-provider: file", "accounts/fireworks/models/llama", "accounts/fireworks/models/llama", 200},
		{"accounts%2ffireworks%2fmodels%2fllama", "x-gw-provider: file", "accounts/fireworks/models/llama", "accounts/fireworks/models/llama", 200},
		{"@file/m", "", "@file/m", "m", 200},
		{"%40file%2Fmeta%2Fllama-3", "", "@file/meta/llama-3", "meta/llama-3", 200},
		{"@file/accounts/fireworks/models/llama", "", "@file/accounts/fireworks/models/llama", "accounts/fireworks/models/llama", 200},
		{"@nobody/m", "", "", "", 400},
		{"a/../b", "x-gw-provider: file", "", "", 404},
		{"a%2F..%2Fb", "x-gw-provider: file", "", "", 404},
		{"a%2F%2Fb", "x-gw-provider: file", "", "", 404},
		{"a%252Fb", "x-gw-provider: file", "", "", 404},
		{"gemini-a", gemini, "gemini-a", "", 200},
		{"tuned%2Fb", gemini, "tuned/b", "", 200},
		{"gemini-z", gemini, "", "", 404},
	} {
		before := len(up.Calls())
		a := g.Do("GET", "/v1/models/"+c.path, "", "x-gw-api-key: "+key, c.route)
		if a.Status != c.status || a.Get("id").Str != c.id || c.status == 200 && a.Get("object").Str != "model" {
			t.Errorf("%s: %d %s", c.path, a.Status, a.Body)
		}
		if calls := up.Calls()[before:]; c.sent != "" && (len(calls) != 1 || calls[0].Path != "/v1/models/"+c.sent) || c.status != 200 && len(calls) > 0 {
			t.Errorf("%s: the provider got %v", c.path, calls)
		}
	}
}
