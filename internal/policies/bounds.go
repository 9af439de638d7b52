package policies

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-gw/gateway/storage"
)

// Bounds of how many policies there are: memory holds all, and a call is held against those
// of its workspace and of the organisation. The first three are of policies in force, of one kind.
const (
	MaxOfWorkspace    = 200 // for the calls of one workspace
	MaxOfOrganisation = 200 // for the calls of every workspace
	MaxPolicies       = 20_000
	MaxArchived       = 1_000 // of a workspace; beyond that, those archived longest ago are dropped
)

// A TooManyError says that another policy would be more than there may be.
type TooManyError struct{ message string }

func (e *TooManyError) Error() string { return e.message }

func (s *Store[P]) tooMany(what string, limit int) error {
	return &TooManyError{fmt.Sprintf("%s has at most %d %s policies; archive one first", what, limit, s.kind)}
}

// byBounds is the index of what the bounds are held against.
const byBounds = "bounds"

// What is bounded together.
const (
	inForce        = "all"
	everywhere     = "everywhere"
	ofWorkspace    = "workspace/" // and its id
	archivedInside = "archived/"  // and the id of a workspace
)

// bounds are the values of a policy in the index.
func (p *Policy) bounds() []string {
	switch {
	case p.Archived:
		return []string{archivedInside + p.WorkspaceID}
	case p.AllWorkspaces:
		return []string{inForce, everywhere}
	}
	return []string{inForce, ofWorkspace + p.WorkspaceID}
}

// admits reports, as a *TooManyError, that there is no room for a new policy.
func (s *Store[P]) admits(tx *storage.Txn, p *Policy) error {
	count := func(value string) int { return s.rows.In(tx).Count(byBounds, value) }
	switch {
	case p.AllWorkspaces && count(everywhere) >= MaxOfOrganisation:
		return s.tooMany("An organisation", MaxOfOrganisation)
	case !p.AllWorkspaces && count(ofWorkspace+p.WorkspaceID) >= MaxOfWorkspace:
		return s.tooMany("A workspace", MaxOfWorkspace)
	case count(inForce) >= MaxPolicies:
		return s.tooMany("An organisation, with all of its workspaces,", MaxPolicies)
	}
	return nil
}

// dropArchived makes room for a policy that is being archived. Memory says which were
// archived first, as it is not to be read again for each policy, and what has been archived
// stays so; the store, when there is room.
func (s *Store[P]) dropArchived(tx *storage.Txn, p *Policy) error {
	stored := s.rows.In(tx)
	surplus := func() bool { return stored.Count(byBounds, archivedInside+p.WorkspaceID) >= MaxArchived }
	if old, ok := stored.Get(p.ID); ok && s.base(old).Archived || !surplus() {
		return nil
	}
	for _, rows := range []*storage.Cached[*P]{s.rows.Memory(), stored} {
		var archived []*Policy
		for _, row := range rows.All() {
			if other := s.base(row); other.Archived && other.WorkspaceID == p.WorkspaceID {
				archived = append(archived, other)
			}
		}
		slices.SortStableFunc(archived, longestAgo)
		for _, other := range archived {
			if !surplus() {
				return nil
			}
			if err := stored.Delete(tx, other.ID); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}
