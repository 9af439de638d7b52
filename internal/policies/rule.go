package policies

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// A Rule is a policy in force.
type Rule struct {
	*Policy
	Limit  int64         // requests, tokens or pico-dollars
	Unit   string        // of a rate limit
	Window time.Duration // ledger.Forever: it is a budget

	counts             kind
	alertAt            *int64   // of a budget, what to alert of; nil: nothing
	carrier            *Carried // whose limit it is; nil: it is a policy
	allowsUnknownPrice bool
	schedule           *Schedule // of a budget
	now                atomic.Pointer[period]
}

// Budget reports whether the rule is a budget, and not a rate limit.
func (r *Rule) Budget() bool { return r.schedule != nil }

// Carrier is the kind of the object whose limit the rule is, as a condition names it; "": it is a
// policy.
func (r *Rule) Carrier() string {
	if r.carrier == nil {
		return ""
	}
	return r.carrier.Carrier
}

// dependsOnTarget reports whether the rule can only be asked once the target of a call is known.
func (r *Rule) dependsOnTarget(f Call) bool {
	return r.carrier != nil && r.carrier.ofTarget() || r.Policy.dependsOnTarget(f)
}

// A period is the time between two resets of a budget, or all time.
type period struct {
	counters
	until *time.Time // nil: forever
}

// counters are the counters of a policy, of one period.
type counters struct {
	*Policy
	name   string // of the policy, or of its period: what the names of counters begin with
	window time.Duration
}

func rateRule(p *RateLimit) *Rule {
	r := &Rule{Policy: &p.Policy, Limit: p.Value, Unit: p.Unit, Window: windows[p.Unit], counts: kinds[p.Type]}
	r.now.Store(&period{counters: counters{r.Policy, p.ID, r.Window}})
	return r
}

func usageRule(p *UsageLimit, now time.Time) *Rule {
	r := &Rule{
		Policy: &p.Policy, Limit: p.Limit, Window: ledger.Forever, counts: kinds[p.Type], alertAt: p.AlertThreshold,
		allowsUnknownPrice: p.OnUnknownPrice == Allow, schedule: &p.Schedule,
	}
	r.now.Store(periodOf(&p.Policy, p.At(now)))
	return r
}

func periodOf(p *Policy, s Schedule) *period {
	return &period{counters{p, countersOf(p.ID, s.Resets), ledger.Forever}, s.NextResetAt}
}

// countersOf names the counters of a budget in one period. They begin with those of the policy.
func countersOf(id string, resets int64) string {
	return prefix(id) + string(periodMark) + strconv.FormatInt(resets, 10)
}

// untilReset returns the time until a budget is reset, or [ledger.Never].
func (r *Rule) untilReset(now time.Time) time.Duration {
	if until := r.now.Load().until; until != nil {
		return max(until.Sub(now), 0)
	}
	return ledger.Never
}

// periodMark precedes the number of a period in the names of a budget's counters.
const periodMark = '@'

// at returns the counters at a time, and whether another period has begun. Time that steps back
// does not bring an earlier period back.
func (r *Rule) at(now time.Time) (c *counters, begun bool) {
	p := r.now.Load()
	if p.until == nil || now.Before(*p.until) {
		return &p.counters, false
	}
	next := periodOf(r.Policy, r.schedule.At(now))
	if !r.now.CompareAndSwap(p, next) {
		return &r.now.Load().counters, false
	}
	return &next.counters, true
}
