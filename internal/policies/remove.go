package policies

import "github.com/caddy-gw/gateway/storage"

// CountOf returns how many policies in force a workspace has, in a transaction (see
// [Store.In]).
func (s *Store[P]) CountOf(workspace string) int {
	return s.rows.Count(byBounds, ofWorkspace+workspace)
}

// Of returns the ids of at most limit policies of a workspace, archived ones included, as memory
// has them.
func (s *Store[P]) Of(workspace string, limit int) []string {
	return storage.Some(s.rows.Memory().Where(byOwner, workspace), limit, func(p *P) string { return s.base(p).ID })
}

// Delete removes a policy. Its counters remain, see [Limits.Forget].
func (s *Store[P]) Delete(tx *storage.Txn, id string) error { return s.rows.Delete(tx, id) }
