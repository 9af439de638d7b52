package routing

import "github.com/caddy-gw/gateway/storage"

// CountOf returns how many configs a workspace has, in a transaction (see [ConfigStore.In]).
func (s *ConfigStore) CountOf(workspace string) int { return s.rows.Count(byWorkspace, workspace) }

// Of returns the ids of at most limit configs of a workspace.
func (s *ConfigStore) Of(workspace string, limit int) []string {
	return storage.Some(s.rows.Where(byWorkspace, workspace), limit, func(c *Saved) string { return c.ID })
}

// CountOf returns how many aliases a workspace has, in a transaction (see [Aliases.In]).
func (a *Aliases) CountOf(workspace string) int { return a.rows.Count(byWorkspace, workspace) }

// Of returns the ids of at most limit aliases of a workspace.
func (a *Aliases) Of(workspace string, limit int) []string {
	return storage.Some(a.rows.Where(byWorkspace, workspace), limit, func(a *Alias) string { return a.ID })
}
