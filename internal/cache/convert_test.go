package cache

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// Answers of each kind, as they may be stored.
var answers = map[string][]string{
	"chatComplete": {
		`{"id":"c","object":"chat.completion","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"hello \"ü\""},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
		`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"t2","type":"function","function":{"name":"g","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig"}}}]},"logprobs":null,"finish_reason":"tool_calls"}]}`,
		`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"4","content_blocks":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"xx"},{"type":"text","text":"4"}],"reasoning_content":"hm"},"logprobs":{"content":[{"token":"4","logprob":-0.5,"bytes":[52],"top_logprobs":[]}]},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"5"},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":12345678901234567890,"completion_tokens":2}}`,
	},
	"complete": {
		`{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" a test","logprobs":null,"finish_reason":"length"},{"index":1,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`,
	},
	"messages": {
		`{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}`,
		`{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"see","citations":[{"type":"char_location","cited_text":"a"},{"type":"char_location","cited_text":"b"}]},{"type":"tool_use","id":"t","name":"f","input":{"a":[1,{"b":null}]}},{"type":"tool_use","id":"u","name":"g","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"cache_read_input_tokens":1,"output_tokens":2}}`,
	},
	"createModelResponse": {
		`{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","id":"msg","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hello","annotations":[]},{"type":"refusal","refusal":"no"}]},{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{}","status":"completed"}],"usage":{"input_tokens":1,"output_tokens":2},"incomplete_details":null}`,
		`{"id":"r","object":"response","status":"incomplete","model":"m","output":[],"incomplete_details":{"reason":"max_output_tokens"}}`,
	},
}

// An answer that is converted to a stream and back is the same in every field.
func TestAnAnswerSaysTheSameThereAndBack(t *testing.T) {
	for endpoint, bodies := range answers {
		for _, body := range bodies {
			stream, err := (&Entry{Body: []byte(body)}).As(endpoint, true)
			if err != nil {
				t.Errorf("%s: %v", endpoint, err)
				continue
			}
			if s := shapes[endpoint]; s.done != strings.HasSuffix(string(stream), "data: [DONE]\n\n") {
				t.Errorf("%s ends with %q", endpoint, stream[max(0, len(stream)-40):])
			}
			back, err := (&Entry{Body: stream, Stream: true}).As(endpoint, false)
			if err != nil {
				t.Errorf("%s: %v\n%s", endpoint, err, stream)
				continue
			}
			was, _ := parse([]byte(body))
			is, err := parse(back)
			if err != nil || !reflect.DeepEqual(was, is) {
				t.Errorf("%s: %v\nwas %s\nis  %s\nby %s", endpoint, err, body, back, stream)
			}
			if same, err := (&Entry{Body: []byte(body)}).As(endpoint, false); err != nil || string(same) != body {
				t.Errorf("%s: what was kept in one piece is %s", endpoint, same)
			}
		}
	}
}

// What a stream takes grows with its length: many calls of tools, and a long text in small pieces.
func TestLongStreamsTakeLinearTime(t *testing.T) {
	var long, many strings.Builder
	const n = 60_000
	for i := range n {
		fmt.Fprintf(&many, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"t\"}]}}]}\n\n", i)
		long.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"0123456789\"}}]}\n\n")
	}
	for name, stream := range map[string]string{"calls": many.String(), "text": long.String()} {
		back, err := (&Entry{Body: []byte(stream + "data: [DONE]\n\n"), Stream: true}).As("chatComplete", false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		message := gjson.GetBytes(back, "choices.0.message")
		if calls, text := message.Get("tool_calls.#").Int(), len(message.Get("content").Str); name == "calls" && calls != n || name == "text" && text != 10*n {
			t.Errorf("%s: %d calls, %d bytes", name, calls, text)
		}
	}
	if _, err := (&Entry{Body: []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"), Stream: true}).As("messages", false); err == nil {
		t.Error("a block before the first")
	}
}

// Streams in the pieces that providers send.
func TestAStreamInPiecesBecomesOneAnswer(t *testing.T) {
	for _, c := range []struct{ endpoint, stream, want string }{
		{"chatComplete", `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"prompt_filter_results":[]}

data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"he"},"finish_reason":null}],"usage":null}

data: {"id":"c","choices":[{"index":1,"delta":{"role":"assistant","content":"x"}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"llo"}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{"}},{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c","choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c","choices":[],"usage":{"total_tokens":7}}

data: [DONE]

`, `{"id":"c","object":"chat.completion","created":1,"model":"m","prompt_filter_results":[],"choices":[{"index":0,"message":{"role":"assistant","content":"hello","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"},{"index":1,"message":{"role":"assistant","content":"x"},"logprobs":null,"finish_reason":"stop"}],"usage":{"total_tokens":7}}`},
		{
			"messages", "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n" +
				"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n" +
				"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"he\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"llo\"}}\n\n" +
				"data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
			`{"id":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":9}}`,
		},
	} {
		got, err := (&Entry{Body: []byte(c.stream), Stream: true}).As(c.endpoint, false)
		if err != nil {
			t.Errorf("%s: %v", c.endpoint, err)
			continue
		}
		want, _ := parse([]byte(c.want))
		is, _ := parse(got)
		if !reflect.DeepEqual(want, is) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.endpoint, got, c.want)
		}
	}
}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for _, c := range []struct {
		endpoint, body string
		stream         bool
	}{
		{"chatComplete", "", true},
		{"chatComplete", "data: [DONE]\n\n", true},
		{"chatComplete", "data: {\n\n", true},
		{"chatComplete", "data: {\"id\":1}\n\n", true},
		{"messages", "data: {\"type\":\"content_block_delta\",\"index\":5,\"delta\":{}}\n\n", true},
		{"messages", "data: {\"type\":\"ping\"}\n\n", true},
		{"createModelResponse", "data: {\"type\":\"response.failed\",\"response\":{}}\n\n", true},
		{"chatComplete", "null", false},
		{"embed", "{}", false},
	} {
		if got, err := (&Entry{Body: []byte(c.body), Stream: c.stream}).As(c.endpoint, !c.stream); err == nil {
			t.Errorf("%s %q: got %s", c.endpoint, c.body, got)
		}
	}
}

func FuzzAs(f *testing.F) {
	for endpoint, bodies := range answers {
		for _, body := range bodies {
			f.Add(endpoint, []byte(body))
			stream, _ := (&Entry{Body: []byte(body)}).As(endpoint, true)
			f.Add(endpoint, stream)
		}
	}
	f.Fuzz(func(_ *testing.T, endpoint string, body []byte) {
		_, _ = (&Entry{Body: body}).As(endpoint, true)
		_, _ = (&Entry{Body: body, Stream: true}).As(endpoint, false)
	})
}
