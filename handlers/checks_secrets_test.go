package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Whoever saves a guardrail chooses which header is checked and who is asked about it: the API keys of those
// whose calls are judged go nowhere.
func TestAPIKeysGoToNoServiceOfAGuardrail(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	service := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"active":true,"verdict":true}`))
	})
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\nheader_prefix x-brand-\n"+up.Provider("file"))
	key, _ := g.Key("k")
	judge := func(check string, parameters map[string]any, headers ...string) (verdict bool) {
		t.Helper()
		slug := g.Admin("POST", "/v1/guardrails", map[string]any{"name": "g", "actions": map[string]any{"deny": true}, "checks": []any{map[string]any{"id": check, "parameters": parameters}}}).Get("slug").Str
		verdict = true
		for name, config := range map[string]string{
			"before": `{"provider":"@file","input_guardrails":["` + slug + `"]}`, "start": `{"provider":"@file","start_hooks":["` + slug + `"]}`,
		} {
			a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-config: "+config)...)
			verdict = verdict && a.Status == http.StatusOK
			if a.Status != http.StatusOK && a.Status != 446 {
				t.Fatalf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		return verdict
	}
	introspect := func(header string) map[string]any {
		return map[string]any{"introspectEndpoint": service.URL + "/introspect", "headerKey": header}
	}
	for _, c := range []struct {
		header, value string
	}{
		{"authorization", "Bearer " + key},
		{"x-api-key", key},
		{"x-gw-api-key", key},
		{"x-brand-api-key", key},
		{"authorization", "Bearer " + gatewaytest.OwnerKey},
		{"x-gw-api-key", gatewaytest.OwnerKey},
	} {
		if judge("default.jwt", introspect(c.header), c.header+": "+c.value) {
			t.Errorf("a key in %s is valid", c.header)
		}
	}
	for _, header := range []string{"x-gw-azure-ad-token", "x-brand-azure-ad-token", "x-gw-metadata"} {
		if judge("default.jwt", introspect(header), "x-gw-api-key: "+key, header+`: {"a":"`+"secret-of-a-caller"+`"}`) {
			t.Errorf("%s is valid", header)
		}
	}
	if n := len(service.Calls()); n != 0 {
		t.Errorf("%d tokens were sent to the service: %s", n, service.Last(t).Body)
	}
	if !judge("default.jwt", introspect("x-session"), "x-gw-api-key: "+key, "x-session: another-token") {
		t.Error("another token is not valid")
	}

	forward := map[string]any{"webhookURL": service.URL, "forwardHeaders": []string{"x-mine", "x-other"}}
	if !judge("default.webhook", forward, "x-gw-api-key: "+key, "x-mine: a "+gatewaytest.OwnerKey, "x-other: kept") {
		t.Error("the webhook was not asked")
	}
	if got := service.Last(t).Header; got.Get("X-Other") != "kept" || got["X-Mine"] != nil {
		t.Errorf("the webhook got %v", got)
	}
	for _, call := range service.Calls() {
		all, err := json.Marshal([]any{call.Header, call.Body})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{key, gatewaytest.OwnerKey, "secret-of-a-caller"} {
			if strings.Contains(string(all), secret) {
				t.Errorf("the service got %s", all)
			}
		}
	}
}

// A guardrail that asks the gateway itself would make of one call as many as there is room for: each is
// judged again, before its body is read.
func TestACheckThatAsksTheGatewayIsRefusedThere(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	round := map[string]any{"id": "default.webhook", "parameters": map[string]any{
		"webhookURL": g.URL + "/v1/chat/completions", "headers": map[string]string{"x-gw-api-key": key, "cdn-loop": "other"},
	}}
	slug := g.Admin("POST", "/v1/guardrails", map[string]any{"name": "g", "checks": []any{round, round}}).Get("slug").Str
	g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"defaults": map[string]any{"start_hooks": []string{slug}, "input_guardrails": []string{slug}}})
	a := g.Do("POST", "/v1/chat/completions", `{"model":"@file/m","messages":[{"role":"user","content":"hi"}]}`, "x-gw-api-key: "+key, "cdn-loop: another")
	if a.Status/100 != 2 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	calls, refused := 0, 0
	for line := range strings.Lines(g.Logs()) {
		if strings.Contains(line, "handled request") && strings.Contains(line, `"/v1/chat/completions"`) {
			calls++
			if strings.Contains(line, `"status":508`) {
				refused++
			}
		}
	}
	// The call, and what two checks ask at its start and before it is sent.
	if calls != 5 || refused != 4 {
		t.Errorf("%d calls came, of which %d were refused", calls, refused)
	}
}
