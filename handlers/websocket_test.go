package handlers_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A session is a provider of WebSockets, which notes what it is told, and answers each message
// with one that repeats it and the credential of the call. Other paths are a vault's.
type session struct {
	vault
	mu       sync.Mutex
	received []string
}

func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/realtime" {
		s.vault.ServeHTTP(w, r)
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil {
			return
		}
		s.mu.Lock()
		s.received = append(s.received, string(message))
		s.mu.Unlock()
		answer, err := c.Writer(r.Context(), kind)
		if err != nil {
			return
		}
		for _, piece := range []string{`{"key":"`, key[:len(key)/2], key[len(key)/2:], `","heard":`, string(message), `}`} {
			if _, err := answer.Write([]byte(piece)); err != nil { // as a frame of its own
				return
			}
		}
		if answer.Close() != nil {
			return
		}
	}
}

func (s *session) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) == 0 {
		return ""
	}
	return s.received[len(s.received)-1]
}

// sessions is a gateway with a provider that two workspaces share, and their keys.
func sessions(t *testing.T) (g *gatewaytest.Gateway, s *session, keys [2]string) {
	s = &session{vault: vault{objects: make(map[string][]string)}}
	up := gatewaytest.NewUpstream(t, s.ServeHTTP)
	g = gatewaytest.Start(t, up.Provider("file"))
	return g, s, twoWorkspaces(g)
}

// open opens a WebSocket, which is closed at the end of the test.
func open(t *testing.T, g *gatewaytest.Gateway, key string) *websocket.Conn {
	t.Helper()
	c, res, err := dial(t.Context(), g, &websocket.DialOptions{
		HTTPHeader:      http.Header{"X-Gw-Api-Key": {key}, "X-Gw-Provider": {"file"}},
		CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		t.Fatalf("%v: %v", err, res)
	}
	t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(1 << 20)
	return c
}

// say sends a message and returns the answer, or the error with which the WebSocket ends.
func say(t *testing.T, c *websocket.Conn, kind websocket.MessageType, message string) (gjson.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Write(ctx, kind, []byte(message)); err != nil {
		t.Fatal(err)
	}
	_, answer, err := c.Read(ctx)
	if err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	if gjson.GetBytes(answer, "type").Str != "error" {
		return gjson.ParseBytes(answer), nil
	}
	_, _, err = c.Read(ctx)
	return gjson.ParseBytes(answer), err
}

func TestMessagesNameNoObjectsOfOthers(t *testing.T) {
	g, s, keys := sessions(t)
	var files [2]string
	for who, key := range keys {
		files[who] = g.Do("POST", "/v1/files", uploaded, "x-gw-api-key: "+key, "x-gw-provider: file", "content-type:", "content-type: multipart/form-data; boundary=b").Get("id").Str
		if files[who] == "" {
			t.Fatal("no file")
		}
	}
	for name, c := range map[string]struct {
		message string
		refused string // the code
	}{
		"one's own file":                    {`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_image","file_id":"$own"}]}}`, ""},
		"another's file":                    {`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_image","file_id":"$other"}]}}`, "object_not_found"},
		"another's file, in other letters":  {`{"type":"conversation.item.create","item":{"content":[{"FILE_ID":"$other"}]}}`, "object_not_found"},
		"another's file, with escapes":      {`{"item":{"\u0066ile_id":"$other"}}`, "object_not_found"},
		"a prompt":                          {`{"type":"session.update","session":{"prompt":{"id":"pmpt_1"}}}`, "object_not_found"},
		"a custom voice":                    {`{"type":"session.update","session":{"audio":{"output":{"voice":{"id":"voice_1"}}}}}`, "object_not_found"},
		"a voice by its name":               {`{"type":"session.update","session":{"audio":{"output":{"voice":"alloy"}}}}`, ""},
		"another's fine-tuned model":        {`{"type":"session.update","session":{"model":"ft:gpt-realtime:org::1"}}`, "object_not_found"},
		"the session's own model":           {`{"type":"session.update","session":{"model":"gpt-realtime"}}`, ""},
		"another model":                     {`{"type":"session.update","session":{"model":"gpt-realtime-mini"}}`, "model_fixed"},
		"another model of a response":       {`{"type":"response.create","response":{"model":"gpt-realtime-mini"}}`, "model_fixed"},
		"a model that transcribes":          {`{"type":"session.update","session":{"input_audio_transcription":{"model":"whisper-1"}}}`, ""},
		"a model that transcribes and more": {`{"type":"session.update","session":{"model":"whisper-1","input_audio_transcription":{"model":"whisper-1"}}}`, "model_fixed"},
		"one of two sessions":               {`{"session":{"model":"whisper-1"},"session":{"input_audio_transcription":{"model":"whisper-1"}}}`, "model_fixed"},
		"a session in other letters":        {`{"type":"session.update","Session":{"input_audio_transcription":{"model":"whisper-1"}}}`, "model_fixed"},
		"an item of the session":            {`{"type":"response.create","response":{"conversation":"none","input":[{"type":"item_reference","id":"item_1"}]}}`, ""},
		"the approval of a call":            {`{"type":"conversation.item.create","item":{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}}`, ""},
		"a blank before the JSON":           {" \n" + `{"file_id":"$other"}`, "object_not_found"},
		"what is not JSON":                  {`"hello"`, "invalid_message"},
		"no text":                           {`hello $other`, "invalid_message"},
		"JSON that is not valid":            {`{"file_id":"$other",}`, "invalid_json"},
		"two objects":                       {`{} {"file_id":"$other"}`, "invalid_json"},
		"a list":                            {`[{"file_id":"$other"}]`, "invalid_json"},
		"JSON behind a byte order mark":     {"\ufeff" + `{"file_id":"$other"}`, "invalid_message"},
		"a member that begins the document": {`{"file_ids":["$own","$other"]}`, "object_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			message := strings.NewReplacer("$own", files[0], "$other", files[1]).Replace(c.message)
			conn := open(t, g, keys[0])
			answer, err := say(t, conn, websocket.MessageText, message)
			switch {
			case c.refused == "" && (answer.Get("heard").Raw != message || s.last() != message):
				t.Errorf("answered %s", answer.Raw)
			case c.refused != "" && (answer.Get("error.code").Str != c.refused || websocket.CloseStatus(err) != websocket.StatusPolicyViolation):
				t.Errorf("answered %s, %v", answer.Raw, err)
			case c.refused != "" && s.last() == message:
				t.Error("the provider was told")
			}
		})
	}
}

func TestMessagesInBinaryAreRefused(t *testing.T) {
	g, s, keys := sessions(t)
	answer, err := say(t, open(t, g, keys[0]), websocket.MessageBinary, `{"file_id":"f"}`)
	if answer.Get("error.code").Str != "invalid_message" || websocket.CloseStatus(err) != websocket.StatusUnsupportedData || s.last() != "" {
		t.Errorf("answered %s, %v", answer.Raw, err)
	}
}

// What a client sends in fragments is one message, and so is what it gets.
func TestCredentialsInMessagesAreMasked(t *testing.T) {
	g, _, keys := sessions(t)
	c := open(t, g, keys[0])
	for range 3 {
		w, err := c.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range []string{`{"type":`, `"response`, `.create"}`} {
			if _, err := w.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, answer, err := c.Read(t.Context())
		if err != nil || gjson.GetBytes(answer, "heard.type").Str != "response.create" {
			t.Fatalf("%s, %v", answer, err)
		}
		if key := gjson.GetBytes(answer, "key").Str; !strings.Contains(key, "****") {
			t.Errorf("the client was sent %s", answer)
		}
	}
}

// Another model counts like another call, once for each WebSocket.
func TestModelsInMessagesAreLimited(t *testing.T) {
	g, s, keys := sessions(t)
	g.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"name": "transcription", "type": "requests", "unit": "rpd", "value": 2, "workspace_id": "first",
		"conditions": []map[string]string{{"key": "model", "value": "gpt-4o-transcribe"}}, "group_by": []map[string]string{{"key": "api_key"}},
	})
	const message = `{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"gpt-4o-transcribe"}}}}}`
	for n := range 3 {
		c := open(t, g, keys[0])
		for range 2 {
			answer, err := say(t, c, websocket.MessageText, message)
			if n < 2 && answer.Get("heard").Raw == message {
				continue
			}
			if n < 2 || answer.Get("error.type").Str != "rate_limits_policy_exhaust_error" || websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
				t.Errorf("WebSocket %d: %s, %v", n, answer.Raw, err)
			}
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) != 4 {
		t.Errorf("the provider was told %d messages, want 4", len(s.received))
	}
}

// What a session used is in its record, and in budgets, once it has ended.
func TestSessionsAreMetered(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			if _, _, err := c.Read(r.Context()); err != nil {
				return
			}
			for _, event := range []string{
				`{"type":"response.output_text.delta","delta":"\"type\":\"response.done\""}`,
				`{"type":"response.done","response":{"id":"r","usage":{"total_tokens":60,"input_tokens":25,"output_tokens":35,"input_token_details":{"cached_tokens":10}}}}`,
			} {
				if c.Write(r.Context(), websocket.MessageText, []byte(event)) != nil {
					return
				}
			}
		}
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/policies/usage-limits", map[string]any{"type": "tokens", "credit_limit": 120, "group_by": []any{map[string]any{"key": "api_key"}}})
	c := open(t, g, key)
	for range 2 {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create"}`)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, _, err := c.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record", func() bool { return len(records(t)) == 1 })
	if r := records(t)[0]; r.PromptTokens != 50 || r.CompletionTokens != 70 || r.CacheRead != 20 {
		t.Errorf("recorded %+v", r)
	}
	_, res, err := dial(t.Context(), g, &websocket.DialOptions{HTTPHeader: http.Header{"X-Gw-Api-Key": {key}, "X-Gw-Provider": {"file"}}})
	if err == nil || res == nil || res.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("another session of a spent budget: %v, %v", res, err)
	}
}

// A session that the client ends before its response is done is booked by what came, as a stream is.
func TestSessionsThatAreCutAreBooked(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			if _, _, err := c.Read(r.Context()); err != nil {
				return
			}
			for _, event := range []string{`{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_text.delta","response_id":"r","delta":"` + strings.Repeat("word ", 200) + `"}`} {
				if c.Write(r.Context(), websocket.MessageText, []byte(event)) != nil {
					return
				}
			}
		}
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 100_000})
	c := open(t, g, key)
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create"}`)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := c.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseNow()
	eventually(t, "the record", func() bool { return len(records(t)) == 1 })
	eventually(t, "the booking", func() bool {
		used := g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Int()
		return used == 257 // 1,002 bytes of text, and 26 that were asked
	})
}

// A session goes on only while its caller may call, and while its budget has room for what it uses.
func TestASessionEndsWithWhatItNeeds(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			if _, _, err := c.Read(r.Context()); err != nil {
				return
			}
			const done = `{"type":"response.done","response":{"id":"r","usage":{"total_tokens":60,"input_tokens":25,"output_tokens":35}}}`
			if c.Write(r.Context(), websocket.MessageText, []byte(done)) != nil {
				return
			}
		}
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	for name, row := range map[string]struct {
		ends func(key, id string)
		code string // of the error
		fits int    // responses
	}{
		"its key is deleted": {func(_, id string) { g.Admin("DELETE", "/v1/api-keys/"+id, nil) }, "03", 1},
		"its budget has no room": {func(key, _ string) {
			g.Admin("POST", "/v1/policies/usage-limits", map[string]any{"type": "tokens", "credit_limit": 130, "conditions": when("api_key", key)})
		}, "06", 2},
	} {
		t.Run(name, func(t *testing.T) {
			key, id := g.Key("k " + row.code)
			if row.fits > 1 {
				row.ends(id, id)
			}
			c := open(t, g, key)
			for i := range row.fits {
				answer, err := say(t, c, websocket.MessageText, `{"type":"response.create"}`)
				if err != nil || answer.Get("type").Str != "response.done" {
					t.Fatalf("response %d: %s, %v", i, answer.Raw, err)
				}
			}
			if row.fits == 1 {
				row.ends(id, id)
			}
			var last gjson.Result
			var err error
			for n := 0; last.Get("type").Str != "error"; n++ { // those that were made before it ended
				if last, err = say(t, c, websocket.MessageText, `{"type":"response.create"}`); n > 1000 {
					t.Fatal("the session goes on")
				}
			}
			if code := last.Get("error.code").Str; code != row.code || websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("it ended with %s, %v", last.Raw, err)
			}
		})
	}
}

// What a model of a session's transcriptions used counts for the policies of that model, and for no other's.
func TestTranscriptionsOfASessionAreBookedByTheirModel(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			if _, _, err := c.Read(r.Context()); err != nil {
				return
			}
			const event = `{"type":"conversation.item.input_audio_transcription.completed","usage":{"type":"tokens","total_tokens":26,"input_tokens":17,"output_tokens":9}}`
			if c.Write(r.Context(), websocket.MessageText, []byte(event)) != nil {
				return
			}
		}
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	ids := make(map[string]string)
	for _, model := range []string{"gpt-realtime", "gpt-4o-transcribe"} {
		ids[model] = usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 100_000, "conditions": when("model", model)})
	}
	c := open(t, g, key)
	for range 2 {
		answer, err := say(t, c, websocket.MessageText, `{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"gpt-4o-transcribe"}}}}}`)
		if err != nil {
			t.Fatal(answer.Raw, err)
		}
	}
	c.CloseNow()
	eventually(t, "the record", func() bool { return len(records(t)) == 1 })
	used := func(model string) int64 {
		return g.Admin("GET", "/v1/policies/usage-limits/"+ids[model]+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Int()
	}
	eventually(t, "the booking", func() bool { return used("gpt-4o-transcribe") == 52 })
	if n := used("gpt-realtime"); n != 0 {
		t.Errorf("%d tokens of the session's own model", n)
	}
}

// A message that does not go on ends the WebSocket, as a request body that does not is refused.
func TestAMessageThatStallsEndsTheSession(t *testing.T) {
	s := &session{vault: vault{objects: make(map[string][]string)}}
	up := gatewaytest.NewUpstream(t, s.ServeHTTP)
	g := gatewaytest.New(t, up.Provider("file"))
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\nbody_timeout 100ms\n}"
	g.Load()
	key, _ := g.Key("k")
	c := open(t, g, key)
	w, err := c.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(`{"type":"` + strings.Repeat("x", 10_000))); err != nil {
		t.Fatal(err)
	}
	_, event, err := c.Read(t.Context())
	if err != nil || gjson.GetBytes(event, "error.type").Str != "timeout_error" {
		t.Errorf("%s, %v", event, err)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("ended with %v", err)
	}
}
