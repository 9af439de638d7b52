package storagetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// feedTimeout is how long a follower may wait for what another instance committed.
const feedTimeout = 30 * time.Second

// Instance is a store and its feed, as one process has them.
type Instance interface {
	storage.Store
	storage.Feed
}

// RunFeed tests a [storage.Feed]. open returns two instances over one empty store,
// which it closes when the test ends; of a store that one process uses, they are the
// same.
func RunFeed(t *testing.T, open func(t *testing.T) (one, two Instance)) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, one, two Instance)
	}{
		{"tells every commit once and in order", testFeedOrder},
		{"has told its followers when it returns", testFeedDelivery},
		{"tells what another instance committed", testFeedElsewhere},
		{"tells nothing of what was not committed", testFeedFailures},
		{"tells nothing of a run that was repeated", testFeedConflict},
		{"follows nothing where loading fails", testFeedLoad},
		{"minds the context", testFeedContext},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, two := open(t)
			test.run(t, one, two)
		})
	}
}

// A follower notes what a follower was told.
type follower struct {
	mu       sync.Mutex
	received []string
	some     chan struct{}
}

func (f *follower) follow(changes []storage.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		if c.Value == nil {
			f.received = append(f.received, fmt.Sprintf("-%s", c.Key))
		} else {
			f.received = append(f.received, fmt.Sprintf("%s=%s", c.Key, c.Value))
		}
	}
	select {
	case f.some <- struct{}{}:
	default:
	}
}

func (f *follower) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received)
}

// follow follows a feed from now on.
func follow(t *testing.T, feed storage.Feed) *follower {
	t.Helper()
	f := &follower{some: make(chan struct{}, 1)}
	if err := feed.Follow(t.Context(), func(storage.Tx) error { return nil }, f.follow); err != nil {
		t.Fatalf("Follow: %v", err)
	}
	return f
}

// publish stores a value, or deletes it where it is nil.
func publish(t *testing.T, feed storage.Feed, key string, value []byte) {
	t.Helper()
	err := feed.Publish(t.Context(), func(tx storage.Tx) ([]storage.Change, error) {
		if value == nil {
			return []storage.Change{{Key: []byte(key)}}, tx.Delete([]byte(key))
		}
		return []storage.Change{{Key: []byte(key), Value: value}}, tx.Set([]byte(key), value)
	})
	if err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

// wait waits until a follower was told all that is wanted, and no more.
func (f *follower) wait(t *testing.T, want ...string) {
	t.Helper()
	limit := time.NewTimer(feedTimeout)
	defer limit.Stop()
	for {
		got := f.all()
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-f.some:
		case <-limit.C:
			t.Fatalf("the follower was told %q, want %q", got, want)
		}
	}
}

// counted is the key of a counter that the transactions of testFeedOrder increment.
var counted = []byte("counted")

// A mirror keeps up with the counter, and notes where it skipped or repeated a value.
type mirror struct {
	mu    sync.Mutex
	value uint64
	fault string
	done  chan struct{} // closed at until
	until uint64
}

func (m *mirror) load(tx storage.Tx) error {
	value, err := tx.Get(counted)
	if err != nil {
		return err
	}
	m.set(binary.BigEndian.Uint64(value))
	return nil
}

func (m *mirror) follow(changes []storage.Change) {
	for _, c := range changes {
		n := binary.BigEndian.Uint64(c.Value)
		m.mu.Lock()
		if (!bytes.Equal(c.Key, counted) || n != m.value+1) && m.fault == "" {
			m.fault = fmt.Sprintf("%s=%d came after %d", c.Key, n, m.value)
		}
		m.mu.Unlock()
		m.set(n)
	}
}

func (m *mirror) set(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.value = n; n == m.until {
		close(m.done)
	}
}

// testFeedOrder has both instances increment a counter while followers join, which must
// see each value from the one that they loaded.
func testFeedOrder(t *testing.T, one, two Instance) {
	const workers, increments = 4, 8
	instances := []Instance{one, two}
	count := func(feed storage.Feed) error {
		return feed.Publish(t.Context(), func(tx storage.Tx) ([]storage.Change, error) {
			value, err := tx.Get(counted)
			if err != nil {
				return nil, err
			}
			value = binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(value)+1)
			return []storage.Change{{Key: counted, Value: value}}, tx.Set(counted, value)
		})
	}
	put(t, one, kv{string(counted), string(make([]byte, 8))})
	var mirrors []*mirror
	var group sync.WaitGroup
	for n := range workers {
		feed := instances[n%2]
		m := &mirror{until: workers * increments, done: make(chan struct{})}
		mirrors = append(mirrors, m)
		group.Go(func() {
			for i := range increments {
				if i == n { // each worker joins at another time
					if err := feed.Follow(t.Context(), m.load, m.follow); err != nil {
						t.Errorf("Follow: %v", err)
					}
				}
				if err := count(feed); err != nil {
					t.Errorf("Publish: %v", err)
				}
			}
		})
	}
	group.Wait()
	limit := time.After(feedTimeout)
	for n, m := range mirrors {
		select {
		case <-m.done:
		case <-limit:
			t.Errorf("follower %d was not told of the last commit", n)
		}
		m.mu.Lock()
		if m.fault != "" {
			t.Errorf("follower %d: %s", n, m.fault)
		}
		m.mu.Unlock()
	}
}

func testFeedDelivery(t *testing.T, one, _ Instance) {
	first, second := follow(t, one), follow(t, one)
	for n := range 10 {
		publish(t, one, "k", fmt.Append(nil, n))
		want := fmt.Sprintf("k=%d", n)
		for _, f := range []*follower{first, second} {
			if seen := f.all(); len(seen) != n+1 || seen[n] != want {
				t.Fatalf("when Publish returned, the follower had been told %q; want %s last", seen, want)
			}
		}
	}
}

func testFeedElsewhere(t *testing.T, one, two Instance) {
	publish(t, one, "before", []byte("x"))
	here, there := follow(t, one), follow(t, two)
	publish(t, one, "a", []byte("1"))
	publish(t, one, "a", []byte{}) // is a value
	here.wait(t, "a=1", "a=")
	there.wait(t, "a=1", "a=")
	publish(t, two, "a", nil)
	here.wait(t, "a=1", "a=", "-a")
	there.wait(t, "a=1", "a=", "-a")
}

func testFeedFailures(t *testing.T, one, _ Instance) {
	f := follow(t, one)
	err := one.Publish(t.Context(), func(tx storage.Tx) ([]storage.Change, error) {
		return []storage.Change{{Key: []byte("k"), Value: []byte("v")}}, errors.Join(errAbort, tx.Set([]byte("k"), []byte("v")))
	})
	if !errors.Is(err, errAbort) {
		t.Errorf("Publish returned %v", err)
	}
	publish(t, one, "next", []byte("1"))
	f.wait(t, "next=1")
	if _, err := get(t, one, "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("what failed was written: %v", err)
	}
}

// testFeedConflict has the first run of a transaction conflict with a concurrent write.
func testFeedConflict(t *testing.T, one, _ Instance) {
	f := follow(t, one)
	runs := 0
	err := one.Publish(t.Context(), func(tx storage.Tx) ([]storage.Change, error) {
		runs++
		if _, err := tx.Get([]byte("read")); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		if runs == 1 {
			if err := one.Write(t.Context(), func(tx storage.Tx) error { return tx.Set([]byte("read"), []byte("x")) }); err != nil {
				return nil, err
			}
		}
		value := fmt.Append(nil, runs)
		return []storage.Change{{Key: []byte("k"), Value: value}}, tx.Set([]byte("k"), value)
	})
	if err != nil {
		t.Fatalf("Publish: %v", err)
	}
	stored, err := get(t, one, "k")
	if err != nil {
		t.Fatal(err)
	}
	f.wait(t, "k="+stored)
}

func testFeedLoad(t *testing.T, one, _ Instance) {
	f := &follower{some: make(chan struct{}, 1)}
	err := one.Follow(t.Context(), func(storage.Tx) error { return errAbort }, f.follow)
	if !errors.Is(err, errAbort) {
		t.Errorf("Follow returned %v", err)
	}
	other := follow(t, one)
	publish(t, one, "k", []byte("v"))
	other.wait(t, "k=v")
	if seen := f.all(); len(seen) > 0 {
		t.Errorf("it was told %q", seen)
	}
}

func testFeedContext(t *testing.T, one, _ Instance) {
	err := one.Publish(cancelled(), func(storage.Tx) ([]storage.Change, error) { return nil, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Publish: %v", err)
	}
	err = one.Follow(cancelled(), func(storage.Tx) error { return nil }, func([]storage.Change) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
	// The feed works on.
	f := follow(t, one)
	publish(t, one, "k", []byte("v"))
	f.wait(t, "k=v")
}
