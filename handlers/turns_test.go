package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// responder is a provider of the Responses API, which streams. The text of each response is the
// number of items of its input; a model called broken has no more quota.
func responder(t *testing.T) *gatewaytest.Upstream {
	n := 0
	var up *gatewaytest.Upstream
	up = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		body := up.Last(t).Body
		if gjson.Get(body, "model").Str == "broken" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"message":"no quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`)
			return
		}
		n++
		id := fmt.Sprintf("resp_%d", n)
		output := fmt.Sprintf(`[{"type":"message","id":"msg_%d","role":"assistant","status":"completed","content":[{"type":"output_text","text":"%d items","annotations":[]}]}]`, n, gjson.Get(body, "input.#").Int())
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"type":"response.created","sequence_number":0,"response":{"id":"` + id + `","object":"response","status":"in_progress","model":"m","output":[]}}`,
			`{"type":"response.completed","sequence_number":1,"response":{"id":"` + id + `","object":"response","status":"completed","model":"m","output":` + output + `,"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}`,
		} {
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", gjson.Get(event, "type").Str, event)
			_ = http.NewResponseController(w).Flush()
		}
	})
	return up
}

// openResponses opens a WebSocket of the Responses API.
func openResponses(t *testing.T, g *gatewaytest.Gateway, o *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	c, res, err := websocket.Dial(t.Context(), strings.Replace(g.URL, "http", "ws", 1)+"/v1/responses", o)
	if err == nil {
		t.Cleanup(func() { c.CloseNow() })
		c.SetReadLimit(1 << 20)
	}
	return c, res, err
}

// turn sends a message and returns the last event of its answer.
func turn(t *testing.T, c *websocket.Conn, message string) gjson.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	for {
		_, event, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("%s: %v", message, err)
		}
		switch e := gjson.ParseBytes(event); e.Get("type").Str {
		case "error", "response.completed":
			return e
		}
	}
}

func TestResponsesOverAWebSocket(t *testing.T) {
	up := responder(t)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	c, _, err := openResponses(t, g, &websocket.DialOptions{HTTPHeader: http.Header{
		"Authorization": {"Bearer " + key}, "X-Gw-Provider": {"file"}, "Openai-Beta": {"responses_websockets=2026-02-06, agents=v1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	text := func(e gjson.Result) string { return e.Get("response.output.0.content.0.text").Str }
	ask := func(members string) gjson.Result {
		return turn(t, c, `{"type":"response.create","model":"m",`+members+`}`)
	}

	// A response that is not stored is remembered by the WebSocket, with all before it.
	first := ask(`"store":false,"input":"one"`)
	second := ask(`"store":false,"previous_response_id":"` + first.Get("response.id").Str + `","input":[{"role":"user","content":"two"}]`)
	third := ask(`"store":false,"previous_response_id":"` + second.Get("response.id").Str + `","input":[{"role":"user","content":"three"},{"role":"user","content":"four"}]`)
	if text(first) != "1 items" || text(second) != "3 items" || text(third) != "6 items" {
		t.Errorf("answered %s, %s, %s", first.Raw, second.Raw, third.Raw)
	}
	sent := gjson.Parse(up.Last(t).Body)
	if sent.Get("type").Exists() || sent.Get("previous_response_id").Exists() || !sent.Get("stream").Bool() || sent.Get("input.0.content").Str != "one" || sent.Get("input.5.content").Str != "four" {
		t.Errorf("the provider was sent %s", sent.Raw)
	}
	if beta := up.Last(t).Header["Openai-Beta"]; len(beta) != 1 || beta[0] != "agents=v1" {
		t.Errorf("the provider was sent the betas %q", beta)
	}

	// What the client asks to be prepared costs no call.
	before := len(up.Calls())
	prepared := ask(`"generate":false,"input":"first"`)
	if id := prepared.Get("response.id").Str; id == "" || len(up.Calls()) != before {
		t.Fatalf("prepared %s with %d calls", prepared.Raw, len(up.Calls())-before)
	}
	if e := ask(`"store":false,"previous_response_id":"` + prepared.Get("response.id").Str + `","input":"second"`); text(e) != "2 items" {
		t.Errorf("answered %s", e.Raw)
	}

	// Errors are events, and the WebSocket stays open.
	for message, want := range map[string]string{
		`{"type":"response.create","model":"broken","input":"x"}`:    "429 insufficient_quota",
		`{"type":"response.create","model":"m","input":7}`:           "400 invalid_message",
		`{"type":"response.create","model":"m","temperature":"hot"}`: "400 invalid_type",
		`{"type":"session.update"}`:                                  "400 invalid_message",
		`{"type":"response.create"`:                                  "400 invalid_message",
	} {
		if e := turn(t, c, message); fmt.Sprint(e.Get("status").Int(), " ", e.Get("error.code").Str) != want {
			t.Errorf("%s: answered %s, want %s", message, e.Raw, want)
		}
	}
	if e := ask(`"input":"and on"`); text(e) != "1 items" {
		t.Errorf("answered %s", e.Raw)
	}

	// Each message is a call with a record of its own, and no other is.
	eventually(t, "a record of each call", func() bool { return len(records(t)) == len(up.Calls()) })
}

func TestAWebSocketOfResponsesIsLimitedByMessage(t *testing.T) {
	up := responder(t)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"type": "requests", "unit": "rpd", "value": 2, "conditions": []any{map[string]any{"key": "model", "value": "m"}}, "group_by": []any{map[string]any{"key": "api_key"}},
	})
	c, _, err := openResponses(t, g, &websocket.DialOptions{HTTPHeader: http.Header{"X-Gw-Api-Key": {key}, "X-Gw-Provider": {"file"}}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		e := turn(t, c, `{"type":"response.create","model":"m","input":"x"}`)
		if refused := e.Get("status").Int() == 429; refused != (n == 2) {
			t.Errorf("message %d: %s", n, e.Raw)
		}
	}
	if len(up.Calls()) != 2 {
		t.Errorf("%d calls, want 2", len(up.Calls()))
	}
}

func TestAWebSocketOfResponsesNeedsAKey(t *testing.T) {
	up := responder(t)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, id := g.Key("k")
	_, res, err := openResponses(t, g, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer gw-nobody"}, "X-Gw-Provider": {"file"}}})
	if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("opened: %v, %v", res, err)
	}
	// From a page of any origin, as browsers send it.
	c, _, err := openResponses(t, g, &websocket.DialOptions{
		HTTPHeader:   http.Header{"Origin": {"https://elsewhere.example"}, "X-Gw-Provider": {"file"}},
		Subprotocols: []string{"realtime", "openai-insecure-api-key." + key},
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := turn(t, c, `{"type":"response.create","model":"m","input":"x"}`); e.Get("type").Str != "response.completed" {
		t.Errorf("answered %s", e.Raw)
	}
	// A key that is gone opens nothing any more, on a WebSocket that is open too.
	g.Admin("DELETE", "/v1/api-keys/"+id, nil)
	if e := turn(t, c, `{"type":"response.create","model":"m","input":"x"}`); e.Get("status").Int() != 401 {
		t.Errorf("answered %s", e.Raw)
	}
}

// After a reload the client connects again: the old configuration answers no more calls.
func TestAWebSocketOfResponsesEndsWithItsConfiguration(t *testing.T) {
	up := responder(t)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	c, _, err := openResponses(t, g, &websocket.DialOptions{HTTPHeader: http.Header{"X-Gw-Api-Key": {key}, "X-Gw-Provider": {"file"}}})
	if err != nil {
		t.Fatal(err)
	}
	turn(t, c, `{"type":"response.create","model":"m","input":"x"}`)
	g.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, _, err := c.Read(ctx); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("ended with %v", err)
	}
}
