package ledger

import "context"

// A Counter counts the calls that rate limits admit. It is the interface between
// policies and the implementations: [Ledger] counts in a store that is used by a single
// process, and other drivers may count for several processes. Every Counter passes the
// tests of ledgertest. It is safe for concurrent use.
type Counter interface {
	// Reserve admits all claims or none; see [Ledger.Reserve]. The reservation is nil
	// unless the claims were admitted.
	Reserve(ctx context.Context, claims []Claim) (Reservation, Decision, error)

	// Settle replaces the units of each claim of a reservation by the units that were
	// used. Unused units are given back, and additional units count even beyond the
	// limit. Only the first call of Settle or Release for a reservation has an effect.
	Settle(ctx context.Context, r Reservation, used []int64) error

	// Grow makes a reservation that is not settled one of as many units as were used so far, if it has less. What is added
	// counts even beyond the limit. It returns the first claim that was added to and exceeds its limit now; -1: there is
	// none. It must not be called at the same time as Settle or Release.
	Grow(ctx context.Context, r Reservation, used []int64) (over int, err error)

	// Booked returns the counter of a claim of a reservation that was settled, and what is booked
	// of it: its units without those of reservations that are not settled.
	Booked(r Reservation, claim int) (key string, units int64)

	// Release gives back all units of a reservation, which may be nil.
	Release(r Reservation)

	// Detach moves claims of a reservation into one that may outlast the process, and Restore
	// returns that of an earlier process; see [Ledger.Detach] and [Ledger.Restore].
	Detach(r Reservation, claims []int) (Reservation, []Held)
	Restore(ctx context.Context, held []Held) (Reservation, error)

	// Counts calls fn for each active counter whose key starts with prefix. It may call
	// fn twice for the same counter.
	Counts(ctx context.Context, prefix string, fn func(Count)) error

	// ReduceLeases is called every few seconds; see [Ledger.ReduceLeases].
	ReduceLeases()

	// Forget empties the counters whose keys start with prefix.
	Forget(ctx context.Context, prefix string) error

	// Close waits for operations in progress and saves the counts. Afterwards, all
	// calls except Release return ErrClosed.
	Close(ctx context.Context) error
}

// A Reservation holds what a [Counter] admitted until it is settled or released. Its
// content is private to that Counter.
type Reservation any

// Interface guards
var _ Counter = (*Ledger)(nil)
