package policies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/prices"
)

// A Verdict is the decision of the policies on a call.
type Verdict struct {
	// Requests and Tokens are the states of the policies of these types with the least
	// remaining units, which are reported to the caller. They are nil if no such policy
	// matched.
	Requests, Tokens *ledger.State
	// Denied is the policy that refused the call, or nil if it was admitted.
	Denied *Denial
	// Undecided is a policy that might match the call, depending on an unknown model. Then
	// nothing was counted, and the call must not be forwarded.
	Undecided *Rule

	limits      *Limits
	reservation ledger.Reservation
	begun       time.Time
	refs        []groupRef
	few         [2]groupRef // of refs
	matched     []*Rule     // of each claim
	fewMatched  [4]*Rule
	demand      *estimate.Demand // nil: no policy has asked for it
	most        prices.Usage     // that it may use
	place       bool             // it takes the place of a batch of its workspace
}

// A Denial is a refusal of a policy.
type Denial struct {
	*Rule
	ledger.State
	Group string // the value key of the counter; "default": there is just one
	Needs int64  // what the call may use, in the units of the policy's type

	// UnknownPrice: the price of the call's model is not known. Spent: the budget has no
	// room for the call, and not only because of what others have reserved; no retry helps.
	UnknownPrice, Spent bool
	// Never: the call may use more than a rate limit of tokens ever allows at once.
	Never bool
	// Unmetered is why it is not known what the call uses; "": it is.
	Unmetered string
}

// A kind is what a claim counts.
type kind uint8

const (
	countsCalls kind = iota
	countsTokens
	countsCost
)

var kinds = map[string]kind{Requests: countsCalls, Tokens: countsTokens, Cost: countsCost}

// Scope selects the policies that a call is counted against. If its target is chosen later,
// a call is first counted against the policies that do not depend on the target, and
// against the others when a target is tried.
type Scope uint8

// The scopes of policies.
const (
	ScopeAll    Scope = iota
	ScopeCall         // those that do not depend on the target
	ScopeTarget       // those that do

	// With one of these, only some of those: the policies of requests, and all others.
	OfRequests Scope = 1 << 6
	OfUsage    Scope = 1 << 7
)

// includes reports whether a rule is one of those for a call.
func (a Scope) includes(r *Rule, f Call) bool {
	if a&OfRequests != 0 && r.Type != Requests || a&OfUsage != 0 && r.Type == Requests {
		return false
	}
	a &^= OfRequests | OfUsage
	return a == ScopeAll || r.dependsOnTarget(f) == (a == ScopeTarget)
}

// maxMoves bounds how often a call is counted again because a value's counter changed while
// the call was being counted.
const maxMoves = 10

// errMoved means that values' counters kept changing.
var errMoved = errors.New("the groups of rate limits are too busy")

// Admit counts a call against every policy of its workspace that matches, all together or none.
// While only what other calls have reserved keeps it out, it waits for them, at most for
// maxWait.
func (l *Limits) Admit(ctx context.Context, workspace string, f Call, ask Scope, maxWait time.Duration) (*Verdict, error) {
	var late <-chan time.Time
	for moves := 0; moves < maxMoves; {
		v := &Verdict{limits: l}
		moved, freed, err := l.admit(ctx, v, workspace, f, ask)
		if err == nil && !moved && v.Denied == nil && v.Undecided == nil {
			v.begun = l.now()
			return v, nil
		}
		l.Release(v)
		switch {
		case err != nil:
			return nil, err
		case moved:
			moves++
			continue
		case freed == nil || maxWait <= 0:
			return v, nil
		}
		if late == nil {
			timer := time.NewTimer(maxWait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
		case <-late:
			return v, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a limit: %w", context.Cause(ctx))
		}
	}
	return nil, fmt.Errorf("counting against rate limits: %w", errMoved)
}

// admit counts a call once. If it was not admitted, or a value moved in the meantime, the
// verdict must be released.
func (l *Limits) admit(ctx context.Context, v *Verdict, workspace string, f Call, ask Scope) (moved bool, freed <-chan struct{}, err error) {
	a := l.active.Load()
	var few [4]ledger.Claim
	claims := few[:0]
	v.refs, v.matched = v.few[:0], v.fewMatched[:0]
	alias, unread := f.ModelUnread()
	now := l.now()
	if t := f.TokenLimits(); t != nil && !l.tokens.use(workspace, t, now) {
		return false, nil, errTooManyTokens
	}
	carried := l.Carried.of(workspace, f, now)
	var someRules [16]*Rule
	rules := a.byWorkspace[workspace].of(f, unread, a.allWorkspaces.of(f, unread, someRules[:0]))
	for _, list := range [...][]*Rule{rules, carried[0], carried[1], carried[2], carried[3], carried[4], carried[5]} {
		for _, r := range list {
			switch {
			case !ask.includes(r, f):
				continue
			case unread && r.undecided(f, alias):
				v.Undecided = r
				return false, nil, nil
			case !matches(r.Conditions, f):
				continue
			}
			counters, begun := r.at(now)
			if begun {
				l.reset(r)
			}
			key, ok := group(counters.name, r.grouping(f), f)
			if !ok {
				continue
			}
			claim := ledger.Claim{Key: key, Limit: r.Limit, Window: r.Window, Units: 1, Estimate: r.Budget() || r.Type != Requests}
			if r.Type != Requests {
				counts, denied := v.estimate(&claim, r, f)
				switch {
				case v.demand.Failed != nil:
					return false, nil, v.demand.Failed
				case denied != nil && denied.UnknownPrice && unread && v.demand.Lines == nil:
					v.Undecided = r
					return false, nil, nil
				case denied != nil:
					denied.Rule, denied.Group = r, valueKey(r.GroupBy, key, counters.name)
					v.Denied = denied
					return false, nil, nil
				case !counts:
					continue
				}
			}
			if r.bounded() {
				caller := caller{workspace: workspace}
				caller.key, _ = grouped(f, KeyAPIKey)
				v.refs = append(v.refs, l.groups.find(counters, short(counters.name, key), caller, f))
				v.refs[len(v.refs)-1].claim(&claim, counters, f)
			}
			claims = append(claims, claim)
			v.matched = append(v.matched, r)
		}
	}
	if len(claims) == 0 {
		return false, nil, nil
	}
	var decision ledger.Decision
	if v.reservation, decision, err = l.ledger.Reserve(ctx, claims); err != nil {
		return false, nil, fmt.Errorf("counting against rate limits: %w", err)
	}
	v.decide(decision, claims)
	return decision.Admitted && !l.groups.confirm(v.refs), decision.Freed, nil
}

// estimate asks for as much as a call may use. counts: it may use something. denied is why no bound
// of it is known; its rule is not set.
func (v *Verdict) estimate(c *ledger.Claim, r *Rule, f Call) (counts bool, denied *Denial) {
	if v.demand == nil {
		demand := f.Demand(v.limits.learned)
		v.demand, v.most = &demand, v.limits.learned.Most(&demand)
	}
	d := v.demand
	switch {
	case d.Free:
		return false, nil
	case d.Unmetered != "":
		return false, &Denial{Unmetered: d.Unmetered}
	case d.Failed != nil:
		return false, nil
	case d.Lines != nil && !v.place:
		if !v.limits.enter(d.Model.Workspace) {
			return false, &Denial{Unmetered: "too many batches of the workspace are not settled; read their output"}
		}
		v.place = true
	}
	c.Units = estimate.Sum(v.most.Prompt, v.most.Completion)
	if r.Type == Cost {
		cost, known := d.Cost(&v.most)
		switch {
		case known:
			c.Units = int64(cost)
		case r.allowsUnknownPrice && d.Lines == nil:
			return false, nil
		case r.allowsUnknownPrice:
			c.Units = int64(cost)
		default:
			return false, &Denial{UnknownPrice: true}
		}
	}
	if !d.Bounded() && c.Limit > 0 { // a bound that is only learned must not be one that nothing fits
		c.Units = min(c.Units, c.Limit)
	}
	return true, nil
}

// decide translates the ledger's decision for the caller.
func (v *Verdict) decide(decision ledger.Decision, claims []ledger.Claim) {
	for i := range decision.States {
		s := &decision.States[i]
		s.Limit = v.matched[i].Limit // also if there was no room for a value
		if v.matched[i].Budget() {   // what it counts stays until then
			s.Reset = v.matched[i].untilReset(v.limits.now())
		}
		switch v.matched[i].counts {
		case countsCalls:
			v.Requests = ledger.Tighter(v.Requests, s)
		case countsTokens:
			v.Tokens = ledger.Tighter(v.Tokens, s)
		}
	}
	if decision.Admitted {
		return
	}
	for i := range decision.States { // the longest wait of all, so that the next attempt can succeed
		s, r := decision.States[i], v.matched[i]
		if s.RetryAfter == 0 {
			continue
		}
		d := &Denial{Rule: r, State: s, Needs: claims[i].Units}
		switch {
		case r.Budget():
			if d.Spent = !s.MayFit; d.Spent && claims[i].Limit == r.Limit { // otherwise there was no room for a value
				v.limits.checkAlerts(r, claims[i].Key, s.Limit-s.Remaining-s.Held, true)
			}
			d.RetryAfter = v.limits.waits.wait(claims[i].Key)
		case s.RetryAfter == ledger.Never:
			d.RetryAfter, d.Never = r.Window, r.Type == Tokens && d.Needs > r.Limit
		}
		if v.Denied == nil || d.Spent && !v.Denied.Spent || d.Spent == v.Denied.Spent && d.RetryAfter > v.Denied.RetryAfter {
			counters, _ := r.at(v.limits.now())
			d.Group = valueKey(r.GroupBy, claims[i].Key, counters.name)
			v.Denied = d
		}
	}
	if s := &v.Denied.State; v.Denied.Type == Requests {
		v.Requests = s
	} else if v.Denied.Type == Tokens {
		v.Tokens = s
	}
}
