package handlers_test

import (
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
