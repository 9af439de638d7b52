package ledger

import "context"

// A Counter counts what rate limits admit, and is all that policies know of how that is
// done. [Ledger] is the one of a store that a single process uses; what several processes
// count together is another driver's. Every Counter passes the suite in ledgertest. It is
// safe for concurrent use.
type Counter interface {
	// Reserve admits all claims or none; see [Ledger.Reserve]. The reservation is nil
	// unless the decision is to admit.
	Reserve(ctx context.Context, claims []Claim) (Reservation, Decision, error)

	// Settle books what each claim of a reservation used in the end: less is given back,
	// more counts even past the limit. Only the first call of Settle or Release on a
	// reservation has an effect.
	Settle(ctx context.Context, r Reservation, used []int64) error

	// Release gives back all units of a reservation, which may be nil.
	Release(r Reservation)

	// Counts calls fn with each counter that counts something and whose key starts with
	// prefix; it may call fn twice with one.
	Counts(ctx context.Context, prefix string, fn func(Count)) error

	// Forget empties the counters whose keys start with prefix.
	Forget(ctx context.Context, prefix string) error

	// Close waits for what is under way, and keeps what was counted. After it, every call
	// but Release returns ErrClosed.
	Close(ctx context.Context) error
}

// A Reservation is what a [Counter] admitted, until it is settled or released. Only the
// Counter that it is of knows what it holds.
type Reservation any

// Interface guards
var _ Counter = (*Ledger)(nil)
