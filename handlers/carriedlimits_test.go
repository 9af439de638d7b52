package handlers_test

import (
	"strings"
	"sync"
	"sync/atomic"
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

// The limits of workspaces, providers, virtual keys and integrations in a workspace count the calls of
// each, and their errors say whose they are. Those of a target are asked when it is tried.
func TestLimitsOfObjectsAreEnforced(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, trustLoopback+up.Provider("other"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk", "custom_host": up.URL + "/v1"})
	g.Admin("POST", "/v1/integrations", map[string]any{"name": "main", "slug": "main", "ai_provider_id": "openai", "key": "sk", "configurations": map[string]any{"custom_host": up.URL + "/v1"}})
	access := "/v1/integrations/main/workspaces"
	g.Admin("PUT", access, map[string]any{"workspaces": []any{map[string]any{"id": workspace, "enabled": true}}})
	ask := func(headers ...string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", boundedChat, append(headers, "x-gw-api-key: "+key)...)
	}
	within := func(limits map[string]any) map[string]any {
		limits["id"], limits["enabled"] = workspace, true
		return map[string]any{"workspaces": []any{limits}}
	}
	everywhere := func(limits map[string]any) map[string]any {
		limits["enabled"] = true
		return map[string]any{"global_workspace_access": limits}
	}
	as := func(limits map[string]any) map[string]any { return limits }
	for _, c := range []struct {
		name, path, by, of string
		code               any // of a rate limit's error
		body               func(map[string]any) map[string]any
		lists, target      bool
	}{
		{"workspace", "/v1/admin/workspaces/" + workspace, "x-gw-provider: other", "workspace", "05", as, true, false},
		{"virtual key", "/v1/virtual-keys/vk", "x-gw-virtual-key: vk", "virtual_key", nil, as, false, true},
		{"provider", "/v1/providers/main", "x-gw-provider: @main", "virtual_key", nil, as, false, true},
		{"integration", access, "x-gw-provider: @main", "integration", nil, within, true, true},
		{"integration everywhere", access, "x-gw-provider: @main", "integration", nil, everywhere, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.T = t
			put := func(rates, budget any) {
				t.Helper()
				if c.lists && budget != nil {
					budget = []any{budget}
				}
				g.Admin("PUT", c.path, c.body(map[string]any{"rate_limits": rates, "usage_limits": budget}))
			}
			refused := func(a *gatewaytest.Answer, status int, kind string, code any) {
				t.Helper()
				if a.Status != status || a.Get("error.type").Str != c.of+kind || a.Get("error.code").Value() != code {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			}
			passes := func(by, provider string) {
				t.Helper()
				if a := ask(by); a.Status != 200 || provider != "" && a.Header.Get("x-gw-provider") != provider {
					t.Errorf("%d %s by %s", a.Status, a.Body, a.Header.Get("x-gw-provider"))
				}
			}
			put([]any{map[string]any{"type": "requests", "unit": "rpd", "value": 2}}, nil)
			passes(c.by, "")
			passes(c.by, "")
			refused(ask(c.by), 429, "_rate_limit_error", c.code)
			if c.target {
				_, slug, _ := strings.Cut(c.by, ": ")
				passes(`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@`+strings.TrimPrefix(slug, "@")+`"},{"provider":"@other"}]}`, "other")
			}
			put(nil, map[string]any{"credit_limit": 130, "type": "tokens"})
			passes(c.by, "")
			passes(c.by, "") // each used 30, and had reserved three times as much
			refused(ask(c.by), 412, "_exhaust_error", "04")
			g.Stop()
			g.Load()
			refused(ask(c.by), 412, "_exhaust_error", "04")
			put(nil, nil)
			passes(c.by, "")
		})
	}
}

// 64 clients against the budget of a provider: all is used but less than one reservation, and the
// rest of them are answered by the target after it.
func TestManyClientsSpendTheBudgetOfAProviderExactly(t *testing.T) {
	const clients, each, limit = 64, 30, 3000
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, trustLoopback+up.Provider("other"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{
		"name": "vk", "slug": "vk", "provider": "openai", "key": "sk", "custom_host": up.URL + "/v1", "usage_limits": map[string]any{"type": "tokens", "credit_limit": limit},
	})
	var own atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for others := 0; others < 5; {
				a, err := g.TryRequest("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key,
					`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@vk"},{"provider":"@other"}]}`)
				switch {
				case err != nil || a.Status != 200:
					t.Errorf("%+v, %v", a, err)
					return
				case a.Header.Get("x-gw-provider") == "other":
					others++
				default:
					own.Add(1)
				}
			}
		})
	}
	group.Wait()
	read := g.Admin("GET", "/v1/virtual-keys/vk", nil)
	reserved := int64(len(boundedChat) + 20)
	used := read.Get("usage_limits.current_usage").Int()
	if used != own.Load()*each || used > limit || used <= limit-reserved {
		t.Errorf("%d used of %d by %d calls", used, limit, own.Load())
	}
}
