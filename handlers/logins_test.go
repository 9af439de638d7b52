package handlers_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A call that is refused, or answered from the cache, logs in to nothing.
func TestCallsThatAreNotForwardedNeedNoToken(t *testing.T) {
	bank := gatewaytest.NewUpstream(t, respond(http.StatusOK, `{"access_token":"ya29.bought","token_type":"Bearer","expires_in":3600}`))
	models := gatewaytest.NewUpstream(t, respond(http.StatusOK, `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}`))
	g := gatewaytest.Start(t, trustLoopback)
	service, _ := g.Key("k")
	account := testAccount(t)
	account["client_email"], account["token_uri"] = "a@example.com", bank.URL+"/token"
	text, err := json.Marshal(account)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() *gatewaytest.Answer {
		t.Helper()
		return g.Do("POST", "/v1/chat/completions", `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"Hi"}]}`,
			"x-gw-api-key: "+service, "x-gw-provider: vertex-ai", "x-gw-custom-host: "+models.URL, "x-gw-vertex-region: europe-west4",
			"x-gw-vertex-service-account-json: "+string(text), `x-gw-config: {"cache":{"mode":"simple"}}`)
	}
	bought := func(status, want int) {
		t.Helper()
		if a := ask(); a.Status != status || len(bank.Calls()) != want {
			t.Errorf("got %d %s, want %d; %d tokens were bought, want %d", a.Status, a.Body, status, len(bank.Calls()), want)
		}
	}
	limit := g.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpm", "value": 0}).Get("id").Str
	bought(429, 0)
	g.Admin("DELETE", "/v1/policies/rate-limits/"+limit, nil)
	bought(200, 1)
	for _, call := range models.Calls() {
		if got := call.Header.Get("Authorization"); got != "Bearer ya29.bought" {
			t.Errorf("the models got %q", got)
		}
	}
	g.Options += "header_prefix x-other-\n" // another configuration has no tokens yet
	g.Load()
	bought(200, 1)
	if len(models.Calls()) != 1 {
		t.Errorf("%d calls of the models", len(models.Calls()))
	}
}
