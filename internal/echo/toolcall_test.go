package echo

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
)

func TestChatCallsATool(t *testing.T) {
	for name, test := range map[string]struct{ more, tool, input, finish string }{
		"the first function": {`,"tools":` + tools, "weather", "in \"Oslo\"?", "tool_calls"},
		"auto":               {`,"tool_choice":"auto","tools":` + tools, "weather", "in \"Oslo\"?", "tool_calls"},
		"required":           {`,"tool_choice":"required","tools":` + tools, "weather", "in \"Oslo\"?", "tool_calls"},
		"the forced one":     {`,"tool_choice":{"type":"function","function":{"name":"time"}},"tools":` + tools, "time", "in \"Oslo\"?", "tool_calls"},
		"with a limit":       {`,"max_tokens":2,"tools":` + tools, "weather", "in \"", "length"},
	} {
		t.Run(name, func(t *testing.T) {
			request := `{"n":2,"messages":[{"role":"user","content":"in \"Oslo\"?"}]` + test.more
			got := post(t, "/v1/chat/completions", request+"}")
			ids := map[string]bool{}
			for _, choice := range got.Get("choices").Array() {
				ids[checkCall(t, choice.Get("message"), test.tool, test.input)] = true
				if choice.Get("finish_reason").Str != test.finish {
					t.Errorf("finish_reason %s", choice.Get("finish_reason").Raw)
				}
			}
			if len(ids) != 2 {
				t.Errorf("ids %v", ids)
			}

			messages, finishes := gather(t, stream(t, "/v1/chat/completions", request+`,"stream":true}`))
			if len(messages) != 2 {
				t.Fatalf("%d choices", len(messages))
			}
			for i, message := range messages {
				checkCall(t, gjson.Parse(message), test.tool, test.input)
				if finishes[i] != test.finish {
					t.Errorf("streamed finish_reason %s", finishes[i])
				}
			}
		})
	}
}

// checkCall expects a message with one call and returns the call's id.
func checkCall(t *testing.T, message gjson.Result, tool, input string) string {
	t.Helper()
	call := message.Get("tool_calls.0")
	var arguments struct{ Input string }
	if err := json.Unmarshal([]byte(call.Get("function.arguments").Str), &arguments); err != nil {
		t.Errorf("arguments: %v: %s", err, message.Raw)
	}
	if message.Get("content").Type != gjson.Null || message.Get("tool_calls.#").Int() != 1 ||
		call.Get("type").Str != "function" || call.Get("id").Str == "" ||
		call.Get("function.name").Str != tool || arguments.Input != input {
		t.Errorf("message %s, want a call of %s with %q", message.Raw, tool, input)
	}
	return call.Get("id").Str
}
