package policies

import (
	"context"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
)

// Used is what a call used in the end.
type Used struct {
	Tokens int64
	Cost   prices.Amount

	// Unknown and CostUnknown: it is not known whether that is all, or what all of it cost, so that no less counts than was
	// reserved. They are only looked at for batches.
	Unknown, CostUnknown bool

	// Of is the same of each model of a batch that has several.
	Of map[string]*Used
}

// of returns what the calls of a model used; "": all calls.
func (u *Used) of(model string) Used {
	switch of := u.Of[model]; {
	case model == "":
		return *u
	case of == nil:
		return Used{Unknown: u.Unknown, CostUnknown: u.CostUnknown}
	default:
		return Used{Tokens: of.Tokens, Cost: of.Cost, Unknown: u.Unknown || of.Unknown, CostUnknown: u.CostUnknown || of.CostUnknown}
	}
}

// units appends what was used in the units of each claim.
func (v *Verdict) units(all []int64, used *Used) []int64 {
	for _, r := range v.matched {
		units := int64(1)
		switch {
		case r == nil: // a batch holds it
			units = 0
		case r.counts == countsTokens:
			units = used.Tokens
		case r.counts == countsCost:
			units = int64(used.Cost)
		}
		all = append(all, max(units, 0))
	}
	return all
}

// Grow counts what an admitted call that goes on has used so far, also beyond what was reserved. Its claims are not settled.
// The denial is of a policy that has no room for that; nil: there is none. It must not be called at the same time as Settle.
func (l *Limits) Grow(ctx context.Context, v *Verdict, used Used) (*Denial, error) {
	if v.reservation == nil || len(v.matched) == 0 {
		return nil, nil
	}
	var few [4]int64
	over, err := l.ledger.Grow(ctx, v.reservation, v.units(few[:0], &used))
	if over < 0 || err != nil {
		return nil, err
	}
	r := v.matched[over]
	counter, _ := l.ledger.Booked(v.reservation, over)
	counters, _ := r.at(l.now())
	return &Denial{Rule: r, Group: valueKey(r.GroupBy, counter, counters.name), Spent: r.Budget()}, nil
}

// Settle books what an admitted call used, and gives back the rest of what it had reserved. What
// it used beyond that counts too.
func (l *Limits) Settle(ctx context.Context, v *Verdict, used Used) error {
	l.leave(v)
	if v.reservation == nil || len(v.matched) == 0 {
		return nil
	}
	var few [4]int64
	err := l.ledger.Settle(ctx, v.reservation, v.units(few[:0], &used))
	for i, r := range v.matched {
		if r != nil && r.Budget() {
			counter, booked := l.ledger.Booked(v.reservation, i)
			l.waits.held(counter, l.now().Sub(v.begun))
			l.checkAlerts(r, v.workspace, counter, booked, false)
		}
	}
	return err
}

// Estimates says what calls may use, and learns what they did.
func (l *Limits) Estimates() *estimate.Estimator { return l.learned }

// Demand is what the call was expected to use; nil: no policy counts tokens or costs of it.
func (v *Verdict) Demand() *estimate.Demand {
	if v.demand == nil || v.demand.Free {
		return nil
	}
	return v.demand
}

// Most is what each attempt of the call may use, by which its units were reserved.
func (v *Verdict) Most() prices.Usage { return v.most }

// Release gives back what was counted for a call that was not forwarded.
func (l *Limits) Release(v *Verdict) {
	l.leave(v)
	l.ledger.Release(v.reservation)
	l.groups.release(v.refs)
	v.refs = nil
}
