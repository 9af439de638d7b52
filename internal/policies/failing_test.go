package policies

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// failingStore is a store that refuses writes while full is set.
type failingStore struct {
	storage.Store
	full atomic.Bool
}

func (s *failingStore) refuse() error {
	if s.full.Load() {
		return fmt.Errorf("%w: no space left on device", storage.ErrUnwritable)
	}
	return nil
}

func (s *failingStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.refuse(); err != nil {
		return err
	}
	return s.Store.Update(ctx, fn)
}

func (s *failingStore) Write(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.refuse(); err != nil {
		return err
	}
	return s.Store.Write(ctx, fn)
}

// While the store cannot be written, calls under a limit are refused beyond what is leased, and others go on.
// Nothing is admitted beyond the limit, then or afterwards.
func TestCallsUnderALimitAreRefusedWhileTheStoreCannotBeWritten(t *testing.T) {
	store := &failingStore{Store: storetest.Open(t)}
	w := newWorldOver(t, storage.NewDB(store))
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1"}, Value: 10})
	w.budget(budgetOf(Tokens, 1000))
	w.settle(w.admit("ws-1", call{}), Used{Tokens: 50})

	store.full.Store(true)
	for range 3 {
		v, err := w.Admit(t.Context(), "ws-1", call{}, ScopeAll, time.Hour)
		if !errors.Is(err, storage.ErrUnwritable) || v != nil {
			t.Fatalf("under a limit: %+v, %v", v, err)
		}
	}
	w.must(20, "ws-2", call{})

	store.full.Store(false)
	v, err := w.Admit(t.Context(), "ws-1", call{}, ScopeAll, time.Hour)
	for errors.Is(err, storage.ErrUnwritable) { // a write that began before fails
		v, err = w.Admit(t.Context(), "ws-1", call{}, ScopeAll, time.Hour)
	}
	if err != nil || v.Denied != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	w.settle(v, Used{Tokens: 50})
	for range 8 {
		w.settle(w.admit("ws-1", call{}), Used{Tokens: 50})
	}
	w.refused("ws-1", call{}, "p")
	if booked := w.booked("b")["default"]; booked != 500 {
		t.Errorf("%d tokens are booked", booked)
	}
}

// What a call used is not lost if it cannot be written when the call ends.
func TestWhatIsUsedWhileTheStoreCannotBeWrittenIsBookedLater(t *testing.T) {
	store := &failingStore{Store: storetest.Open(t)}
	w := newWorldOver(t, storage.NewDB(store))
	w.budget(budgetOf(Tokens, 1000))
	v := w.admit("ws-1", call{})
	store.full.Store(true)
	if err := w.Settle(t.Context(), v, Used{Tokens: 700}); !errors.Is(err, storage.ErrUnwritable) {
		t.Errorf("settled with %v", err)
	}
	store.full.Store(false)
	if v := w.refused("ws-1", call{"demand": {"100 300"}}, "b"); !v.Denied.Spent {
		t.Errorf("%+v", v.Denied)
	}
	w.restart()
	if booked := w.booked("b")["default"]; booked != 700 {
		t.Errorf("%d tokens are booked after a restart", booked)
	}
}

func TestUncountedCallsAreLoggedOnceAMinute(t *testing.T) {
	w := newWorld(t)
	core, logs := observer.New(zap.ErrorLevel)
	w.logger = zap.New(core)
	for range 100 {
		w.Uncounted(ledger.ErrClosed)
		w.pass(time.Second)
	}
	if n := logs.Len(); n != 2 || w.UncountedCalls() != 100 {
		t.Errorf("%d lines for %d calls", n, w.UncountedCalls())
	}
}
