package exchange

import (
	"cmp"
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
)

// Authenticate returns the call of a request of which only the caller is known, which needs no
// exchange: the request is the handshake of a WebSocket whose messages are the calls.
func (g *Gateway) Authenticate(r *http.Request, endpoint *Endpoint) (*Call, *Error) {
	c := &Call{Gateway: g, Endpoint: endpoint, request: r}
	if _, err := c.authenticate(); err != nil {
		return nil, err
	}
	return c, nil
}

// Lease opens leases of a caller that was authenticated: of one call under way, and of memory,
// which is none yet. Both are closed by the caller.
func (c *Call) Lease(slot, memory *inflight.Lease) *Error {
	slot.Open(c.Gateway.Calls, c.Caller.WorkspaceID, c.Caller.CountedAs)
	if err := slot.Grow(1); err != nil {
		return tooManyCalls(err)
	}
	memory.Open(c.Gateway.InFlight, c.Caller.WorkspaceID, c.Caller.CountedAs)
	return nil
}

// authenticate says who calls, and what the headers say of where the call goes.
func (c *Call) authenticate() (selection credentials.Selection, _ *Error) {
	r := c.request
	if err := c.refuseLoop(); err != nil {
		return selection, err
	}
	if name := c.Gateway.Headers.KeyInQuery(r.URL.RawQuery, c.Gateway.Authenticator); name != "" {
		return selection, badRequest(name, "key_in_query", name+": the query holds a service key, which URLs give away; send it as the header x-gw-api-key, and replace the key")
	}
	token, selection, refusal := c.Gateway.read(r.Header)
	if refusal != nil {
		return selection, CredentialError(refusal)
	}
	if c.Caller, refusal = c.Gateway.Authenticator.AuthenticateCall(token, cmp.Or(c.Endpoint.Scope, credentials.ScopeCompletions)); refusal != nil {
		return selection, CredentialError(refusal)
	}
	if bearer := selection.Bearer; !bearer.Empty() && c.Gateway.Authenticator.Knows(bearer.Reveal()) {
		return selection, CredentialError(&credentials.Error{
			Reason: credentials.AmbiguousHeader, Field: "authorization",
			Message: "authorization has a second service key, which goes to no provider: send one service key, and as the bearer the provider's credential",
		})
	}
	return selection, nil
}
