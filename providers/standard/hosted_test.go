package standard_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// search is the web search as Codex sends it.
const search = `{"type":"web_search","external_web_access":false,"search_content_types":["text","image"],"search_context_size":"high",` +
	`"filters":{"allowed_domains":["caddyserver.com"]},"user_location":{"type":"approximate","country":"DE","city":null}}`

const function = `{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}`

// What becomes of a web search with a function: the tool that is sent, "" if it is left out
// with a warning. Alone, it is refused, unless it is sent unchanged.
var searches = []struct{ provider, model, want string }{
	{"anthropic", "claude-sonnet-4-6", claudeSearch},
	{"anthropic", "claude-3-haiku-20240307", ""},
	{"vertex-ai", "claude-sonnet-4-6@20260101", claudeSearch},
	{"google", "gemini-2.5-flash", ""},
	{"google", "gemini-3-pro-preview", ""},
	{"vertex-ai", "gemini-2.5-pro", ""},
	{"vertex-ai", "meta/llama-4", ""},
	{"bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", ""},
	{"bedrock", "amazon.nova-2-lite-v1:0", ""},
	{"mistral-ai", "mistral-large-latest", ""},
	{"cohere", "command-a-03-2025", ""},
	{"deepseek", "deepseek-chat", ""},
	{"moonshot", "kimi-k2", ""},
	{"openai", "gpt-5.5", search},
	{"groq", "openai/gpt-oss-120b", search},
	{"x-ai", "grok-4", search},
	{"openrouter", "openai/gpt-5", search},
}

const claudeSearch = `{"type":"web_search_20250305","name":"web_search","allowed_domains":["caddyserver.com"],"user_location":{"type":"approximate","country":"DE"}}`

// respond prepares a call of Responses.
func respond(provider, model, members string) (*providers.Request, []byte, error) {
	set := map[string]string{"aws_region": "us-east-1", "vertex_region": "europe-west1", "vertex_project_id": "p"}
	body := `{"model":` + string(quoted(model)) + `,"input":"Hi",` + members + `}`
	c := (&dialecttest.Case{Endpoint: providers.CreateResponse, Settings: set, Key: "KEY", Body: json.RawMessage(body)}).Call(provider)
	r, err := c.Provider.Prepare(c)
	if err != nil {
		return nil, nil, err
	}
	if r.Body == nil {
		return r, []byte(body), nil
	}
	return r, r.Body, nil
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

func TestAWebSearchIsTheProvidersOwnOrLeftOut(t *testing.T) {
	for _, c := range searches {
		for _, kind := range []string{"web_search", "web_search_preview", "web_search_2025_08_26", "web_search_preview_2025_03_11"} {
			asked := strings.Replace(search, "web_search", kind, 1)
			r, body, err := respond(c.provider, c.model, `"tools":[`+asked+`,`+function+`],"tool_choice":"auto"`)
			if err != nil {
				t.Errorf("%s %s: %v", c.provider, c.model, err)
				continue
			}
			sent := strings.ReplaceAll(string(body), kind+`","ext`, `web_search","ext`)
			if c.want != "" && !strings.Contains(sent, c.want) || c.want == "" && strings.Contains(sent, "earch") {
				t.Errorf("%s %s: sent %s, want %q", c.provider, c.model, sent, c.want)
			}
			warned := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "the tool "+kind+" was left out") })
			if warned != (c.want == "") || len(r.Warnings) > 1 {
				t.Errorf("%s %s: warnings %q", c.provider, c.model, r.Warnings)
			}
			_, _, err = respond(c.provider, c.model, `"tools":[`+asked+`]`)
			var refusal *providers.RequestError
			if refused := errors.As(err, &refusal) && refusal.Param == "tools[0]"; refused == (c.want == search) {
				t.Errorf("%s %s: alone: %v", c.provider, c.model, err)
			}
		}
	}
}

// What a call counts on is refused, and not left out.
func TestAToolThatACallCountsOnIsRefused(t *testing.T) {
	for members, param := range map[string]string{
		`"tools":[` + search + `],"tool_choice":"required"`:                                                                                  "tools[0]",
		`"tools":[` + search + `,` + function + `],"tool_choice":{"type":"web_search"}`:                                                      "tool_choice",
		`"tools":[` + function + `,` + search + `],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"}]}`: "tools[0]",
		`"tools":[` + function + `,{"type":"file_search","vector_store_ids":["v"]}]`:                                                         "tools[1]",
	} {
		_, _, err := respond("mistral-ai", "mistral-large-latest", members)
		var refusal *providers.RequestError
		if !errors.As(err, &refusal) || refusal.Param != param || refusal.Code != "unsupported_parameter" {
			t.Errorf("%s: %v", members, err)
		}
	}
	if _, _, err := respond("mistral-ai", "mistral-large-latest", `"tools":[`+search+`,`+function+`],"tool_choice":"required"`); err != nil {
		t.Errorf("another tool can be called: %v", err)
	}
}

// Tools that an item adds, and those that a search of the client's found, are the request's.
func TestToolsThatItemsAdd(t *testing.T) {
	const members = `"tools":[{"type":"tool_search","execution":"client","description":"Finds tools","parameters":{"type":"object","properties":{"query":{"type":"string"}}}},
		{"type":"image_generation","output_format":"png"}],"input":[
		{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"namespace","name":"functions","description":"","tools":[{"type":"custom","name":"exec"}]}]},
		{"type":"message","role":"user","content":"Hi"},
		{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},
		{"type":"tool_search_call","call_id":"call_1","status":"completed","execution":"client","arguments":{"query":"crm"}},
		{"type":"tool_search_output","call_id":"call_1","status":"completed","execution":"client","tools":[{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find","defer_loading":true,"parameters":{"type":"object","properties":{}}}]}]},
		{"type":"tool_search_call","call_id":null,"execution":"server","arguments":{"paths":["x"]}},
		{"type":"tool_search_output","call_id":null,"execution":"server","tools":[{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find"}]},{"type":"function","name":"late"}]}]`
	r, body, err := respond("anthropic", "claude-sonnet-4-6", members)
	if err != nil {
		t.Fatal(err)
	}
	sent := gjson.ParseBytes(body)
	var names []string
	for _, tool := range sent.Get("tools").Array() {
		names = append(names, tool.Get("name").Str)
	}
	if got := strings.Join(names, " "); got != "tool_search functions__exec crm__find late" {
		t.Errorf("tools %s", got)
	}
	for path, want := range map[string]string{
		"messages.#": "3", "messages.1.content.0.name": "tool_search", "messages.1.content.0.input": `{"query":"crm"}`,
		"messages.2.content.0.tool_use_id": "call_1", "messages.2.content.0.content": `{"tools":["crm__find"]}`,
	} {
		if got := sent.Get(path).String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "image_generation") {
		t.Errorf("warnings %q", r.Warnings)
	}
	const answer = `{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"tool_use","id":"t1","name":"tool_search","input":{"query":"x"}},
		{"type":"tool_use","id":"t2","name":"functions__exec","input":{"input":"ls"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
	out, err := r.Answer.Body(nil, []byte(answer), nil)
	if err != nil {
		t.Fatal(err)
	}
	found, exec := gjson.GetBytes(out, "output.0"), gjson.GetBytes(out, "output.1")
	if found.Get("type").Str != "tool_search_call" || found.Get("call_id").Str != "t1" || found.Get("execution").Str != "client" || found.Get("arguments").Raw != `{"query":"x"}` {
		t.Errorf("the search is %s", found.Raw)
	}
	if exec.Get("type").Str != "custom_tool_call" || exec.Get("namespace").Str != "functions" || exec.Get("name").Str != "exec" || exec.Get("input").Str != "ls" {
		t.Errorf("the call is %s", exec.Raw)
	}
	stream, err := dialecttest.Stream(prepared(t, members).Stream, []byte("data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n"+
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"tool_search\",\"input\":{}}}\n\n"+
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"query\\\":\"}}\n\n"+
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"x\\\"}\"}}\n\n"+
		"data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"), 7)
	if err != nil || !strings.Contains(string(stream), `"item":{"id":"tsc_id100","type":"tool_search_call","status":"completed","call_id":"t1","execution":"client","arguments":{"query":"x"}}`) ||
		strings.Contains(string(stream), "function_call_arguments") {
		t.Errorf("%v, %s", err, stream)
	}
}

func prepared(t *testing.T, members string) *providers.Answer {
	t.Helper()
	r, _, err := respond("anthropic", "claude-sonnet-4-6", members)
	if err != nil {
		t.Fatal(err)
	}
	return r.Answer
}
