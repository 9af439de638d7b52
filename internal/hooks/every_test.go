package hooks

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
)

const canary = "a canary"

// everyString calls visit with a body for each string in it, which has the canary in its place, and
// with the path of that string.
func everyString(t *testing.T, body string, visit func(path, changed string)) {
	t.Helper()
	var walk func(path string, v gjson.Result)
	walk = func(path string, v gjson.Result) {
		n := 0
		switch {
		case v.Type == gjson.String:
			changed, err := sjson.Set(body, path, canary)
			if err != nil {
				t.Fatal(err)
			}
			visit(path, changed)
		case v.IsObject():
			v.ForEach(func(key, v gjson.Result) bool { walk(strings.TrimPrefix(path+"."+key.Str, "."), v); return true })
		case v.IsArray():
			v.ForEach(func(_, v gjson.Result) bool { walk(path+"."+strconv.Itoa(n), v); n++; return true })
		}
	}
	walk("", gjson.Parse(body))
}

// spoken reports whether the string at a path is one that is judged, whatever it is: it stands below one of
// the roots, and is not a kind or a role, which decide about the rest.
func spoken(path string, roots ...string) bool {
	parts := strings.Split(path, ".")
	last := parts[len(parts)-1]
	return slices.Contains(roots, parts[0]) && last != "type" && last != "role" && !slices.ContainsFunc(parts, func(p string) bool { return unspoken[p] })
}

// What hooks do not know is judged: no string of a conversation or of an answer goes unseen, and no shape
// that it may have.
func TestEveryStringIsJudged(t *testing.T) {
	all := Scope{true, true, true, true, true, true}
	for _, c := range []struct {
		endpoint string
		phase    guardrails.Phase
		body     string
		roots    []string
	}{
		{"chatComplete", 0, `{"messages":[{"role":"system","content":"s","name":"n"},{"role":"user","content":[[{"type":"text","text":"x"}],{"type":"tool_use","text":"x","input":{"a":"x"}},{"type":"tool_result","text":"x","content":"x"},{"type":"document","text":"x"},{"type":"text","Text":"x"},{"type":"new","value":["x",{"y":"z"}]},"x",
			{"type":"file","file":{"filename":"x","file_data":"x","file_id":"f"}},{"type":"image_url","image_url":{"url":"x","detail":"x"}},{"type":"input_audio","input_audio":{"data":"x","format":"x"}}]},{"role":"user","content":{"type":"text","text":"x"},"extra":["x"]},
			{"role":"assistant","content":null,"refusal":"x","reasoning_content":"x","reasoning_details":[{"text":"x","data":"x"}],"tool_calls":[{"id":"x","type":"function","function":{"name":"x","arguments":{"a":"x"}}},{"custom":{"name":"x","input":"x"}}],"function_call":{"name":"x","arguments":"x"}},{"type":"function_call_output","role":"user","content":"x"},{"role":"tool","tool_call_id":"x","content":[{"type":"json","json":{"a":"x"}}]}],
			"prediction":{"type":"content","content":{"text":"x"}},"documents":[{"text":"x"}]}`, []string{"messages", "prediction", "documents"}},
		{"chatComplete", 0, `{"messages":{"role":"user","content":"x"}}`, []string{"messages"}},
		{"chatComplete", 1, `{"choices":[{"message":{"role":"assistant","content":{"text":"x"},"refusal":"x","reasoning_text":"x","annotations":[{"type":"url_citation","url_citation":{"title":"x","url":"x"}}],"images":[{"image_url":{"url":"x"}}],"thinking_blocks":[{"thinking":"x","signature":"x"}],"executed_tools":[{"arguments":"x","output":"x"}],"tool_calls":[{"id":"x","function":{"name":"x","arguments":"x"}}],"audio":{"id":"x","transcript":"x"}}},{"message":{"content":[{"type":"text","text":"x"}]}}]}`, []string{"choices"}},
		{"complete", 0, `{"prompt":["x",{"text":"x"}],"suffix":"x"}`, []string{"prompt", "suffix"}},
		{"complete", 1, `{"choices":[{"text":"x"},{"text":"x"}]}`, []string{"choices"}},
		{"embed", 0, `{"input":["x",{"text":"x","content":[{"image_url":"x"}]}],"texts":["x"],"inputs":{"text":"x"},"messages":[{"content":"x"}]}`, []string{"input", "texts", "inputs", "messages"}},
		{"messages", 0, `{"system":{"type":"text","text":"x"},"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","text":"x","content":{"type":"text","text":"x"}},{"type":"bash_code_execution_tool_result","tool_use_id":"x","content":{"type":"bash_code_execution_result","stdout":"x"}},{"type":"web_search_tool_result","content":[{"title":"x","url":"x","page_age":"x","encrypted_content":"x"}]},
			{"type":"document","title":"x","context":"x","text":"x","source":{"type":"text","data":"x"}},{"type":"document","source":{"data":"x"}},{"type":"document","source":{"type":"Text","media_type":"text/plain","data":"x"}},{"type":"document","source":{"type":"content","content":"x"}},{"type":"document","source":{"type":"url","url":"x"}},{"type":"search_result","source":"x","title":"x","content":[{"type":"text","text":"x"}]},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"x"}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"x","text":"x","input":{"a":"x"}},{"type":"text","text":"x","citations":[{"type":"char_location","cited_text":"x"}]},{"type":"thinking","thinking":"x","signature":"x"},{"type":"redacted_thinking","data":"x"}]},{"role":"user","content":"x"}]}`, []string{"system", "messages"}},
		{"messages", 1, `{"content":[{"type":"text","text":"x"},{"type":"mcp_tool_result","content":[{"type":"text","text":"x"}]},{"type":"server_tool_use","name":"x","input":{"a":"x"}}]}`, []string{"content"}},
		{"createModelResponse", 0, `{"instructions":[{"role":"user","content":"x"}],"prompt":{"id":"p","variables":{"a":["x"],"b":{"type":"input_text","text":"x"}}},"input":[{"role":"user","content":{"type":"input_text","text":"x"}},{"type":"shell_call_output","call_id":"x","output":[{"stdout":"x","stderr":"x"}]},{"type":"shell_call","action":{"commands":["x"]}},{"type":"apply_patch_call","operation":{"type":"create_file","path":"x","diff":"x"}},{"type":"mcp_call","name":"x","arguments":"x","output":"x","error":"x"},
			{"type":"mcp_list_tools","tools":[{"name":"x","description":"x"}]},{"type":"code_interpreter_call","code":"x","outputs":[{"type":"logs","logs":"x"}]},{"type":"computer_call","action":{"type":"type","text":"x"}},{"type":"computer_call_output","output":{"type":"text","text":"x"}},{"type":"file_search_call","queries":["x"],"results":[{"text":"x"}]},{"type":"web_search_call","action":{"query":"x"}},{"type":"tool_search_output","tools":[{"description":"x"}]},{"type":"function_call_output","output":{"a":"x"}},
			{"type":"function_call","name":"x","arguments":"x","content":"x"},{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}],"content":[{"type":"reasoning_text","text":"x"}],"encrypted_content":"x"},{"type":"image_generation_call","revised_prompt":"x","result":"x"},{"type":"new","anything":"x"},{"role":"user","content":[{"type":"input_file","filename":"x","file_data":"x"},{"type":"input_image","image_url":"x"},{"type":"tool_use","text":"x","input":"x"}]}]}`, []string{"instructions", "input"}},
		{"createModelResponse", 1, `{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","title":"x","url":"x"}]}]},{"type":"code_interpreter_call","code":"x","outputs":[{"logs":"x"}]},{"type":"mcp_call","arguments":"x","output":"x"},{"type":"mcp_approval_request","name":"x","arguments":"x"},{"type":"shell_call","action":{"commands":["x"]}}]}`, []string{"output"}},
	} {
		n := 0
		everyString(t, c.body, func(path, changed string) {
			if !spoken(path, c.roots...) {
				return
			}
			n++
			if !slices.Contains(values([]byte(changed), Texts(c.endpoint, c.phase, []byte(changed), all).Spans), canary) {
				t.Errorf("%s %d: %s is not judged", c.endpoint, c.phase, path)
			}
		})
		if n == 0 {
			t.Errorf("%s %d: nothing was tried", c.endpoint, c.phase)
		}
	}
}

// The same of the events of streams.
func TestEveryStringOfAnEventIsJudged(t *testing.T) {
	all := Scope{true, true, true, true, true, true}
	for endpoint, events := range map[string][]string{
		"chatComplete": {
			`{"choices":[{"index":0,"delta":{"content":"x","refusal":"x","reasoning_text":"x","function_call":{"name":"x","arguments":"x"},"tool_calls":[{"index":0,"id":"x","function":{"name":"x","arguments":"x"}}],"annotations":[{"url_citation":{"title":"x"}}],"images":[{"image_url":{"url":"x"}}],"thinking_blocks":[{"thinking":"x"}],"reasoning_details":[{"type":"reasoning.text","text":"x","data":"x"}],"audio":{"transcript":"x","id":"x"}}}]}`,
			`{"choices":[{"delta":{"content":[{"type":"text","text":"x","more":"x"},"x"],"tool_calls":[{"function":{"arguments":{"a":"x"}}}]}},{"index":1,"delta":{"content":{"text":"x"}}}]}`,
		},
		"messages": {
			`{"type":"message_start","message":{"content":[{"type":"text","text":"x"}]}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"x","name":"x","input":{"a":"x"}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"bash_code_execution_tool_result","tool_use_id":"x","content":{"type":"bash_code_execution_result","stdout":"x"}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x","citations":[{"cited_text":"x"}]}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"x"}}`,
		},
		"createModelResponse": {
			`{"type":"response.output_item.done","item":{"type":"shell_call","action":{"commands":["x"]}}}`,
			`{"type":"response.output_item.done","item":{"type":"mcp_approval_request","name":"x","arguments":"x"}}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"x","annotations":[{"title":"x","url":"x"}]}]}}`,
			`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"x","annotations":[{"title":"x"}]}]},{"type":"code_interpreter_call","code":"x","outputs":[{"logs":"x"}]},{"type":"reasoning","summary":[{"text":"x"}],"content":[{"text":"x"}]}]}}`,
			`{"type":"response.output_text.delta","item_id":"x","delta":"x"}`,
			`{"type":"response.output_text.annotation.added","annotation":{"title":"x"}}`,
			`{"type":"response.code_interpreter_call_code.delta","delta":"x"}`, `{"type":"response.code_interpreter_call_code.done","code":"x"}`,
			`{"type":"response.audio.transcript.delta","delta":"x"}`, `{"type":"response.new_kind.of_event","value":{"a":"x"},"text":"x"}`,
		},
	} {
		for _, event := range events {
			everyString(t, event, func(path, changed string) {
				if !spoken(path, "choices", "message", "content_block", "delta", "response", "item", "annotation", "code", "value", "text") {
					return
				}
				for _, p := range Pieces(endpoint, []byte(changed), all).Pieces {
					if values([]byte(changed), []Span{p.Span})[0] == canary {
						return
					}
				}
				t.Errorf("%s: %s of %s is not judged", endpoint, path, event)
			})
		}
	}
}

// What identifies something, addresses, and what is encoded is not judged; a text in its place is, and a
// text in base64 is not read.
func TestWhatIsNoText(t *testing.T) {
	for _, c := range []struct{ part, want, unread string }{
		{`{"type":"image_url","image_url":{"url":"https://example.com/a?b=1","detail":"high"}}`, "", ""},
		{`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}`, "", ""},
		{`{"type":"input_audio","input_audio":{"data":"` + picture + `","format":"wav"}}`, "", ""},
		{`{"type":"file","file":{"file_data":"data:application/pdf;base64,` + picture + `","filename":"a.pdf"}}`, "a.pdf", ""},
		{`{"type":"file","file":{"file_data":"data:text/plain,hello","filename":"a.txt"}}`, "data:text/plain,hello a.txt", ""},
		{`{"type":"file","file":{"file_data":"data:text/plain;base64,aGVsbG8="}}`, "", "'file_data' has text in base64"},
		{`{"type":"file","file":{"file_data":"data:application\/json;charset=utf-8;base64,aGVsbG8="}}`, "", "'file_data' has text in base64"},
		{`{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"aGVsbG8="}}`, "", "'data' has text in base64"},
		{`{"type":"document","source":{"type":"text","media_type":"image/png","data":"` + picture + `"}}`, picture, ""},
		{`{"type":"text","text":"` + picture + `"}`, picture, ""},
		{`{"type":"text","text":"https://example.com"}`, "https://example.com", ""},
		{`{"type":"x","id":"id_1","name":"f","call_id":"c","signature":"` + picture + `"}`, "", ""},
		{`{"type":"x","name":"` + strings.Repeat("n", 257) + `"}`, strings.Repeat("n", 257), ""},
	} {
		body := []byte(`{"messages":[{"role":"user","content":[` + c.part + `]}]}`)
		r := Texts("chatComplete", guardrails.Input, body, Scope{})
		if got := strings.Join(values(body, r.Spans), " "); got != c.want || r.Unread != c.unread {
			t.Errorf("%s: %q and %q", c.part, got, r.Unread)
		}
	}
}
