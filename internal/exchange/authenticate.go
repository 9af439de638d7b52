package exchange

import (
	"cmp"
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
)

// Authenticate returns the call of a request with nothing but its caller, which needs no
// exchange: the request is the handshake of a WebSocket whose messages are the calls.
func (g *Gateway) Authenticate(r *http.Request, endpoint *Endpoint) (*Call, *Error) {
	c := &Call{Gateway: g, Endpoint: endpoint}
	c.attach(nil, r)
	p := preparation{Call: c}
	if _, err := p.authenticate(); err != nil {
		return nil, err
	}
	return c, nil
}

// authenticateAgain returns why the caller of a call that goes on would be refused now: its key was deleted or has expired, or lacks the
// scope now.
func (c *Call) authenticateAgain() *Error {
	token, _, refusal := c.Gateway.read(c.request.Header)
	if refusal == nil {
		var now *credentials.Caller
		if now, refusal = c.Gateway.Authenticator.AuthenticateCall(token, cmp.Or(c.Endpoint.Scope, credentials.ScopeCompletions), c.Endpoint.OtherScopes...); refusal == nil && now.WorkspaceID != c.Caller.WorkspaceID {
			refusal = &credentials.Error{Reason: credentials.InvalidKey, Field: "x-gw-api-key", Message: "The key belongs to another workspace now"}
		}
	}
	if refusal != nil {
		return CredentialError(refusal)
	}
	return nil
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
func (p *preparation) authenticate() (selection credentials.Selection, _ *Error) {
	r := p.request
	if err := p.refuseLoop(); err != nil {
		return selection, err
	}
	if name := p.Gateway.Headers.KeyInQuery(r.URL.RawQuery, p.Gateway.Authenticator); name != "" {
		return selection, badRequest(name, "key_in_query", name+": the query holds a service key, which URLs give away; send it as the header x-gw-api-key, and replace the key")
	}
	token, selection, refusal := p.Gateway.read(r.Header)
	if refusal != nil {
		return selection, CredentialError(refusal)
	}
	if p.Caller, refusal = p.Gateway.Authenticator.AuthenticateCall(token, cmp.Or(p.Endpoint.Scope, credentials.ScopeCompletions), p.Endpoint.OtherScopes...); refusal != nil {
		return selection, CredentialError(refusal)
	}
	if bearer := selection.Bearer; !bearer.Empty() && p.Gateway.Authenticator.Knows(bearer.Reveal()) {
		return selection, CredentialError(&credentials.Error{
			Reason: credentials.AmbiguousHeader, Field: "authorization",
			Message: "authorization has a second service key, which goes to no provider: send one service key, and as the bearer the provider's credential",
		})
	}
	return selection, nil
}
