package standard_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// sent is the body that a call becomes, or the caller's where it passes.
func sent(t *testing.T, provider, endpoint, body string) string {
	t.Helper()
	c := (&dialecttest.Case{Endpoint: endpoint, Key: "KEY", Body: json.RawMessage(body)}).Call(provider)
	r, err := c.Provider.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Body == nil {
		return body
	}
	return string(r.Body)
}

const (
	blocks    = `"content_blocks":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Ho"}]`
	signature = `"extra_content":{"google":{"thought_signature":"s"}}`
	callOf    = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"extra_content\":1}"}`
)

// What other providers made goes to none that did not, also where a body passes as it is.
func TestABodyThatPassesHasNoMarksOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ provider, message, want string }{
		"content blocks":                    {"openai", `{"role":"assistant","content":"Ho",` + blocks + `}`, `{"role":"assistant","content":"Ho"}`},
		"content blocks for who wants them": {"deepseek", `{"role":"assistant","content":"Ho",` + blocks + `}`, `{"role":"assistant","content":"Ho","reasoning_content":"Hm."}`},
		"which has them":                    {"moonshot", `{"reasoning_content":"Own.","role":"assistant","content":"Ho",` + blocks + `}`, `{"reasoning_content":"Own.","role":"assistant","content":"Ho"}`},
		"signatures of calls":               {"openrouter", `{"role":"assistant",` + callOf + `,` + signature + `}]}`, `{"role":"assistant",` + callOf + `}]}`},
		"signatures first":                  {"vllm", `{"role":"assistant","tool_calls":[{` + signature + `,"id":"c"}]}`, `{"role":"assistant","tool_calls":[{"id":"c"}]}`},
		"reasoning, refused":                {"groq", `{"role":"assistant","content":"Ho","reasoning_content":"Hm."}`, `{"role":"assistant","content":"Ho"}`},
		"reasoning, taken":                  {"deepseek", `{"role":"assistant","content":"Ho","reasoning_content":"Hm."}`, `{"role":"assistant","content":"Ho","reasoning_content":"Hm."}`},
		"the words in a text":               {"openai", `{"role":"user","content":"\"content_blocks\", \"extra_content\""}`, `{"role":"user","content":"\"content_blocks\", \"extra_content\""}`},
		"content_blocks of a tool":          {"openai", `{"role":"user","content":[{"type":"text","text":"x","content_blocks":1}]}`, `{"role":"user","content":[{"type":"text","text":"x","content_blocks":1}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := sent(t, c.provider, providers.ChatComplete, `{"model":"m","n":1.50,"messages":[{"role":"user","content":"é\u00e9"},`+c.message+`]}`)
			dialecttest.SameJSON(t, body, `{"model":"m","n":1.50,"messages":[{"role":"user","content":"é\u00e9"},`+c.want+`]}`)
		})
	}
}

// A config may fall back from Anthropic to a provider that refuses what it does not know.
func TestAConversationThatPassesHasNoMembersOfAnthropicsWhereTheyAreRefused(t *testing.T) {
	const ours, theirs = `"model":"m","service_tier":"auto","metadata":{"cache_control":"x"}`,
		`"output_config":{"effort":"low"},"mcp_servers":[],"context_management":{},"cache_control":{"type":"ephemeral"},"inference_geo":"us"`
	const function = `"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"cache_control":{"type":"string"}}}}`
	call := func(settings, ofPart, ofMessage, ofTool string) string {
		return `{` + ours + settings + `,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"` + ofPart + `}]` + ofMessage + `},{"role":"assistant","content":"Ho"}],"tools":[{` + function + ofTool + `}]}`
	}
	const cache = `,"cache_control":{"type":"ephemeral"}`
	body := call(","+theirs, cache, cache, cache+`,"defer_loading":true,"allowed_callers":[],"input_examples":[],"eager_input_streaming":true`)
	for provider, want := range map[string]string{
		"groq": call("", "", "", ""), "openai": call("", "", "", ""), "azure-openai": call("", "", "", ""),
		"fireworks-ai": call(","+theirs, "", "", ""),
		"openrouter":   body, "vllm": body,
	} {
		dialecttest.SameJSON(t, sent(t, provider, providers.ChatComplete, body), want)
	}
}

func TestAResponseThatPassesHasNoSealsOfOthers(t *testing.T) {
	const output, own = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}`,
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}`
	for _, provider := range []string{"openai", "groq", "azure-openai"} {
		body := sent(t, provider, providers.CreateResponse, `{"model":"m","input":[{"role":"user","content":"Hi"},
			{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gw:thinking:anthropic:s"},`+own+`,
			{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"gw:redacted:bedrock:s"},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}",`+signature+`},`+output+`]}`)
		dialecttest.SameJSON(t, body, `{"model":"m","input":[{"role":"user","content":"Hi"},`+own+`,{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},`+output+`]}`)
		for _, whole := range []string{`{"model":"m","input":"\"gw: \"extra_content\""}`, `{"model":"m","input":[` + output + `]}`} {
			dialecttest.SameJSON(t, sent(t, provider, providers.CreateResponse, whole), whole)
		}
	}
}

// DeepSeek takes texts as strings, no role developer, and no schemas of answers.
func TestDeepSeekGetsWhatItTakes(t *testing.T) {
	dialecttest.SameJSON(t, sent(t, "deepseek", providers.ChatComplete, `{"model":"m","messages":[{"role":"developer","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},
		{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]},{"role":"assistant","content":"ok"}]}`),
		`{"model":"m","messages":[{"role":"system","content":"AB"},
		{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]},{"role":"assistant","content":"ok"}]}`)
	const schema = `{"model":"m","messages":[%s{"role":"user","content":"Hi"}],"response_format":%s}`
	dialecttest.SameJSON(t, sent(t, "deepseek", providers.ChatComplete, fmt.Sprintf(schema, "", `{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`)),
		fmt.Sprintf(schema, `{"role":"system","content":"Answer with a JSON object that matches this JSON schema, and with nothing else:\n{\"type\":\"object\"}"},`, `{"type":"json_object"}`))
	whole := fmt.Sprintf(schema, "", `{"type":"json_object"}`)
	dialecttest.SameJSON(t, sent(t, "deepseek", providers.ChatComplete, whole), whole)
}

// Callers of Messages reach each provider that speaks OpenAI's API in the words that it takes.
func TestProvidersGetWhatTheyTake(t *testing.T) {
	const body = `"max_tokens":64,"thinking":{"type":"adaptive"},"top_k":40,"system":[{"type":"text","text":"A","cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"tool_use","id":"c","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"ok"}]}]}`
	for _, c := range []struct {
		provider, model, bound   string
		closed, wantsItsThoughts bool
	}{
		{"openai", "gpt-4o", "max_completion_tokens", true, false},
		{"groq", "openai/gpt-oss-120b", "max_completion_tokens", true, false},
		{"github", "openai/o3", "max_completion_tokens", true, false},
		{"azure-ai", "gpt-5", "max_completion_tokens", true, false},
		{"azure-ai", "Mistral-Large", "max_tokens", true, false},
		{"deepseek", "deepseek-reasoner", "max_tokens", false, true},
		{"moonshot", "kimi-k2-thinking", "max_tokens", false, true},
		{"openrouter", "openai/gpt-5", "max_completion_tokens", false, false},
		{"fireworks-ai", "accounts/fireworks/models/glm-5", "max_tokens", false, true},
		{"vllm", "qwen", "max_tokens", false, false},
	} {
		t.Run(c.provider+" "+c.model, func(t *testing.T) {
			got := gjson.Parse(sent(t, c.provider, providers.Messages, `{"model":"`+c.model+`",`+body))
			if got.Get(c.bound).Int() != 64 || got.Get("max_tokens").Exists() == (c.bound != "max_tokens") {
				t.Errorf("the bound: %s", got)
			}
			for _, member := range []string{"thinking", "top_k"} {
				if got.Get(member).Exists() == c.closed {
					t.Errorf("%s: %s", member, got)
				}
			}
			if plain := c.closed || c.provider == "fireworks-ai" || c.provider == "deepseek"; (got.Get("messages.1.content").Type == gjson.String) != plain {
				t.Errorf("cache_control: %s", got)
			}
			if (got.Get("messages.2.reasoning_content").Str == "Hm.") != c.wantsItsThoughts {
				t.Errorf("thoughts: %s", got)
			}
		})
	}
}
