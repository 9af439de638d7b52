package inference

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
)

// noToken stands for a token in a request that is not sent.
var noToken = credentials.NewSecret("none")

// login gets the token of the call's provider, if it wants one that the credential is not
// itself. A request that is not to be sent needs none.
func (f *Forwarder) login(ctx context.Context, q *request, t *routing.Target, call *providers.Call, send bool) *exchange.Error {
	if call.Provider.Login == nil {
		return nil
	}
	l, err := call.Provider.Login(call)
	if err != nil {
		return refused(err)
	}
	if l == nil {
		return nil
	}
	route := q.target.Route
	if route.Inline && route.CustomHost && t.Selection().CustomHost == "" && savedIn(t, l) {
		return refused(&providers.RequestError{Param: "x-gw-custom-host", Code: "invalid_custom_host", Message: "Invalid custom host: " +
			"the config's own login goes only where the config says; drop x-gw-custom-host or send your own credential"})
	}
	g, err := f.client.Grant(route, l)
	if err != nil {
		return refused(err)
	}
	if !send { // it may be answered from the cache, for which no token is needed
		call.Token, q.unsigned = noToken, true
		return nil
	}
	call.Token, err = f.client.Token(ctx, g, route.Provider, q.call.Caller.WorkspaceID)
	return loginFailed(route.Provider, err)
}

// savedIn reports whether the secret of a login is one of the target's.
func savedIn(t *routing.Target, l *providers.Login) bool {
	return slices.ContainsFunc(t.Vendor, func(s routing.Setting) bool {
		v := s.Value.Reveal()
		return v != "" && (v == string(l.ServiceAccount) || v == l.ClientSecret.Reveal() || l.Role != nil && v == l.Role.Keys.SecretAccessKey)
	})
}

// loginFailed turns a failure to get a token into what the client sees.
func loginFailed(provider string, err error) *exchange.Error {
	var failure *upstream.LoginError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, upstream.ErrLogins):
		return exchange.Unavailable("The gateway is logging in to as many accounts as it may at once; try again", err)
	case !errors.As(err, &failure):
		return refused(err)
	}
	e := &exchange.Error{
		Status: http.StatusBadGateway, Type: "provider_error", Code: "login_failed",
		Message: "Provider " + provider + " could not be logged in to: " + failure.Error(),
	}
	switch {
	case failure.Status == http.StatusBadRequest, failure.Status == http.StatusUnauthorized, failure.Status == http.StatusForbidden:
		e.Status, e.Type = http.StatusUnauthorized, "authentication_error"
	case errors.Is(failure, context.Canceled):
	case failure.Timeout():
		e.Status, e.Code = http.StatusGatewayTimeout, "provider_timeout"
	case failure.Err != nil:
		e.Status, e.Code = http.StatusServiceUnavailable, "provider_unreachable"
	}
	return e
}
