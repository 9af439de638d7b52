package handlers_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// The limits that a key has count its own calls and those of the keys that it makes, and survive a
// restart; their errors say that they are the key's.
func TestLimitsOfAPIKeysAreEnforced(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, "price file m {\n input_mtok 20000\n output_mtok 20000\n}\n"+up.Provider("file"))
	ask := func(key string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file")
	}
	refused := func(a *gatewaytest.Answer, status int, kind, code string) {
		t.Helper()
		if a.Status != status || a.Get("error.type").Str != kind || a.Get("error.code").Str != code || a.Get("status").Str != "failure" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	passes := func(a *gatewaytest.Answer) {
		t.Helper()
		if a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}

	key, id := g.Key("rate")
	g.Admin("PUT", "/v1/api-keys/"+id, map[string]any{"scopes": []string{"completions.write", "workspace_service_api_keys.create"}, "rate_limits": []any{map[string]any{"type": "requests", "unit": "rph", "value": 3}}})
	made := g.Do("POST", "/v1/api-keys/workspace/service", `{"name":"made","scopes":["completions.write"]}`, "x-gw-api-key: "+key)
	passes(made)
	passes(ask(key))
	passes(ask(made.Get("key").Str))
	a := ask(key)
	passes(a)
	if a.Header.Get("x-ratelimit-remaining-requests") != "0" {
		t.Errorf("%v", a.Header)
	}
	g.Stop()
	g.Load()
	for _, key := range []string{key, made.Get("key").Str} {
		a := ask(key)
		refused(a, 429, "api_key_rate_limit_error", "05")
		if a.Header.Get("Retry-After") == "" {
			t.Errorf("%v", a.Header)
		}
	}
	g.Admin("DELETE", "/v1/api-keys/"+id, nil) // which gives the key that it made no more
	refused(ask(made.Get("key").Str), 429, "api_key_rate_limit_error", "05")
	other, otherID := g.Key("other")
	passes(ask(other))

	// Each call costs 0.60 dollars, and reserves its bytes and 20 tokens at most.
	g.Admin("PUT", "/v1/api-keys/"+otherID, map[string]any{"usage_limits": map[string]any{"credit_limit": 3, "type": "cost"}})
	passes(ask(other))
	read := g.Admin("GET", "/v1/api-keys/"+otherID, nil)
	if used := read.Get("usage_limits.current_usage").Float(); used != .6 || read.Get("status").Str != "active" {
		t.Errorf("%s", read.Body)
	}
	passes(ask(other))
	refused(ask(other), 412, "api_key_exhaust_error", "04")
	g.Admin("PUT", "/v1/api-keys/"+otherID, map[string]any{"usage_limits": map[string]any{"credit_limit": 100}})
	passes(ask(other))
	if used := g.Admin("GET", "/v1/api-keys/"+otherID, nil).Get("usage_limits.current_usage").Float(); used < 1.79 || used > 1.81 {
		t.Errorf("%v dollars after the budget was raised", used)
	}
	g.Admin("PUT", "/v1/api-keys/"+otherID, map[string]any{"usage_limits": map[string]any{"credit_limit": 3}, "reset_usage": true})
	if used := g.Admin("GET", "/v1/api-keys/"+otherID, nil).Get("usage_limits.current_usage").Float(); used != 0 {
		t.Errorf("%v dollars after a reset", used)
	}
	passes(ask(other))
	g.Admin("PUT", "/v1/api-keys/"+otherID, map[string]any{"usage_limits": nil})
	for range 5 {
		passes(ask(other))
	}
	g.Admin("PUT", "/v1/api-keys/"+otherID, map[string]any{"usage_limits": map[string]any{"credit_limit": 1, "type": "requests"}})
	passes(ask(other))
	refused(ask(other), 412, "api_key_exhaust_error", "04")
	if status := g.Admin("GET", "/v1/api-keys/"+otherID, nil).Get("status").Str; status != "exhausted" {
		t.Errorf("status %s", status)
	}
}
