package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// What the gateway itself refuses is in the form of the API that the client speaks.
func TestErrorsOnMessagesAreAnthropics(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("one"))
	key, _ := g.Key("k")
	limited := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{
		"name": "limited", "scopes": []string{"completions.write"}, "rate_limits": []map[string]any{{"type": "requests", "unit": "rpm", "value": 0}},
	}).Get("key").Str
	reader := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "reader", "scopes": []string{"logs.view"}}).Get("key").Str
	const body = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		kind, code         string
	}{
		"no key":           {"POST", "/v1/messages", body, nil, 401, "authentication_error", "03"},
		"the wrong scope":  {"POST", "/v1/messages", body, []string{"x-api-key: " + reader, "x-gw-provider: one"}, 403, "permission_error", "033"},
		"a rate limit":     {"POST", "/v1/messages", body, []string{"x-api-key: " + limited, "x-gw-provider: one"}, 429, "rate_limit_error", "05"},
		"no provider":      {"POST", "/v1/messages", body, []string{"x-api-key: " + key}, 400, "invalid_request_error", "provider_required"},
		"a stream":         {"POST", "/v1/messages", strings.Replace(body, "{", `{"stream":true,`, 1), []string{"x-api-key: " + key, "x-gw-provider: nobody"}, 400, "invalid_request_error", "invalid_provider"},
		"count_tokens":     {"POST", "/v1/messages/count_tokens", `{"model":`, []string{"x-api-key: " + key, "x-gw-provider: one"}, 400, "invalid_request_error", "invalid_json"},
		"another method":   {"PATCH", "/v1/messages/count_tokens", "", []string{"x-api-key: " + key}, 405, "invalid_request_error", "method_not_allowed"},
		"an unknown path":  {"GET", "/v1/messages/b/c//d", "", []string{"x-api-key: " + key}, 404, "not_found_error", "unknown_url"},
		"a list of models": {"GET", "/v1/models", "", []string{"anthropic-version: 2023-06-01"}, 401, "authentication_error", "03"},
	} {
		a := g.Do(c.method, c.path, c.body, c.headers...)
		if a.Status != c.status || a.Get("type").Str != "error" || a.Get("error.type").Str != c.kind || a.Get("error.code").Str != c.code || a.Get("error.message").Str == "" || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if id := a.Header.Get("x-gw-trace-id"); id != a.Get("request_id").Str {
			t.Errorf("%s: request_id %q, trace id %q", name, a.Get("request_id").Str, id)
		}
	}
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat); a.Get("type").Exists() || a.Get("error.code").Str != "03" {
		t.Errorf("others: %s", a.Body)
	}
}
