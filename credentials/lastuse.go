package credentials

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A keyUse is when a key was last used, as it is stored.
type keyUse struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// uses are when keys were last used, to the minute. Calls note it in memory; it is written
// later, so that a call waits for no store.
type uses struct {
	mu      sync.RWMutex
	minutes map[string]*atomic.Int64 // since the epoch
	written map[string]int64         // what the store has of them; only FlushUses reads it
	rows    *storage.Collection[*keyUse]
}

func newUses() *uses {
	return &uses{
		minutes: make(map[string]*atomic.Int64), written: make(map[string]int64),
		rows: storage.NewCollection("api-key-use", func(u *keyUse) string { return u.ID }),
	}
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

func timeOf(minute int64) time.Time { return time.Unix(60*minute, 0).UTC() }

// note notes that a key was used.
func (u *uses) note(id string, now time.Time) {
	minute := minuteOf(now)
	u.mu.RLock()
	last := u.minutes[id]
	u.mu.RUnlock()
	if last == nil {
		u.mu.Lock()
		if last = u.minutes[id]; last == nil {
			last = new(atomic.Int64)
			u.minutes[id] = last
		}
		u.mu.Unlock()
	}
	if last.Load() < minute {
		last.Store(minute)
	}
}

// LastUse returns when a key was last used, to the minute, or nil if it never was. What
// another process noted is known within a minute.
func (k *Keyring) LastUse(ctx context.Context, id string) (*time.Time, error) {
	var minute int64
	k.uses.mu.RLock()
	if last := k.uses.minutes[id]; last != nil {
		minute = last.Load()
	}
	k.uses.mu.RUnlock()
	err := k.db.View(ctx, func(tx storage.Tx) error {
		row, err := k.uses.rows.Get(tx, id)
		if err == nil {
			minute = max(minute, minuteOf(row.At))
		}
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil || minute == 0 {
		return nil, err
	}
	at := timeOf(minute)
	return &at, nil
}

// FlushUses writes what was noted since. One goroutine calls it, about once a minute.
func (k *Keyring) FlushUses(ctx context.Context) error {
	const batch = 500 // bounds a transaction
	u := k.uses
	u.mu.Lock()
	pending := make(map[string]int64)
	for id, last := range u.minutes {
		minute := last.Load()
		if _, exists := k.apiKeys.Get(id); !exists { // it was deleted
			delete(u.minutes, id)
			delete(u.written, id)
		} else if minute > u.written[id] {
			pending[id] = minute
		}
	}
	u.mu.Unlock()
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(pending)), batch) {
		err := k.db.Write(ctx, func(tx storage.Tx) error {
			for _, id := range ids {
				row, err := u.rows.Get(tx, id)
				if err == nil && minuteOf(row.At) >= pending[id] || errors.Is(err, storage.ErrNotFound) && !k.stored(tx, id) {
					continue // another process was later, or the key was deleted meanwhile
				}
				if err != nil && !errors.Is(err, storage.ErrNotFound) {
					return err
				}
				if err := u.rows.Put(tx, &keyUse{id, timeOf(pending[id])}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			u.written[id] = pending[id]
		}
	}
	return nil
}

// stored reports whether a key is in the store, so that a transaction that adds its last use
// conflicts with one that deletes it.
func (k *Keyring) stored(tx storage.Tx, id string) bool {
	_, err := k.apiKeyRows.Get(tx, id)
	return err == nil
}

// forgetUse removes what is stored of a deleted key.
func (k *Keyring) forgetUse(tx storage.Tx, id string) error {
	if err := k.uses.rows.Delete(tx, id); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}
