package exchange

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/stored"
)

// Remember notes which saved provider holds a response that the call has made. It
// must be known before the client can ask for it. A failure is logged by whoever
// forwards: the response can still be had by naming its provider.
func (x *Exchange) Remember(id string) {
	route := x.Latest().Route
	if id == "" || x.Adapted || route.Inline || x.Noted() || x.Gateway.Responses == nil {
		return
	}
	if err := x.Gateway.Responses.Remember(context.WithoutCancel(x.request.Context()), x.Caller.WorkspaceID, id, saved(route)); err != nil {
		x.Failure = "the response's provider could not be remembered: " + err.Error()
	}
}

// recall finds the stored response that a call is about: it is in Held, or the selection
// is completed where it names no provider.
func (g *Gateway) recall(x *Exchange, s *credentials.Selection) *credentials.Refusal {
	id := x.responseID()
	if id == "" || len(id) > stored.MaxID || g.Responses == nil {
		return nil
	}
	slug, held, err := g.Responses.Recall(x.request.Context(), x.Caller.WorkspaceID, id)
	if err != nil {
		return &credentials.Refusal{Reason: credentials.SecretUnavailable, Message: "The stored response cannot be looked up for now", Err: err}
	}
	x.Held = held
	if slug != "" && s.VirtualKey == "" && s.Provider == "" && s.Config == "" && s.Model == "" {
		s.Provider = "@" + slug
	}
	return nil
}

// responseID is the stored response that a call is about, or "".
func (x *Exchange) responseID() string {
	rest, ok := strings.CutPrefix(x.Path, "/responses/")
	if !ok || !strings.Contains(x.Endpoint.Path, "{response_id}") {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}
