package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A flight is an I/O operation on the store for one account. It runs in its own
// goroutine, so that a caller that gives up does not affect others that wait for it. It
// does not use singleflight, because it begins and ends under the lock of the account's
// shard.
type flight struct {
	done chan struct{}
	err  error // valid once done is closed
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the rate-limit store: %w", context.Cause(ctx))
	}
}

// fly runs io without locks, and then land with the lock of the account's shard. The
// caller holds that lock. The account must not have a flight.
func (l *Ledger) fly(a *account, io func(context.Context) error, land func(error)) *flight {
	f := &flight{done: make(chan struct{})}
	a.flight = f
	l.flights.Go(func() {
		f.err = io(l.ctx)
		a.shard.mu.Lock()
		land(f.err)
		a.flight = nil
		a.shard.mu.Unlock()
		close(f.done)
	})
	return f
}

// load reads the record of an account unless it already has a flight.
func (l *Ledger) load(a *account) *flight {
	if a.flight != nil {
		return a.flight
	}
	var stored counter
	var owner string
	var found bool
	key, epoch := recordKey(a.key), a.epoch
	return l.fly(a, func(ctx context.Context) error {
		err := l.store.View(ctx, func(tx storage.Tx) error {
			record, err := tx.Get(key)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading the rate-limit record of %q: %w", a.key, err)
			}
			if stored, owner, err = decode(record); err != nil {
				return fmt.Errorf("%w of %q: %w", ErrCorrupt, a.key, err)
			}
			found = true
			return nil
		})
		return err
	}, func(err error) {
		a.loaded = err == nil
		switch {
		case found && a.epoch != epoch: // it was forgotten, perhaps before the record was
			a.dirty = true
		case found:
			a.counter = stored
			if a.owner == "" {
				a.owner = owner
			}
		}
	})
}

// writeRested writes the exact count of an account, without a lease, so that it can be
// dropped.
func (l *Ledger) writeRested(a *account) {
	key, record, empty, behind, epoch := recordKey(a.key), a.encode(0), a.total == 0, a.behind, a.epoch
	a.spare, a.dirty, a.behind = 0, false, false
	l.fly(a, func(ctx context.Context) error {
		return l.store.Write(ctx, func(tx storage.Tx) error {
			if empty {
				return tx.Delete(key)
			}
			return tx.Set(key, record)
		})
	}, func(err error) {
		if err != nil {
			a.dirty, a.behind = true, a.behind || behind
		}
		a.dirty = a.dirty || a.epoch != epoch // it was forgotten, and the record perhaps before it was written
	})
}

// lease writes a record of everything that counts, plus enough for units to be spent.
// If the account already has a flight, lease returns that instead, and the caller must
// check again what is missing.
func (l *Ledger) lease(a *account, units, limit int64) *flight {
	if a.flight != nil {
		return a.flight
	}
	c := &a.counter
	grant := c.grant(limit, units)
	key, record := recordKey(a.key), a.encode(c.spare+grant)
	bucket, epoch, behind := c.bucket, c.epoch, a.behind
	c.leased = bucket
	a.dirty, a.behind = true, false
	moment := l.dueMoment()
	return l.fly(a, func(ctx context.Context) error {
		err := l.store.Write(ctx, func(tx storage.Tx) error {
			if moment != nil {
				if err := tx.Set([]byte(momentKey), moment); err != nil {
					return err
				}
			}
			return tx.Set(key, record)
		})
		l.wroteMoment(moment, err)
		if err != nil {
			return fmt.Errorf("writing the rate-limit record of %q: %w", a.key, err)
		}
		l.pruneWith()
		return nil
	}, func(err error) {
		switch {
		case err != nil:
			a.behind = a.behind || behind
		case c.bucket == bucket && c.epoch == epoch:
			c.spare += grant
		}
	})
}

// quiet is how long nothing has been reserved of a counter whose lease is reduced. Calls that follow each other
// closely find what the ones before them gave back.
const quiet = 5 * time.Second

// ReduceLeases reduces what the records of counters have leased to the share of their limits that is leased at a
// time, if they are quiet and nothing is held: a large reservation that was given back is a lease, which would count
// as spent after a crash. It waits for no store, and should be called every few seconds.
func (l *Ledger) ReduceLeases() {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		if !s.closed {
			now := l.now()
			s.lavish = slices.DeleteFunc(s.lavish, func(a *account) bool {
				if s.accounts.get(a.hash, a.key) != a { // dropped
					return true
				}
				a.advance(now)
				if a.flight != nil || a.used+int64(quiet) > now && a.excess() > 0 {
					return false
				}
				if a.excess() > 0 {
					l.reduce(a)
				}
				a.lavish = false
				return true
			})
		}
		s.mu.Unlock()
	}
}

// excess is what the lease of an account exceeds the share of its limit by, while nothing is held.
func (a *account) excess() int64 {
	if a.held > 0 {
		return 0
	}
	return a.spare - share(a.limit)
}

// reduce writes a record with a share of the limit as its lease, instead of a larger one.
func (l *Ledger) reduce(a *account) {
	a.spare = share(a.limit)
	key, record := recordKey(a.key), a.encode(a.spare)
	l.fly(a, func(ctx context.Context) error {
		return l.store.Write(ctx, func(tx storage.Tx) error { return tx.Set(key, record) })
	}, func(error) {}) // the record that was there counts more
}
