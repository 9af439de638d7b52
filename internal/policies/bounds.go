package policies

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-gw/gateway/storage"
)

// Bounds of how many policies there are: memory holds all, and a call is held against those
// of its workspace and of the organisation. The first three are of policies in force.
const (
	MaxOfWorkspace    = 200 // for the calls of one workspace
	MaxOfOrganisation = 200 // for the calls of every workspace
	MaxPolicies       = 20_000
	MaxArchived       = 1_000 // of a workspace; beyond that, those archived longest ago are dropped
)

// A TooManyError says that another policy would be more than there may be.
type TooManyError struct{ message string }

func (e *TooManyError) Error() string { return e.message }

func tooMany(what string, limit int) error {
	return &TooManyError{fmt.Sprintf("%s has at most %d rate-limit policies; archive one first", what, limit)}
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
func (p *RateLimit) bounds() []string {
	switch {
	case p.Archived:
		return []string{archivedInside + p.WorkspaceID}
	case p.AllWorkspaces:
		return []string{inForce, everywhere}
	}
	return []string{inForce, ofWorkspace + p.WorkspaceID}
}

// admits reports, as a *TooManyError, that there is no room for a new policy.
func (r *RateLimits) admits(tx *storage.Txn, p *RateLimit) error {
	count := func(value string) int { return r.rows.In(tx).Count(byBounds, value) }
	switch {
	case p.AllWorkspaces && count(everywhere) >= MaxOfOrganisation:
		return tooMany("An organisation", MaxOfOrganisation)
	case !p.AllWorkspaces && count(ofWorkspace+p.WorkspaceID) >= MaxOfWorkspace:
		return tooMany("A workspace", MaxOfWorkspace)
	case count(inForce) >= MaxPolicies:
		return tooMany("An organisation, with all of its workspaces,", MaxPolicies)
	}
	return nil
}

// dropArchived makes room for a policy that is being archived. Memory says which were
// archived first, as it is not to be read anew for each policy, and what has been archived
// stays so; the store, when there is room.
func (r *RateLimits) dropArchived(tx *storage.Txn, p *RateLimit) error {
	stored := r.rows.In(tx)
	surplus := func() bool { return stored.Count(byBounds, archivedInside+p.WorkspaceID) >= MaxArchived }
	if old, ok := stored.Get(p.ID); ok && old.Archived || !surplus() {
		return nil
	}
	for _, rows := range []*storage.Cached[RateLimit]{r.rows.Memory(), stored} {
		var archived []*RateLimit
		for _, other := range rows.All() {
			if other.Archived && other.WorkspaceID == p.WorkspaceID {
				archived = append(archived, other)
			}
		}
		slices.SortStableFunc(archived, func(a, b *RateLimit) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
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
