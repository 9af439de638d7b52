package ledger

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A clock is set by the test.
type clock struct{ ns atomic.Int64 }

// newClock starts at the beginning of a day, which is also the beginning of a bucket of
// every window.
func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time { return time.Unix(0, c.ns.Load()) }

// uptime reports a machine that has been booted once.
func (c *clock) uptime() (string, time.Duration) {
	return "boot", time.Duration(c.ns.Load() - time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
}

func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }

// A fakeStore is a store in memory. Its records expire by a wall clock, as early as a
// precision of one second permits.
type fakeStore struct {
	now func() time.Time

	mu            sync.Mutex
	items         map[string]fakeItem
	reads, writes int

	// beforeRead and beforeWrite may block a transaction or make it fail.
	beforeRead, beforeWrite func(context.Context) error
}

type fakeItem struct {
	value   []byte
	expires int64 // in seconds since 1970; 0: never
}

// open opens a ledger. The store must be readable.
func open(store Store, opts Options) *Ledger {
	l, err := Open(context.Background(), store, opts)
	if err != nil {
		panic(err)
	}
	return l
}

func newStore(c *clock) *fakeStore {
	return &fakeStore{now: c.Now, items: map[string]fakeItem{}}
}

func (s *fakeStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	s.mu.Lock()
	before := s.beforeRead
	s.reads++
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(&fakeTx{store: s})
}

func (s *fakeStore) Write(ctx context.Context, fn func(storage.Tx) error) error {
	s.mu.Lock()
	before := s.beforeWrite
	s.writes++
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &fakeTx{store: s}
	if err := fn(tx); err != nil {
		return err
	}
	for _, apply := range tx.changes {
		apply()
	}
	return nil
}

func (s *fakeStore) failWrites(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beforeWrite = func(context.Context) error { return err }
}

func (s *fakeStore) healWrites() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beforeWrite = nil
}

// calls returns the number of transactions that have begun since the last call.
func (s *fakeStore) calls() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads, writes = s.reads, s.writes
	s.reads, s.writes = 0, 0
	return reads, writes
}

// copy returns the store as a process would find it that started now.
func (s *fakeStore) copy() *fakeStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &fakeStore{now: s.now, items: map[string]fakeItem{}}
	for k, v := range s.items {
		c.items[k] = v
	}
	return c
}

type fakeTx struct {
	store   *fakeStore
	changes []func()
}

func (t *fakeTx) Get(key []byte) ([]byte, error) {
	item, ok := t.store.items[string(key)]
	if !ok || item.expires > 0 && item.expires <= t.store.now().Unix() {
		return nil, storage.ErrNotFound
	}
	return bytes.Clone(item.value), nil
}

func (t *fakeTx) put(key []byte, item fakeItem) error {
	if len(key) == 0 || len(key) > 1024 {
		panic("a key of the wrong length")
	}
	t.changes = append(t.changes, func() { t.store.items[string(key)] = item })
	return nil
}

func (t *fakeTx) Set(key, value []byte) error { return t.put(key, fakeItem{value: value}) }

func (t *fakeTx) SetTTL(key, value []byte, ttl time.Duration) error {
	return t.put(key, fakeItem{value, t.store.now().Add(ttl).Unix()})
}

func (t *fakeTx) Delete(key []byte) error {
	t.changes = append(t.changes, func() { delete(t.store.items, string(key)) })
	return nil
}

func (t *fakeTx) Scan(prefix, start []byte, _ bool) iter.Seq2[storage.Item, error] {
	var keys []string
	for k := range t.store.items {
		if strings.HasPrefix(k, string(prefix)) && k >= string(start) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return func(yield func(storage.Item, error) bool) {
		for _, k := range keys {
			if !yield(storage.Item{Key: []byte(k), Value: t.store.items[k].value}, nil) {
				return
			}
		}
	}
}
