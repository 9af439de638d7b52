package stored

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-gw/gateway/storage"
)

// A Response is a response that the gateway itself stores, because the provider has no
// Responses API.
type Response struct {
	// Object is the response as it was sent to the client.
	Object json.RawMessage `json:"response,omitempty"`
	// Input is its own input, without that of earlier responses: a string or an array of
	// items.
	Input json.RawMessage `json:"input,omitempty"`
	// Previous is the previous_response_id, or "".
	Previous string `json:"previous,omitempty"`
}

// Bounds of what is stored, in bytes.
const (
	MaxInput        = 8 << 20  // of a response
	maxResponse     = 16 << 20 // of a response, including its input
	maxConversation = 48 << 20
	maxResponses    = 1000
	MaxID           = 256 // of the id of a response; longer ids are unknown
)

// Put stores a response for as long as providers store theirs. The error is
// [storage.ErrExists] if there is one with this id.
func (r *Responses) Put(ctx context.Context, workspace, id string, t *Response) error {
	if size := len(t.Object) + len(t.Input); size > maxResponse {
		return fmt.Errorf("a response with its input of %d bytes, more than %d", size, maxResponse)
	}
	row := &remembered{ID: id, WorkspaceID: workspace, Response: *t}
	err := r.db.Write(ctx, func(tx storage.Tx) error {
		// Ids are never reused.
		if _, err := r.rows.Get(tx, workspace+"/"+id); !errors.Is(err, storage.ErrNotFound) {
			if err == nil {
				err = fmt.Errorf("response %q: %w", id, storage.ErrExists)
			}
			return err
		}
		return r.put(tx, row)
	})
	if err != nil {
		return err
	}
	return r.added(ctx, workspace, total{row.size(), 1})
}

// Delete deletes a response that the gateway stores.
func (r *Responses) Delete(ctx context.Context, workspace, id string) error {
	var removed total
	err := r.db.Write(ctx, func(tx storage.Tx) (err error) {
		removed, err = r.delete(tx, workspace, id)
		return err
	})
	if err == nil {
		r.shares.add(workspace, total{-removed.bytes, -removed.entries})
	}
	return err
}

// A MissingResponseError names the response of a conversation that the gateway does not
// have. Slug is the provider that has it, or "" if it is unknown.
type MissingResponseError struct{ ID, Slug string }

func (e *MissingResponseError) Error() string {
	if e.Slug != "" {
		return "response " + e.ID + " is held by " + e.Slug
	}
	return "response " + e.ID + " is not known"
}

// ErrTooLong is returned for a conversation beyond the bounds.
var ErrTooLong = fmt.Errorf("a conversation of more than %d responses or %d bytes", maxResponses, maxConversation)

// Conversation returns the responses up to the one with this id, the oldest first. If one
// of them is missing, the error is a *MissingResponseError, and those after it are returned.
func (r *Responses) Conversation(ctx context.Context, workspace, id string) (responses []Response, err error) {
	err = r.db.View(ctx, func(tx storage.Tx) error {
		responses = nil
		size := 0
		for at := id; at != ""; {
			if len(at) > MaxID {
				return &MissingResponseError{ID: at}
			}
			row, err := r.rows.Get(tx, workspace+"/"+at)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return &MissingResponseError{ID: at}
			case err != nil:
				return err
			case row.Object == nil:
				return &MissingResponseError{at, row.Slug}
			}
			if size += len(row.Object) + len(row.Input); size > maxConversation || len(responses) == maxResponses {
				return ErrTooLong
			}
			responses = append(responses, row.Response)
			at = row.Previous
		}
		return nil
	})
	slices.Reverse(responses)
	return responses, err
}
