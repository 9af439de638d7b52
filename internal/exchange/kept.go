package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/storage"
)

// A Turn is a response that the gateway itself holds, because its provider has none of
// its own: what was said in it and what it goes on from.
type Turn struct {
	// Response is the object that the caller got.
	Response json.RawMessage `json:"response,omitempty"`
	// Input is what it answers: a string or an array of items.
	Input json.RawMessage `json:"input,omitempty"`
	// Previous is the response that it goes on from, or "".
	Previous string `json:"previous,omitempty"`
}

// Bounds of what is kept, in bytes.
const (
	MaxInput        = 8 << 20  // of a response
	maxTurn         = 16 << 20 // of a response, its input included
	maxConversation = 48 << 20
	maxTurns        = 1000
	maxID           = 256 // of a response: longer ones are nobody's
)

// Keep stores a response of the gateway's own for as long as providers keep theirs.
func (m *Memory) Keep(ctx context.Context, workspace, id string, t *Turn) error {
	if size := len(t.Response) + len(t.Input); size > maxTurn {
		return fmt.Errorf("a response with its input of %d bytes, more than %d", size, maxTurn)
	}
	return m.db.Write(ctx, func(tx storage.Tx) error {
		// Nobody's response takes the place of another's.
		if _, err := m.rows.Get(tx, workspace+"/"+id); !errors.Is(err, storage.ErrNotFound) {
			if err == nil {
				err = fmt.Errorf("response %q: %w", id, storage.ErrExists)
			}
			return err
		}
		return m.rows.PutTTL(tx, &remembered{ID: id, WorkspaceID: workspace, Turn: *t}, retention)
	})
}

// Forget deletes a response of the gateway's own.
func (m *Memory) Forget(ctx context.Context, workspace, id string) error {
	return m.db.Write(ctx, func(tx storage.Tx) error { return m.rows.Delete(tx, workspace+"/"+id) })
}

// A LostTurnError says that a conversation cannot be gone on with: which of its turns
// nobody knows, or which provider holds it.
type LostTurnError struct{ ID, Slug string }

func (e *LostTurnError) Error() string {
	if e.Slug != "" {
		return "response " + e.ID + " is held by " + e.Slug
	}
	return "response " + e.ID + " is not known"
}

// errTooLong is that a conversation has more than is read of one.
var errTooLong = fmt.Errorf("a conversation of more than %d turns or %d bytes", maxTurns, maxConversation)

// Conversation returns the turns up to the response id, the oldest first. Where one of
// them is not there, the error is a *LostTurnError, and the turns are those after it.
func (m *Memory) Conversation(ctx context.Context, workspace, id string) (turns []Turn, err error) {
	err = m.db.View(ctx, func(tx storage.Tx) error {
		turns = nil
		size := 0
		for at := id; at != ""; {
			if len(at) > maxID {
				return &LostTurnError{ID: at}
			}
			row, err := m.rows.Get(tx, workspace+"/"+at)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return &LostTurnError{ID: at}
			case err != nil:
				return err
			case row.Response == nil:
				return &LostTurnError{at, row.Slug}
			}
			if size += len(row.Response) + len(row.Input); size > maxConversation || len(turns) == maxTurns {
				return errTooLong
			}
			turns = append(turns, row.Turn)
			at = row.Previous
		}
		return nil
	})
	slices.Reverse(turns)
	return turns, err
}

// Keep stores a response that the gateway made of a conversation. It must be there
// before the caller can ask for it. The error, an *Error, is for the caller.
func (x *Exchange) Keep(id string, t *Turn) error {
	err := x.Gateway.Memory.Keep(context.WithoutCancel(x.request.Context()), x.Caller.WorkspaceID, id, t)
	if err == nil {
		return nil
	}
	x.Failure = "the response could not be stored: " + err.Error()
	return &Error{
		Status: http.StatusInternalServerError, Type: "server_error", Code: "response_not_stored", Gateway: true, Err: err,
		Message: "The response was made but could not be stored. Send store: false where it need not be",
	}
}

// Conversation returns the turns that a response is to go on from. The error is for the
// caller.
func (x *Exchange) Conversation(previous string) ([]Turn, *Error) {
	turns, err := x.Gateway.Memory.Conversation(x.request.Context(), x.Caller.WorkspaceID, previous)
	var lost *LostTurnError
	const param, code = "previous_response_id", "previous_response_not_found"
	switch {
	case err == nil:
		if err := x.holdTurns(turns); err != nil {
			return nil, Overloaded(err)
		}
		return turns, nil
	case errors.Is(err, errTooLong):
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

// holdTurns pays for what was read of a conversation.
func (x *Exchange) holdTurns(turns []Turn) error {
	size := 0
	for i := range turns {
		size += len(turns[i].Response) + len(turns[i].Input)
	}
	return x.Hold(size)
}

// Turn returns a response of the workspace that the gateway holds, or nil.
func (x *Exchange) Turn(id string) (*Turn, *Error) {
	_, held, err := x.Gateway.Memory.Recall(x.request.Context(), x.Caller.WorkspaceID, id)
	if err != nil {
		return nil, Unavailable("The stored response cannot be read for now", err)
	}
	return held, nil
}

// ListTurns returns what is still there of the turns up to the response that the call is
// about.
func (x *Exchange) ListTurns() ([]Turn, *Error) {
	turns, err := x.Gateway.Memory.Conversation(x.request.Context(), x.Caller.WorkspaceID, x.responseID())
	var lost *LostTurnError
	if err != nil && !errors.As(err, &lost) && !errors.Is(err, errTooLong) {
		return nil, Unavailable("The stored response cannot be read for now", err)
	}
	if err := x.holdTurns(turns); err != nil {
		return nil, Overloaded(err)
	}
	return turns, nil
}

// Forget deletes the response that the call is about.
func (x *Exchange) Forget() *Error {
	err := x.Gateway.Memory.Forget(x.request.Context(), x.Caller.WorkspaceID, x.responseID())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return unknownResponse(x.responseID())
	case err != nil:
		return Unavailable("The stored response cannot be deleted for now", err)
	}
	return nil
}

// Unheld refuses a call about a stored response that the gateway does not hold, with a
// provider that holds none.
func (x *Exchange) Unheld() *Error { return unknownResponse(x.responseID()) }
