package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/storage"
)

// A RateLimit is a rate-limit policy.
type RateLimit struct {
	ID             string      `json:"id"`
	Name           string      `json:"name,omitempty"`
	Conditions     []Condition `json:"conditions"`
	GroupBy        []string    `json:"group_by"`
	Type           string      `json:"type"` // requests
	Unit           string      `json:"unit"` // rpm, rph, rpd
	Value          int64       `json:"value"`
	Archived       bool        `json:"archived,omitempty"`
	WorkspaceID    string      `json:"workspace_id"`
	OrganisationID string      `json:"organisation_id"`
	// AllWorkspaces is set if the policy counts the calls of every workspace, and not only
	// of the one that it is listed under. Policies that a key of the organisation creates
	// without naming a workspace are of this kind.
	AllWorkspaces bool      `json:"everywhere,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// Requests is the type of policies that count calls.
const Requests = "requests"

// Tokens is the type of policies that count tokens.
const Tokens = "tokens"

// windows are the units of rate limits.
var windows = map[string]time.Duration{"rpm": time.Minute, "rph": time.Hour, "rpd": 24 * time.Hour}

// MaxValue bounds a policy's value; it is exact as a JSON number.
const MaxValue = 1<<53 - 1

// Validate returns the first error in a policy as a *FieldError.
func (p *RateLimit) Validate() error {
	if len(p.Name) > MaxText {
		return &FieldError{"name", fmt.Sprintf("expected at most %d bytes", MaxText)}
	}
	switch p.Type {
	case Requests:
	case Tokens:
		return &FieldError{"type", "token limits are not supported yet; expected requests"}
	default:
		return &FieldError{"type", "expected requests"}
	}
	if windows[p.Unit] == 0 {
		return &FieldError{"unit", "expected one of rpm, rph, rpd"}
	}
	if p.Value < 0 || p.Value > MaxValue {
		return &FieldError{"value", fmt.Sprintf("expected a whole number from 0 to %d", int64(MaxValue))}
	}
	if err := checkConditions(p.Conditions); err != nil {
		return err
	}
	return checkGroupBy(p.GroupBy)
}

// RateLimits holds the policies of a store and admits calls. A change applies to the next
// call after its write has been answered. It is safe for concurrent use.
type RateLimits struct {
	rows   *storage.Cached[RateLimit]
	ledger ledger.Counter
	groups *groups
	now    func() time.Time
	active *atomic.Pointer[active] // of what memory has
}

// active is the policies in force, by the workspace whose calls they count.
type active struct {
	allWorkspaces []*RateLimit
	byWorkspace   map[string][]*RateLimit
}

// OpenRateLimits loads the policies of a store, whose calls l counts. Close l after the last use.
func OpenRateLimits(ctx context.Context, db *storage.DB, l ledger.Counter, now func() time.Time) (*RateLimits, error) {
	r := &RateLimits{
		rows: storage.NewCached(db, storage.NewCollection("rate-limit", func(p *RateLimit) string { return p.ID },
			storage.Index[RateLimit]{Name: byBounds, Counted: true, Keys: (*RateLimit).bounds})),
		ledger: l,
		groups: newGroups(now),
		now:    now,
		active: new(atomic.Pointer[active]),
	}
	r.rows.OnChange(r.refresh)
	if err := r.rows.Load(ctx); err != nil {
		return nil, err
	}
	for _, p := range r.rows.All() {
		if p.Archived || !p.bounded() {
			continue
		}
		if err := r.groups.restore(ctx, l, p); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *RateLimits) refresh() {
	a := &active{byWorkspace: make(map[string][]*RateLimit)}
	for _, p := range r.rows.Memory().All() {
		if p.Archived {
			continue
		}
		switch {
		case p.AllWorkspaces:
			a.allWorkspaces = append(a.allWorkspaces, p)
		default:
			a.byWorkspace[p.WorkspaceID] = append(a.byWorkspace[p.WorkspaceID], p)
		}
	}
	r.active.Store(a)
}

// In returns the policies as tx sees them, to be read and changed.
func (r *RateLimits) In(tx *storage.Txn) *RateLimits {
	in := *r
	in.rows = r.rows.In(tx)
	return &in
}

// Get returns a policy by its id.
func (r *RateLimits) Get(id string) (*RateLimit, bool) { return r.rows.Get(id) }

// All returns all policies in the order of their creation.
func (r *RateLimits) All() []*RateLimit { return r.rows.All() }

// Put stores a policy, whose ID is set, and sets its times. The error is a *FieldError, a
// *TooManyError, or what the store said.
func (r *RateLimits) Put(tx *storage.Txn, p *RateLimit) error {
	if err := p.Validate(); err != nil {
		return err
	}
	old, known := r.rows.In(tx).Get(p.ID)
	switch {
	case p.Archived:
		if err := r.dropArchived(tx, p); err != nil {
			return err
		}
	case !known, old.Archived:
		if err := r.admits(tx, p); err != nil {
			return err
		}
	}
	p.UpdatedAt = r.now().UTC()
	if p.CreatedAt.IsZero() {
		p.CreatedAt = p.UpdatedAt
	}
	return r.rows.Put(tx, p)
}

// Forget drops the counters of a policy that was archived. It is called after the commit.
func (r *RateLimits) Forget(ctx context.Context, id string) error {
	err := r.ledger.Forget(ctx, prefix(id))
	r.groups.forget(id)
	return err
}

// Groups returns the number of groups, by values chosen by callers, with their own
// counters, and the number of calls counted in shared counters.
func (r *RateLimits) Groups() (own int, overflows int64) { return r.groups.counts() }

// A Verdict is the decision of the policies on a call.
type Verdict struct {
	// Tightest is the state of the policy with the least remaining units, which is reported
	// to the caller. It is nil if no policy matched.
	Tightest *ledger.State
	// Denied is the policy that refused the call, or nil if it was admitted.
	Denied *RateLimit
	// Undecided is a policy that might match the call, depending on an unknown model. Then
	// nothing was counted, and the call must not be forwarded.
	Undecided *RateLimit

	reservation ledger.Reservation
	refs        []groupRef
	few         [2]groupRef // of refs
}

// Scope selects the policies that a call is counted against. If its target is chosen later,
// a call is first counted against the policies that do not depend on the target, and
// against the others when a target is tried.
type Scope uint8

// The scopes of policies.
const (
	ScopeAll    Scope = iota
	ScopeCall         // those that do not depend on the target
	ScopeTarget       // those that do
)

// includes reports whether a policy is one of those.
func (a Scope) includes(p *RateLimit) bool {
	return a == ScopeAll || p.dependsOnTarget() == (a == ScopeTarget)
}

func (p *RateLimit) dependsOnTarget() bool {
	for i := range p.Conditions {
		if ofTarget(p.Conditions[i].Key) {
			return true
		}
	}
	return slices.ContainsFunc(p.GroupBy, ofTarget)
}

func ofTarget(key string) bool { return key == KeyProvider || key == KeyVirtualKey || key == KeyModel }

// maxMoves bounds how often a call is counted again because a value's counter changed while
// the call was being counted.
const maxMoves = 10

// errMoved means that values' counters kept changing.
var errMoved = errors.New("the groups of rate limits are too busy")

// Admit counts a call against every policy of its workspace that matches, all
// together or none.
func (r *RateLimits) Admit(ctx context.Context, workspace string, f Call, ask Scope) (*Verdict, error) {
	for range maxMoves {
		v := new(Verdict)
		moved, err := r.admit(ctx, v, workspace, f, ask)
		if err == nil && !moved && v.Denied == nil && v.Undecided == nil {
			return v, nil
		}
		r.Release(v)
		if err != nil {
			return nil, err
		}
		if !moved {
			return v, nil
		}
	}
	return nil, fmt.Errorf("counting against rate limits: %w", errMoved)
}

// admit counts a call once. If it was not admitted, or a value moved in the meantime, the
// verdict must be released.
func (r *RateLimits) admit(ctx context.Context, v *Verdict, workspace string, f Call, ask Scope) (moved bool, err error) {
	a := r.active.Load()
	var few [4]ledger.Claim
	var fewMatched [4]*RateLimit
	claims, matched := few[:0], fewMatched[:0]
	v.refs = v.few[:0]
	alias, unread := f.ModelUnread()
	for _, list := range [...][]*RateLimit{a.allWorkspaces, a.byWorkspace[workspace]} {
		for _, p := range list {
			switch {
			case !ask.includes(p):
				continue
			case unread && p.undecided(f, alias):
				v.Undecided = p
				return false, nil
			case !matches(p.Conditions, f):
				continue
			}
			key, ok := group(p.ID, p.grouping(f), f)
			if !ok {
				continue
			}
			claim := ledger.Claim{Key: key, Limit: p.Value, Window: windows[p.Unit], Units: 1}
			if p.bounded() {
				caller := caller{workspace: workspace}
				caller.key, _ = grouped(f, KeyAPIKey)
				v.refs = append(v.refs, r.groups.find(p, short(p.ID, key), caller, f))
				v.refs[len(v.refs)-1].claim(&claim, p, f)
			}
			claims = append(claims, claim)
			matched = append(matched, p)
		}
	}
	if len(claims) == 0 {
		return false, nil
	}
	var decision ledger.Decision
	if v.reservation, decision, err = r.ledger.Reserve(ctx, claims); err != nil {
		return false, fmt.Errorf("counting against rate limits: %w", err)
	}
	v.decide(decision, matched)
	return decision.Admitted && !r.groups.confirm(v.refs), nil
}

// decide translates the ledger's decision for the caller.
func (v *Verdict) decide(decision ledger.Decision, matched []*RateLimit) {
	v.Tightest = &decision.States[0]
	for i := range decision.States {
		decision.States[i].Limit = matched[i].Value // also if there was no room for a value
		if s := &decision.States[i]; s.Remaining < v.Tightest.Remaining ||
			s.Remaining == v.Tightest.Remaining && s.Reset > v.Tightest.Reset {
			v.Tightest = s
		}
	}
	if decision.Admitted {
		return
	}
	v.Denied, v.Tightest = matched[decision.Denied], &decision.States[decision.Denied]
	for i := range decision.States { // the longest wait of all, so that the next attempt can succeed
		if s := &decision.States[i]; s.RetryAfter > v.Tightest.RetryAfter {
			v.Denied, v.Tightest = matched[i], s
		}
	}
	if v.Tightest.RetryAfter == ledger.Never {
		v.Tightest.RetryAfter = windows[v.Denied.Unit]
	}
}

// Release gives back what was counted for a call that was not forwarded.
func (r *RateLimits) Release(v *Verdict) {
	r.ledger.Release(v.reservation)
	r.groups.release(v.refs)
	v.refs = nil
}
