package ledger

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/caddy-gw/gateway/storage"
)

// Forget removes the counters whose keys start with prefix from the store and from
// memory, for example because a policy was archived or deleted. Keys that are used
// again start from zero, although a record that is being read or written at the same
// time may count until the end of its window. A prefix for one policy must include the
// delimiter after its id. ErrClaim is returned if it is longer than 900 bytes.
func (l *Ledger) Forget(ctx context.Context, prefix string) error {
	if len(prefix) > maxPlainKey {
		return fmt.Errorf("%w: a prefix of %d bytes", ErrClaim, len(prefix))
	}
	// The records are removed first, because counters that were already reset may write
	// new records, which must not be removed.
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

// forget resets the counters in place. A counter whose record is being written must
// stay in memory, so that no other write of the record begins before that one has
// ended.
func (s *shard) forget(prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	for a := range s.accounts.all() {
		if strings.HasPrefix(a.key, prefix) {
			a.forget()
		}
	}
	return nil
}
