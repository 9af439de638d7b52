package exchange

import "context"

// A Limiter is a stage that counts calls before they are forwarded.
type Limiter interface {
	// Admit counts a call against limits, all together or none. The hold is nil where
	// nothing was counted. An error means that the call must not be forwarded, and that
	// nothing was counted.
	Admit(ctx context.Context, x *Exchange, limits LimitScope) (Hold, *Error)
}

// A Hold is what a limiter has counted of a call. One of its methods is called, once.
type Hold interface {
	// Settle ends the hold of a call that was sent to providers, in these attempts.
	Settle(sent []*Attempt)
	// Release gives back what was counted: nothing was sent.
	Release()
}

// A LimitScope says which limits a call is held against. One whose target is chosen later is
// held against those of the call first, and against those of each target when that is tried.
type LimitScope uint8

// The scopes of limits.
const (
	AllLimits    LimitScope = iota
	CallLimits              // those that do not depend on the target
	TargetLimits            // those that do
)

// A held is a hold, and how many attempts there were before it.
type held struct {
	Hold
	before int
}

// AdmitCall holds the call against its limits, once; further calls do nothing.
func (x *Exchange) AdmitCall(ctx context.Context) *Error {
	if x.callAdmitted {
		return nil
	}
	scope := AllLimits
	if x.Config != nil { // where it goes is not known yet
		scope = CallLimits
	}
	err := x.admit(ctx, scope)
	x.callAdmitted = err == nil
	return err
}

// AdmitTarget holds the call against the limits of the target that was chosen by a config.
func (x *Exchange) AdmitTarget(ctx context.Context) *Error {
	if x.Config == nil {
		return nil
	}
	return x.admit(ctx, TargetLimits)
}

func (x *Exchange) admit(ctx context.Context, scope LimitScope) *Error {
	if x.Limiter == nil {
		return nil
	}
	hold, err := x.Limiter.Admit(ctx, x, scope)
	if err == nil && hold != nil {
		x.holds = append(x.holds, held{hold, len(x.Attempts)})
	}
	return err
}

// Holds is how many holds the call has.
func (x *Exchange) Holds() int { return len(x.holds) }

// EndHolds ends all holds but the first n. Those since which nothing was sent are released,
// whatever the reason.
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
