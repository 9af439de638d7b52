package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

func testSnapshot(t *testing.T, s storage.Store) {
	put(t, s, kv{"a", "old"}, kv{"b", "old"})
	view(t, s, func(tx storage.Tx) error {
		if err := wantGet(tx, "a", "old"); err != nil {
			return err
		}
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			return errors.Join(
				tx.Set([]byte("a"), []byte("new")),
				tx.Delete([]byte("b")),
				tx.Set([]byte("c"), []byte("new")),
			)
		})
		if err != nil {
			return err
		}
		items, err := scan(tx, "", "", false)
		if err == nil && len(items) != 2 {
			err = fmt.Errorf("a scan of the snapshot found %q", items)
		}
		return errors.Join(err, wantGet(tx, "a", "old"), wantGet(tx, "b", "old"), wantGet(tx, "c", "-"))
	})
	view(t, s, func(tx storage.Tx) error {
		return errors.Join(wantGet(tx, "a", "new"), wantGet(tx, "b", "-"), wantGet(tx, "c", "new"))
	})
}

func testRollback(t *testing.T, s storage.Store) {
	put(t, s, kv{"a", "old"})
	mine := errors.New("mine")
	fail := func(tx storage.Tx) error {
		if err := errors.Join(tx.Set([]byte("a"), []byte("new")), tx.Set([]byte("b"), []byte("new"))); err != nil {
			return err
		}
		return mine
	}
	for name, write := range map[string]func(context.Context, func(storage.Tx) error) error{"Update": s.Update, "Write": s.Write} {
		if err := write(t.Context(), fail); !errors.Is(err, mine) {
			t.Errorf("%s returned %v", name, err)
		}
	}
	// A failed operation that the function ignores must not become half a commit.
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		_ = tx.Set([]byte("b"), []byte("new"))
		_ = tx.Set(nil, []byte("new"))
		return nil
	})
	if err == nil {
		t.Error("Update ignored a failed Set")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Update swallowed a panic")
			}
		}()
		_ = s.Update(t.Context(), func(tx storage.Tx) error {
			_ = tx.Set([]byte("a"), []byte("new"))
			for range tx.Scan(nil, nil, false) {
				panic("mine")
			}
			return nil
		})
	}()
	view(t, s, func(tx storage.Tx) error {
		return errors.Join(wantGet(tx, "a", "old"), wantGet(tx, "b", "-"))
	})
}

func testIncrements(t *testing.T, s storage.Store) {
	const workers, rounds, keys = 8, 25, 2
	increment := func(key []byte) func(storage.Tx) error {
		return func(tx storage.Tx) error {
			n := 0
			value, err := tx.Get(key)
			if err == nil {
				n, err = strconv.Atoi(string(value))
			}
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			return tx.Set(key, strconv.AppendInt(nil, int64(n+1), 10))
		}
	}
	var group sync.WaitGroup
	for w := range workers {
		write := s.Write
		if w == 0 {
			write = s.Update
		}
		group.Go(func() {
			for round := range rounds {
				if err := write(t.Context(), increment(fmt.Append(nil, round%keys))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	sum := 0
	for key := range keys {
		value, err := get(t, s, fmt.Sprint(key))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(value)
		sum += n
	}
	if sum != workers*rounds {
		t.Errorf("%d increments left %d", workers*rounds, sum)
	}
}

// testPhantoms has transactions insert a row each if a scan finds fewer than a
// limit. Where inserts into a scanned range do not conflict, too many succeed.
func testPhantoms(t *testing.T, s storage.Store) {
	const workers, limit, rounds = 6, 3, 8
	for round := range rounds {
		prefix := fmt.Sprintf("round %d ", round)
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				err := s.Write(t.Context(), func(tx storage.Tx) error {
					items, err := scan(tx, prefix, "", w%2 == 0)
					if err != nil || len(items) >= limit {
						return err
					}
					return tx.Set(fmt.Append(nil, prefix, w), nil)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		view(t, s, func(tx storage.Tx) error {
			items, err := scan(tx, prefix, "", false)
			if err == nil && len(items) != limit {
				err = fmt.Errorf("%d rows, want %d", len(items), limit)
			}
			return err
		})
	}
}

// testStarvation has a transaction that another one gets in the way of in each
// of its runs.
func testStarvation(t *testing.T, s storage.Store) {
	put(t, s, kv{"contended", "0"})
	poke := make(chan struct{}, 1)
	var poker sync.WaitGroup
	poker.Go(func() {
		for range poke {
			err := s.Write(t.Context(), func(tx storage.Tx) error {
				return tx.Set([]byte("contended"), []byte("poked"))
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	update(t, s, func(tx storage.Tx) error {
		items, err := scan(tx, "contended", "", false)
		if err != nil {
			return err
		}
		// The poker may have to wait for us, so we cannot wait for it.
		select {
		case poke <- struct{}{}:
		default:
		}
		return tx.Set([]byte("result"), []byte(items[0].value))
	})
	close(poke)
	poker.Wait()
	if _, err := get(t, s, "result"); err != nil {
		t.Error(err)
	}
}

func testContext(t *testing.T, s storage.Store) {
	put(t, s, kv{"a", "old"}, kv{"b", "old"})
	for name, call := range map[string]func(context.Context, func(storage.Tx) error) error{
		"View": s.View, "Update": s.Update, "Write": s.Write,
	} {
		err := call(cancelled(), func(storage.Tx) error { t.Errorf("%s ran its function", name); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	err := s.Update(ctx, func(tx storage.Tx) error {
		err := tx.Set([]byte("a"), []byte("new"))
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an Update cancelled before its commit: %v", err)
	}
	if got, err := get(t, s, "a"); got != "old" || err != nil {
		t.Errorf("after a cancelled Update: %q, %v", got, err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	err = s.View(ctx, func(tx storage.Tx) error {
		for _, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that is cancelled: %v", err)
	}
}

func testClosed(t *testing.T, s storage.Store) {
	put(t, s, kv{"a", "1"})
	// Close waits for a transaction that runs.
	inside, closed := make(chan struct{}), make(chan error, 1)
	go func() {
		<-inside
		closed <- s.Close()
	}()
	view(t, s, func(tx storage.Tx) error {
		close(inside)
		for range 100 {
			if err := wantGet(tx, "a", "1"); err != nil {
				return err
			}
		}
		return nil
	})
	if err := <-closed; err != nil {
		t.Fatalf("Close: %v", err)
	}
	for name, call := range map[string]func(context.Context, func(storage.Tx) error) error{
		"View": s.View, "Update": s.Update, "Write": s.Write,
	} {
		err := call(t.Context(), func(storage.Tx) error { t.Errorf("%s ran its function", name); return nil })
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
}
