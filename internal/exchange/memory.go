package exchange

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/storage"
)

// A Memory remembers which provider holds a stored response, so that it can be
// retrieved with the service key alone (the interface, "Authentication"). Where the
// provider holds none, the memory holds the response itself: see [Turn].
type Memory struct {
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
	Turn
}

// retention is how long OpenAI keeps stored responses.
const retention = 30 * 24 * time.Hour

// NewMemory returns the memory of a store.
func NewMemory(db *storage.DB) *Memory {
	return &Memory{db, storage.NewCollection("response", func(r *remembered) string { return r.WorkspaceID + "/" + r.ID })}
}

// Remember notes that the response id was made by the saved provider slug.
func (m *Memory) Remember(ctx context.Context, workspace, id, slug string) error {
	return m.db.Write(ctx, func(tx storage.Tx) error {
		// A provider chooses its ids, but not what they mean to others: the first one counts.
		if _, err := m.rows.Get(tx, workspace+"/"+id); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return m.rows.PutTTL(tx, &remembered{ID: id, WorkspaceID: workspace, Slug: slug}, retention)
	})
}

// Claim notes that objects which a provider keeps for as long are the workspace's, made with
// a credential that others share.
func (m *Memory) Claim(ctx context.Context, workspace, slug string, ids []string) error {
	for ids := range slices.Chunk(ids, atOnce) {
		if err := m.claim(ctx, workspace, slug, ids); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) claim(ctx context.Context, workspace, slug string, ids []string) error {
	return m.db.Write(ctx, func(tx storage.Tx) error {
		for _, id := range ids {
			if len(id) > maxID {
				return errLongID
			}
			switch _, err := m.rows.Get(tx, workspace+"/"+id); {
			case err == nil:
				continue
			case !errors.Is(err, storage.ErrNotFound):
				return err
			}
			if err := m.rows.PutTTL(tx, &remembered{ID: id, WorkspaceID: workspace, Slug: slug, Shared: true}, retention); err != nil {
				return err
			}
		}
		return nil
	})
}

// Owns reports which of the objects that are left are the workspace's by Claim.
func (m *Memory) Owns(ctx context.Context, workspace, slug string, ids []string, owns []bool) error {
	return m.db.View(ctx, func(tx storage.Tx) error {
		for i, id := range ids {
			if owns[i] || id == "" || len(id) > maxID {
				continue
			}
			row, err := m.rows.Get(tx, workspace+"/"+id)
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
func (m *Memory) Recall(ctx context.Context, workspace, id string) (slug string, held *Turn, err error) {
	err = m.db.View(ctx, func(tx storage.Tx) error {
		row, err := m.rows.Get(tx, workspace+"/"+id)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.Response != nil:
			held = &row.Turn
		}
		slug = row.Slug
		return nil
	})
	return slug, held, err
}

// Remember notes which saved provider holds a response that the call has made. It
// must be known before the client can ask for it. A failure is logged by whoever
// forwards: the response can still be had by naming its provider.
func (x *Exchange) Remember(id string) {
	route := x.Latest().Route
	if id == "" || x.Adapted || route.Inline || x.Noted() || x.Gateway.Memory == nil {
		return
	}
	if err := x.Gateway.Memory.Remember(context.WithoutCancel(x.request.Context()), x.Caller.WorkspaceID, id, saved(route)); err != nil {
		x.Failure = "the response's provider could not be remembered: " + err.Error()
	}
}

// recall finds the stored response that a call is about: it is in Held, or the selection
// is completed where it names no provider.
func (g *Gateway) recall(x *Exchange, s *credentials.Selection) *credentials.Refusal {
	id := x.responseID()
	if id == "" || len(id) > maxID || g.Memory == nil {
		return nil
	}
	slug, held, err := g.Memory.Recall(x.request.Context(), x.Caller.WorkspaceID, id)
	if err != nil {
		return &credentials.Refusal{Reason: credentials.SecretUnavailable, Message: "The stored response cannot be looked up for now", Err: err}
	}
	x.Held = held
	if slug != "" && s.VirtualKey == "" && s.Provider == "" && s.Config == "" && s.Model == "" {
		s.Provider = "@" + slug
	}
	return nil
}

// responseID is the stored response that a call is about, or "".
func (x *Exchange) responseID() string {
	rest, ok := strings.CutPrefix(x.Path, "/responses/")
	if !ok || !strings.Contains(x.Endpoint.Path, "{response_id}") {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}
