package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A pruner deletes records that no longer count, according to the ledger's time. The
// store must not expire them by the wall clock, which may jump. It works in steps,
// which go round all records. Steps run together with leases, so that their number
// grows with that of the records.
type pruner struct {
	leases atomic.Int64 // since the last step
	began  atomic.Int64 // when the last step began, in the ledger's time
	busy   atomic.Bool

	mu   sync.Mutex // held by a step
	next []byte     // key of the record to begin the next step with; nil: the first
}

const (
	prunedRecords = 512 // scanned by a step
	prunedLeases  = 64  // between two steps; fewer are enough after prunedApart
	prunedApart   = int64(time.Minute)
)

// pruneWith starts a step with a lease if one is due. The ledger is not closed before
// both have ended. Errors are left to the next step.
func (l *Ledger) pruneWith() {
	p, now := &l.pruner, l.now()
	if leases := p.leases.Add(1); leases < prunedLeases && now-p.began.Load() < prunedApart || p.busy.Swap(true) {
		return
	}
	p.leases.Store(0)
	p.began.Store(now)
	l.flights.Go(func() {
		_ = l.prune(l.ctx)
		p.busy.Store(false)
	})
}

// prune runs one step.
func (l *Ledger) prune(ctx context.Context) error {
	p := &l.pruner
	p.mu.Lock()
	defer p.mu.Unlock()
	var spent [][]byte
	var next []byte
	err := l.store.View(ctx, func(tx storage.Tx) error {
		spent, next = nil, nil
		n := 0
		for item, err := range tx.Scan([]byte(recordPrefix), p.next, false) {
			if err != nil {
				return err
			}
			if n++; n > prunedRecords {
				next = item.Key
				break
			}
			if l.spent(item.Value) {
				spent = append(spent, item.Key)
			}
		}
		return nil
	})
	switch {
	case err != nil || len(spent) == 0:
	case l.job == nil:
		err = l.store.Write(ctx, func(tx storage.Tx) error { return l.deleteSpent(tx, spent) })
	default:
		err = l.job.Do(ctx, func(ctx context.Context, step storage.Step) error {
			return l.store.Write(ctx, func(tx storage.Tx) error {
				if err := step.Fence(tx); err != nil {
					return err
				}
				return l.deleteSpent(tx, spent)
			})
		})
		if errors.Is(err, storage.ErrLockHeld) || errors.Is(err, storage.ErrLeaseLost) {
			err = nil // another process deletes them
		}
	}
	if err != nil {
		return fmt.Errorf("pruning rate-limit records: %w", err)
	}
	p.next = next
	return nil
}

// deleteSpent deletes records that are still spent, because they may have been written
// in the meantime.
func (l *Ledger) deleteSpent(tx storage.Tx, keys [][]byte) error {
	for _, key := range keys {
		record, err := tx.Get(key)
		if err == nil && l.spent(record) {
			err = tx.Delete(key)
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}

// spent reports whether a record counts nothing any more. It returns false if the
// record cannot be read.
func (l *Ledger) spent(record []byte) bool {
	c, _, err := decode(record)
	if err != nil {
		return false
	}
	c.advance(l.now())
	return c.total == 0
}
