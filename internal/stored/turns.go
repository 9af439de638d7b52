package stored

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	MaxID           = 256 // of a response: longer ones are nobody's
)

// Keep stores a response of the gateway's own for as long as providers keep theirs.
func (r *Responses) Keep(ctx context.Context, workspace, id string, t *Turn) error {
	if size := len(t.Response) + len(t.Input); size > maxTurn {
		return fmt.Errorf("a response with its input of %d bytes, more than %d", size, maxTurn)
	}
	return r.db.Write(ctx, func(tx storage.Tx) error {
		// Nobody's response takes the place of another's.
		if _, err := r.rows.Get(tx, workspace+"/"+id); !errors.Is(err, storage.ErrNotFound) {
			if err == nil {
				err = fmt.Errorf("response %q: %w", id, storage.ErrExists)
			}
			return err
		}
		return r.rows.PutTTL(tx, &remembered{ID: id, WorkspaceID: workspace, Turn: *t}, retention)
	})
}

// Forget deletes a response of the gateway's own.
func (r *Responses) Forget(ctx context.Context, workspace, id string) error {
	return r.db.Write(ctx, func(tx storage.Tx) error { return r.rows.Delete(tx, workspace+"/"+id) })
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

// ErrTooLong is that a conversation has more than is read of one.
var ErrTooLong = fmt.Errorf("a conversation of more than %d turns or %d bytes", maxTurns, maxConversation)

// Conversation returns the turns up to the response id, the oldest first. Where one of
// them is not there, the error is a *LostTurnError, and the turns are those after it.
func (r *Responses) Conversation(ctx context.Context, workspace, id string) (turns []Turn, err error) {
	err = r.db.View(ctx, func(tx storage.Tx) error {
		turns = nil
		size := 0
		for at := id; at != ""; {
			if len(at) > MaxID {
				return &LostTurnError{ID: at}
			}
			row, err := r.rows.Get(tx, workspace+"/"+at)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return &LostTurnError{ID: at}
			case err != nil:
				return err
			case row.Response == nil:
				return &LostTurnError{at, row.Slug}
			}
			if size += len(row.Response) + len(row.Input); size > maxConversation || len(turns) == maxTurns {
				return ErrTooLong
			}
			turns = append(turns, row.Turn)
			at = row.Previous
		}
		return nil
	})
	slices.Reverse(turns)
	return turns, err
}
