package prompts

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A Share makes a prompt or a partial available to other workspaces of its organisation, which
// may read, render and fork it.
type Share struct {
	AllWorkspaces bool      `json:"everywhere,omitempty"` // in every workspace
	Workspaces    []string  `json:"workspaces,omitempty"` // otherwise in these, by id
	VersionID     string    `json:"version_id"`           // that was published when it was shared
	SharedBy      string    `json:"shared_by,omitempty"`  // a user
	SharedAt      time.Time `json:"shared_at"`
}

// MaxShared is the maximum number of workspaces that a prompt is shared with by name.
const MaxShared = 500

// In reports whether a workspace may use what is shared.
func (s *Share) In(workspace string) bool {
	return s != nil && (s.AllWorkspaces || slices.Contains(s.Workspaces, workspace))
}

// Covers reports whether s is available wherever other is.
func (s *Share) Covers(other *Share) bool {
	switch {
	case other == nil:
		return true
	case s == nil:
		return false
	case s.AllWorkspaces || other.AllWorkspaces:
		return s.AllWorkspaces
	}
	return !slices.ContainsFunc(other.Workspaces, func(w string) bool { return !s.In(w) })
}

// With returns a share of the same origin as s that covers both s and other, which may be nil.
func (s *Share) With(other *Share) *Share {
	both := *s
	if other == nil {
		return &both
	}
	if both.AllWorkspaces = s.AllWorkspaces || other.AllWorkspaces; both.AllWorkspaces {
		both.Workspaces = nil
		return &both
	}
	both.Workspaces = slices.Concat(s.Workspaces, slices.DeleteFunc(slices.Clone(other.Workspaces), s.In))
	return &both
}

// VisibleIn reports whether a workspace has the prompt, or it is shared with it.
func (p *Prompt) VisibleIn(workspace string) bool {
	return p.WorkspaceID == workspace || p.Share.In(workspace)
}

// Included returns the partials that a version of a prompt inserts by name, with those that they
// insert, as far as they are visible in the prompt's workspace. The names of others are missing.
func (s *Store) Included(ctx context.Context, p *Prompt, v *Version) (all []*Prompt, missing []string, err error) {
	seen := map[string]bool{p.ID: true}
	var add func(p *Prompt, v *Version) error
	add = func(of *Prompt, v *Version) error {
		compiled, err := s.Compiled(ctx, of, v)
		if err != nil {
			return err
		}
		for _, reference := range compiled.Uses().Partials {
			partial, v, ok := s.Find(p.WorkspaceID, strings.TrimSpace(reference), true)
			if !ok {
				missing = append(missing, reference)
				continue
			}
			if seen[partial.ID] {
				continue
			}
			seen[partial.ID] = true
			all = append(all, partial)
			if err := add(partial, v); err != nil {
				return err
			}
		}
		return nil
	}
	err = add(p, v)
	return all, missing, err
}
