// Package ledger counts what rate limits admit, exactly: it never admits more units of a
// counter than its limit in any window of its length, regardless of concurrency, crashes
// and restarts.
//
// # Windows
//
// A window slides: it is [t, t+Window) for every t. Time is divided into buckets of a
// sixtieth of the window. Units that were admitted in bucket b count until all of b is a
// window old, so 61 buckets are summed. Compared with a list of every single event, a unit
// may therefore be admitted up to Window/60 later, but never earlier. (A window whose
// nanoseconds are not divisible by 60 is rounded up.)
//
// # Leases
//
// A unit is only spent once a record in the store counts it. Therefore, a counter leases a
// sixty-fourth of its limit at a time (at least one unit, and never beyond the limit) for
// its current bucket, and spends the lease in memory. Under any load, that takes at most 64
// writes per window, and one more for each bucket whose lease is not used up. There are
// more writes only if many reservations are given back, or if single reservations are
// larger than that share. A record contains the whole counter: the units admitted in past
// buckets, and the units of the current bucket including the lease. A crash therefore
// costs callers the rest of a lease for one window, but never the limit. Limits of up to 64
// are leased unit by unit and lose nothing. [Ledger.Close] writes exact counts, so a clean
// restart loses nothing. A reservation that is given back becomes part of the lease;
// [Ledger.ReduceLeases] gives back what is more than a sixty-fourth, once the counter is quiet.
//
// Records are read when a key is first used and not at startup. Startup is thus independent
// of the number of stored counters, memory holds only the counters in use, and a key costs
// one read until it has been idle for a window. Records that no longer count are deleted a
// few at a time, together with leases that are written.
//
// If a write to the store takes longer than a bucket lasts (one second, for a window of a
// minute), nothing can be leased, and so nothing is admitted until the store recovers.
//
// # Time
//
// Within a process, time is measured with the monotonic clock, so steps of the wall clock
// have no effect. Between two processes of the same boot of the machine, it is measured by
// the time since boot. After a reboot, the time that passed by the wall clock counts, but
// no more than the uptime of the machine; if the boot is not known, none of it counts. Time
// that does not count makes callers wait for longer. Time during which the machine sleeps
// does not count either.
//
// Records do not expire in the store, which would use the wall clock. The ledger deletes
// them by its own time.
//
// If the clock that the ledger is given steps back, which the ledger's own time may also do
// when it is opened again, the units of buckets that are now in the future move to the
// current bucket. The limit still holds, nothing is admitted because of the step, and its
// effect ends one window later. Reservations from before the step can no longer be given
// back.
//
// # Changes of a policy
//
// A counter is identified by its key. If its Limit changes, its counts remain. If its
// Window changes, the units of each bucket move to the new bucket that contains the last
// instant of the old one (or the present, if that is earlier), so that they count at least
// until the last of them is a new window old. Units that were admitted longer ago than the
// old window are no longer known: after a change to a longer window, only the units that
// still counted in the shorter one are carried over. The new state is written before
// anything is answered.
//
// # Cost
//
// A counter takes about 200 bytes plus its key, and 16 bytes for each bucket with units:
// there are at most 61, in slices that grow by doubling, so up to 1.2 KB in total. Calls
// drop a few idle counters at a time. Counters whose window is Forever are written exactly
// and dropped when they have not been used for ten minutes. The only goroutines are those
// that wait for the store, and no lock is held while the store works.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

var (
	// ErrClaim means that a claim is invalid, whatever the counts are.
	ErrClaim = errors.New("invalid claim")

	// ErrFull means that a new counter would exceed Options.MaxCounters, and none is
	// idle.
	ErrFull = errors.New("too many rate-limit counters are in use")

	// ErrCorrupt means that the record of a counter cannot be read. Its key is refused
	// until [Ledger.Forget] removes the record.
	ErrCorrupt = errors.New("corrupt rate-limit record")

	// ErrBusy means that other reservations took every lease that a reservation waited
	// for.
	ErrBusy = errors.New("rate-limit counters are too busy")

	// ErrClosed means that the ledger is closed.
	ErrClosed = errors.New("the rate-limit ledger is closed")
)

// Never is the RetryAfter of a claim that can never be admitted, because it exceeds the
// limit or the limit is 0.
const Never = time.Duration(math.MaxInt64)

// MaxWindow is the longest window of a claim.
const MaxWindow = 10 * 366 * 24 * time.Hour

// Forever is the window of counters that count until they are forgotten. Since their
// units never expire, such counters are dropped from memory when they have not been
// used for a while.
const Forever = MaxWindow

// DefaultMaxCounters is the default of Options.MaxCounters.
const DefaultMaxCounters = 1_000_000

// maxRounds bounds how often a reservation waits for the store. In every round but the
// last, other reservations were admitted instead, of which there are at most 64 leases
// per window and counter, or a bucket ended in the meantime.
const maxRounds = 1000

// A Claim asks for units of a counter.
type Claim struct {
	Key    string        // name of the counter; any bytes
	Limit  int64         // maximum number of units in any window; 0 admits nothing
	Window time.Duration // at most MaxWindow
	Units  int64         // 0 only checks whether the counter is within its limit
	Owner  string        // owner of the counter, to be stored in its record; empty: unchanged

	// Estimate means that the units are the maximum that may be used, and that the
	// reservation will be settled or released, which other calls may wait for. See
	// Decision.Freed.
	Estimate bool

	// Least, unless it is 0, means that Units is a guess: if the limit has no room for it
	// and no estimate is held, what is left is reserved instead, if that is as much as
	// Least. Such a claim must be the only one of its counter in a reservation.
	Least int64
}

// A Decision is the result of a reservation.
type Decision struct {
	Admitted bool
	Denied   int     // index of the first claim that was refused, or -1
	States   []State // one per claim, after the decision

	// Freed is closed when units are given back that keep the claims out. It is nil if
	// the claims would be refused even if all estimates were given back, or if this is
	// not known.
	Freed <-chan struct{}
}

// A State is the state of a claim's counter.
type State struct {
	Limit     int64
	Remaining int64 // units that could be admitted now
	Held      int64 // units that count by an estimate, of reservations that are not settled
	MayFit    bool  // of a claim that was refused: it would fit if all that is held were given back

	// Reset is the time until nothing counts any more, if there are no other claims.
	Reset time.Duration

	// RetryAfter is the time until the claim could be admitted, if there are no other
	// claims. It is 0 for a claim that is not a reason for the refusal, and Never for
	// one that can never be admitted.
	RetryAfter time.Duration
}

// Tighter returns the state with less left, or of two with as little, the one that takes longer to
// recover. Either may be nil.
func Tighter(a, b *State) *State {
	if a == nil || b != nil && (b.Remaining < a.Remaining || b.Remaining == a.Remaining && b.Reset > a.Reset) {
		return b
	}
	return a
}

// Options are the options of a ledger. Their zero values are the defaults.
type Options struct {
	// Now is the wall clock; default: time.Now.
	Now func() time.Time

	// Elapsed is the monotonic clock, starting at any time; default: the difference
	// between two calls of Now, which uses their monotonic readings if they have them.
	// It is called with locks held.
	Elapsed func() time.Duration

	// Uptime returns the id of the current boot of the machine and the time since then,
	// measured by a clock that runs like Elapsed. If it is nil or returns an empty id,
	// the boot is not known.
	Uptime func() (boot string, up time.Duration)

	// MaxCounters is the maximum number of counters in memory; default:
	// DefaultMaxCounters. Beyond it, new counters are refused with ErrFull.
	MaxCounters int

	// Job is the job under which spent records are deleted, so that only one of the
	// processes that share a store does it; nil: the store is not shared.
	Job *storage.Job
}

// A Store is the part of [storage.Store] that a ledger uses.
type Store interface {
	View(ctx context.Context, fn func(storage.Tx) error) error
	Write(ctx context.Context, fn func(storage.Tx) error) error
}

// A Ledger counts units. It is safe for concurrent use. A store must not be used by
// more than one ledger at a time.
type Ledger struct {
	timeline
	store  Store
	max    int64
	seed   maphash.Seed
	shards [shardCount]shard
	live   atomic.Int64 // in all shards
	saved  atomic.Int64 // when the last write of the time began
	timed  atomic.Bool  // the time has been written
	pruner pruner
	job    *storage.Job

	closing sync.Mutex // held by Close
	flights sync.WaitGroup
	ctx     context.Context // for all store I/O, which outlives the calls that began it
	cancel  context.CancelFunc
}

// Open returns a ledger for the counters in store. It does not read them yet.
func Open(ctx context.Context, store Store, opts Options) (*Ledger, error) {
	l := &Ledger{timeline: newTimeline(&opts), store: store, job: opts.Job, max: int64(opts.MaxCounters), seed: maphash.MakeSeed()}
	last, err := lastMoment(ctx, store)
	if err != nil {
		return nil, err
	}
	l.begin(last)
	l.pruner.began.Store(l.now())
	if l.max <= 0 {
		l.max = DefaultMaxCounters
	}
	for i := range l.shards {
		l.shards[i].accounts = make(accounts)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Counters returns the number of counters in memory.
func (l *Ledger) Counters() int { return int(l.live.Load()) }

// Reserve admits all claims or none; refused claims consume nothing. Claims with the
// same key are added up and must have the same window. The reservation is nil unless
// the claims were admitted. It may be dropped if it will never be settled.
//
// If there is an error, nothing is admitted. It is ErrClaim, ErrFull, ErrCorrupt,
// ErrBusy, ErrClosed, the error of ctx if it ends while waiting for the store, or an
// error of the store.
func (l *Ledger) Reserve(ctx context.Context, claims []Claim) (Reservation, Decision, error) {
	for i := range claims {
		if err := claims[i].validate(); err != nil {
			return nil, Decision{Denied: -1}, err
		}
	}
	for range maxRounds {
		r, d, flights, err := l.try(claims)
		if err == nil && len(flights) == 0 {
			if r == nil {
				return nil, d, nil
			}
			return r, d, nil
		}
		for _, f := range flights {
			if err == nil {
				err = f.wait(ctx)
			}
		}
		if err != nil {
			return nil, Decision{Denied: -1}, err
		}
	}
	return nil, Decision{Denied: -1}, fmt.Errorf("%w: no lease held for %d rounds", ErrBusy, maxRounds)
}

func (c *Claim) validate() error {
	switch {
	case c.Units < 0:
		return fmt.Errorf("%w on %q: %d units", ErrClaim, c.Key, c.Units)
	case c.Least < 0 || c.Least > c.Units:
		return fmt.Errorf("%w on %q: at least %d units of %d", ErrClaim, c.Key, c.Least, c.Units)
	case c.Limit < 0:
		return fmt.Errorf("%w on %q: a limit of %d", ErrClaim, c.Key, c.Limit)
	case c.Window <= 0 || c.Window > MaxWindow:
		return fmt.Errorf("%w on %q: a window of %v", ErrClaim, c.Key, c.Window)
	}
	return nil
}

// A place is the location of a claim's counter.
type place struct {
	hash    uint64 // of the key
	account *account
	units   int64 // to be reserved
}

// try decides on the claims with the locks of all their counters, or returns the
// flights to wait for before it can.
func (l *Ledger) try(claims []Claim) (r *reservation, d Decision, flights []*flight, err error) {
	var buf [8]place
	places, locked := buf[:0], uint64(0)
	for i := range claims {
		hash := l.hashOf(claims[i].Key)
		places = append(places, place{hash: hash})
		locked |= 1 << shardOf(hash)
	}
	// Made before the locks are taken, which others wait for.
	r, d.States = &reservation{}, make([]State, len(claims))
	l.lock(locked)
	defer l.unlock(locked)
	now := l.now()

	// New accounts are loaded first, so that no account is used below that was evicted
	// to make room for one of them.
	for i := range claims {
		a, err := l.account(places[i].hash, claims[i].Key, claims[i].Window, now, locked)
		if err != nil {
			return nil, d, nil, err
		}
		if !a.loaded {
			flights = append(flights, l.load(a))
		}
		for j := range i {
			if places[j].account == a && claims[j].Window != claims[i].Window {
				return nil, d, nil, fmt.Errorf("%w on %q: windows of %v and %v",
					ErrClaim, a.key, claims[j].Window, claims[i].Window)
			}
		}
		places[i].account = a
		a.asked = 0
	}
	if len(flights) > 0 {
		return nil, d, flights, nil
	}

	for i := range claims {
		a := places[i].account
		a.follow(claims[i].Window, now)
		if claims[i].Owner != "" {
			a.owner = claims[i].Owner
		}
		a.asked += min(claims[i].Units, math.MaxInt64-a.asked)
		if a.behind {
			flights = append(flights, l.lease(a, 0, claims[i].Limit))
		}
	}
	if len(flights) > 0 {
		return nil, d, flights, nil
	}

	d.Denied = -1
	for i := range claims {
		c, a := &claims[i], places[i].account
		places[i].units = c.Units
		if a.fits(c.Limit, a.asked) {
			continue
		}
		if c.Least == 0 || a.held > 0 || a.asked != c.Units || !a.fits(c.Limit, c.Least) {
			d.Denied = i
			break
		}
		places[i].units = c.Limit - a.total
		a.asked = places[i].units
	}
	if d.Admitted = d.Denied < 0; d.Admitted {
		for i := range claims {
			if a := places[i].account; a.spare < a.asked {
				flights = append(flights, l.lease(a, a.asked, claims[i].Limit))
			}
		}
		if len(flights) > 0 {
			return nil, d, flights, nil
		}
		r.book(claims, places, now)
	}
	states(d.States, claims, places, now, d.Admitted)
	if !d.Admitted {
		r, d.Freed = nil, freed(claims, places)
	}
	l.sweep(locked, now)
	return r, d, nil, nil
}

// needs is what a claim of an account needs at least.
func (a *account) needs(c *Claim) int64 {
	if c.Least > 0 && a.asked == c.Units {
		return c.Least
	}
	return a.asked
}

// freed returns the channel for [Decision.Freed].
func freed(claims []Claim, places []place) <-chan struct{} {
	var full *account
	for i := range claims {
		a, limit := places[i].account, claims[i].Limit
		switch {
		case a.fits(limit, a.asked):
		case !a.mayFit(limit, a.needs(&claims[i])):
			return nil
		case full == nil:
			full = a
		}
	}
	if full.freed == nil {
		full.freed = make(chan struct{})
	}
	return full.freed
}

// states sets the state of the counter of each claim.
func states(states []State, claims []Claim, places []place, now int64, admitted bool) {
	for i := range claims {
		a, limit := places[i].account, claims[i].Limit
		states[i] = State{Limit: limit, Remaining: max(limit-a.total, 0), Held: min(a.held, a.total), Reset: a.reset(now)}
		if !admitted {
			needs := a.needs(&claims[i])
			states[i].RetryAfter = a.retryAfter(now, limit, needs)
			if states[i].RetryAfter == 0 { // there is room for the least, but some is held
				states[i].RetryAfter = a.retryAfter(now, limit, a.asked)
			}
			states[i].MayFit = a.mayFit(limit, needs)
		}
	}
}
