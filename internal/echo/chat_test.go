package echo

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestChatEchoes(t *testing.T) {
	for name, test := range map[string]struct{ request, text, finish, usage string }{
		"the last user message": {
			`{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}]}`,
			"two", "stop", "6 1 7",
		},
		"the user before an assistant": {
			`{"messages":[{"role":"user","content":"Hi, you"},{"role":"assistant","content":"yes"}]}`,
			"Hi, you", "stop", "4 3 7",
		},
		"text parts": {
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]}]}`,
			"a\nb", "stop", "2 2 4",
		},
		"escapes and scripts": {
			`{"messages":[{"role":"user","content":"\"\\\n\u0001 \u00e9t\u00e9 \ud83d\ude00 日本"}]}`,
			"\"\\\n\u0001 été 😀 日本", "stop", "6 6 12",
		},
		"no user":          {`{"messages":[{"role":"system","content":"x"}]}`, "", "stop", "1 0 1"},
		"no content":       {`{"messages":[{"role":"user"}]}`, "", "stop", "0 0 0"},
		"null members":     {`{"model":null,"n":null,"stream":null,"max_tokens":null,"tools":null,"messages":[{"role":"user","content":null}]}`, "", "stop", "0 0 0"},
		"a tool message":   {`{"tools":` + tools + `,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","tool_call_id":"x","content":"21 C"}]}`, "21 C", "stop", "3 2 5"},
		"tools not wanted": {`{"tool_choice":"none","tools":` + tools + `,"messages":[{"role":"user","content":"q"}]}`, "q", "stop", "1 1 2"},
		"no tools":         {`{"tools":[],"messages":[{"role":"user","content":"q"}]}`, "q", "stop", "1 1 2"},
		"no function tool": {`{"tools":[{"type":"custom","custom":{"name":"c"}}],"messages":[{"role":"user","content":"q"}]}`, "q", "stop", "1 1 2"},
		"max_tokens":       {`{"max_tokens":2,"messages":[{"role":"user","content":"a b c"}]}`, "a b", "length", "3 2 5"},
		"max_completion_tokens goes first": {
			`{"max_completion_tokens":1,"max_tokens":2,"messages":[{"role":"user","content":"a b c"}]}`,
			"a", "length", "3 1 4",
		},
		"limit just enough": {`{"max_tokens":3,"messages":[{"role":"user","content":"a b c "}]}`, "a b c ", "stop", "3 3 6"},
		"limit of nothing":  {`{"max_tokens":0,"messages":[{"role":"user","content":"a"}]}`, "", "length", "1 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := post(t, "/v1/chat/completions", test.request)
			choice := got.Get("choices.0")
			if text := choice.Get("message.content"); text.Type != gjson.String || text.Str != test.text {
				t.Errorf("content %s, want %q", text.Raw, test.text)
			}
			if choice.Get("message.role").Str != "assistant" || choice.Get("message.tool_calls").Exists() {
				t.Errorf("message %s", choice.Get("message").Raw)
			}
			if choice.Get("finish_reason").Str != test.finish {
				t.Errorf("finish_reason %s, want %s", choice.Get("finish_reason").Raw, test.finish)
			}
			checkUsage(t, got.Get("usage"), test.usage)
		})
	}
}

const tools = `[{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"weather"}},{"type":"function","function":{"name":"time"}}]`

// checkUsage checks the numbers of prompt, completion and total tokens.
func checkUsage(t *testing.T, usage gjson.Result, want string) {
	t.Helper()
	got := usage.Get("prompt_tokens").Raw + " " + usage.Get("completion_tokens").Raw + " " + usage.Get("total_tokens").Raw
	if got != want {
		t.Errorf("usage %s, want %s", got, want)
	}
}

func TestChatAnswerMembers(t *testing.T) {
	got := post(t, "/v1/chat/completions", `{"model":"gpt \"4\"","n":3,"messages":[{"role":"user","content":"a b"}]}`)
	if !strings.HasPrefix(got.Get("id").Str, "chatcmpl-echo-") || got.Get("object").Str != "chat.completion" ||
		got.Get("created").Int() == 0 || got.Get("model").Str != `gpt "4"` {
		t.Errorf("%s", got.Raw)
	}
	if indexes := got.Get("choices.#.index").Raw; indexes != "[0,1,2]" {
		t.Errorf("indexes %s", indexes)
	}
	checkUsage(t, got.Get("usage"), "2 6 8")
	if again := post(t, "/v1/chat/completions", `{"messages":[{"role":"user"}]}`); again.Get("id").Str == got.Get("id").Str {
		t.Error("two answers with one id")
	} else if again.Get("model").Str != "echo" {
		t.Errorf("model %s without one in the request", again.Get("model").Raw)
	}
}

// gather assembles the events of a chat stream as a client does, into one message and
// one finish reason for each choice.
func gather(t *testing.T, events []gjson.Result) (messages, finishes []string) {
	t.Helper()
	type call struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	type message struct {
		Role      string  `json:"role"`
		Content   *string `json:"content"`
		ToolCalls []*call `json:"tool_calls"`
	}
	var built []*message
	for _, event := range events {
		if event.Get("object").Str != "chat.completion.chunk" || event.Get("id").Str != events[0].Get("id").Str {
			t.Errorf("event %s", event.Raw)
		}
		for _, choice := range event.Get("choices").Array() {
			i, delta := int(choice.Get("index").Int()), choice.Get("delta")
			if i == len(built) {
				built, finishes = append(built, new(message)), append(finishes, "")
			}
			m := built[i]
			m.Role += delta.Get("role").Str
			if piece := delta.Get("content"); piece.Type == gjson.String {
				if m.Content == nil {
					m.Content = new(string)
				}
				*m.Content += piece.Str
			}
			for _, part := range delta.Get("tool_calls").Array() {
				if part.Get("id").Exists() {
					c := &call{ID: part.Get("id").Str, Type: part.Get("type").Str}
					c.Function.Name = part.Get("function.name").Str
					m.ToolCalls = append(m.ToolCalls, c)
				}
				m.ToolCalls[part.Get("index").Int()].Function.Arguments += part.Get("function.arguments").Str
			}
			if choice.Get("finish_reason").Type == gjson.String {
				finishes[i] = choice.Get("finish_reason").Str
			}
		}
	}
	for _, m := range built {
		if m.Role != "assistant" {
			t.Errorf("role %q", m.Role)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, string(b))
	}
	return messages, finishes
}

func TestChatStreamsWordByWord(t *testing.T) {
	const request = `{"n":2,"stream":true,"messages":[{"role":"user","content":" Hello,  big\nworld "}]`
	events := stream(t, "/v1/chat/completions", request+"}")
	if len(events) != 2*(1+3+1) { // for each choice: role, words, finish
		t.Errorf("%d events", len(events))
	}
	for _, event := range events {
		if event.Get("usage").Exists() {
			t.Errorf("usage that nobody asked for: %s", event.Raw)
		}
	}
	messages, finishes := gather(t, events)
	if len(messages) != 2 {
		t.Fatalf("%d choices", len(messages))
	}
	for i, message := range messages {
		if text := gjson.Get(message, "content").Str; text != " Hello,  big\nworld " || finishes[i] != "stop" {
			t.Errorf("%q, %s", text, finishes[i])
		}
	}

	events = stream(t, "/v1/chat/completions", request+`,"max_tokens":3,"stream_options":{"include_usage":true}}`)
	last := events[len(events)-1]
	if last.Get("choices").Raw != "[]" {
		t.Errorf("usage event %s", last.Raw)
	}
	checkUsage(t, last.Get("usage"), "4 6 10")
	for _, event := range events[:len(events)-1] {
		if event.Get("usage").Raw != "null" {
			t.Errorf("usage before the end: %s", event.Raw)
		}
	}
	if _, finishes = gather(t, events); finishes[0] != "length" {
		t.Errorf("finish_reason %s", finishes[0])
	}
}

func TestChatRefuses(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	for name, request := range map[string]string{
		"no messages":         `{}`,
		"empty messages":      `{"messages":[]}`,
		"messages an object":  `{"messages":{"role":"user"}}`,
		"a message a string":  `{"messages":["hi"]}`,
		"no role":             `{"messages":[{"content":"hi"}]}`,
		"role a number":       `{"messages":[{"role":1,"content":"hi"}]}`,
		"content a number":    `{"messages":[{"role":"user","content":1}]}`,
		"model a number":      `{"model":1,` + hi + `}`,
		"n of 0":              `{"n":0,` + hi + `}`,
		"n of 129":            `{"n":129,` + hi + `}`,
		"n of 1.5":            `{"n":1.5,` + hi + `}`,
		"n of 1e300":          `{"n":1e300,` + hi + `}`,
		"n a string":          `{"n":"1",` + hi + `}`,
		"max_tokens below 0":  `{"max_tokens":-1,` + hi + `}`,
		"stream a string":     `{"stream":"yes",` + hi + `}`,
		"include_usage 1":     `{"stream_options":{"include_usage":1},` + hi + `}`,
		"tools an object":     `{"tools":{},` + hi + `}`,
		"a tool out of reach": `{"tool_choice":{"type":"function","function":{"name":"x"}},"tools":` + tools + `,` + hi + `}`,
		"too much in all":     `{"n":128,"messages":[{"role":"user","content":"` + strings.Repeat("x", maxAnswer/maxChoices+1) + `"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := do(t, new(Echo), http.MethodPost, "/v1/chat/completions", request)
			if w.Code != http.StatusBadRequest {
				t.Fatalf("status %d", w.Code)
			}
			checkError(t, w)
		})
	}
}
