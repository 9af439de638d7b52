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

// admits reports, as a *TooManyError, that there is no room for a new policy. It counts
// those in memory, which is what is bounded.
func (r *RateLimits) admits(p *RateLimit) error {
	a := r.active.Load()
	switch {
	case p.AllWorkspaces && len(a.everywhere) >= MaxOfOrganisation:
		return tooMany("An organisation", MaxOfOrganisation)
	case !p.AllWorkspaces && len(a.byWorkspace[p.WorkspaceID]) >= MaxOfWorkspace:
		return tooMany("A workspace", MaxOfWorkspace)
	case a.count >= MaxPolicies:
		return tooMany("An organisation, with all of its workspaces,", MaxPolicies)
	}
	return nil
}

// dropArchived makes room for a policy that is being archived.
func (r *RateLimits) dropArchived(tx *storage.Txn, p *RateLimit) error {
	var archived []*RateLimit
	for _, other := range r.rows.Memory().All() {
		if other.Archived && other.WorkspaceID == p.WorkspaceID && other.ID != p.ID {
			archived = append(archived, other)
		}
	}
	slices.SortStableFunc(archived, func(a, b *RateLimit) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	for _, other := range archived[:max(len(archived)+1-MaxArchived, 0)] {
		if err := r.rows.Delete(tx, other.ID); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}
