package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// flood writes messages until it cannot any more, without reading.
func flood(t *testing.T, c *websocket.Conn, event string) {
	for c.Write(t.Context(), websocket.MessageText, []byte(event)) == nil {
	}
}

var longEvent = `{"type":"x","text":"` + strings.Repeat("y", 64<<10) + `"}`

// pacedGateway is a gateway whose provider of WebSockets does what serve says.
func pacedGateway(t *testing.T, serve func(c *websocket.Conn)) (*gatewaytest.Gateway, string) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		serve(c)
	})
	g := gatewaytest.New(t, up.Provider("file"))
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\nbody_timeout 200ms\n}"
	g.Load()
	key, _ := g.Key("k")
	return g, key
}

// A client that reads nothing holds neither the connection nor the provider's for longer than a body may
// stand still.
func TestAClientThatReadsNothingEndsTheSession(t *testing.T) {
	ended := make(chan struct{})
	g, key := pacedGateway(t, func(c *websocket.Conn) {
		flood(t, c, longEvent)
		close(ended)
	})
	open(t, g, key) // and nothing is read
	<-ended
	eventually(t, "the record", func() bool { return len(records(t)) == 1 })
	if r := records(t)[0]; !strings.Contains(r.Failure, "the client did not take what it was sent in time") {
		t.Errorf("recorded %q", r.Failure)
	}
}

// Nor does a provider, and the client is told.
func TestAProviderThatReadsNothingEndsTheSession(t *testing.T) {
	left := make(chan struct{})
	g, key := pacedGateway(t, func(*websocket.Conn) { <-left })
	defer close(left)
	c := open(t, g, key)
	go flood(t, c, longEvent)
	_, event, err := c.Read(t.Context())
	if err != nil || !strings.Contains(gjson.GetBytes(event, "error.message").Str, "did not take a message in time") {
		t.Errorf("%s, %v", event, err)
	}
	c.CloseNow()
	eventually(t, "the record", func() bool { return len(records(t)) == 1 })
	if r := records(t)[0]; !strings.Contains(r.Failure, "the provider did not take what it was sent in time") {
		t.Errorf("recorded %q", r.Failure)
	}
}
