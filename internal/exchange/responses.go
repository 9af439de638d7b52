package exchange

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/stored"
)

// Remember notes which saved provider has stored a response that the attempt has created. It has
// to be called before the client gets the id. A failure, for the call's record, is not fatal:
// callers can still name the provider.
func (a *Attempt) Remember(id string) (failure string) {
	c := a.call
	if id == "" || a.Route.Inline || a.Noted() || c.Gateway.Responses == nil {
		return ""
	}
	if err := c.Gateway.Responses.Remember(context.WithoutCancel(c.request.Context()), c.Caller.WorkspaceID, id, saved(a.Route)); err != nil {
		return "the response's provider could not be remembered: " + err.Error()
	}
	return ""
}

// recall finds the stored response that a call is about: either StoredResponse is set, or the
// selection gets its provider, if it names none.
func (c *Call) recall(s *credentials.Selection) *credentials.Refusal {
	id := c.responseID()
	if id == "" || len(id) > stored.MaxID || c.Gateway.Responses == nil {
		return nil
	}
	slug, held, err := c.Gateway.Responses.Recall(c.request.Context(), c.Caller.WorkspaceID, id)
	if err != nil {
		return &credentials.Refusal{Reason: credentials.SecretUnavailable, Message: "The stored response cannot be looked up for now", Err: err}
	}
	c.StoredResponse = held
	if slug != "" && s.VirtualKey == "" && s.Provider == "" && s.Config == "" && s.Model == "" {
		s.Provider = "@" + slug
	}
	return nil
}

// responseID is the id of the stored response that a call is about, or "".
func (c *Call) responseID() string {
	rest, ok := strings.CutPrefix(c.Path, "/responses/")
	if !ok || !strings.Contains(c.Endpoint.Path, "{response_id}") {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}
