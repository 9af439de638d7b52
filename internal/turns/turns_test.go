package turns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
)

// connect serves sessions that answer with what a handler says, and opens one.
func connect(t *testing.T, s *session, old <-chan time.Time, call http.HandlerFunc) *websocket.Conn {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		s.conn, s.request = conn, r
		s.now, s.newID = time.Now, func() string { return "1" }
		s.call = func(w http.ResponseWriter, r *http.Request) error { call(w, r); return nil }
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		s.serve(ctx, cancel, nil, old)
	}))
	t.Cleanup(server.Close)
	c, _, err := websocket.Dial(t.Context(), strings.Replace(server.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	c.SetReadLimit(1 << 20)
	return c
}

// say sends a message and returns the next event.
func say(t *testing.T, c *websocket.Conn, message string) gjson.Result {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	_, event, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(event)
}

const create = `{"type":"response.create","store":false,"input":"x"}`

// A WebSocket that is old ends between two turns, and says why.
func TestAnOldWebSocketEnds(t *testing.T) {
	old := make(chan time.Time, 1)
	c := connect(t, new(session), old, func(w http.ResponseWriter, _ *http.Request) {
		old <- time.Time{} // while a turn is under way
		fmt.Fprint(w, `{"id":"resp_1","output":[]}`)
	})
	if e := say(t, c, create); e.Get("type").Str != "response.completed" {
		t.Errorf("answered %s", e.Raw)
	}
	_, event, err := c.Read(t.Context())
	if err != nil || gjson.GetBytes(event, "error.code").Str != "websocket_connection_limit_reached" {
		t.Errorf("%s, %v", event, err)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("ended with %v", err)
	}
}

// A client that reads nothing ends the WebSocket, and the call that is under way knows why.
func TestAClientThatReadsNothingEndsTheWebSocket(t *testing.T) {
	causes := make(chan error, 1)
	c := connect(t, &session{stallTimeout: 20 * time.Millisecond}, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		event := []byte(`data: {"type":"x","text":"` + strings.Repeat("y", 256) + "\"}\n\n")
		for {
			if _, err := w.Write(event); err != nil {
				break
			}
		}
		<-r.Context().Done()
		causes <- context.Cause(r.Context())
	})
	if err := c.Write(t.Context(), websocket.MessageText, []byte(create)); err != nil {
		t.Fatal(err)
	}
	if err := <-causes; !errors.Is(err, exchange.ErrClientStalled) {
		t.Errorf("the call ended because of %v", err)
	}
}

// What guardrails say of a turn is sent, whether they refuse it or only warn.
func TestWhatGuardrailsSayOfATurnIsTold(t *testing.T) {
	status, body := 246, `{"id":"resp_1","output":[],"hook_results":{"before_request_hooks":[]}}`
	c := connect(t, new(session), nil, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	if e := say(t, c, create); e.Get("type").Str != "response.completed" || !e.Get("response.hook_results").Exists() {
		t.Errorf("answered %s", e.Raw)
	}
	status, body = 446, `{"error":{"type":"hooks_failed","message":"no"},"hook_results":{"before_request_hooks":[]}}`
	if e := say(t, c, create); e.Get("type").Str != "error" || e.Get("status").Int() != 446 || e.Get("error.type").Str != "hooks_failed" || !e.Get("hook_results").Exists() {
		t.Errorf("answered %s", e.Raw)
	}
}

// What a WebSocket holds in memory is its caller's, and is given back.
func TestTheMemoryOfAWebSocketIsLeased(t *testing.T) {
	const limit = 1 << 20
	budget := inflight.New(limit)
	s := new(session)
	s.lease.Open(budget, "w", "k")
	c := connect(t, s, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if text := gjson.GetBytes(body, "input.#").Int(); text > 1 {
			fmt.Fprintf(w, `{"id":"resp_2","output":["%s"]}`, strings.Repeat("x", limit))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"output\":[\"%s\"]}}\n\n", strings.Repeat("x", 50<<10))
	})
	if e := say(t, c, create); e.Get("type").Str != "response.completed" || budget.InUse() < 50<<10 {
		t.Errorf("%d bytes are held after %.100s", budget.InUse(), e.Raw)
	}
	if e := say(t, c, `{"type":"response.create","store":false,"previous_response_id":"resp_1","input":"y"}`); e.Get("error.code").Str != "answer_too_large" {
		t.Errorf("answered %.100s", e.Raw)
	}
	if e := say(t, c, `{"type":"response.create","generate":false}`); e.Get("type").Str != "response.created" {
		t.Errorf("answered %.100s", e.Raw)
	}
	if n := s.lease.Size(); n < 0 || n > 8<<10 {
		t.Errorf("%d bytes are still held", n)
	}
}

func TestWhatAMessageAsksFor(t *testing.T) {
	c := conversation{id: "resp_1", base: `"resp_0"`, items: []byte(`{"role":"user","content":"a"},{"id":"o"}`)}
	for name, row := range map[string]struct{ message, body string }{
		"a text":              {`{"type":"response.create","model":"m","input":"hi"}`, `{"stream":true,"input":[{"role":"user","content":"hi"}],"model":"m"}`},
		"a list":              {`{"type":"response.create","input":[ 1, 2 ]}`, `{"stream":true,"input":[1, 2]}`},
		"no input":            {`{"type":"response.create"}`, `{"stream":true,"input":[]}`},
		"null":                {`{"type":"response.create","input":null,"previous_response_id":null}`, `{"stream":true,"input":[]}`},
		"a stored response":   {`{"type":"response.create","previous_response_id":"resp_9"}`, `{"stream":true,"input":[],"previous_response_id":"resp_9"}`},
		"the latest response": {`{"type":"response.create","input":"b","previous_response_id":"resp_1"}`, `{"stream":true,"input":[{"role":"user","content":"a"},{"id":"o"},{"role":"user","content":"b"}],"previous_response_id":"resp_0"}`},
		"escapes of its id":   {`{"type":"response.create","input":[],"previous_response_id":"resp\u005f1"}`, `{"stream":true,"input":[{"role":"user","content":"a"},{"id":"o"}],"previous_response_id":"resp_0"}`},
		"what is of the wire": {`{"event_id":"e","type":"response.create","stream":false,"background":true,"generate":true,"store":false}`, `{"stream":true,"input":[],"store":false}`},
		"odd names":           {`{"type":"response.create","a\"b":1}`, `{"stream":true,"input":[],"a\"b":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := parse([]byte(row.message))
			if err != nil {
				t.Fatal(err)
			}
			base := c.extend(r)
			if got := string(r.body(base)); got != row.body || !gjson.Valid(got) {
				t.Errorf("got %s, want %s", got, row.body)
			}
		})
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	for _, message := range []string{``, `[]`, `"response.create"`, `{}`, `{"type":"response.cancel"}`, `{"type":"response.create"} {}`, `{"type":"response.create","input":7}`, `{"type":["response.create"]}`} {
		if _, err := parse([]byte(message)); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", message, err)
		}
	}
}

// What is made of a message is valid JSON, and has its members once.
func FuzzMessage(f *testing.F) {
	f.Add(`{"type":"response.create","model":"m","input":"hi","previous_response_id":"resp_1"}`)
	f.Add(`{"type":"response.create","input":[{"a":1}],"store":false,"x":{"y":[1,2]}}`)
	f.Fuzz(func(t *testing.T, message string) {
		r, err := parse([]byte(message))
		if err != nil {
			return
		}
		c := conversation{id: "resp_1", items: []byte(`{"a":1}`)}
		body := string(r.body(c.extend(r)))
		if !gjson.Valid(body) || !gjson.Get(body, "stream").Bool() || !gjson.Get(body, "input").IsArray() {
			t.Errorf("made %s of %s", body, message)
		}
	})
}

// A message that does not go on ends the WebSocket, and holds no memory for longer.
func TestAMessageThatStallsEndsTheWebSocket(t *testing.T) {
	c := connect(t, &session{stallTimeout: time.Millisecond}, nil, func(http.ResponseWriter, *http.Request) { t.Error("called") })
	w, err := c.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(strings.Repeat(" ", 10_000))); err != nil {
		t.Fatal(err)
	}
	_, event, err := c.Read(t.Context())
	if err != nil || gjson.GetBytes(event, "error.code").Str != "message_too_slow" || gjson.GetBytes(event, "status").Int() != 408 {
		t.Errorf("%s, %v", event, err)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("ended with %v", err)
	}
}

// A key of idempotency is that of one call, and not of all that a WebSocket makes.
func TestTurnsHaveNoKeyOfTheHandshake(t *testing.T) {
	t.Parallel()
	handshake := httptest.NewRequest(http.MethodGet, "/v1/responses", nil)
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Gw-Trace-Id"} {
		handshake.Header.Set(name, "k")
	}
	s := &session{request: handshake}
	if h := s.post(t.Context(), []byte("{}"), httptest.NewRecorder()).Header; h["Idempotency-Key"] != nil || h["X-Idempotency-Key"] != nil || h["X-Gw-Trace-Id"] == nil {
		t.Errorf("%v", h)
	}
}
