package ledger

import (
	"bytes"
	"context"
	"fmt"

	"github.com/caddy-gw/gateway/storage"
)

// Keys calls fn with the key and the owner of each counter whose key starts with prefix and of
// which the store's record counts something. It does not see keys beyond 900 bytes, of which the
// store does not hold the whole. It may call fn twice with one.
func (l *Ledger) Keys(ctx context.Context, prefix string, fn func(key, owner string)) error {
	var start []byte
	for more := true; more; {
		n := 0
		err := l.store.View(ctx, func(tx storage.Tx) error {
			more, n = false, 0
			for item, err := range tx.Scan(recordKey(prefix), start, false) {
				if err != nil {
					return err
				}
				if n++; n > maxBatch {
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
				if err != nil || c.total > 0 { // whoever uses a corrupt one is told
					fn(key, owner)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing the rate-limit records of %q: %w", prefix, err)
		}
	}
	return nil
}
