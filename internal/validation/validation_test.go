package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// chat is a chat completion with members; completion, the like.
func chat(members string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + members + `}`
}

func completion(members string) string { return `{"model":"m","prompt":"hi"` + members + `}` }

// mustAccept and mustRefuse are the two ends of every rule's test.
func mustAccept(t *testing.T, table *Table, body string) {
	t.Helper()
	if !json.Valid([]byte(body)) {
		t.Fatalf("%s: the test's body is not JSON: %s", table.Name, body)
	}
	if _, err := Check(table, []byte(body)); err != nil {
		t.Errorf("%s: refused %.200s: %v", table.Name, body, err)
	}
}

func mustRefuse(t *testing.T, table *Table, body, param, code string) {
	t.Helper()
	if !json.Valid([]byte(body)) {
		t.Fatalf("%s: the test's body is not JSON: %s", table.Name, body)
	}
	_, err := Check(table, []byte(body))
	var fault *Error
	if !errors.As(err, &fault) {
		t.Errorf("%s: got %v for %.200s, want a fault of %s", table.Name, err, body, param)
		return
	}
	if fault.Param != param || fault.Code != code || !strings.Contains(fault.Message, param) {
		t.Errorf("%s: got %s, %s, %q for %.200s, want %s, %s", table.Name, fault.Param, fault.Code, fault.Message, body, param, code)
	}
}

func TestMessagesSayWhatWasExpected(t *testing.T) {
	for _, c := range []struct {
		table         *Table
		body, message string
	}{
		{Chat, chat(`,"temperature":"hot"`), "Invalid type for 'temperature': expected a number, but got a string instead."},
		{Chat, chat(`,"stop":7`), "Invalid type for 'stop': expected a string or an array, but got a number instead."},
		{Chat, chat(`,"n":1.5`), "Invalid type for 'n': expected an integer, but got a decimal number instead."},
		{Chat, chat(`,"n":129`), "Invalid 'n': integer above maximum value. Expected a value <= 128, but got 129 instead."},
		{Chat, chat(`,"top_p":-0.1`), "Invalid 'top_p': decimal below minimum value. Expected a value >= 0, but got -0.1 instead."},
		{Chat, `{"messages":[]}`, "Invalid 'messages': array too short. Expected an array with minimum length 1, but got an array with length 0 instead."},
		{Chat, `{}`, "Missing required parameter: 'messages'."},
		{Chat, `{"messages":[{"role":"robot"}]}`, "Invalid 'messages[0].role': 'robot' is not supported. Supported values are: 'system', 'developer', 'user', 'assistant', 'tool', 'function'."},
		{Chat, chat(`,"top_logprobs":2`), "Invalid 'top_logprobs': it may only be given when 'logprobs' is true."},
		{Completion, completion(`,"best_of":2,"n":2`), "Invalid 'best_of': expected a value greater than 'n', which is 2, but got 2 instead."},
		{Chat, chat(`,"Model":"x"`), "Invalid 'Model': it differs from 'model' in letter case only. Use 'model' instead."},
		{Chat, chat(`,"model":"x"`), "Invalid 'model': the field is given more than once."},
		{OCR, `{"document":{"type":"file"},"pages":"all"}`, "Invalid 'pages': 'all' is not supported. Expected only these characters: 0123456789,-."},
	} {
		_, err := Check(c.table, []byte(c.body))
		if err == nil || err.Error() != c.message {
			t.Errorf("%s:\n got %v\nwant %s", c.body, err, c.message)
		}
	}
}

func TestWhatIsNotJSONIsASyntaxErrorWhateverRulesItBreaks(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `null`, `{`, `{"n":0`, `{"n":"x",}`, `{"n":0}}`, `{"messages":[{"role":7}]`, `{"messages":[{"role":tru}]}`,
		`{"n":0,"model":"` + "\x01" + `"}`, `{"model":nul}`, `{"logit_bias":{"1":2,}}`, `{"stop":["a","b","c","d","e",]}`,
	} {
		_, err := Check(Chat, []byte(body))
		var syntax *jsonscan.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: got %v, want a syntax error", body, err)
		}
	}
}

func TestDepthIsBoundedInsideRules(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	// The body, messages, the message and its content are around them.
	body := `{"messages":[{"role":"user","content":%s}]}`
	mustAccept(t, Chat, fmt.Sprintf(body, nest(jsonscan.MaxDepth-3)))
	_, err := Check(Chat, fmt.Appendf(nil, body, nest(jsonscan.MaxDepth-2)))
	var syntax *jsonscan.SyntaxError
	if !errors.As(err, &syntax) {
		t.Errorf("nesting beyond the bound: %v", err)
	}
}

func TestUnknownFieldsAreNeverRefused(t *testing.T) {
	for _, table := range tables {
		mustAccept(t, table, with(minimal[table], `"unheard_of":{"model":1,"model":[]},"":null,"x":1,"x":2`))
	}
}

func TestReportSaysWhereFieldsStand(t *testing.T) {
	body := []byte(` { "mod\u0065l" : "gpt" , "messages":[{"role":"user","content":null}], "stream":true, "user":null,"n":2}`)
	r, err := Check(Chat, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"model": `"gpt"`, "stream": "true", "user": "null", "n": "2", "metadata": "", "unheard_of": ""} {
		if s := r.Span(name); string(body[s.Start:s.End]) != want {
			t.Errorf("%s: got %q, want %q", name, body[s.Start:s.End], want)
		}
		if got := r.Has(name); got != (want != "" && want != "null") {
			t.Errorf("%s: Has is %v", name, got)
		}
	}
	if !r.Stream || r.Open != 2 || r.Empty {
		t.Errorf("got stream %v, open %d, empty %v", r.Stream, r.Open, r.Empty)
	}
}

func TestReportOfAStreamThatIsNotAsked(t *testing.T) {
	for _, members := range []string{``, `,"stream":false`, `,"stream":null`} {
		if r, err := Check(Chat, []byte(chat(members))); err != nil || r.Stream {
			t.Errorf("%s: stream %v, %v", members, r.Stream, err)
		}
	}
	if r, err := Check(Moderation, []byte(`{"input":"x","stream":true}`)); err != nil || r.Stream {
		t.Errorf("a moderation never streams: %v, %v", r.Stream, err)
	}
}

func TestReportSaysThatThePromptIsAbsent(t *testing.T) {
	for body, want := range map[string]bool{`{"model":"m"}`: false, `{ }`: false, `{"prompt":null}`: false, `{"prompt":""}`: true} {
		r, err := Check(Completion, []byte(body))
		if err != nil || r.Has("prompt") != want {
			t.Errorf("%s: has a prompt: %v, %v", body, r.Has("prompt"), err)
		}
		if r.Empty != (body == "{ }") {
			t.Errorf("%s: empty: %v", body, r.Empty)
		}
		if r.Span("prompt").End != 0 { // replace a null
			continue
		}
		comma := ","
		if r.Empty {
			comma = ""
		}
		filled := body[:r.Open] + `"prompt":"` + DefaultPrompt + `"` + comma + body[r.Open:]
		if r, err := Check(Completion, []byte(filled)); err != nil || !r.Has("prompt") {
			t.Errorf("%s: %v", filled, err)
		}
	}
}

func TestMissingIsCheckedAfterTheMerge(t *testing.T) {
	for _, c := range []struct {
		table *Table
		given string
		param string
	}{
		{Chat, "messages", "model"},
		{Chat, "messages model", ""},
		{Response, "input", "model"},
		{Response, "prompt", ""},
		{Moderation, "input", ""},
		{Completion, "prompt", "model"},
		{OCR, "document", "model"},
		{FineTuningJob, "training_file", "model"},
		{Embedding, "input", "model"},
		{Embedding, "model", "input"},
		{Batch, "input_file_id endpoint completion_window", ""},
		{Unlisted, "", ""},
	} {
		fault := c.table.Missing(func(name string) bool { return strings.Contains(" "+c.given+" ", " "+name+" ") })
		switch {
		case c.param == "" && fault != nil:
			t.Errorf("%s with %q: %v", c.table.Name, c.given, fault)
		case c.param != "" && (fault == nil || fault.Param != c.param || fault.Code != MissingParameter):
			t.Errorf("%s with %q: got %v, want %s", c.table.Name, c.given, fault, c.param)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	body := []byte(chat(`,"temperature":1,"stop":["a"],"logit_bias":{"1":2},"tool_choice":{"type":"function","function":{"name":"f"}},"unheard_of":1`))
	alloctest.AtMost(t, 0, 100, func() {
		if _, err := Check(Chat, body); err != nil {
			t.Fatal(err)
		}
	})
}

func benchmarkBody(size int) []byte {
	prose := "Large prompts cost what reading them costs. "
	text, _ := json.Marshal(strings.Repeat(prose, size/len(prose)))
	return []byte(`{"model":"gpt-4o","messages":[{"role":"system","content":"be brief"},{"role":"user","content":` + string(text) + `}],"temperature":0.2,"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}}`)
}

func BenchmarkCheck(b *testing.B) {
	conversation := []byte(`{"model":"gpt-4o","messages":[` + strings.Repeat(`{"role":"user","content":"What is the weather like today, in Paris and elsewhere?"},`, 2000) + `{"role":"user","content":"?"}]}`)
	for _, c := range []struct {
		name string
		body []byte
	}{{"2KB", benchmarkBody(2 << 10)}, {"200KB", benchmarkBody(200 << 10)}, {"2001 messages", conversation}} {
		b.Run("syntax "+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := jsonscan.Members(c.body, func(jsonscan.Member) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("rules "+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Check(Chat, c.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
