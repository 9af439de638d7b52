package standard_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

const boundsBegin = "<!-- the table of limits is written by: go test ./providers/standard -update -->\n"

// A caller is a column of the table: what a caller of an API gets from a provider.
type caller struct{ title, endpoint, provider, model string }

// The first callers speak the provider's own API, so that their calls are passed on.
var callers = []caller{
	{"OpenAI, Chat Completions", providers.ChatComplete, "openai", "gpt-5"},
	{"OpenAI, Responses", providers.CreateResponse, "openai", "gpt-5"},
	{"Azure OpenAI, Chat Completions", providers.ChatComplete, "azure-openai", "gpt-5"},
	{"others, Chat Completions", providers.ChatComplete, "vllm", "qwen"},
	{"others, Responses", providers.CreateResponse, "groq", "openai/gpt-oss-120b"},
	{"Claude, Messages", providers.Messages, "anthropic", "claude-opus-4-6"},
	{"OpenAI, translated", providers.Messages, "openai", "gpt-5"},
	{"Claude, translated", providers.ChatComplete, "anthropic", "claude-opus-4-6"},
	{"Nova on Bedrock", providers.ChatComplete, "bedrock", "us.amazon.nova-pro-v1:0"},
	{"Gemini", providers.ChatComplete, "google", "gemini-2.5-flash"},
	{"Cohere", providers.ChatComplete, "cohere", "command-a-reasoning"},
	{"Mistral", providers.ChatComplete, "mistral-ai", "mistral-small-latest"},
}

var (
	name65  = strings.Repeat("n", 65)
	name129 = strings.Repeat("n", 129)
	user257 = strings.Repeat("u", 257)
)

// as says which of two outcomes there is.
func as(changed bool, outcome string) string {
	if changed {
		return outcome
	}
	return "as it is"
}

func without(text, outcome string) func(string) string {
	return func(body string) string { return as(!strings.Contains(body, text), outcome) }
}

// A bound is a row of the table: what breaks a limit, in each API, and what becomes of it. An API
// that cannot say it has "".
type bound struct {
	title                     string
	chat, responses, messages string // members of the body
	outcome                   func(body string) string
}

func functions(name string) (chat, responses, messages string) {
	return `"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object"}}}]`,
		`"input":"Hi","tools":[{"type":"function","name":"` + name + `","parameters":{"type":"object"}}]`,
		`"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"` + name + `","input_schema":{"type":"object"}}]`
}

func named(title, name string) bound {
	b := bound{title: title, outcome: without(`"`+name+`"`, "renamed")}
	b.chat, b.responses, b.messages = functions(name)
	return b
}

func fromUser(title, id, cut string) bound {
	return bound{
		title,
		`"messages":[{"role":"user","content":"Hi"}],"user":"` + id + `"`,
		`"input":"Hi","user":"` + id + `"`,
		`"messages":[{"role":"user","content":"Hi"}],"metadata":{"user_id":"` + id + `"}`,
		func(body string) string {
			switch {
			case strings.Contains(body, `"`+id+`"`):
				return "as it is"
			case strings.Contains(body, `"`+cut):
				return "cut"
			}
			return "left out"
		},
	}
}

const (
	chatCall     = `{"role":"assistant","tool_calls":[{"id":"callcallc","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	messagesCall = `{"role":"assistant","content":[{"type":"tool_use","id":"callcallc","name":"f","input":{}}]}`
	pdf          = "data:application/pdf;base64,JVBERi0="
)

func before(first, second string) func(string) string {
	return func(body string) string {
		return as(strings.Index(body, first) < strings.Index(body, second), "moved behind the call")
	}
}

var bounds = []bound{
	named("a tool name of 65 characters", name65),
	named("a tool name of 129 characters", name129),
	named("a tool name with a dot", "f.g"),
	fromUser("`user` of 65 characters", name65, "nnnn"),
	fromUser("`user` of 257 characters", user257, "uuuu"),
	fromUser("`user` with an email address", "a@example.com", "a@"),
	{
		"`image/jpg`",
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AA=="}}]}]`,
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/jpg;base64,AA=="}]}]`,
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpg","data":"AA=="}}]}]`,
		without("image/jpg", "corrected"),
	},
	{
		"a document without a name",
		`"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"` + pdf + `"}}]}]`,
		`"input":[{"role":"user","content":[{"type":"input_file","file_data":"` + pdf + `"}]}]`,
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}]}]`,
		func(body string) string { return as(strings.Contains(body, `name":"document`), "named") },
	},
	{
		"an empty text beside another",
		`"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"Hi"}]}]`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":""},{"type":"input_text","text":"Hi"}]}]`,
		`"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"Hi"}]}]`,
		without(`text":""`, "left out"),
	},
	{
		"a blank text beside another",
		`"messages":[{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"Hi"}]}]`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":" "},{"type":"input_text","text":"Hi"}]}]`,
		`"messages":[{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"Hi"}]}]`,
		without(`text":" "`, "left out"),
	},
	{
		"a turn without content",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":""},{"role":"user","content":"Go on"}]`,
		`"input":[{"role":"user","content":"Hi"},{"role":"assistant","content":""},{"role":"user","content":"Go on"}]`,
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":""},{"role":"user","content":"Go on"}]`,
		without(`assistant`, "left out"),
	},
	{
		"`tool_choice` without tools",
		`"messages":[{"role":"user","content":"Hi"}],"tool_choice":"required"`,
		`"input":"Hi","tool_choice":"required"`,
		`"messages":[{"role":"user","content":"Hi"}],"tool_choice":{"type":"any"}`,
		func(body string) string {
			return as(!strings.Contains(body, "oolChoice") && !strings.Contains(body, "tool_choice") && !strings.Contains(body, "functionCallingConfig"), "left out")
		},
	},
	{
		"a text between a call and its result",
		`"messages":[{"role":"user","content":"Hi"},` + chatCall + `,{"role":"user","content":"BETWEEN"},{"role":"tool","tool_call_id":"callcallc","content":"RESULT"}]`,
		`"input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"callcallc","name":"f","arguments":"{}"},{"role":"user","content":"BETWEEN"},{"type":"function_call_output","call_id":"callcallc","output":"RESULT"}]`,
		`"messages":[{"role":"user","content":"Hi"},` + messagesCall + `,{"role":"user","content":[{"type":"text","text":"BETWEEN"},{"type":"tool_result","tool_use_id":"callcallc","content":"RESULT"}]}]`,
		before("RESULT", "BETWEEN"),
	},
	{
		"instructions without a message",
		`"messages":[{"role":"system","content":"Go."}]`,
		"",
		`"messages":[],"system":"Go."`,
		func(body string) string {
			return as(strings.Contains(body, `"role":"user"`) && strings.Contains(body, "Go."), "the user's")
		},
	},
	{
		"`allowed_tools`",
		`"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"OTHER","parameters":{"type":"object"}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`,
		`"input":"Hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"function","name":"OTHER","parameters":{"type":"object"}}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`,
		"",
		without("OTHER", "only those tools"),
	},
}

// The table says what becomes of what a provider refuses, by what is sent.
func TestTheTableOfLimitsIsTheCodes(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{"aws_region": "us-east-1", "azure_resource_name": "r"}
	var b strings.Builder
	b.WriteString("| in the request |")
	for _, c := range callers {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(callers)) + "\n")
	for _, row := range bounds {
		b.WriteString("| " + row.title + " |")
		for _, c := range callers {
			members := map[string]string{providers.ChatComplete: row.chat, providers.CreateResponse: row.responses, providers.Messages: row.messages}[c.endpoint]
			if members == "" {
				b.WriteString("  |")
				continue
			}
			body := `{"model":"` + c.model + `",` + members + `}`
			if c.endpoint == providers.Messages {
				body = `{"max_tokens":9,` + body[1:]
			}
			call := (&dialecttest.Case{Endpoint: c.endpoint, Settings: set, Key: "KEY", Body: json.RawMessage(body)}).Call(c.provider)
			outcome := "refused"
			if r, err := call.Provider.Prepare(call); err == nil {
				if outcome = row.outcome(body); r.Body != nil {
					outcome = row.outcome(string(r.Body))
				}
			}
			b.WriteString(" " + outcome + " |")
		}
		b.WriteString("\n")
	}
	compare(t, text, boundsBegin, b.String())
}
