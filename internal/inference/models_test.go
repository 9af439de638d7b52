package inference

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers"
)

func priceTable(t *testing.T) *prices.Table {
	t.Helper()
	table, err := prices.NewTable(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestModelsAreListedWithWhatIsKnownAboutThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.gateway.Prices = priceTable(t)
	b.answers["one"] = func() *http.Response {
		return answering(200, "application/json", `{"object":"list","data":[{"id":"gpt-4o","object":"model","created":1,"owned_by":"o"},{"id":"strange","object":"model"}]}`)
	}
	b.answers["two"] = func() *http.Response { return answering(404, "application/json", `{}`) }
	w, _ := b.request(t, http.MethodGet, "/models", "", nil)
	var list struct{ Data []model }
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
		t.Fatal(w.Code, w.Body, err)
	}
	for path, param := range map[string]string{"/models?provider=one": "provider", "/models?after_id=x": "after_id", "/models?api-version=1": ""} {
		w, _ := b.request(t, http.MethodGet, path, "", nil)
		var refused struct{ Error struct{ Param, Code string } }
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil || (w.Code == 400) != (param != "") || refused.Error.Param != param {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w, _ := b.request(t, http.MethodGet, "/models?limit=1&beta=true", "", nil, "Anthropic-Version", "2023-06-01"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// The host of two is not the provider's own, and may have other models than that.
	if len(list.Data) != 2 || list.Data[0].ID != "@one/gpt-4o" || list.Data[0].ContextWindow != 128_000 || !slices.Contains(list.Data[0].Features, "prompt_caching") || list.Data[0].Modalities != nil {
		t.Errorf("%s", w.Body)
	}
	if m := list.Data[1]; m.ID != "@one/strange" || m.ContextWindow != 0 || m.Features != nil {
		t.Errorf("%s", w.Body)
	}
}

func TestModelsThatAreKnownAreThoseOfTheProvidersOwnHost(t *testing.T) {
	t.Parallel()
	base, _, _ := providers.BaseURL("perplexity-ai")
	if base == nil {
		t.Fatal("the provider has no host of its own")
	}
	own := *base
	x := &exchange.Exchange{Call: &exchange.Call{Gateway: &exchange.Gateway{Prices: priceTable(t)}}}
	all := known(x, &credentials.Route{Dialect: "perplexity-ai", BaseURL: &own})
	if !slices.ContainsFunc(all, func(m model) bool { return m.ID == "sonar" && m.Object == "model" && m.OwnedBy == "perplexity-ai" }) {
		t.Errorf("%+v", all)
	}
	for name, other := range map[string]*url.URL{"another host": {Scheme: "https", Host: "example.com"}, "none": nil} {
		if all := known(x, &credentials.Route{Dialect: "perplexity-ai", BaseURL: other}); all != nil {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
