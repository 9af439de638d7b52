package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	workspace   string
	reservation ledger.Reservation
	begun       time.Time
	refs        []groupRef
	few         [2]groupRef // of refs
	matched     []*Rule     // of each claim
	fewMatched  [4]*Rule
	demand      *estimate.Demand // nil: no policy has asked for it
	most        prices.Usage     // that it may use
	text        TextCounter      // of which tokens may be counted; nil: they were, or cannot be
	textFirst   bool             // they are to be counted before the call is
	ofModel     map[int]string   // of claims, the model of a batch that has several
	place       bool             // it takes the place of a batch of its workspace
}

// A Denial is a refusal of a policy.
type Denial struct {
	*Rule
	ledger.State
	Group string // the value key of the counter; "default": there is just one
	Needs int64  // what the call may use, in the units of the policy's type

	// UnknownPrice: the price of the call's model is not known, or that of Unpriced. Spent: the budget has no
	// room for the call, and not only because of what others have reserved; no retry helps.
	UnknownPrice, Spent bool
	Unpriced            string
	// Never: the call may use more than a rate limit ever allows at once.
	Never bool
	// Batches: what batches and fine-tuning jobs hold of the budget keeps the call out, whatever becomes of other calls. They may hold it for days.
	Batches bool
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

	// With one of these, only some of those: the policies of requests that do not depend on the model, and all others.
	OfRequests Scope = 1 << 6
	OfUsage    Scope = 1 << 7
)

// includes reports whether a rule is one of those for a call.
func (a Scope) includes(r *Rule, f Call) bool {
	if which := a & (OfRequests | OfUsage); which != 0 && (which == OfRequests) != (r.Type == Requests && !r.dependsOnModel()) {
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
	var counted *estimate.Demand // with the tokens of its text; nil: they were not counted
	for moves := 0; moves < maxMoves; {
		v := &Verdict{limits: l, workspace: workspace}
		if counted != nil {
			v.demand, v.most = counted, l.learned.Most(counted)
		}
		moved, freed, err := l.admit(ctx, v, workspace, f, ask)
		if err == nil && !moved && !v.refused() {
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
		case v.textFirst, v.Denied != nil && v.worthCounting(v.Denied):
			counted = l.countText(ctx, v)
			continue
		case freed == nil || maxWait <= 0 || v.Denied.Batches:
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
	reads := f.Reads()
	now := l.now()
	if t := f.TokenLimits(); t != nil && !l.tokens.use(workspace, t, now) {
		return false, nil, errTooManyTokens
	}
	carried := l.Carried.of(workspace, f, now)
	var someRules [16]*Rule
	rules := a.byWorkspace[workspace].of(f, unread, a.allWorkspaces.of(f, unread, someRules[:0]))
	for _, list := range [...][]*Rule{rules, carried[0], carried[1], carried[2], carried[3], carried[4], carried[5]} {
		for _, r := range list {
			if !ask.includes(r, f) || reads && !r.hasCondition(KeyEndpoint) {
				continue
			}
			if !unread || !r.undecided(f, alias) {
				if claims, err = v.claim(claims, workspace, r, f, nil, now); v.refused() || err != nil {
					return false, nil, err
				}
				continue
			}
			lines, err := v.lines(r, f)
			if lines == nil {
				return false, nil, err
			}
			for i := range lines.Models {
				of := &lines.Models[i]
				claims, err = v.claim(claims, workspace, r, ofModel{f, of.Model, alias + of.Model}, of, now)
				if v.refused() || err != nil {
					return false, nil, err
				}
				if n := len(v.matched); n > 0 && v.matched[n-1] == r && r.Type == Requests && !slices.Contains(r.GroupBy, KeyModel) {
					break // a batch is one request
				}
			}
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

// refused reports whether a policy has refused the call, or wants the tokens of its text first.
func (v *Verdict) refused() bool { return v.Denied != nil || v.Undecided != nil || v.textFirst }

// claim adds what a rule counts of a call, if it matches; of a batch, of those of its calls that have one model, unless of is nil.
func (v *Verdict) claim(claims []ledger.Claim, workspace string, r *Rule, f Call, of *estimate.LinesOf, now time.Time) ([]ledger.Claim, error) {
	if !matches(r.Conditions, f) {
		return claims, nil
	}
	counters, begun := r.at(now)
	if begun {
		v.limits.reset(r)
	}
	key, ok := group(counters.name, r.grouping(f), f)
	if !ok {
		return claims, nil
	}
	claim := ledger.Claim{Key: key, Limit: r.Limit, Window: r.Window, Units: 1, Estimate: r.Budget() || r.Type != Requests}
	if r.Type != Requests {
		counts, denied := v.estimate(&claim, r, f, of)
		_, unread := f.ModelUnread()
		switch {
		case v.demand.Failed != nil:
			return claims, v.demand.Failed
		case r.Type == Cost && v.demand.Lines != nil && v.demand.Lines.Others && (counts || denied != nil && denied.UnknownPrice),
			unread && v.demand.Lines == nil && (denied != nil && denied.UnknownPrice || counts && r.Type == Cost):
			v.Undecided = r // it may be answered by a dearer model than the one that was read
			return claims, nil
		case denied != nil:
			denied.Rule, denied.Group = r, valueKey(r.GroupBy, key, counters.name)
			v.Denied = denied
			return claims, nil
		case !counts:
			return claims, nil
		case v.largeText(&claim, r):
			v.textFirst = true
			return claims, nil
		}
	}
	if r.bounded() {
		caller := caller{workspace: workspace}
		caller.key, _ = grouped(f, KeyAPIKey)
		groups := v.limits.groups
		v.refs = append(v.refs, groups.find(counters, short(counters.name, key), caller, f))
		v.refs[len(v.refs)-1].claim(&claim, counters, f)
	}
	if of != nil && len(v.demand.Lines.Models) > 1 {
		if v.ofModel == nil {
			v.ofModel = make(map[int]string)
		}
		v.ofModel[len(claims)] = of.Model
	}
	v.matched = append(v.matched, r)
	return append(claims, claim), nil
}

// lines returns the calls of a batch, for a rule that may match some of them, depending on their models. nil: the rule refuses the
// call, or the calls cannot be had now, which is the error.
func (v *Verdict) lines(r *Rule, f Call) (*estimate.Lines, error) {
	switch d := v.asks(f); {
	case d.Failed != nil:
		return nil, d.Failed
	case d.Lines != nil && d.Lines.Trains:
		v.Undecided = r
		return nil, nil
	case d.Unmetered != "" && d.Lines != nil:
		v.Denied = &Denial{Rule: r, Unmetered: d.Unmetered}
		return nil, nil
	case d.Lines == nil || d.Lines.Unnamed != "":
		v.Undecided = r
		return nil, nil
	default:
		return d.Lines, nil
	}
}

// asks returns what the call may use.
func (v *Verdict) asks(f Call) *estimate.Demand {
	if v.demand == nil {
		demand := f.Demand(v.limits.learned)
		v.demand, v.most = &demand, v.limits.learned.Most(&demand)
		if demand.Lines == nil && demand.Bytes > 0 {
			v.text, _ = f.(TextCounter)
		}
	}
	return v.demand
}

// ofModel is a call that makes a batch, as those of its calls that have one model.
type ofModel struct {
	Call
	model, alias string
}

// Attribute is [Call.Attribute].
func (c ofModel) Attribute(key string) (value, alias string, ok bool) {
	if key == KeyModel {
		return c.model, c.alias, true
	}
	return c.Call.Attribute(key)
}

// estimate asks for as much as a call may use, or those calls of a batch that have one model, unless of is nil. counts: it may
// use something. denied is why no bound of it is known; its rule is not set.
func (v *Verdict) estimate(c *ledger.Claim, r *Rule, f Call, of *estimate.LinesOf) (counts bool, denied *Denial) {
	d := v.asks(f)
	switch {
	case r.Type == Cost && d.Unpriced != "" && d.Unmetered == "" && !r.allowsUnknownPrice:
		return false, &Denial{UnknownPrice: true, Unpriced: d.Unpriced}
	case d.Free:
		return false, nil
	case d.Unmetered != "":
		return false, &Denial{Unmetered: d.Unmetered}
	case d.Failed != nil:
		return false, nil
	case d.Lines != nil && !v.place:
		if !v.limits.enter(d.Model.Workspace) {
			return false, &Denial{Unmetered: "too many batches and fine-tuning jobs of the workspace are not settled; read the output of the batches and the status of the jobs"}
		}
		v.place = true
	}
	if of == nil && d.Lines != nil {
		of = &d.Lines.LinesOf
	}
	most := &v.most
	if of != nil {
		most = &of.Most
	}
	c.Units = estimate.Sum(most.Prompt, most.Completion)
	if r.Type == Cost {
		var cost prices.Amount
		var known bool
		if of != nil {
			cost, known = of.Cost, !of.Unpriced
		} else {
			cost, known = d.Cost(most)
		}
		switch {
		case known:
			c.Units = int64(cost)
		case r.allowsUnknownPrice && d.Lines == nil:
			return false, nil
		case r.allowsUnknownPrice:
			c.Units = int64(cost)
		default:
			denied = &Denial{UnknownPrice: true}
			if d.Lines != nil {
				denied.Unpriced = d.Lines.Charge
			}
			return false, denied
		}
	}
	if !d.Bounded() && c.Limit > 0 { // a bound that is only learned must not be one that nothing fits
		c.Units = min(c.Units, c.Limit)
	}
	if known, guess := v.limits.learned.Known(d, most); guess {
		least := estimate.Sum(known.Prompt, known.Completion)
		if r.Type == Cost {
			cost, _ := d.Cost(&known)
			least = int64(cost)
		}
		c.Least = min(max(least, 1), c.Units)
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
		d := &Denial{Rule: r, State: s}
		for j := range claims { // of the models of a batch, which may share a counter
			if claims[j].Key == claims[i].Key {
				d.Needs = estimate.Sum(d.Needs, cmp.Or(claims[j].Least, claims[j].Units))
			}
		}
		switch {
		case r.Budget():
			if d.Spent = !s.MayFit; d.Spent && claims[i].Limit == r.Limit && !v.worthCounting(d) { // otherwise there was no room for a value
				v.limits.checkAlerts(r, v.workspace, claims[i].Key, s.Limit-s.Remaining-s.Held, true)
			}
			d.RetryAfter = v.limits.waits.wait(claims[i].Key)
			if held := v.limits.parked.holds(claims[i].Key); !d.Spent && held > 0 && d.Needs > s.Remaining+s.Held-held {
				d.Batches, d.RetryAfter = true, r.Window
			}
		case s.RetryAfter == ledger.Never:
			d.RetryAfter, d.Never = r.Window, d.Needs > r.Limit
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
