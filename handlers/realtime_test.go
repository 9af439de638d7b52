package handlers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

const bye = `{"say":"bye"}`

// realtime is a provider that sends every message back, marked.
func realtime(t *testing.T, start func(testing.TB, http.HandlerFunc) *gatewaytest.Upstream) *gatewaytest.Upstream {
	return start(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}})
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if string(message) == bye {
				c.Close(websocket.StatusNormalClosure, "bye")
				return
			}
			if c.Write(r.Context(), kind, append([]byte("heard "), message...)) != nil {
				return
			}
		}
	})
}

func dial(ctx context.Context, g *gatewaytest.Gateway, o *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(ctx, strings.Replace(g.URL, "http", "ws", 1)+"/v1/realtime?model=gpt-realtime", o)
}

func TestRealtimeGoesThroughTheSameDoor(t *testing.T) {
	mustPassMessages(t, realtime(t, gatewaytest.NewUpstream))
}

// A provider that speaks HTTP/2 is asked for a WebSocket over HTTP/1.1.
func TestRealtimeGoesToProvidersThatSpeakHTTP2(t *testing.T) {
	mustPassMessages(t, realtime(t, gatewaytest.NewHTTP2Upstream))
}

func mustPassMessages(t *testing.T, up *gatewaytest.Upstream) {
	t.Helper()
	g := gatewaytest.New(t, up.Provider("file"))
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\ntransport {\ntls_insecure_skip_verify\n}\n}"
	g.Load()
	key, _ := g.Key("k")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	for name, o := range map[string]*websocket.DialOptions{
		"a key in the header": {
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + key}, "X-Gw-Provider": {"file"}},
			Subprotocols: []string{"realtime"},
		},
		"a key among the protocols, as browsers send it": {
			HTTPHeader:   http.Header{"X-Gw-Provider": {"file"}},
			Subprotocols: []string{"realtime", "openai-insecure-api-key." + key},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, res, err := dial(ctx, g, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseNow()
			if c.Subprotocol() != "realtime" || res.Header.Get("X-Gw-Trace-Id") == "" {
				t.Errorf("protocol %q, headers %v", c.Subprotocol(), res.Header)
			}
			if err := c.Write(ctx, websocket.MessageText, []byte(`{"say":"this"}`)); err != nil {
				t.Fatal(err)
			}
			if _, message, err := c.Read(ctx); err != nil || string(message) != `heard {"say":"this"}` {
				t.Errorf("read %q, %v", message, err)
			}
			if err := c.Write(ctx, websocket.MessageText, []byte(bye)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("closed with %v", err)
			}
			sent := up.Last(t)
			for k, vs := range sent.Header {
				if strings.Contains(strings.Join(vs, ","), key) {
					t.Errorf("the provider was sent the caller's key in %s", k)
				}
			}
			if sent.Header.Get("Authorization") == "" || sent.Query != "model=gpt-realtime" {
				t.Errorf("sent %q %v", sent.Query, sent.Header)
			}
		})
	}
}

// stream_close_delay keeps them open; by default for five minutes.
func TestWebSocketsOutliveAReload(t *testing.T) {
	up := realtime(t, gatewaytest.NewUpstream)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := dial(ctx, g, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + key}, "X-Gw-Provider": {"file"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for _, text := range []string{`{"say":"before"}`, `{"say":"after"}`, `{"say":"after another"}`} {
		if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(text, err)
		}
		if _, heard, err := c.Read(ctx); err != nil || string(heard) != "heard "+text {
			t.Fatalf("%s: %q, %v", text, heard, err)
		}
		g.Load()
	}
}

func TestRealtimeIsRefusedLikeAnyCall(t *testing.T) {
	up := realtime(t, gatewaytest.NewUpstream)
	g := gatewaytest.Start(t, up.Provider("file"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, res, err := dial(ctx, g, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer nobody"}, "X-Gw-Provider": {"file"}}})
	if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%v %v", res, err)
	}
	body := make([]byte, 1024)
	n, _ := res.Body.Read(body)
	if gjson.GetBytes(body[:n], "error.code").String() == "" {
		t.Errorf("refused with %s", body[:n])
	}
	if len(up.Calls()) != 0 {
		t.Error("the provider was called")
	}
}
