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

// StoreResponse stores a response that the gateway made from a conversation. It has to be called
// before the caller gets the id. The error is for the caller.
func (c *Call) StoreResponse(id string, t *stored.Response) *Error {
	err := c.Gateway.Responses.Put(context.WithoutCancel(c.request.Context()), c.Caller.WorkspaceID, id, t)
	if err == nil {
		return nil
	}
	return &Error{
		Status: http.StatusInternalServerError, Type: "server_error", Code: "response_not_stored", Gateway: true, Err: err,
		Message: "The response was made but could not be stored. Send store: false where it need not be",
	}
}

// Conversation returns the turns that a response continues. The error is for the caller.
func (c *Call) Conversation(previous string) ([]stored.Response, *Error) {
	turns, err := c.Gateway.Responses.Conversation(c.request.Context(), c.Caller.WorkspaceID, previous)
	var lost *stored.MissingResponseError
	const param, code = "previous_response_id", "previous_response_not_found"
	switch {
	case err == nil:
		if err := c.reserveTurns(turns); err != nil {
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

// reserveTurns reserves the memory of turns that were read.
func (c *Call) reserveTurns(turns []stored.Response) error {
	size := 0
	for i := range turns {
		size += len(turns[i].Object) + len(turns[i].Input)
	}
	return c.Reserve(size)
}

// OwnResponse returns a response of the workspace that the gateway itself stores, or nil.
func (c *Call) OwnResponse(id string) (*stored.Response, *Error) {
	_, held, err := c.Gateway.Responses.Recall(c.request.Context(), c.Caller.WorkspaceID, id)
	if err != nil {
		return nil, Unavailable("The stored response cannot be read for now", err)
	}
	return held, nil
}

// Turns returns the turns up to the response that the call is about, as far as they still exist.
func (c *Call) Turns() ([]stored.Response, *Error) {
	turns, err := c.Gateway.Responses.Conversation(c.request.Context(), c.Caller.WorkspaceID, c.responseID())
	var lost *stored.MissingResponseError
	if err != nil && !errors.As(err, &lost) && !errors.Is(err, stored.ErrTooLong) {
		return nil, Unavailable("The stored response cannot be read for now", err)
	}
	if err := c.reserveTurns(turns); err != nil {
		return nil, Overloaded(err)
	}
	return turns, nil
}

// DeleteResponse deletes the response that the call is about.
func (c *Call) DeleteResponse() *Error {
	err := c.Gateway.Responses.Delete(c.request.Context(), c.Caller.WorkspaceID, c.responseID())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return unknownResponse(c.responseID())
	case err != nil:
		return Unavailable("The stored response cannot be deleted for now", err)
	}
	return nil
}

// ResponseNotFound refuses a call about a stored response that neither the gateway nor the
// provider stores.
func (c *Call) ResponseNotFound() *Error { return unknownResponse(c.responseID()) }

// Remember notes which saved provider has stored a response that the attempt has created. It has
// to be called before the client gets the id. A failure, for the call's record, is not fatal:
// callers can still name the provider.
func (a *Attempt) Remember(id string) (failure string) {
	c := a.call
	if id == "" || a.Route.Inline || a.RecordsOwners() || c.Gateway.Responses == nil {
		return ""
	}
	if err := c.Gateway.Responses.Remember(context.WithoutCancel(c.request.Context()), c.Caller.WorkspaceID, id, saved(a.Route)); err != nil {
		return "the response's provider could not be remembered: " + err.Error()
	}
	return ""
}

// recall finds the stored response that a call is about: either StoredResponse is set, or the
// selection gets its provider, if it names none.
func (c *Call) recall(s *credentials.Selection) *credentials.Error {
	id := c.responseID()
	if id == "" || len(id) > stored.MaxID || c.Gateway.Responses == nil {
		return nil
	}
	slug, held, err := c.Gateway.Responses.Recall(c.request.Context(), c.Caller.WorkspaceID, id)
	if err != nil {
		return &credentials.Error{Reason: credentials.SecretUnavailable, Message: "The stored response cannot be looked up for now", Err: err}
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
