package exchange

import (
	"context"
	"slices"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
)

// A Limiter is a stage that counts calls before they are forwarded: a rate limit, a budget.
type Limiter interface {
	// Admit counts a call against limits, all together or none. A call without a config is
	// counted once, with its target. Other calls are counted once against the limits that do not
	// depend on the target, with target nil, and against the others for each target that is
	// tried. The hold is nil if nothing was counted. An error means that nothing was counted, and
	// that the call must not be forwarded.
	Admit(ctx context.Context, call *Call, target *Attempt) (Hold, *Error)
}

// A Hold is what a stage holds of a call. Whatever happens, either Settle or Release is called,
// once.
type Hold interface {
	// Header returns the headers that answers get because of the hold; may be nil.
	Header() []HeaderField
	// Settle ends the hold of a call of which these attempts were sent to providers.
	Settle(sent []*Attempt)
	// Release ends the hold of a call that was not sent.
	Release()
}

// Growing is a Hold of a call that may go on for long, of which it is asked in between whether it may.
type Growing interface {
	// Grow counts what the call has used so far, and refuses that it goes on if there is no room for that.
	Grow(ctx context.Context, tokens int64, cost prices.Amount) *Error
}

// holds are the holds of a call, or of a call at one target.
type holds struct {
	all    []held
	room   [1]held // for the first
	before int     // attempts when the first was added
}

// A held call is one that a limiter holds, which books what was used, or another stage.
type held struct {
	Hold
	books bool
}

// endHolds ends all holds but the first n, the latest first. If there was no attempt since the first one, nothing was
// sent.
func (x *Exchange) endHolds(h *holds, n int) {
	for i := len(h.all) - 1; i >= n; i-- {
		hold := h.all[i]
		h.all = h.all[:i]
		switch sent := x.Attempts[h.before:]; {
		case len(sent) == 0:
			hold.Release()
		case hold.books && x.counts(): // which is then known
			x.afterwards = append(x.afterwards, func() { hold.Settle(sent) })
		default:
			hold.Settle(sent)
		}
	}
}

// Limit has a limiter count the call.
func (x *Exchange) Limit(l Limiter) {
	if x.limiters == nil {
		x.limiters = x.limiter[:0]
	}
	x.limiters = append(x.limiters, l)
}

// Limited reports whether a limiter counts the call.
func (x *Exchange) Limited() bool { return len(x.limiters) > 0 }

// AdmitCall holds the call against its limits, once; further calls do nothing.
func (x *Exchange) AdmitCall(ctx context.Context) *Error {
	if x.callAdmitted {
		return nil
	}
	target := x.chosen
	if x.Config != nil { // the target is not known yet
		target = nil
	}
	err := x.admit(ctx, target, &x.callHolds)
	x.callAdmitted = err == nil
	return err
}

// AdmitTarget holds the call against the limits of the target that was chosen by a config.
func (x *Exchange) AdmitTarget(ctx context.Context) *Error {
	if x.Config == nil {
		return nil
	}
	return x.admit(ctx, x.chosen, &x.targetHolds)
}

// AdmitRetry holds the call against its limits for another attempt at the target, which may use as much as each that has used something.
// What they did use is booked when they are settled.
func (x *Exchange) AdmitRetry(ctx context.Context) *Error {
	last := x.Latest()
	if last == nil || last.meter == nil || !last.mayHaveUsed() {
		return nil
	}
	var tokens int64
	var cost prices.Amount
	for _, a := range append(slices.Clip(x.Attempts[x.targetHolds.before:]), last) { // the last stands for the next
		if a.meter == nil || !a.mayHaveUsed() {
			continue
		}
		most, _ := a.meter.demand.Cost(&a.meter.most)
		tokens, cost = estimate.Sum(tokens, a.meter.most.Prompt, a.meter.most.Completion), cost.Plus(most)
	}
	for _, all := range [...][]held{x.callHolds.all, x.targetHolds.all} {
		for _, h := range all {
			if g, ok := h.Hold.(Growing); ok {
				if refusal := g.Grow(ctx, tokens, cost); refusal != nil {
					return refusal
				}
			}
		}
	}
	return nil
}

// mayHaveUsed reports whether an attempt that has ended may be booked with something: it was given up while the provider worked on
// it, or its answer was not passed on.
func (a *Attempt) mayHaveUsed() bool {
	return a.Abandoned || a.ProviderStatus >= 200 && a.ProviderStatus < 300
}

func (x *Exchange) admit(ctx context.Context, target *Attempt, to *holds) *Error {
	before := len(to.all)
	for _, l := range x.limiters {
		hold, err := l.Admit(ctx, x.Call, target)
		if err != nil {
			if err.Header != nil {
				x.AnswerHeader = err.Header
			}
			x.endHolds(to, before)
			return err
		}
		if hold != nil {
			x.add(held{hold, true}, to)
		}
	}
	return nil
}

func (x *Exchange) add(h held, to *holds) {
	if len(to.all) == 0 {
		to.all, to.before = to.room[:0], len(x.Attempts)
	}
	to.all = append(to.all, h)
	if header := h.Header(); header != nil {
		x.AnswerHeader = header
	}
}

// HoldTarget adds a hold that ends when the call leaves the chosen target.
func (x *Exchange) HoldTarget(h Hold) { x.add(held{Hold: h}, &x.targetHolds) }

// LeaveTarget ends the holds of the call at the chosen target.
func (x *Exchange) LeaveTarget() { x.endHolds(&x.targetHolds, 0) }
