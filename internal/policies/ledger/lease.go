package ledger

import (
	"context"
	"errors"
	"fmt"

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
