package standard_test

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// What a call asks of the model's reasoning becomes what the provider takes. A path with "" must
// not be there.
func TestReasoningIsAskedForInTheProvidersForm(t *testing.T) {
	const (
		chat, messages, responses = providers.ChatComplete, providers.Messages, providers.CreateResponse
		config, limits            = "additionalModelRequestFields.reasoningConfig", "inferenceConfig"
		nova, deepseek            = "us.amazon.nova-2-lite-v1:0", "deepseek-v4-pro"
		sampled                   = `"temperature":0.5,"top_p":0.9,"top_k":7,"max_tokens":9000`
	)
	type want map[string]string
	for _, c := range []struct {
		endpoint, provider, model, members string
		want                               want
	}{
		{chat, "bedrock", nova, `"reasoning_effort":"minimal",` + sampled, want{
			config: `{"type":"enabled","maxReasoningEffort":"low"}`, limits: `{"maxTokens":9000,"temperature":0.5,"topP":0.9}`, "additionalModelRequestFields.inferenceConfig.topK": "7",
		}},
		{chat, "bedrock", nova, `"reasoning_effort":"medium"`, want{config: `{"type":"enabled","maxReasoningEffort":"medium"}`}},
		{chat, "bedrock", nova, `"stop":"x","reasoning_effort":"high",` + sampled, want{
			config: `{"type":"enabled","maxReasoningEffort":"high"}`, limits: `{"stopSequences":["x"]}`, "additionalModelRequestFields.inferenceConfig": "",
		}},
		{chat, "bedrock", nova, `"reasoning_effort":"xhigh","max_tokens":5`, want{config: `{"type":"enabled","maxReasoningEffort":"high"}`, limits: ""}},
		{chat, "bedrock", nova, `"reasoning_effort":"none"`, want{config: `{"type":"disabled"}`}},
		{chat, "bedrock", nova, `"top_k":7`, want{"additionalModelRequestFields": `{"inferenceConfig":{"topK":7}}`}},
		{chat, "bedrock", nova, `"reasoning_effort":"low","additionalModelRequestFields":{"reasoningConfig":{"type":"disabled"}}`, want{config: `{"type":"disabled"}`}},
		{chat, "bedrock", "amazon.nova-pro-v1:0", `"reasoning_effort":"low","thinking":{"type":"enabled","budget_tokens":2048}`, want{"additionalModelRequestFields": ""}},
		{messages, "bedrock", nova, `"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":4096}`, want{config: `{"type":"enabled","maxReasoningEffort":"low"}`, limits: `{"maxTokens":9000}`}},
		{messages, "bedrock", nova, `"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":4097}`, want{config: `{"type":"enabled","maxReasoningEffort":"medium"}`}},
		{messages, "bedrock", nova, `"max_tokens":90000,"thinking":{"type":"enabled","budget_tokens":16385}`, want{config: `{"type":"enabled","maxReasoningEffort":"high"}`}},
		{messages, "bedrock", nova, `"max_tokens":9000,"thinking":{"type":"adaptive"}`, want{config: `{"type":"enabled","maxReasoningEffort":"medium"}`}},
		{messages, "bedrock", nova, `"max_tokens":9000,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`, want{config: `{"type":"enabled","maxReasoningEffort":"low"}`}},
		{messages, "bedrock", nova, `"max_tokens":9000,"thinking":{"type":"disabled"},"output_config":{"effort":"low"}`, want{config: `{"type":"disabled"}`}},
		{responses, "bedrock", nova, `"reasoning":{"effort":"low","summary":"auto"}`, want{config: `{"type":"enabled","maxReasoningEffort":"low"}`}},

		{chat, "bedrock", "eu.anthropic.claude-opus-4-7-v1:0", `"thinking":{"type":"enabled","budget_tokens":2048},` + sampled, want{
			"additionalModelRequestFields": `{"thinking":{"type":"adaptive","display":"summarized"}}`, limits: `{"maxTokens":9000}`,
		}},
		{chat, "bedrock", "meta.llama3-3-70b-instruct-v1:0", `"thinking":{"type":"enabled","budget_tokens":2048},` + sampled, want{"additionalModelRequestFields": `{"top_k":7}`}},
		{chat, "anthropic", "claude-opus-4-8", `"thinking":{"type":"enabled","budget_tokens":2048},"reasoning_effort":"xhigh",` + sampled, want{
			"thinking": `{"type":"adaptive","display":"summarized"}`, "output_config": `{"effort":"xhigh"}`, "temperature": "", "top_p": "", "top_k": "", "max_tokens": "9000",
		}},
		{chat, "vertex-ai", "claude-opus-4-8@20260501", `"thinking":{"type":"enabled","budget_tokens":2048},` + sampled, want{"thinking": `{"type":"adaptive","display":"summarized"}`, "temperature": ""}},
		{chat, "anthropic", "claude-sonnet-4-5", `"thinking":{"type":"adaptive"},"max_tokens":9000`, want{"thinking": `{"type":"enabled","budget_tokens":4500}`, "max_tokens": "9000"}},
		{chat, "anthropic", "claude-sonnet-4-5", `"thinking":{"type":"adaptive"}`, want{"thinking": `{"type":"enabled","budget_tokens":4096}`, "max_tokens": "8192"}},

		{messages, "deepseek", deepseek, `"max_tokens":64,"output_config":{"effort":"max"},"thinking":{"type":"adaptive"}`, want{"reasoning_effort": `"max"`, "thinking": `{"type":"enabled"}`}},
		{messages, "deepseek", deepseek, `"max_tokens":64,"thinking":{"type":"enabled","budget_tokens":2048}`, want{"thinking": `{"type":"enabled","budget_tokens":2048}`}},
		{messages, "deepseek", deepseek, `"max_tokens":64,"thinking":{"type":"disabled"}`, want{"thinking": `{"type":"disabled"}`}},
		{responses, "deepseek", deepseek, `"reasoning":{"effort":"xhigh"}`, want{"reasoning_effort": `"xhigh"`}},
		{responses, "deepseek", deepseek, `"reasoning":{"effort":"none"}`, want{"reasoning_effort": "", "thinking": `{"type":"disabled"}`}},
		{responses, "moonshot", "kimi-k2.5", `"reasoning":{"effort":"none"}`, want{"reasoning_effort": "", "thinking": `{"type":"disabled"}`}},
		{messages, "moonshot", "kimi-k2.5", `"max_tokens":64,"output_config":{"effort":"max"}`, want{"reasoning_effort": `"high"`}},
		{messages, "openai", "gpt-5", `"max_tokens":64,"output_config":{"effort":"max"}`, want{"reasoning_effort": `"high"`}},
		{messages, "openai", "gpt-5.1", `"max_tokens":64,"output_config":{"effort":"max"}`, want{"reasoning_effort": `"high"`}},
		{messages, "openai", "gpt-5.2", `"max_tokens":64,"output_config":{"effort":"max"}`, want{"reasoning_effort": `"xhigh"`}},
		{messages, "openrouter", "openai/gpt-5.6-sol", `"max_tokens":64,"output_config":{"effort":"max"}`, want{"reasoning_effort": `"max"`}},
		{messages, "openai", "gpt-4o", `"max_tokens":64,"output_config":{"effort":"max"}`, want{"reasoning_effort": ""}},
	} {
		input := `"messages":[{"role":"user","content":"Hi"}]`
		if c.endpoint == responses {
			input = `"input":"Hi"`
		}
		set := map[string]string{"aws_region": "us-east-1", "vertex_region": "europe-west1", "vertex_project_id": "p"}
		body := `{"model":"` + c.model + `",` + input + `,` + c.members + `}`
		call := (&dialecttest.Case{Endpoint: c.endpoint, Settings: set, Key: "KEY", Body: json.RawMessage(body)}).Call(c.provider)
		r, err := call.Provider.Prepare(call)
		if err != nil {
			t.Errorf("%s %s: %v", c.provider, body, err)
			continue
		}
		for path, want := range c.want {
			if got := gjson.GetBytes(r.Body, path).Raw; got != want {
				t.Errorf("%s %s: %s is %s, want %s", c.provider, body, path, got, want)
			}
		}
	}
}
