package exchange

import (
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
)

// integrate holds an attempt to what the integration of its provider says of the model, and
// sends it where that model is.
func (c *Call) integrate(a *Attempt) *Error {
	if !a.Route.Ruled() {
		return nil
	}
	if c.mayHaveOther(a.Model) {
		return c.RefuseUnread("the integration of the provider allows only some models")
	}
	if a.Model == "" { // nothing of a model's is asked for
		return nil
	}
	if !a.Route.Allows(a.Model) {
		return &Error{
			Status: http.StatusPreconditionFailed, Type: "model_not_allowed_error", Param: "model",
			Message: "Model " + credentials.Clip(a.Model) + " is not allowed by the integration of provider " + a.Route.VirtualKey + "; enable it there, or call one that GET /v1/models lists",
		}
	}
	a.Route.Settle(a.Model)
	return nil
}
