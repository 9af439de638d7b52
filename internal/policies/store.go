package policies

import (
	"cmp"
	"context"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A Store holds the policies of one kind. A change applies to the next call after its write has
// been answered. It is safe for concurrent use.
type Store[P any] struct {
	rows     *storage.Cached[*P]
	kind     string // rate-limit, usage-limit
	base     func(*P) *Policy
	validate func(*P) error
	now      func() time.Time
}

func openStore[P any](ctx context.Context, db *storage.DB, kind string, base func(*P) *Policy, validate func(*P) error, now func() time.Time, changed func()) (*Store[P], error) {
	s := &Store[P]{kind: kind, base: base, validate: validate, now: now}
	s.rows = storage.NewCached(db, storage.NewCollection(kind, func(p *P) string { return base(p).ID },
		storage.Index[*P]{Name: byBounds, Counted: true, Keys: func(p *P) []string { return base(p).bounds() }},
		storage.Index[*P]{Name: byOwner, Memory: true, Keys: func(p *P) []string { return base(p).owner() }},
		storage.Index[*P]{Name: byList, Memory: true, Keys: func(p *P) []string { return base(p).lists() }}))
	s.rows.OnChange(changed)
	return s, s.rows.Load(ctx)
}

// In returns the policies as tx sees them, to be read and changed.
func (s *Store[P]) In(tx *storage.Txn) *Store[P] {
	in := *s
	in.rows = s.rows.In(tx)
	return &in
}

// Get returns a policy by its id.
func (s *Store[P]) Get(id string) (*P, bool) { return s.rows.Get(id) }

// All returns all policies in the order of their creation.
func (s *Store[P]) All() []*P { return s.rows.All() }

// Listed returns the policies of a workspace and of a type that are archived, or are not, in the order of their
// creation; of "", those of all workspaces, or of all types.
func (s *Store[P]) Listed(workspace, kind string, archived bool) []*P {
	return s.rows.Where(byList, listName(archived, storage.Combined(workspace, kind)))
}

// byList is the index of [Store.Listed].
const byList = "list"

// byOwner is the index of [Store.Of].
const byOwner = "owner"

// owner returns the workspace whose the policy is, if it is not the organisation's.
func (p *Policy) owner() []string {
	if p.AllWorkspaces {
		return nil
	}
	return []string{p.WorkspaceID}
}

// lists returns the names of the lists that the policy is in.
func (p *Policy) lists() []string {
	in := storage.Combinations(p.WorkspaceID, p.Type)
	for i, of := range in {
		in[i] = listName(p.Archived, of)
	}
	return in
}

func listName(archived bool, of string) string {
	if archived {
		return "archived/" + of
	}
	return "active/" + of
}

// Put stores a policy, whose ID is set, and sets its times. The error is a *FieldError, a
// *TooManyError, or the error of the store.
func (s *Store[P]) Put(tx *storage.Txn, row *P) error {
	if err := s.validate(row); err != nil {
		return err
	}
	p := s.base(row)
	old, known := s.rows.In(tx).Get(p.ID)
	switch {
	case p.Archived:
		if err := s.dropArchived(tx, p); err != nil {
			return err
		}
	case !known, s.base(old).Archived:
		if err := s.admits(tx, p); err != nil {
			return err
		}
	}
	p.UpdatedAt = s.now().UTC()
	if p.CreatedAt.IsZero() {
		p.CreatedAt = p.UpdatedAt
	}
	return s.rows.Put(tx, row)
}

// active returns the policies in force, as memory has them.
func (s *Store[P]) active() []*P {
	var active []*P
	for _, p := range s.rows.Memory().All() {
		if !s.base(p).Archived {
			active = append(active, p)
		}
	}
	return active
}

// longestAgo orders policies by when they were changed.
func longestAgo(a, b *Policy) int {
	return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID, b.ID))
}
