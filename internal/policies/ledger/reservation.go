package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// reservation is the Reservation of a ledger.
type reservation struct {
	settled  atomic.Bool
	bookings []booking // one per claim
	few      [4]booking
}

// A booking holds the units of a claim and the bucket that they count in.
type booking struct {
	account *account
	bucket  int64
	units   int64
	epoch   uint32
	held    bool // the units are an estimate
	gone    bool // it is another reservation's, or its units no longer count
}

// book spends the units of claims for a reservation. The locks of all their counters are held.
func (r *reservation) book(claims []Claim, places []place, now int64) {
	r.bookings = r.few[:0]
	for i := range claims {
		a, units := places[i].account, places[i].units
		a.spend(units)
		a.limit = claims[i].Limit
		if claims[i].Estimate {
			a.held += units
		}
		a.used = now
		r.bookings = append(r.bookings, booking{account: a, bucket: a.bucket, units: units, epoch: a.epoch, held: claims[i].Estimate})
	}
}

// Settle replaces the units of each claim of a reservation by the units in used, which
// has the order of the claims. Unused units are given back to their bucket if that
// still counts. Additional units count from now on, even beyond the limit, and are
// written before Settle returns. If that fails, they still count until the ledger is
// closed, and the next record of the counter includes them.
//
// Only the first call of Settle or Release for a reservation has an effect.
func (l *Ledger) Settle(ctx context.Context, admitted Reservation, used []int64) error {
	r := admitted.(*reservation)
	if len(used) != len(r.bookings) {
		return fmt.Errorf("%w: %d claims settled of %d", ErrClaim, len(used), len(r.bookings))
	}
	for _, n := range used {
		if n < 0 {
			return fmt.Errorf("%w: %d units used", ErrClaim, n)
		}
	}
	if r.settled.Swap(true) {
		return nil
	}
	var errs []error
	for i := range r.bookings {
		b := &r.bookings[i]
		if b.gone {
			continue
		}
		l.credit(b, max(b.units-used[i], 0))
		if used[i] > b.units {
			errs = append(errs, l.charge(ctx, b.account, used[i]-b.units))
		}
	}
	return errors.Join(errs...)
}

// Grow makes a reservation that is not settled one of as many units as were used so far, if it has less. What is added
// counts from now on, even beyond the limit, and is written before Grow returns. It returns the first claim that was
// added to and exceeds its limit now; -1: there is none.
func (l *Ledger) Grow(ctx context.Context, admitted Reservation, used []int64) (over int, err error) {
	r := admitted.(*reservation)
	if len(used) != len(r.bookings) {
		return -1, fmt.Errorf("%w: %d claims used of %d", ErrClaim, len(used), len(r.bookings))
	}
	over = -1
	if r.settled.Load() {
		return over, nil
	}
	var errs []error
	for i := range r.bookings {
		b := &r.bookings[i]
		more := used[i] - b.units
		if b.gone || more <= 0 {
			continue
		}
		errs = append(errs, l.charge(ctx, b.account, more))
		if l.grown(b, more) && over < 0 {
			over = i
		}
	}
	return over, errors.Join(errs...)
}

// grown notes that units were charged for a booking, and reports whether its counter exceeds its limit.
func (l *Ledger) grown(b *booking, units int64) bool {
	a := b.account
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	b.units += units
	if b.held && a.epoch == b.epoch {
		a.held += units
	}
	return a.total > a.limit
}

// Booked returns the counter of a claim of a reservation that was settled, and what is booked of it.
func (l *Ledger) Booked(settled Reservation, claim int) (key string, units int64) {
	a := settled.(*reservation).bookings[claim].account
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	return a.key, max(a.total-a.held, 0)
}

// Release gives back all units of a reservation, which may be nil. See Settle.
func (l *Ledger) Release(admitted Reservation) {
	r, ok := admitted.(*reservation)
	if !ok || r == nil || r.settled.Swap(true) {
		return
	}
	for i := range r.bookings {
		if b := &r.bookings[i]; !b.gone {
			l.credit(b, b.units)
		}
	}
}

// credit ends a booking and gives back some of its units.
func (l *Ledger) credit(b *booking, units int64) {
	if units == 0 && !b.held {
		return
	}
	a := b.account
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	if a.shard.closed {
		return
	}
	if a.epoch == b.epoch {
		if b.held {
			a.held -= b.units
		}
		if units > 0 {
			a.credit(b.bucket, units)
			a.dirty = true
			if !a.lavish && a.excess() > 0 {
				a.shard.lavish, a.lavish = append(a.shard.lavish, a), true
			}
		}
	}
	if a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// charge adds units regardless of the limit, and returns when a record covers them.
func (l *Ledger) charge(ctx context.Context, old *account, units int64) error {
	a, covered, err := l.chargeLoaded(ctx, old, units)
	if err != nil {
		return fmt.Errorf("charging %d units to %q: %w", units, old.key, err)
	}
	for !covered {
		a.shard.mu.Lock()
		f := a.flight
		covered = !a.behind // by f, which began after the charge, or by an earlier flight
		if f == nil && !covered {
			f, covered = l.lease(a, 0, a.limit), true
		}
		a.shard.mu.Unlock()
		if f == nil {
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// chargeLoaded adds units to the account that now has the key of old, once it is
// loaded, because old may have been evicted. It reports whether a record already covers
// them.
func (l *Ledger) chargeLoaded(ctx context.Context, old *account, units int64) (a *account, covered bool, err error) {
	err = l.whenLoaded(ctx, old.key, old.window, func(loaded *account, now int64) {
		loaded.advance(now)
		loaded.spend(min(units, math.MaxInt64-loaded.total))
		loaded.behind = loaded.behind || loaded.spare < 0
		a, covered = loaded, !loaded.behind
	})
	return a, covered, err
}

// whenLoaded calls do with the account of a key once it is loaded, while its shard is locked.
func (l *Ledger) whenLoaded(ctx context.Context, key string, window time.Duration, do func(a *account, now int64)) error {
	hash := l.hashOf(key)
	s := &l.shards[shardOf(hash)]
	for {
		s.mu.Lock()
		now := l.now()
		a, err := l.account(hash, key, window, now, 1<<shardOf(hash))
		if err == nil && a.loaded {
			defer s.mu.Unlock()
			do(a, now)
			return nil
		}
		var f *flight
		if err == nil {
			f = l.load(a)
		}
		s.mu.Unlock()
		if err == nil {
			err = f.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}
