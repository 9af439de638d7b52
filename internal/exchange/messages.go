package exchange

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// maxModels is how many models the messages of one WebSocket may name, beside its own.
const maxModels = 16

// Messages checks the messages that a client sends over a WebSocket: what they name is subject to
// the rules for the body of a call. It is not safe for concurrent use.
type Messages struct {
	call     *Call
	attempt  *Attempt
	limiters []Limiter
	models   []string // that were admitted
}

// Messages returns the check of the messages for an attempt that became a WebSocket. It is nil for
// a path that passes through with a credential that no other workspace uses: such messages may be
// in any format.
func (x *Exchange) Messages(a *Attempt) *Messages {
	if x.Endpoint == &passThrough && !a.RecordsOwners() {
		return nil
	}
	return &Messages{call: x.Call, attempt: a, limiters: x.limiters}
}

// Check refuses a message that names an object of another workspace, or a model that the call may
// not use. A message that is not JSON names nothing.
func (m *Messages) Check(message []byte) *Error {
	text := bytes.TrimLeft(message, blanks)
	switch {
	case len(text) == 0:
		return nil
	case text[0] <= ' ' || text[0] > '~': // JSON in another encoding, perhaps
		return badRequest("", "invalid_message", "A message of the WebSocket cannot be read: expected JSON in UTF-8.")
	case text[0] != '{' && text[0] != '[':
		return nil // it is not JSON that could name anything
	}
	if err := jsonscan.Members(text, nil); err != nil {
		return badRequest("", "invalid_json", "A message of the WebSocket is not valid JSON: "+err.Error()+".")
	}
	n := namedIn(text, m.call.Endpoint, false, nil)
	if n.over {
		return tooManyNamed()
	}
	for i, param := range n.params {
		if param != "model" {
			continue
		}
		if err := m.admit(n.ids[i]); err != nil {
			return err
		}
	}
	if !m.attempt.Guarded() {
		return nil
	}
	return m.attempt.mustOwn(n.ids, n.params)
}

// admit admits a model beside that of the call: it counts like another call.
func (m *Messages) admit(model string) *Error {
	a := m.attempt
	switch {
	case model == m.call.Model || model == a.Model || slices.Contains(m.models, model):
		return nil
	case len(model) > maxModel || len(m.models) == maxModels:
		return badRequest("model", "too_many_models", "The messages of a WebSocket may name "+strconv.Itoa(maxModels)+" models, of up to "+strconv.Itoa(maxModel)+" bytes each, beside its own.")
	case a.Edit.Touches([]string{"model"}) != "":
		return cannot("model", "the messages of a WebSocket pass as they are")
	case a.Route.Ruled() && !a.Route.Allows(model):
		return modelNotAllowed(a.Route, model)
	}
	other := &Attempt{call: m.call, Target: a.Target, Route: a.Route, Edit: a.Edit, Model: model}
	for _, l := range m.limiters {
		hold, err := l.Admit(m.call.request.Context(), m.call, other)
		if err != nil {
			return err
		}
		if hold != nil {
			hold.Settle([]*Attempt{other})
		}
	}
	m.models = append(m.models, model)
	return nil
}

// modelNotAllowed is the refusal of a model that the integration of a provider does not allow.
func modelNotAllowed(route *credentials.Route, model string) *Error {
	return &Error{
		Status: http.StatusPreconditionFailed, Type: "model_not_allowed_error", Param: "model",
		Message: "Model " + credentials.Clip(model) + " is not allowed by the integration of provider " + route.VirtualKey + "; enable it there, or call one that GET /v1/models lists",
	}
}
