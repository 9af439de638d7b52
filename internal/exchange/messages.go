package exchange

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxModels is how many models the messages of one WebSocket may name, besides its own.
const maxModels = 16

// Messages checks the messages that a client sends over a WebSocket: what they name is subject to
// the rules for the body of a call. It is not safe for concurrent use.
type Messages struct {
	call     *Call
	attempt  *Attempt
	limiters []Limiter
	session  *Session // nil: nothing counts what it uses
	models   []string // that were admitted
}

// Messages returns the check of the messages for an attempt that became a WebSocket, whose use a session
// counts; it may be nil. The check is nil for a path that passes through with a credential that no other
// workspace uses: such messages may be in any format.
func (x *Exchange) Messages(a *Attempt, session *Session) *Messages {
	if x.Endpoint == &passThrough && !a.Ownership().Recorded() {
		return nil
	}
	return &Messages{call: x.Call, attempt: a, limiters: x.limiters, session: session}
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
		if m.call.Endpoint.Name == realtime {
			return badRequest("", "invalid_message", "A message of the WebSocket cannot be read: expected a JSON object.")
		}
		return nil // it is not JSON that could name anything
	}
	if err := jsonscan.Members(text, nil); err != nil {
		return badRequest("", "invalid_json", "A message of the WebSocket is not valid JSON: "+err.Error()+".")
	}
	n := namedIn(text, m.call.Endpoint, false, nil)
	if n.over {
		return tooManyNamed()
	}
	if m.attempt.Ownership().Guarded() {
		if err := m.attempt.Ownership().check(n.ids, n.params); err != nil {
			return err
		}
	}
	var models []string
	for i, param := range n.params {
		if model := n.ids[i]; param == "model" && model != m.call.Model && model != m.attempt.Model {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	if m.session != nil && !slices.Equal(models, transcribers(text, models)) {
		return badRequest("model", "model_fixed", "The model of a session is the one that it was opened with. A message may only name another one for transcriptions, as session.audio.input.transcription.model.")
	}
	for _, model := range models {
		if err := m.admit(model); err != nil {
			return err
		}
	}
	return nil
}

// transcribesBy are the paths of the model that transcribes, in events about a session.
var transcribesBy = [...]string{"session.audio.input.transcription.model", "session.input_audio_transcription.model"}

// transcribers returns those of models that a message names for transcriptions.
func transcribers(message []byte, models []string) (named []string) {
	for _, at := range transcribesBy {
		if model := gjson.GetBytes(message, at); model.Type == gjson.String && slices.Contains(models, model.Str) {
			named = append(named, model.Str)
		}
	}
	slices.Sort(named)
	return named
}

// admit admits a model besides that of the call: it counts like another call, which lasts as long as the
// session.
func (m *Messages) admit(model string) *Error {
	a := m.attempt
	switch {
	case slices.Contains(m.models, model):
		m.session.resumeTranscriber(model)
		return nil
	case len(model) > maxModel || len(m.models) == maxModels:
		return badRequest("model", "too_many_models", "The messages of a WebSocket may name "+strconv.Itoa(maxModels)+" models, of up to "+strconv.Itoa(maxModel)+" bytes each, besides its own.")
	case a.Edit.Touches([]string{"model"}) != "":
		return cannot("model", "the messages of a WebSocket pass as they are")
	case a.Route.Ruled() && !a.Route.Allows(model):
		return modelNotAllowed(a.Route, model)
	}
	other := &Attempt{call: m.call, Target: a.Target, Route: a.Route, Edit: a.Edit, Model: model}
	held := &transcriber{Attempt: other}
	for _, l := range m.limiters {
		hold, err := l.Admit(m.call.request.Context(), m.call, other)
		if err != nil {
			held.release()
			return err
		}
		if hold != nil {
			held.holds = append(held.holds, hold)
		}
	}
	m.models = append(m.models, model)
	m.session.startTranscriber(held)
	return nil
}

// modelNotAllowed is the refusal of a model that the integration of a provider does not allow.
func modelNotAllowed(route *credentials.Route, model string) *Error {
	return &Error{
		Status: http.StatusPreconditionFailed, Type: "model_not_allowed_error", Param: "model",
		Message: "Model " + credentials.Clip(model) + " is not allowed by the integration of provider " + route.VirtualKey + "; enable it there, or call one that GET /v1/models lists",
	}
}
