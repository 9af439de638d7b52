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

// Who calls is told what a guardrail of the organisation found, and not its parameters: only those of the
// workspace may be read there.
func TestParametersOfTheOrganisationAreNotInResults(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	slugOf := func(word, workspace string) string {
		body := map[string]any{"name": "g", "checks": []any{map[string]any{"id": "default.contains", "parameters": map[string]any{"words": []string{word}, "operator": "none"}}}}
		if workspace != "" {
			body["workspace_id"] = workspace
		}
		return g.Admin("POST", "/v1/guardrails", body).Get("slug").Str
	}
	shared, own := slugOf("undisclosed", ""), slugOf("disclosed-here", workspace)
	g.Admin("PUT", "/v1/admin/organisation/defaults", map[string]any{"input_guardrails": []string{shared}, "output_guardrails": []string{shared}})
	g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"defaults": map[string]any{"input_guardrails": []string{own, shared}}})
	for content, explanation := range map[string]string{"hi": "The text has none of the words.", "the undisclosed": "The text has at least one of the words."} {
		a := g.Do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+content+`"}]}`, "x-gw-api-key: "+key, "x-gw-provider: @file")
		results := a.Get("hook_results.before_request_hooks").Array()
		if len(results) != 3 || !strings.Contains(a.Body, "disclosed-here") {
			t.Fatalf("%s: %d %s", content, a.Status, a.Body)
		}
		for _, r := range append(results, a.Get("hook_results.after_request_hooks.0")) {
			data := r.Get("checks.0.data")
			if own := r.Get("id").Str == own; own != data.Get("words").Exists() || !own && (len(data.Map()) != 1 || data.Get("explanation").Str == "") {
				t.Errorf("%s: %s", content, r.Raw)
			}
		}
		if got := results[2].Get("checks.0.data.explanation").Str; got != explanation {
			t.Errorf("%s: %q", content, got)
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

// Hooks run at the start of each call, whatever its endpoint: the organisation's, then the
// workspace's, then those of the config. They see headers, metadata, endpoint and caller, and no call
// opts out of them.
func TestStartHooksJudgeEveryCall(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	needs := func(name string, actions map[string]any) string {
		actions["deny"] = true
		return g.Admin("POST", "/v1/guardrails", map[string]any{"name": name, "actions": actions, "checks": []any{
			map[string]any{"id": "default.requiredMetadataKeys", "parameters": map[string]any{"metadataKeys": []string{name}}},
		}}).Get("slug").Str
	}
	org, own := needs("org", map[string]any{}), needs("own", map[string]any{"async": true})
	soft := needs("soft", map[string]any{"soft_deny_200": true})
	const chat = `{"model":"m","messages":[{"role":"user","content":"abc"}]}`
	ask := func(method, path, body, metadata, config string) *gatewaytest.Answer {
		return g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-metadata: "+metadata, "x-gw-config: "+config)
	}
	if a := ask("POST", "/v1/chat/completions", chat, `{}`, `{"provider":"@file"}`); a.Status != 200 {
		t.Fatalf("without start hooks: %d %s", a.Status, a.Body)
	}
	g.Admin("PUT", "/v1/admin/organisation/defaults", map[string]any{"start_hooks": []string{org}})
	g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"defaults": map[string]any{"start_hooks": []string{own}}})
	g.Admin("PUT", "/v1/workspace-exclusions/input-guardrails", map[string]any{"workspaces": []any{map[string]any{"workspace_id": workspace, "excluded": true}}})
	if got := g.Admin("GET", "/v1/admin/organisation/defaults", nil).Get("start_hooks.0.slug").Str; got != org {
		t.Errorf("the organisation's are %s", got)
	}
	if got := g.Admin("GET", "/v1/admin/workspaces/"+workspace, nil).Get("defaults.start_hooks.0").Str; got != own {
		t.Errorf("the workspace's are %s", got)
	}
	if a := g.Do("DELETE", "/v1/guardrails/"+org, "", "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 409 || !strings.Contains(a.Body, "start_hooks") {
		t.Errorf("deleting one in use: %d %s", a.Status, a.Body)
	}
	before := len(up.Calls())
	config := `{"provider":"@file","start_hooks":[{"requiredMetadataKeys":{"metadataKeys":["conf"]},"deny":true}]}`
	softly := `{"provider":"@file","start_hooks":["` + soft + `"]}`
	for _, c := range []struct {
		name, method, path, body, metadata, config string
		status                                     int
		denied                                     string // of the results, the first that refuses
	}{
		{"the organisation's first", "POST", "/v1/chat/completions", chat, `{}`, config, 446, org},
		{"a body that is none", "POST", "/v1/chat/completions", "{", `{}`, config, 446, org},
		{"another endpoint", "GET", "/v1/models", "", `{}`, `{"provider":"@file"}`, 446, org},
		{"the list of models", "GET", "/v1/models", "", `{}`, ``, 446, org},
		{"what passes through", "POST", "/v1/audio/speech", `{"model":"m","input":"a","voice":"b"}`, `{}`, `{"provider":"@file"}`, 446, org},
		{"unknown paths", "POST", "/v1/else", `{}`, `{}`, `{"provider":"@file","passthrough":true}`, 446, org},
		{"then the workspace's, which is not async here", "POST", "/v1/chat/completions", chat, `{"org":"1"}`, config, 446, own},
		{"then the config's", "POST", "/v1/chat/completions", chat, `{"org":"1","own":"1"}`, config, 446, "start_hook_0"},
		{"softly", "POST", "/v1/chat/completions", chat, `{"org":"1","own":"1"}`, softly, 200, soft},
		{"where there is no such answer", "POST", "/v1/embeddings", `{"model":"m","input":"a"}`, `{"org":"1","own":"1"}`, softly, 446, soft},
	} {
		a := ask(c.method, c.path, c.body, c.metadata, c.config)
		first := a.Get("hook_results.before_request_hooks.#(deny==true)") // all run
		if a.Status != c.status || first.Get("id").Str != c.denied || first.Get("event_type").Str != "startHook" || c.status == 446 && a.Get("error.type").Str != "hooks_failed" {
			t.Errorf("%s: %d %s", c.name, a.Status, a.Body)
		}
		if c.status == 200 && !strings.Contains(a.Get("choices.0.message.content").Str, "start of the request") {
			t.Errorf("%s: %s", c.name, a.Body)
		}
	}
	if stream := ask("POST", "/v1/chat/completions", `{"stream":true,`+chat[1:], `{"org":"1","own":"1"}`, softly); stream.Status != 200 || !strings.Contains(stream.Body, "start of the request") || !strings.HasSuffix(stream.Body, "data: [DONE]\n\n") {
		t.Errorf("softly, by a stream: %d %s", stream.Status, stream.Body)
	}
	if calls := len(up.Calls()); calls != before {
		t.Errorf("%d refused calls reached the provider", calls-before)
	}
	if a := ask("POST", "/v1/chat/completions", chat, `{"org":"1","own":"1","conf":"1"}`, config); a.Status != 200 {
		t.Errorf("allowed: %d %s", a.Status, a.Body)
	}
	for _, wrong := range []string{`{"start_hooks":[{"type":"mutator","requiredMetadataKeys":{"metadataKeys":["a"]}}]}`, `{"start_hooks":[{"async":true,"requiredMetadataKeys":{"metadataKeys":["a"]}}]}`, `{"targets":[{"provider":"@file","start_hooks":[]}],"strategy":{"mode":"single"}}`} {
		if a := ask("POST", "/v1/chat/completions", chat, `{"org":"1","own":"1"}`, wrong); a.Status != 400 || !strings.Contains(a.Body, "start_hooks") {
			t.Errorf("%s: %d %s", wrong, a.Status, a.Body)
		}
	}
}
