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
		"nobody":             {nil, all},
		"asked for":          {[]string{"x-gw-fetch-integrated-models: true"}, all},
		"of a provider":      {[]string{"x-gw-fetch-integrated-models: true", "x-gw-provider: @two"}, "@two/b"},
		"the other spelling": {[]string{"x-gw-models-endpoint: true", "x-gw-provider: one"}, "@one/a"},
		"of a config":        {[]string{`x-gw-config: {"fetch_integrated_models":true,"provider":"@two"}`}, "@two/b"},
		"of its targets":     {[]string{`x-gw-config: {"fetch_integrated_models":true,"strategy":{"mode":"fallback"},"targets":[{"provider":"@two"},{"virtual_key":"one"}]}`}, all},
		"of a config's rest": {[]string{`x-gw-config: {"fetch_integrated_models":true,"retry":{"attempts":1}}`}, all},
		"of a stranger":      {[]string{"x-gw-fetch-integrated-models: true", "x-gw-provider: @nobody"}, ""},
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
