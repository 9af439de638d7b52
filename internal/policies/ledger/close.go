package ledger

import (
	"context"
	"fmt"

	"github.com/caddy-gw/gateway/storage"
)

// maxBatch is the maximum number of records written in one transaction.
const maxBatch = 500

// Close waits for store I/O in progress and writes exact counts. Afterwards, nothing is
// admitted, and all calls return ErrClosed except Release, which does nothing. If Close
// fails, the unspent leases of the records that it could not write count as spent. It
// may be called again.
func (l *Ledger) Close(ctx context.Context) error {
	l.closing.Lock()
	defer l.closing.Unlock()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.closed = true // no flight begins after this
		s.mu.Unlock()
	}

	landed := make(chan struct{})
	go func() {
		l.flights.Wait()
		close(landed)
	}()
	defer l.cancel()
	select {
	case <-landed:
	case <-ctx.Done():
		return fmt.Errorf("closing the rate-limit ledger: %w", context.Cause(ctx))
	}

	batch := make([]*account, 0, maxBatch)
	for i := range l.shards {
		for a := range l.shards[i].accounts.all() { // not used by anything else any more
			if !a.dirty {
				continue
			}
			if batch = append(batch, a); len(batch) < maxBatch {
				continue
			}
			if err := l.writeExact(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return l.writeExact(ctx, batch)
}

// writeExact writes records of the current counts, without leases.
func (l *Ledger) writeExact(ctx context.Context, batch []*account) error {
	if len(batch) == 0 {
		return nil
	}
	m := l.moment()
	err := l.store.Write(ctx, func(tx storage.Tx) error {
		if err := tx.Set([]byte(momentKey), m.encode()); err != nil {
			return err
		}
		for _, a := range batch {
			var err error
			if a.total == 0 {
				err = tx.Delete(recordKey(a.key))
			} else {
				err = tx.Set(recordKey(a.key), a.encode(0))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the last counts of rate limits: %w", err)
	}
	for _, a := range batch {
		a.dirty, a.behind = false, false
	}
	return nil
}
