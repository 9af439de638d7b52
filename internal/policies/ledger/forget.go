package ledger

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/caddy-gw/gateway/storage"
)

// Forget removes the counters whose keys start with prefix, from the store and
// from memory: a policy was archived or deleted, and whoever uses the keys again
// starts from zero (but a record that was being read or written meanwhile may
// count until its window is over). A prefix that is meant for one policy includes what
// ends its id in a key. It is at most 900 bytes long, or else ErrClaim.
func (l *Ledger) Forget(ctx context.Context, prefix string) error {
	if len(prefix) > maxPlainKey {
		return fmt.Errorf("%w: a prefix of %d bytes", ErrClaim, len(prefix))
	}
	// The records go first: what is admitted after the reset of a counter has a
	// record that nobody removes.
	if err := l.forgetRecords(ctx, recordKey(prefix)); err != nil {
		return fmt.Errorf("forgetting the rate-limit records of %q: %w", prefix, err)
	}
	for i := range l.shards {
		if err := l.shards[i].forget(prefix); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) forgetRecords(ctx context.Context, prefix []byte) error {
	var start []byte
	for {
		var batch [][]byte
		err := l.store.View(ctx, func(tx storage.Tx) error {
			batch = batch[:0]
			for item, err := range tx.Scan(prefix, start, false) {
				if err != nil {
					return err
				}
				if batch = append(batch, item.Key); len(batch) == maxBatch {
					break
				}
			}
			return nil
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		err = l.store.Write(ctx, func(tx storage.Tx) error {
			for _, key := range batch {
				if err := tx.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(batch) < maxBatch {
			return err
		}
		start = append(bytes.Clone(batch[len(batch)-1]), 0)
	}
}

// forget empties the counters in place: one whose record is being written must
// stay, so that no other write of that record begins before this one has ended.
func (s *shard) forget(prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	for key, a := range s.accounts {
		if strings.HasPrefix(key, prefix) {
			a.forget()
		}
	}
	return nil
}
