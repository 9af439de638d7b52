package handlers

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/turns"
)

// serveTurns serves a WebSocket of the Responses API, each of whose messages is a call that begins
// at this handler.
func (l *accessLog) serveTurns(w http.ResponseWriter, r *http.Request, gw calls, stopping <-chan struct{}, stallTimeout time.Duration, call caddyhttp.HandlerFunc) {
	endpoint, _ := exchange.EndpointOf(http.MethodPost, r.URL.Path)
	opened, refusal := gw.Authenticate(r, endpoint)
	if refusal == nil {
		refusal = turns.Serve(w, r, opened, turns.Options{Call: call, Server: l.server, Stopping: stopping, StallTimeout: stallTimeout})
	}
	if refusal != nil { // a call like any other that is refused
		x := gw.Begin(w, r, endpoint)
		defer x.Close()
		x.Fail(w, refusal)
	}
}
