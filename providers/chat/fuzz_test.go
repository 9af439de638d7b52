package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

// bodies are what fuzzing begins with.
var bodies = []string{
	`{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"stop":"x","n":2,"user":"u","stream":true,"extra":{"a":[1]}}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":null},{"type":"image_url","image_url":{"url":"data:image\/png;base64,AA\"\/=="}},{"type":"file","file":{"file_data":"data:text/plain,a%2","filename":"x"}},{"type":"input_audio","input_audio":{"data":"A","format":"\""}},{"type":"other","x":1}]}]}`,
	`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}],"signature":"s"},{"type":"redacted_thinking","data":"\u0041\\"}],"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1"}},null,{"id":"\u0061","function":{"arguments":{"a":1}}}],"function_call":{"name":"g"},"content_blocks":[{"type":"text"}]},{"role":"tool"},{"role":"function","name":"g","content":null}]}`,
	`{"tools":[{"type":"function","function":{"name":"f","parameters":{"a":1}},"cache_control":{}},{"google_search":{}},null,1],"functions":[{}],"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`,
	`{"messages":null,"messages":[null,1,"x",{"role":"system","content":["a",{"type":"text","text":"b","cache_control":null}]}],"stop":[1,"a",null]}`,
	"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}",
	`{"system":[{"type":"text","text":null},{"type":"image"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":null,"content":[{"type":"tool_result"},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"}]}}],"is_error":true},{"type":"document","source":{"type":"text","data":"\ud800"}}]},{"role":"assistant","content":[{"type":"tool_use","id":null,"input":null},{"type":"thinking"},{"type":"redacted_thinking"}]}],"tools":[{"name":"f","input_schema":null},{"type":"x"},null],"tool_choice":{"type":"tool"},"metadata":{"user_id":null}}`,
}

// FuzzParse holds bodies of whatever bytes, in either dialect of callers, to this: nothing
// panics, and what is read can be written as JSON in every dialect, or is refused.
func FuzzParse(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	words := []*chat.Encoder{
		{},
		{ThinkingParts: true, ResultMedia: true, Names: map[string]string{"stop": "stops"}},
		{OpenAIOnly: true, Omit: []string{"tool_choice", "stream_options"}, Extra: []string{}, CallID: func(id chat.Literal) chat.Literal { return chat.PlainID(id, 9) }},
	}
	parsers := map[string]func([]byte) (*chat.Request, error){"chat": chat.Parse, "messages": func(body []byte) (*chat.Request, error) { return messages.Parse(body, "openai") }}
	f.Fuzz(func(t *testing.T, body []byte) {
		for from, parse := range parsers {
			r, err := parse(body)
			if err != nil {
				continue
			}
			for i, w := range words {
				if out := w.Append(nil, r); !json.Valid(out) {
					t.Fatalf("%s, words %d: %q becomes %q", from, i, body, out)
				}
			}
			for _, o := range []messages.Options{{}, {Version: "v", NoModel: true, NoStream: true}} {
				if out, err := messages.Append(nil, r, o); err == nil && !json.Valid(out) {
					t.Fatalf("%s, messages: %q becomes %q", from, body, out)
				}
			}
			for i := range r.Messages {
				r.CallName(r.Messages[i].CallID, i)
			}
		}
	})
}
