package exchange

import "context"

// A Limiter is a stage that counts calls before they are forwarded: a rate limit, a budget.
type Limiter interface {
	// Admit counts a call against limits, all together or none. A call without a config is
	// counted once, with its target; another one is counted against the limits that do not
	// depend on the target once (target is nil), and against the others for each target that
	// is tried. The hold is nil if nothing was counted. An error means that the call must not
	// be forwarded, and that nothing was counted.
	Admit(ctx context.Context, call *Call, target *Attempt) (Hold, *Error)
}

// A Hold is what a stage holds of a call. One of Settle and Release is called, once, whatever
// happens.
type Hold interface {
	// Header is what answers to the call say of the hold; nil: nothing.
	Header() []HeaderField
	// Settle ends the hold of a call that was sent to providers, in these attempts.
	Settle(sent []*Attempt)
	// Release gives back what is held: nothing was sent.
	Release()
}

// A held is a hold, and how many attempts there were before it.
type held struct {
	Hold
	before int
}

// Limit has a limiter count the call.
func (x *Exchange) Limit(l Limiter) {
	if x.limiters == nil {
		x.limiters = x.limiter[:0]
	}
	x.limiters = append(x.limiters, l)
}

// AdmitCall holds the call against its limits, once; further calls do nothing.
func (x *Exchange) AdmitCall(ctx context.Context) *Error {
	if x.callAdmitted {
		return nil
	}
	target := x.chosen
	if x.Config != nil { // where it goes is not known yet
		target = nil
	}
	err := x.admit(ctx, target)
	x.callAdmitted = err == nil
	return err
}

// AdmitTarget holds the call against the limits of the target that was chosen by a config.
func (x *Exchange) AdmitTarget(ctx context.Context) *Error {
	if x.Config == nil {
		return nil
	}
	return x.admit(ctx, x.chosen)
}

func (x *Exchange) admit(ctx context.Context, target *Attempt) *Error {
	before := x.Holds()
	for _, l := range x.limiters {
		hold, err := l.Admit(ctx, x.Call, target)
		if err != nil {
			if err.Header != nil {
				x.AnswerHeader = err.Header
			}
			x.EndHolds(before)
			return err
		}
		if hold != nil {
			x.AddHold(hold)
		}
	}
	return nil
}

// AddHold has the exchange end a hold, with [Exchange.EndHolds].
func (x *Exchange) AddHold(h Hold) {
	if header := h.Header(); header != nil {
		x.AnswerHeader = header
	}
	x.holds = append(x.holds, held{h, len(x.Attempts)})
}

// Holds is how many holds the call has.
func (x *Exchange) Holds() int { return len(x.holds) }

// EndHolds ends all holds but the first n, the latest first. Those since which nothing was
// sent are released, whatever the reason.
func (x *Exchange) EndHolds(n int) {
	for i := len(x.holds) - 1; i >= n; i-- {
		h := x.holds[i]
		x.holds = x.holds[:i]
		if sent := x.Attempts[h.before:]; len(sent) > 0 {
			h.Settle(sent)
		} else {
			h.Release()
		}
	}
}
