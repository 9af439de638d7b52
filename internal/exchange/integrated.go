package exchange

// integrate holds the attempt to what the integration of its provider says of the model, and
// sends it where that model is.
func (a *Attempt) integrate() *Error {
	if !a.Route.Ruled() {
		return nil
	}
	if a.call.mayHaveOther(a.Model) || a.Payload().modelsSet() != "" {
		return a.RefuseUnread("the integration of the provider allows only some models")
	}
	if a.Model == "" { // nothing of a model's is asked for
		return nil
	}
	if !a.Route.Allows(a.Model) {
		return modelNotAllowed(a.Route, a.Model)
	}
	a.Route.Settle(a.Model)
	return nil
}
