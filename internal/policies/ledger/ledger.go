// Package ledger counts what rate limits admit, exactly: of a counter's units,
// never more than its limit are admitted in any window of its length, whatever
// happens at once, and through crashes and restarts.
//
// # Windows
//
// A window slides: it is [t, t+Window) for every t. Time is cut into buckets of
// a sixtieth of the window, and what was admitted in bucket b counts until the
// whole of b is a window old, so that 61 buckets are summed. An admission may
// thus come up to Window/60 later than a list of every single event would allow
// it, and never earlier. (A window that nanoseconds do not divide by 60 is
// rounded up to one that they do.)
//
// # Leases
//
// A unit is spent only once the store holds a record that counts it. A counter
// therefore leases a sixty-fourth of its limit at a time (at least one unit,
// never past the limit), for its current bucket, and spends the lease in memory.
// However heavy the load, that makes at most 64 writes a window, and one more
// for each bucket whose lease is not used up; more only where many reservations
// are given back, or each is larger than that share. A record holds the whole
// counter: what was admitted in the past buckets, and that plus the lease in
// the current one. So a crash costs callers the rest of a lease, for one window,
// and never the limit. Limits up to 64 lease unit by unit and lose nothing.
// [Ledger.Close] writes exact counts: a clean restart loses nothing.
//
// Records are read when a key is first used, not at the start: a start takes no
// time however many counters the store holds, memory holds what is in use, and
// a key costs one read until it has been idle for a window. Those that count
// nothing any more are deleted, some at a time, with the leases that are written.
//
// A store that takes longer to write than a bucket lasts (a second, of a window
// of a minute) cannot lease, so that nothing is admitted until it recovers.
//
// # Time
//
// Within a process, what passes is told by the monotonic clock: steps of the wall
// clock are not seen. Between two processes of one boot of the machine, it is told
// by the time since the boot. After another boot, the time that passed by the wall
// clock counts as far as the machine has been up since; where nothing is known of
// the boot, none of it counts. What does not count makes callers wait for longer.
// Time while the machine sleeps does not count either.
//
// Records do not expire in the store, which would be by the wall clock: the ledger
// deletes them, by its own time.
//
// When the clock that the ledger is given steps back, as the ledger's time may
// when it is opened again, what was booked in buckets that are now in the future moves into the current
// bucket: the limit holds, nothing is admitted because of the step, and one
// window later nothing is left of it. Reservations from before the step can no
// longer be given back.
//
// # Changes of a policy
//
// A counter is its key. With another Limit, its counts stay as they are. With
// another Window, each bucket's units move to the new bucket that holds the
// bucket's last instant (or the present, where that is earlier), so that they
// count at least until the last of them is a new window old. What was admitted
// longer ago than the old window is not known any more: after a change to a
// longer window, only what the shorter one still counted is carried over. The
// new state is written before anything is answered.
//
// # Cost
//
// A counter takes about 200 bytes and its key, and 16 bytes for each bucket
// that holds something: at most 61, in slices that grow by doubling, so up to
// 1.2 KB when all do. Idle counters are dropped a few at a time by the calls
// that come in; there is no goroutine but those that wait for the store. Those whose
// window is Forever are written exactly, and dropped, when nobody has used them for
// ten minutes.
// No lock is held while the store works.
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
	// ErrClaim means that a claim makes no sense, whatever was counted.
	ErrClaim = errors.New("invalid claim")

	// ErrFull means that a new counter would exceed Options.MaxCounters and none
	// is idle.
	ErrFull = errors.New("too many rate-limit counters are in use")

	// ErrCorrupt means that the record of a counter cannot be read. Its key stays
	// refused until [Ledger.Forget] removes the record.
	ErrCorrupt = errors.New("corrupt rate-limit record")

	// ErrBusy means that others took every lease that a reservation waited for.
	ErrBusy = errors.New("rate-limit counters are too busy")

	// ErrClosed means that the ledger was closed.
	ErrClosed = errors.New("the rate-limit ledger is closed")
)

// Never is the RetryAfter of what cannot be admitted at all: it asks for more
// units than the limit, or the limit is 0.
const Never = time.Duration(math.MaxInt64)

// MaxWindow is the longest window that a claim may have.
const MaxWindow = 10 * 366 * 24 * time.Hour

// Forever is the window of counters that are to count until they are forgotten. Nothing
// that counts in one is known to be idle, so that it leaves memory once it has rested.
const Forever = MaxWindow

// DefaultMaxCounters is the number of counters that are held in memory at most,
// unless Options says otherwise.
const DefaultMaxCounters = 1_000_000

// maxRounds bounds how often a reservation waits for the store. Each round that
// is not the last means that others were admitted in its stead, at most 64
// leases a window and counter, or that a bucket ended meanwhile.
const maxRounds = 1000

// A Claim asks for units of one counter.
type Claim struct {
	Key    string        // names the counter; any bytes
	Limit  int64         // units that any window may hold; 0 admits nothing
	Window time.Duration // at most MaxWindow
	Units  int64         // 0 only asks whether the counter is within its limit
	Owner  string        // what the counter's record is to say of whose it is; empty: nothing new

	// Estimate: the units are what may be used at most, and the reservation is to be settled or
	// released, for which others may wait. See Decision.Freed.
	Estimate bool
}

// A Decision says whether the claims of a reservation were admitted.
type Decision struct {
	Admitted bool
	Denied   int     // the index of the first claim that was refused, or -1
	States   []State // one for each claim, after the decision

	// Freed is closed when something is given back of what keeps the claims out; nil: even if
	// all estimates of others were, the claims would be refused, or nobody says it.
	Freed <-chan struct{}
}

// A State is what a claim's counter stands at.
type State struct {
	Limit     int64
	Remaining int64 // units that could be admitted now
	Held      int64 // units that count by an estimate, of reservations that are not settled

	// Reset is the time until nothing counts any more, if nobody else comes.
	Reset time.Duration

	// RetryAfter is the time until the claim could be admitted, if nobody else
	// comes. It is 0 for a claim that is no reason for the refusal, and Never for
	// one that cannot be admitted.
	RetryAfter time.Duration
}

// Options are the settings of a ledger. Their zero values are the defaults.
type Options struct {
	// Now is the wall clock; default: time.Now.
	Now func() time.Time

	// Elapsed is the monotonic clock, from any beginning; default: the time between
	// two calls of Now, by their monotonic readings where they have any. It is
	// called with locks held.
	Elapsed func() time.Duration

	// Uptime returns which boot of the machine this is and the time since then, by a
	// clock that runs like Elapsed. A nil one or an empty boot says that this is not
	// known.
	Uptime func() (boot string, up time.Duration)

	// MaxCounters is the most counters that are held in memory; default:
	// DefaultMaxCounters. Beyond it, new counters are refused with ErrFull.
	MaxCounters int

	// Job is the one under which spent records are deleted, so that one process of those
	// that share the store does it; nil: this one has the store to itself.
	Job *storage.Job
}

// A Store is the part of a [storage.Store] that a ledger uses.
type Store interface {
	View(ctx context.Context, fn func(storage.Tx) error) error
	Write(ctx context.Context, fn func(storage.Tx) error) error
}

// A Ledger counts units. It is safe for concurrent use. A store has one ledger
// at a time.
type Ledger struct {
	timeline
	store  Store
	max    int64
	seed   maphash.Seed
	shards [shardCount]shard
	live   atomic.Int64 // accounts in all shards
	saved  atomic.Int64 // when the time was last written, or began to be
	timed  atomic.Bool  // it was
	pruner pruner
	job    *storage.Job

	closing sync.Mutex // held by Close
	flights sync.WaitGroup
	ctx     context.Context // of all store I/O: it outlives the call that began it
	cancel  context.CancelFunc
}

// Open returns a ledger over what store holds. It reads no counter yet.
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
		l.shards[i].accounts = make(map[string]*account)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Counters returns the number of counters in memory.
func (l *Ledger) Counters() int { return int(l.live.Load()) }

// Reserve admits all claims or none; a refusal consumes nothing. Claims on the
// same key add up and must have the same window. The reservation is nil unless
// the decision is to admit; it may be dropped if it will never be settled.
//
// An error admits nothing either: ErrClaim, ErrFull, ErrCorrupt, ErrBusy,
// ErrClosed, the end of ctx while waiting for the store, or what the store said.
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
	case c.Limit < 0:
		return fmt.Errorf("%w on %q: a limit of %d", ErrClaim, c.Key, c.Limit)
	case c.Window <= 0 || c.Window > MaxWindow:
		return fmt.Errorf("%w on %q: a window of %v", ErrClaim, c.Key, c.Window)
	}
	return nil
}

// A place is where the counter of a claim is.
type place struct {
	shard   int
	account *account
}

// try decides on the claims under the locks of all their counters, or returns
// what to wait for before it can.
func (l *Ledger) try(claims []Claim) (r *reservation, d Decision, flights []*flight, err error) {
	var buf [8]place
	places, locked := buf[:0], uint64(0)
	for i := range claims {
		n := l.shardOf(claims[i].Key)
		places = append(places, place{shard: n})
		locked |= 1 << n
	}
	l.lock(locked)
	defer l.unlock(locked)
	now := l.now()

	// A new account must be loaded first, so that nothing below ever uses one
	// that was evicted in its favour.
	for i := range claims {
		a, err := l.account(&l.shards[places[i].shard], claims[i].Key, claims[i].Window, now, locked)
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
		if a := places[i].account; !a.fits(claims[i].Limit, a.asked) {
			d.Denied = i
			break
		}
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
		r = book(claims, places, now)
	}
	d.States = states(claims, places, now, d.Admitted)
	if !d.Admitted {
		d.Freed = freed(claims, places)
	}
	l.sweep(locked, now)
	return r, d, nil, nil
}

// freed returns a channel as [Decision.Freed] says.
func freed(claims []Claim, places []place) <-chan struct{} {
	var full *account
	for i := range claims {
		a, limit := places[i].account, claims[i].Limit
		switch {
		case a.fits(limit, a.asked):
		case !a.mayFit(limit, a.asked):
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

func states(claims []Claim, places []place, now int64, admitted bool) []State {
	states := make([]State, len(claims))
	for i := range claims {
		a, limit := places[i].account, claims[i].Limit
		states[i] = State{Limit: limit, Remaining: max(limit-a.total, 0), Held: min(a.held, a.total), Reset: a.reset(now)}
		if !admitted {
			states[i].RetryAfter = a.retryAfter(now, limit, a.asked)
		}
	}
	return states
}
