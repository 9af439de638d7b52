package ledger

import (
	"bytes"
	"context"
	"fmt"

	"github.com/caddy-gw/gateway/storage"
)

// A Count is the state of a counter.
type Count struct {
	Key, Owner string
	Units      int64 // including those that are held
	Held       int64 // by reservations that are not settled
}

// Booked returns the units that were certainly used.
func (c *Count) Booked() int64 { return c.Units - c.Held }

// Counts calls fn for each counter whose key starts with prefix and whose stored record
// counts something. Units is 0 if the record cannot be read. It omits keys longer than
// 900 bytes, which are not stored completely. It may call fn twice for the same
// counter.
func (l *Ledger) Counts(ctx context.Context, prefix string, fn func(Count)) error {
	var start []byte
	var found []Count
	for more := true; more; {
		err := l.store.View(ctx, func(tx storage.Tx) error {
			more, found = false, found[:0]
			for item, err := range tx.Scan(recordKey(prefix), start, false) {
				if err != nil {
					return err
				}
				if len(found) == maxBatch {
					start, more = bytes.Clone(item.Key), true
					return nil
				}
				key := string(item.Key[len(recordPrefix):])
				if len(key) > maxPlainKey {
					continue
				}
				c, owner, err := decode(item.Value)
				if err == nil {
					c.advance(l.now())
				}
				if err != nil || c.total > 0 { // a corrupt record is reported when it is used
					found = append(found, Count{Key: key, Owner: owner, Units: c.total})
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing the rate-limit records of %q: %w", prefix, err)
		}
		for i := range found {
			l.correct(&found[i])
			fn(found[i])
		}
	}
	return nil
}

// correct updates a count from memory, because the record also counts the lease.
func (l *Ledger) correct(c *Count) {
	hash := l.hashOf(c.Key)
	s := &l.shards[shardOf(hash)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.accounts.get(hash, c.Key); a != nil && a.loaded {
		a.advance(l.now())
		c.Units, c.Held = a.total, min(a.held, a.total)
	}
}
