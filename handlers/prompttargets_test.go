package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// configOf saves a config and returns its slug.
func configOf(g *gatewaytest.Gateway, config any) string {
	return g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": config}).Get("slug").Str
}

// A target with a prompt_id gets what the prompt renders to, with the variables of the call, and
// goes to the prompt's provider or to its own.
func TestATargetWithAPromptIsRendered(t *testing.T) {
	up, other := gatewaytest.NewUpstream(t, answering), gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file")+other.Provider("other"))
	key, _ := g.Key("k")
	chat := promptOf(g, map[string]any{
		"string":     `[{"role":"user","content":"Ask {{what}}"}]`,
		"parameters": map[string]any{"max_tokens": 9, "stream": true, "temperature": 0.5, "response_format": map[string]any{"type": "text"}},
	})
	text := promptOf(g, map[string]any{"string": "Say {{what}}"})
	for _, c := range []struct {
		config     map[string]any
		path, body string
		to         *gatewaytest.Upstream
		sent       string
	}{
		{
			map[string]any{"prompt_id": chat},
			"/v1/chat/completions", `{"variables":{"what":"\"why\""},"prompt_id":"x"}`, up,
			`{"max_tokens":9,"temperature":0.5,"response_format":{"type":"text"},"model":"m","messages":[{"role":"user","content":"Ask \"why\""}]}`,
		},
		{ // the messages and the model are the prompt's; other fields are the call's
			map[string]any{"prompt_id": chat + "@latest"},
			"/v1/chat/completions",
			`{"model":"gpt","messages":[{"role":"user","content":"mine"}],"temperature":1,"max_tokens":null}`, up,
			`{"model":"m","messages":[{"role":"user","content":"Ask "}],"temperature":1,"max_tokens":null,"response_format":{"type":"text"}}`,
		},
		{ // what the target sets wins over both
			map[string]any{"prompt_id": chat, "provider": "@other", "override_params": map[string]any{"model": "o", "messages[0].role": "system"}, "drop_params": []string{"response_format"}},
			"/v1/chat/completions", `{"variables":{"what":1}}`, other, `{"max_tokens":9,"temperature":0.5,"model":"o","messages":[{"role":"system","content":"Ask 1"}]}`,
		},
		{
			map[string]any{"strategy": map[string]any{"mode": "loadbalance"}, "targets": []any{map[string]any{"prompt_id": text}, map[string]any{"provider": "@other", "weight": 0}}},
			"/v1/completions", `{"variables":{"what":"x"},"model":"gpt","prompt":"mine"}`, up, `{"model":"m","prompt":"Say x","max_tokens":9}`,
		},
		{ // variables reach no provider, even at a target without a prompt
			map[string]any{"strategy": map[string]any{"mode": "loadbalance"}, "targets": []any{map[string]any{"prompt_id": text, "weight": 0}, map[string]any{"provider": "@other"}}},
			"/v1/completions", `{"variables":{"what":"x"},"model":"gpt","prompt":"mine"}`, other, `{"model":"gpt","prompt":"mine"}`,
		},
	} {
		before := len(c.to.Calls())
		a := g.Do("POST", c.path, c.body, "x-gw-api-key: "+key, "x-gw-config: "+configOf(g, c.config), "x-gw-refresh-prompt-cache: true")
		calls := c.to.Calls()
		if a.Status != 200 || len(calls) != before+1 || a.Header.Get("x-gw-warning") != "" {
			t.Fatalf("%v %s: %d %s %v", c.config, c.body, a.Status, a.Body, a.Header)
		}
		last := calls[len(calls)-1]
		same := len(gjson.Parse(last.Body).Map()) == len(gjson.Parse(c.sent).Map())
		gjson.Parse(c.sent).ForEach(func(name, v gjson.Result) bool {
			same = same && gjson.Get(last.Body, name.Str).Raw == v.Raw
			return true
		})
		if !same || last.Path != c.path {
			t.Errorf("%v %s: sent %s %s, expected %s", c.config, c.body, last.Path, last.Body, c.sent)
		}
	}
}

// Of the targets that were tried, the record has the prompt of the last, and policies count the
// calls of each.
func TestThePromptOfATargetIsRecordedAndLimited(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	var prompts [2]string
	for i := range prompts {
		prompts[i] = promptOf(g, map[string]any{"string": fmt.Sprintf(`[{"role":"user","content":"%d {{what}}"}]`, i)})
	}
	config := configOf(g, map[string]any{
		"strategy": map[string]any{"mode": "fallback"}, "targets": []any{map[string]any{"prompt_id": prompts[0]}, map[string]any{"prompt_id": prompts[1]}},
	})
	g.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"conditions": []any{map[string]any{"key": "prompt", "value": prompts[0]}}, "group_by": []any{map[string]any{"key": "api_key"}}, "type": "requests", "unit": "rpd", "value": 1,
	})
	for i, want := range prompts {
		a := g.Do("POST", "/v1/chat/completions", `{"variables":{"what":"x"}}`, "x-gw-api-key: "+key, "x-gw-config: "+config)
		if a.Status != 200 {
			t.Fatalf("call %d: %d %s", i, a.Status, a.Body)
		}
		if r := logOf(g, a); r.Get("metrics.prompt_slug").Str != want || (want == "") != (r.Get("metrics.prompt_version_id").Str == "") || r.Get("metrics.prompt_version").Int() != 1 {
			t.Errorf("the record of call %d is %s, expected the prompt %s", i, r.Body, want)
		}
		if list := g.Admin("GET", "/v1/logs?prompt_slug="+want, nil); list.Get("total").Int() != 1 {
			t.Errorf("%s has %s records", want, list.Get("total").Raw)
		}
	}
}

func TestTargetsWithPromptsThatAreRefused(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "other", "slug": "other"})
	chat := promptOf(g, map[string]any{"string": `[{"role":"user","content":"{{>>name}}"}]`})
	text := promptOf(g, map[string]any{"string": "Say {{what}}"})
	lists := promptOf(g, map[string]any{"string": "x", "parameters": map[string]any{"models": []string{"a"}}})
	fewer := promptOf(g, map[string]any{"string": "x", "parameters": map[string]any{"best_of": 1, "n": 2}})
	ofConfig := promptOf(g, map[string]any{"string": "x", "virtual_key": configOf(g, map[string]any{"provider": "@file", "retry": map[string]any{"attempts": 1}})})
	foreign := promptOf(g, map[string]any{"string": "x", "workspace_id": "other"})
	shared := promptOf(g, map[string]any{"string": "x", "workspace_id": "other"})
	g.Admin("POST", "/v2/prompts/"+shared+"/share", map[string]any{})
	for _, c := range []struct{ prompt, path, body, code, message string }{
		{chat, "/v1/chat/completions", `{}`, "missing_partials", "Missing variable partials: name"},
		{chat, "/v1/chat/completions", `{"variables":[]}`, "invalid_type", "expected an object"},
		{chat, "/v1/chat/completions", `{"variables":{},"variables":{"a":1}}`, "duplicate_field", "variables"},
		{chat, "/v1/prompts/" + chat + "/completions", `{"variables":{"a":1},"variables":{}}`, "duplicate_field", "variables: given twice"},
		{chat, "/v1/prompts/" + chat + "/completions", `{"variables":{},"messages":[],"messages":[]}`, "duplicate_field", "messages: given twice"},
		{chat, "/v1/completions", `{"prompt":"x"}`, "prompt_in_config", "is for chat completions"},
		{text, "/v1/chat/completions", `{}`, "prompt_in_config", "is for text completions"},
		{text, "/v1/embeddings", `{"input":"x","model":"m"}`, "prompt_in_config", "only chat and text completions"},
		{text, "/v1/prompts/" + chat + "/completions", `{"variables":{}}`, "missing_partials", ""},
		{text, "/v1/prompts/" + text + "/completions", `{"variables":{}}`, "prompt_in_config", "The call names a prompt, and its config others"},
		{text + "@7", "/v1/completions", `{}`, "invalid_prompt", "Following prompt_id are not valid"},
		{foreign, "/v1/completions", `{}`, "invalid_prompt", "Following prompt_id are not valid"},
		{shared, "/v1/completions", `{}`, "prompt_of_another_workspace", "name a provider in the target"},
		{ofConfig, "/v1/completions", `{}`, "prompt_in_config", "is for the config"},
		{lists, "/v1/completions", `{}`, "field_not_changeable", "sets 'models'"},
		{fewer, "/v1/completions", `{}`, "invalid_value", "best_of"},
	} {
		config := fmt.Sprintf(`x-gw-config: {"prompt_id":%q}`, c.prompt)
		a := g.Do("POST", c.path, c.body, "x-gw-api-key: "+key, config)
		if a.Status != 400 || a.Get("error.code").Str != c.code || !strings.Contains(a.Get("error.message").Str, c.message) {
			t.Errorf("%s of %s %s: %d %s\nexpected %s: %s", c.path, c.prompt, c.body, a.Status, a.Body, c.code, c.message)
		}
	}
	if n := len(up.Calls()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
}
