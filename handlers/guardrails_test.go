package handlers_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Saved guardrails judge the calls of configs that name them, and of workspaces and the
// organisation whose defaults they are.
func TestSavedGuardrailsJudgeCalls(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	replaces := func(rule, with string) string {
		return g.Admin("POST", "/v1/guardrails", map[string]any{"name": "g", "checks": []any{map[string]any{"id": "default.regexReplace", "parameters": map[string]any{"rule": rule, "redactText": with}}}}).Get("slug").Str
	}
	named, own, shared := replaces("a", "1"), replaces("b", "2"), replaces("c", "3")
	ask := func(config string) (status int, sent string) {
		t.Helper()
		before := len(up.Calls())
		a := g.Do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"abc"}]}`, "x-gw-api-key: "+key, "x-gw-config: "+strings.Replace(strings.Replace(config, "{", `{"provider":"@file",`, 1), ",}", "}", 1))
		if calls := up.Calls(); len(calls) > before {
			sent = calls[len(calls)-1].Body
		}
		return a.Status, sent
	}
	for _, step := range []struct {
		name, config, want string
		set                func()
	}{
		{"none", `{}`, `"abc"`, func() {}},
		{"of the config", `{"input_guardrails":["` + named + `"]}`, `"1bc"`, func() {}},
		{"of the config, a hook", `{"before_request_hooks":[{"type":"guardrail","id":"` + named + `"}]}`, `"1bc"`, func() {}},
		{"a mutator", `{"input_mutators":["` + named + `"]}`, `"1bc"`, func() {}},
		{"of the workspace", `{"input_guardrails":["` + named + `"]}`, `"12c"`, func() {
			g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"defaults": map[string]any{"input_guardrails": []string{own}}})
		}},
		{"of the organisation", `{"input_guardrails":["` + named + `"]}`, `"123"`, func() {
			g.Admin("PUT", "/v1/admin/organisation/defaults", map[string]any{"input_guardrails": []string{shared}})
		}},
		{"that a config cannot drop", `{"input_guardrails":[]}`, `"a23"`, func() {}},
		{"another version", `{}`, `"a29"`, func() {
			g.Admin("PUT", "/v1/guardrails/"+shared, map[string]any{"checks": []any{map[string]any{"id": "default.regexReplace", "parameters": map[string]any{"rule": "c", "redactText": "9"}}}})
		}},
		{"the version that is named", `{"input_guardrails":[{"id":"` + shared + `","guardrail_version_id":"1"}]}`, `"a23"`, func() {}},
		{"excluded", `{}`, `"a2c"`, func() {
			g.Admin("PUT", "/v1/workspace-exclusions/input-guardrails", map[string]any{"workspaces": []any{map[string]any{"workspace_id": workspace, "excluded": true}}})
		}},
	} {
		step.set()
		if status, sent := ask(step.config); status != 200 || !strings.Contains(sent, step.want) {
			t.Errorf("%s: status %d, sent %s, want %s", step.name, status, sent, step.want)
		}
	}
	foreign := g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "other"}).Get("slug").Str
	theirs := g.Admin("POST", "/v1/guardrails", map[string]any{"name": "g", "workspace_id": foreign, "checks": []any{map[string]any{"id": "default.notNull"}}}).Get("slug").Str
	for _, name := range []string{theirs, "nope"} {
		if status, sent := ask(`{"input_guardrails":["` + name + `"]}`); status != 400 || sent != "" {
			t.Errorf("%s: status %d, sent %s", name, status, sent)
		}
	}
}

// What is saved for a vendor, or for one of its checks, is what its checks are asked with: through
// a reload too, in calls and where a guardrail is tried.
func TestChecksAreAskedWithSavedCredentials(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	vendor := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"results":[{"flagged":false,"categories":{"pii":` + strconv.FormatBool(r.Header.Get("Authorization") == "Bearer of-the-check") + `}}]}`))
	})
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file"))
	key, _ := g.Key("k")
	check := map[string]any{"id": "mistral.moderateContent", "parameters": map[string]any{"categories": []string{"pii"}}}
	slug := g.Admin("POST", "/v1/guardrails", map[string]any{"name": "g", "checks": []any{check}, "actions": map[string]any{"deny": true, "fail_on_error": true}}).Get("slug").Str
	ask := func() int {
		return g.Do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"abc"}]}`, "x-gw-api-key: "+key,
			`x-gw-config: {"provider":"@file","input_guardrails":["`+slug+`"]}`).Status
	}
	save := func(id, secret string) {
		g.Admin("POST", "/v1/plugins", map[string]any{"plugin_id": id, "credentials": map[string]any{"apiKey": secret, "baseUrl": vendor.URL}})
	}
	if status := ask(); status != 446 || len(vendor.Calls()) != 0 {
		t.Errorf("without credentials: status %d", status)
	}
	save("mistral", "of-the-vendor")
	g.Load()
	if status := ask(); status != 200 {
		t.Errorf("with the vendor's: status %d", status)
	}
	save("mistral.moderateContent", "of-the-check")
	if status := ask(); status != 446 {
		t.Errorf("with the check's: status %d", status)
	}
	if tried := g.Admin("POST", "/v1/guardrails/"+slug+"/invoke", map[string]any{"text": "abc"}); tried.Get("status").Int() != 446 {
		t.Errorf("tried: %s", tried.Body)
	}
	g.Admin("PUT", "/v1/plugins/mistral.moderateContent", map[string]any{"credentials": nil})
	if status := ask(); status != 200 {
		t.Errorf("with the vendor's again: status %d", status)
	}
	for i, c := range vendor.Calls() {
		if want := []string{"vendor", "check", "check", "vendor"}[i]; c.Header.Get("Authorization") != "Bearer of-the-"+want {
			t.Errorf("call %d has %s", i, c.Header.Get("Authorization"))
		}
	}
}
