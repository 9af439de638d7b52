package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// asStream is a body that asks for a stream.
func asStream(body string) string { return strings.Replace(body, "{", `{"stream":true,`, 1) }

const (
	askMessage  = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	askResponse = `{"model":"m","input":"hi"}`
	askText     = `{"model":"m","prompt":"hi"}`
	askImage    = `{"model":"m","prompt":"hi"}`
	askSpeech   = `{"model":"m","input":"hi","voice":"v","stream_format":"sse"}`
)

// A stream that fails before anything of it was sent is an HTTP error, whatever the endpoint: the
// official clients try again by the status.
func TestAStreamOfWhichNothingWasSentIsAnHTTPError(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	created := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n"
	begun := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n"
	for name, events := range map[string]string{
		"openai's":      "data: " + overloaded + "\n\n",
		"a number":      `data: {"error":{"message":"slow down","code":429}}` + "\n\n",
		"anthropic's":   "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		"behind others": ": hi\n\n" + begun + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n",
		"responses'":    "event: error\ndata: {\"type\":\"error\",\"code\":\"insufficient_quota\",\"message\":\"no money\"}\n\n",
		"a failure":     created + "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}}}\n\n",
		"CR":            "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\r\r",
		"unended":       `data: {"error":{"message":"slow down","code":429}}`,
		"nothing":       "",
		"comments":      ": hi\n\n",
		"half":          "data: {\"id\":",
	} {
		l.on(name, stream(events))
	}
	l.on("json", respond(200, `{"error":{"message":"slow down","code":429}}`))
	status := map[string]int{
		"openai's": 502, "a number": 429, "anthropic's": 529, "behind others": 429, "responses'": 429, "a failure": 429,
		"CR": 429, "unended": 429, "nothing": 502, "comments": 502, "half": 502, "json": 429,
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": gatewaytest.Chat, "/v1/completions": askText, "/v1/messages": askMessage, "/v1/responses": askResponse,
		"/v1/images/generations": askImage, "/v1/audio/speech": askSpeech, "/v1/assistants": `{"model":"m"}`,
	} {
		for name, want := range status {
			if name == "json" && path == "/v1/assistants" { // it passes as it is
				continue
			}
			target := `{"provider":"@bad"}`
			if path == "/v1/messages" {
				target = `{"provider":"anthropic","api_key":"sk","custom_host":"` + l.bad.URL + `/v1"}`
			}
			for _, route := range []string{"x-gw-config: " + target, "x-gw-config: " + strings.TrimSuffix(target, "}") + `,"retry":{"attempts":1,"on_status_codes":[400]}}`} {
				a, err := l.ask("POST", path, asStream(body), cue+name, route)
				if err != nil || a.Status != want || a.Header.Get("Content-Type") != "application/json" || strings.Contains(a.Body, "data:") {
					t.Errorf("%s, %s, %s: %d %v %q, %v", path, name, route, a.Status, a.Header["Content-Type"], a.Body, err)
				}
				if message := a.Get("error.message"); message.Str == "" && path != "/v1/assistants" {
					t.Errorf("%s, %s: %s", path, name, a.Body)
				}
				if path == "/v1/messages" && a.Get("type").Str != "error" {
					t.Errorf("%s: %s", name, a.Body)
				}
			}
		}
	}
}

// So it is where the stream is translated.
func TestATranslatedStreamOfWhichNothingWasSentIsAnHTTPError(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("error", stream("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"))
	l.on("nothing", stream())
	l.on("chat error", stream("data: {\"error\":{\"message\":\"slow\",\"code\":\"rate_limit_exceeded\"}}\n\n"))
	anthropic := `{"provider":"anthropic","api_key":"sk","custom_host":"` + l.bad.URL + `/v1"}`
	for _, c := range []struct {
		path, body, config, cue string
		status                  int
	}{
		{"/v1/chat/completions", gatewaytest.Chat, anthropic, "error", 529},
		{"/v1/responses", askResponse, anthropic, "error", 529},
		{"/v1/chat/completions", gatewaytest.Chat, anthropic, "nothing", 502},
		{"/v1/responses", askResponse, anthropic, "nothing", 502},
		{"/v1/messages", askMessage, `{"provider":"groq","api_key":"sk","custom_host":"` + l.bad.URL + `/v1"}`, "chat error", 429},
	} {
		a, err := l.ask("POST", c.path, asStream(c.body), cue+c.cue, "x-gw-config: "+c.config)
		if err != nil || a.Status != c.status || a.Header.Get("Content-Type") != "application/json" || a.Get("error.message").Str == "" {
			t.Errorf("%s, %s: %d %s, %v", c.path, c.cue, a.Status, a.Body, err)
		}
	}
}

// A provider that streams when nobody asked, or that does not when somebody did, is converted.
func TestAnswersComeInTheFormThatWasAskedFor(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	message := `{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}`
	response := `{"id":"resp_1","object":"response","status":"completed","model":"c","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hello","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`
	completion := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	text := `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"hello","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	named := func(events ...string) http.HandlerFunc {
		var all string
		for _, e := range events {
			name, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
			all += "event: " + name + "\ndata: " + e + "\n\n"
		}
		return stream(all)
	}
	for name, c := range map[string]struct {
		path, body, whole string
		streamed          http.HandlerFunc
		text              string // where the text is
	}{
		"chat": {"/v1/chat/completions", gatewaytest.Chat, completion, stream(role, hello, stopped, spent, done), "choices.0.message.content"},
		"text": {"/v1/completions", askText, text, stream(`data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":"hello","finish_reason":"stop"}]}`+"\n\n", done), "choices.0.text"},
		"messages": {"/v1/messages", askMessage, message, named(
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`,
		), "content.0.text"},
		"responses": {"/v1/responses", askResponse, response, named(
			`{"type":"response.created","response":{"id":"resp_1"},"sequence_number":0}`,
			`{"type":"response.output_text.delta","delta":"hello","sequence_number":1}`, `{"type":"response.completed","response":`+response+`,"sequence_number":2}`,
		), "output.0.content.0.text"},
	} {
		l.on("whole "+name, respond(200, c.whole))
		l.on("streamed "+name, c.streamed)
		target := `{"provider":"@bad"}`
		if name == "messages" {
			target = `{"provider":"anthropic","api_key":"sk","custom_host":"` + l.bad.URL + `/v1"}`
		}
		for _, route := range []string{"x-gw-config: " + target, `x-gw-config: {"strategy":{"mode":"fallback"},"targets":[` + target + `,{"provider":"@good"}]}`} {
			a, err := l.ask("POST", c.path, c.body, cue+"streamed "+name, route)
			if err != nil || a.Status != 200 || a.Header.Get("Content-Type") != "application/json" || a.Get(c.text).Str != "hello" {
				t.Errorf("%s, one piece of a stream: %d %v %s, %v", name, a.Status, a.Header["Content-Type"], a.Body, err)
			}
			a, err = l.ask("POST", c.path, asStream(c.body), cue+"whole "+name, route)
			if err != nil || a.Status != 200 || a.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(a.Body, "hello") || strings.Contains(a.Body, "\n\n\n") ||
				!strings.HasSuffix(a.Body, "\n\n") || strings.HasPrefix(a.Body, "event:") != (name == "messages" || name == "responses") || strings.HasSuffix(a.Body, done) != (name == "chat" || name == "text") {
				t.Errorf("%s, a stream of one piece: %d %v %q, %v", name, a.Status, a.Header["Content-Type"], a.Body, err)
			}
		}
	}
	// The other side of a translation, too.
	l.on("message", respond(200, message))
	a, err := l.ask("POST", "/v1/chat/completions", streamedChat, cue+"message", `x-gw-config: {"provider":"anthropic","api_key":"sk","custom_host":"`+l.bad.URL+`/v1"}`)
	if err != nil || a.Status != 200 || a.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(a.Body, `"content":"hello"`) || !strings.HasSuffix(a.Body, done) {
		t.Errorf("translated: %d %q, %v", a.Status, a.Body, err)
	}
	// What fails on the way is an error.
	l.on("breaks", stream(role, hello))
	l.on("fails", stream(role, hello, "data: "+overloaded+"\n\n"))
	for name, want := range map[string]int{"breaks": 502, "fails": 502} {
		if a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+name, "x-gw-provider: bad"); err != nil || a.Status != want || a.Get("error.message").Str == "" {
			t.Errorf("%s: %d %s, %v", name, a.Status, a.Body, err)
		}
	}
}
