// Package stored knows the objects that providers keep, or that the gateway keeps for them:
// which provider holds a stored response, the responses of providers that have none of their
// own, and which workspace made an object with a credential that several share.
package stored

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// Responses remember which provider holds a stored response, so that it can be
// retrieved with the service key alone (the interface, "Authentication"). Where the
// provider holds none, they hold the response itself: see [Response].
type Responses struct {
	db   *storage.DB
	rows *storage.Collection[remembered]
}

// remembered is where a stored response is. It names the saved provider and holds no
// credential: what a caller made with its own has to be asked for with it again.
type remembered struct {
	ID          string `json:"id"`
	WorkspaceID string `json:"workspace_id"`
	Slug        string `json:"slug,omitempty"` // of a virtual key or a provider of the file
	// Shared: it was made with a credential that workspaces share, as that the provider said
	// so; a virtual key may have the slug of a provider of the file.
	Shared bool `json:"shared,omitempty"`
	Response
}

// retention is how long OpenAI keeps stored responses.
const retention = 30 * 24 * time.Hour

// NewResponses returns those of a store.
func NewResponses(db *storage.DB) *Responses {
	return &Responses{db, storage.NewCollection("response", func(row *remembered) string { return row.WorkspaceID + "/" + row.ID })}
}

// Remember notes that the response id was made by the saved provider slug.
func (r *Responses) Remember(ctx context.Context, workspace, id, slug string) error {
	return r.db.Write(ctx, func(tx storage.Tx) error {
		// A provider chooses its ids, but not what they mean to others: the first one counts.
		if _, err := r.rows.Get(tx, workspace+"/"+id); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return r.rows.PutTTL(tx, &remembered{ID: id, WorkspaceID: workspace, Slug: slug}, retention)
	})
}

// Claim notes that objects which a provider keeps for as long are the workspace's, made with
// a credential that others share.
func (r *Responses) Claim(ctx context.Context, workspace, slug string, ids []string) error {
	for ids := range slices.Chunk(ids, atOnce) {
		if err := r.claim(ctx, workspace, slug, ids); err != nil {
			return err
		}
	}
	return nil
}

func (r *Responses) claim(ctx context.Context, workspace, slug string, ids []string) error {
	return r.db.Write(ctx, func(tx storage.Tx) error {
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
			if err := r.rows.PutTTL(tx, &remembered{ID: id, WorkspaceID: workspace, Slug: slug, Shared: true}, retention); err != nil {
				return err
			}
		}
		return nil
	})
}

// Owns reports which of the objects that are left are the workspace's by Claim.
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

// Recall returns the saved provider that made the response id, or the response itself;
// neither where it is unknown.
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
