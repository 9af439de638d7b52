package exchange

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/storage"
)

// A ResponseStore is the stored responses of a call's workspace.
type ResponseStore struct{ call *Call }

// Responses returns the stored responses of the call's workspace.
func (c *Call) Responses() ResponseStore { return ResponseStore{c} }

// Store stores a response that the gateway made from a conversation. It has to be called
// before the caller gets the id. The error is for the caller.
func (r ResponseStore) Store(id string, t *stored.Response) *Error {
	err := r.call.Gateway.Responses.Put(context.WithoutCancel(r.call.request.Context()), r.call.Caller.WorkspaceID, id, t)
	if err == nil {
		return nil
	}
	return &Error{
		Status: http.StatusInternalServerError, Type: "server_error", Code: "response_not_stored", Gateway: true, Err: err,
		Message: "The response was made but could not be stored. Send store: false where it need not be",
	}
}

// Conversation returns the turns that a response continues. The error is for the caller.
func (r ResponseStore) Conversation(previous string) ([]stored.Response, *Error) {
	turns, err := r.call.Gateway.Responses.Conversation(r.call.request.Context(), r.call.Caller.WorkspaceID, previous)
	var lost *stored.MissingResponseError
	const param, code = "previous_response_id", "previous_response_not_found"
	switch {
	case err == nil:
		if err := r.reserve(turns); err != nil {
			return nil, Overloaded(err)
		}
		return turns, nil
	case errors.Is(err, stored.ErrTooLong):
		return nil, badRequest(param, "conversation_too_long", "The conversation that the response goes on from is too long to be read: "+err.Error())
	case !errors.As(err, &lost):
		return nil, Unavailable("The response to go on from cannot be read for now", err)
	case lost.Slug != "":
		return nil, badRequest(param, code, "Response with id '"+credentials.Clip(lost.ID)+"' is held by its provider, @"+lost.Slug+", and can be gone on from there only.")
	case lost.ID != previous:
		return nil, badRequest(param, code, "Previous response with id '"+credentials.Clip(previous)+"' goes on from '"+credentials.Clip(lost.ID)+"', which was deleted or is no longer kept.")
	}
	return nil, badRequest(param, code, "Previous response with id '"+credentials.Clip(previous)+"' not found.")
}

// reserve reserves the memory of turns that were read.
func (r ResponseStore) reserve(turns []stored.Response) error {
	size := 0
	for i := range turns {
		size += len(turns[i].Object) + len(turns[i].Input)
	}
	return r.call.Memory.Reserve(size)
}

// Own returns a response of the workspace that the gateway itself stores, or nil.
func (r ResponseStore) Own(id string) (*stored.Response, *Error) {
	_, held, err := r.call.Gateway.Responses.Recall(r.call.request.Context(), r.call.Caller.WorkspaceID, id)
	if err != nil {
		return nil, Unavailable("The stored response cannot be read for now", err)
	}
	return held, nil
}

// Turns returns the turns up to the response that the call is about, as far as they still exist.
func (r ResponseStore) Turns() ([]stored.Response, *Error) {
	turns, err := r.call.Gateway.Responses.Conversation(r.call.request.Context(), r.call.Caller.WorkspaceID, r.id())
	var lost *stored.MissingResponseError
	if err != nil && !errors.As(err, &lost) && !errors.Is(err, stored.ErrTooLong) {
		return nil, Unavailable("The stored response cannot be read for now", err)
	}
	if err := r.reserve(turns); err != nil {
		return nil, Overloaded(err)
	}
	return turns, nil
}

// Delete deletes the response that the call is about.
func (r ResponseStore) Delete() *Error {
	err := r.call.Gateway.Responses.Delete(r.call.request.Context(), r.call.Caller.WorkspaceID, r.id())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return unknownResponse(r.id())
	case err != nil:
		return Unavailable("The stored response cannot be deleted for now", err)
	}
	return nil
}

// NotFound refuses a call about a stored response that neither the gateway nor the
// provider stores.
func (r ResponseStore) NotFound() *Error { return unknownResponse(r.id()) }

// recall finds the stored response that a call is about: either StoredResponse is set, or the
// selection gets its provider, if it names none.
func (p *preparation) recall(s *credentials.Selection) *credentials.Error {
	id := p.Responses().id()
	if id == "" || len(id) > stored.MaxID || p.Gateway.Responses == nil {
		return nil
	}
	slug, held, err := p.Gateway.Responses.Recall(p.request.Context(), p.Caller.WorkspaceID, id)
	if err != nil {
		return &credentials.Error{Reason: credentials.SecretUnavailable, Message: "The stored response cannot be looked up for now", Err: err}
	}
	p.StoredResponse = held
	if slug != "" && s.VirtualKey == "" && s.Provider == "" && s.Config == "" && s.Model == "" {
		s.Provider = "@" + slug
	}
	return nil
}

// id is the id of the stored response that a call is about, or "".
func (r ResponseStore) id() string {
	rest, ok := strings.CutPrefix(r.call.Path, "/responses/")
	if !ok || !strings.Contains(r.call.Endpoint.Path, "{response_id}") {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}
