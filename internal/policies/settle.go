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

// Settle books what an admitted call used, and gives back the rest of what it had reserved. What
// it used beyond that counts too.
func (l *Limits) Settle(ctx context.Context, v *Verdict, used Used) error {
	l.leave(v)
	if v.reservation == nil || len(v.matched) == 0 {
		return nil
	}
	var few [4]int64
	final := few[:0]
	for _, r := range v.matched {
		units := int64(1)
		if r == nil { // a batch holds it
			final = append(final, 0)
			continue
		}
		switch r.counts {
		case countsTokens:
			units = used.Tokens
		case countsCost:
			units = int64(used.Cost)
		}
		final = append(final, max(units, 0))
	}
	err := l.ledger.Settle(ctx, v.reservation, final)
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
