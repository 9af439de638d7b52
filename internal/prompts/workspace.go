package prompts

import "github.com/caddy-gw/gateway/storage"

// Counts returns how many prompts (partials included), labels and collections a workspace has,
// in a transaction (see [Store.In]). Those that every workspace has are not counted.
func (s *Store) Counts(workspace string) (prompts, labels, collections int) {
	return s.prompts.Count(byWorkspace, workspace), s.labels.Count(byWorkspace, workspace), s.collections.Count(byWorkspace, workspace)
}

// Of returns the ids of at most limit prompts and partials of a workspace.
func (s *Store) Of(workspace string, limit int) []string {
	return storage.Some(s.prompts.Where(byWorkspace, workspace), limit, func(p *Prompt) string { return p.ID })
}

// LabelsOfWorkspace returns the ids of at most limit labels of a workspace.
func (s *Store) LabelsOfWorkspace(workspace string, limit int) []string {
	return storage.Some(s.labels.Where(byWorkspace, workspace), limit, func(l *Label) string { return l.ID })
}

// CollectionsOf returns the ids of at most limit collections of a workspace.
func (s *Store) CollectionsOf(workspace string, limit int) []string {
	return storage.Some(s.collections.Where(byWorkspace, workspace), limit, func(c *Collection) string { return c.ID })
}
