// Package stored records which objects providers store, and stores some itself: which
// provider has a stored response, the responses of providers without a Responses API, and
// which workspace created an object with a shared credential.
package stored

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// Responses records which provider has a stored response, so that it can be retrieved with
// the service key alone. If the provider has no Responses API, it stores the response
// itself: see [Response].
type Responses struct {
	db     *storage.DB
	rows   *storage.Collection[*remembered]
	sizes  *storage.Collection[*sized]
	shares shares
	room   *storage.Job
	now    func() time.Time
}

// remembered says where a stored response is. It has the saved provider, and no credential:
// a response created with a caller's own credential has to be requested with that
// credential again.
type remembered struct {
	ID          string `json:"id"`
	WorkspaceID string `json:"workspace_id"`
	Slug        string `json:"slug,omitempty"` // of a virtual key or a provider in the configuration
	// Shared is set if the response was created with a shared credential, since a virtual
	// key may have the slug of a provider in the configuration.
	Shared bool      `json:"shared,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Response
}

// Retention is how long OpenAI stores responses.
const Retention = 30 * 24 * time.Hour

// NewResponses returns the responses of a store.
func NewResponses(db *storage.DB, now func() time.Time) *Responses {
	return &Responses{
		db:     db,
		rows:   storage.NewCollection("response", func(row *remembered) string { return row.WorkspaceID + "/" + row.ID }),
		sizes:  storage.NewCollection("response_size", (*sized).key),
		shares: shares{known: make(map[string]share), limit: total{MaxStored, MaxEntries}},
		room:   db.Job("stored-responses"),
		now:    now,
	}
}

// Remember records that a response was created with the saved provider slug.
func (r *Responses) Remember(ctx context.Context, workspace, id, slug string) error {
	var added total
	err := r.db.Write(ctx, func(tx storage.Tx) error {
		added = total{}
		// Ids are chosen by providers, so the first owner of an id keeps it.
		if _, err := r.rows.Get(tx, workspace+"/"+id); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		row := &remembered{ID: id, WorkspaceID: workspace, Slug: slug}
		added = total{row.size(), 1}
		return r.put(tx, row)
	})
	if err != nil {
		return err
	}
	return r.added(ctx, workspace, added)
}

// Claim records that objects, which a provider stores for the same time, were created by
// the workspace with a shared credential.
func (r *Responses) Claim(ctx context.Context, workspace, slug string, ids []string) error {
	for ids := range slices.Chunk(ids, atOnce/2) { // each has two rows
		if err := r.claim(ctx, workspace, slug, ids); err != nil {
			return err
		}
	}
	return nil
}

func (r *Responses) claim(ctx context.Context, workspace, slug string, ids []string) error {
	var added total
	err := r.db.Write(ctx, func(tx storage.Tx) error {
		added = total{}
		for _, id := range ids {
			if len(id) > MaxID {
				return ErrLongID
			}
			switch _, err := r.rows.Get(tx, workspace+"/"+id); {
			case err == nil:
				continue
			case !errors.Is(err, storage.ErrNotFound):
				return err
			}
			row := &remembered{ID: id, WorkspaceID: workspace, Slug: slug, Shared: true}
			if err := r.put(tx, row); err != nil {
				return err
			}
			added = added.plus(total{row.size(), 1})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.added(ctx, workspace, added)
}

// Owns marks those of the objects not yet marked that the workspace has claimed.
func (r *Responses) Owns(ctx context.Context, workspace, slug string, ids []string, owns []bool) error {
	return r.db.View(ctx, func(tx storage.Tx) error {
		for i, id := range ids {
			if owns[i] || id == "" || len(id) > MaxID {
				continue
			}
			row, err := r.rows.Get(tx, workspace+"/"+id)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			owns[i] = err == nil && row.Shared && row.Slug == slug
		}
		return nil
	})
}

// Recall returns the saved provider that created a response, or the response itself, or
// neither if it is unknown.
func (r *Responses) Recall(ctx context.Context, workspace, id string) (slug string, held *Response, err error) {
	err = r.db.View(ctx, func(tx storage.Tx) error {
		row, err := r.rows.Get(tx, workspace+"/"+id)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.Object != nil:
			held = &row.Response
		}
		slug = row.Slug
		return nil
	})
	return slug, held, err
}
