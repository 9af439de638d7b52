package standard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

const settingsBegin = "<!-- the table of settings is written by: go test ./providers/standard -update -->\n"

// targets are the providers and models in the table. Those that speak OpenAI's
// API get what callers of Messages say, which does not pass as it stands.
var targets = []struct {
	title, provider, model string
	settings               map[string]string
}{
	{"OpenAI", "openai", "gpt-5", nil},
	{"Groq", "groq", "openai/gpt-oss-120b", nil},
	{"DeepSeek", "deepseek", "deepseek-reasoner", nil},
	{"Anthropic", "anthropic", "claude-opus-4-6", nil},
	{"Claude on Bedrock", "bedrock", "anthropic.claude-opus-4-6-v1:0", map[string]string{"aws_region": "us-east-1"}},
	{"Nova on Bedrock", "bedrock", "us.amazon.nova-pro-v1:0", map[string]string{"aws_region": "us-east-1"}},
	{"Nova 2 on Bedrock", "bedrock", "us.amazon.nova-2-lite-v1:0", map[string]string{"aws_region": "us-east-1"}},
	{"Claude on Vertex AI", "vertex-ai", "claude-opus-4-6", map[string]string{"vertex_region": "europe-west1", "vertex_project_id": "p"}},
	{"Gemini", "google", "gemini-2.5-flash", nil},
	{"Cohere", "cohere", "command-a-reasoning", nil},
	{"Mistral", "mistral-ai", "mistral-small-latest", nil},
}

// settings are members of a call of Chat Completions, or of Responses for who speaks
// OpenAI's API, with a value that is found again.
var settings = []struct{ name, value string }{
	{"max_completion_tokens", `12345`},
	{"temperature", `0.12345`},
	{"top_p", `0.12345`},
	{"top_k", `12345`},
	{"n", `2`},
	{"seed", `12345`},
	{"frequency_penalty", `0.12345`},
	{"presence_penalty", `0.12345`},
	{"parallel_tool_calls", `false`},
	{"reasoning_effort", `"high"`},
	{"thinking", `{"type":"enabled","budget_tokens":12345}`},
	{"user", `"u12345"`},
	{"service_tier", `"standard_only"`},
	{"output_config", `{"effort":"high"}`},
	{"mcp_servers", `[{"name":"m12345"}]`},
	{"context_management", `{"edits":["e12345"]}`},
	{"cache_control", `{"type":"ephemeral12345"}`},
	{"safety_settings", `[{"category":"c12345"}]`},
	{"safe_prompt", `true`},
	{"documents", `["d12345"]`},
	{"guardrail_config", `{"guardrailIdentifier":"g12345"}`},
	{"a_field_of_tomorrow", `"t12345"`},
}

const tool = `[{"type":"function","name":"f","function":{"name":"f","parameters":{"type":"object","properties":{}}},"parameters":{"type":"object","properties":{}}}]`

// outcome is what becomes of a setting: the member that has it, or that it is left out, or
// refused.
func outcome(t *testing.T, provider, model string, set map[string]string, name, value string) string {
	t.Helper()
	p, _ := providers.Lookup(provider)
	endpoint, messages := providers.ChatComplete, `"messages":[{"role":"user","content":"Hi"}]`
	if p.Dialect == nil && p.Encoder == nil {
		endpoint = providers.Messages
		switch name {
		case "max_completion_tokens":
			name = "max_tokens"
		case "n", "parallel_tool_calls", "seed", "frequency_penalty", "presence_penalty", "safety_settings", "safe_prompt", "documents", "guardrail_config":
			return "" // callers of Messages cannot say it
		case "reasoning_effort":
			name, value = "output_config", `{"effort":"high"}`
		case "user":
			name, value = "metadata", `{"user_id":"u12345"}`
		}
	}
	body := fmt.Sprintf(`{"model":%q,%s,"tools":%s}`, model, messages, tool)
	prepare := func(body string) string {
		c := (&dialecttest.Case{Endpoint: endpoint, Settings: set, Key: "KEY", Body: json.RawMessage(body)}).Call(provider)
		r, err := c.Provider.Prepare(c)
		var refusal *providers.RequestError
		if errors.As(err, &refusal) {
			return "refused"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Body)
	}
	without, with := prepare(body), prepare(strings.Replace(body, `,"tools"`, `,"`+name+`":`+value+`,"tools"`, 1))
	if with == "refused" {
		return with
	}
	if added := added("", gjson.Parse(without), gjson.Parse(with)); added != nil {
		return "`" + strings.Join(added, "`, `") + "`"
	}
	return "left out"
}

// added are the paths of the members that one value has and another has not, or has
// otherwise.
func added(at string, without, with gjson.Result) (paths []string) {
	with.ForEach(func(key, v gjson.Result) bool {
		path := strings.TrimPrefix(at+"."+key.Str, ".")
		old := without.Get(gjson.Escape(key.Str))
		switch {
		case old.Raw == v.Raw:
		case old.IsObject() && v.IsObject():
			paths = append(paths, added(path, old, v)...)
		case !old.Exists() && v.IsObject() && len(v.Map()) == 1:
			paths = append(paths, added(path, gjson.Result{}, v)...)
		case slices.Contains(paths, path):
		default:
			paths = append(paths, path)
		}
		return true
	})
	return paths
}

func TestTheTableOfSettingsIsWhatBecomesOfThem(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| setting |")
	for _, target := range targets {
		b.WriteString(" " + target.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(targets)+1) + "\n")
	for _, s := range settings {
		b.WriteString("| `" + s.name + "` |")
		for _, target := range targets {
			b.WriteString(" " + outcome(t, target.provider, target.model, target.settings, s.name, s.value) + " |")
		}
		b.WriteString("\n")
	}
	compare(t, text, settingsBegin, b.String())
}

// A call for several choices gets several, or an error that says which field it is about: an answer
// with one would be missed only by who counts.
func TestSeveralChoicesAreMadeOrRefused(t *testing.T) {
	for _, target := range targets {
		if target.provider != "anthropic" && target.provider != "bedrock" && target.provider != "vertex-ai" && target.provider != "cohere" {
			continue
		}
		for n, refused := range map[string]bool{"1": false, "null": false, "1.0": false, "2": true, "128": true} {
			c := (&dialecttest.Case{Endpoint: providers.ChatComplete, Settings: target.settings, Key: "KEY", Body: json.RawMessage(fmt.Sprintf(`{"model":%q,"n":%s,"messages":[{"role":"user","content":"Hi"}]}`, target.model, n))}).Call(target.provider)
			_, err := c.Provider.Prepare(c)
			var refusal *providers.RequestError
			if is := errors.As(err, &refusal) && refusal.Param == "n" && refusal.Code == "unsupported_parameter" && strings.HasPrefix(refusal.Message, "n must be 1"); is != refused || err != nil && !is {
				t.Errorf("%s, n %s: %v", target.title, n, err)
			}
		}
	}
}
