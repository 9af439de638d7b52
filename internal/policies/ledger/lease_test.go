package ledger

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// block makes the store's writes wait until they are let through one by one.
func (d *desk) block() (let chan<- error) {
	gate := make(chan error)
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.store.beforeWrite = func(ctx context.Context) error {
		select {
		case err := <-gate:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return gate
}

// A call is a Reserve in its own goroutine.
type call struct {
	decision Decision
	err      error
	returned atomic.Bool
}

func (d *desk) start(ctx context.Context, claims ...Claim) *call {
	c := &call{}
	go func() {
		_, c.decision, c.err = d.Reserve(ctx, claims)
		c.returned.Store(true)
	}()
	synctest.Wait()
	return c
}

func (c *call) want(t *testing.T, admitted bool, err error) {
	t.Helper()
	synctest.Wait()
	if !c.returned.Load() {
		t.Fatal("still waiting")
	}
	if c.decision.Admitted != admitted || !errors.Is(c.err, err) {
		t.Errorf("%+v, %v; want admitted %t, error %v", c.decision, c.err, admitted, err)
	}
}

func (c *call) wantWaiting(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if c.returned.Load() {
		t.Fatalf("returned %+v, %v before the record was written", c.decision, c.err)
	}
}

var single = Claim{"k", 3, time.Minute, 1, "", false, 0}

func TestNothingIsAdmittedBeforeItsRecordIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		let := d.block()
		calls := []*call{d.start(t.Context(), single), d.start(t.Context(), single)}
		calls[0].wantWaiting(t)
		calls[1].wantWaiting(t)
		if n := d.durable("k"); n != 0 {
			t.Fatalf("%d on the disk already", n)
		}
		let <- nil
		synctest.Wait()
		if a, b := calls[0].returned.Load(), calls[1].returned.Load(); a == b || d.durable("k") != 1 {
			t.Fatalf("one lease of one unit: returned %t and %t, %d on the disk", a, b, d.durable("k"))
		}
		let <- nil
		calls[0].want(t, true, nil)
		calls[1].want(t, true, nil)
		d.crash()
		d.wantLeft(1, single)
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		let := d.block()
		ctx, cancel := context.WithCancel(t.Context())
		first := d.start(ctx, single) // began the write that both wait for
		second := d.start(t.Context(), single)
		cancel()
		first.want(t, false, context.Canceled)
		second.wantWaiting(t)
		let <- nil
		second.want(t, true, nil)
		d.store.healWrites()
		d.wantLeft(2, single)
	})
}

func TestAFailingStoreAdmitsNothingAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		broken := errors.New("broken disk")
		let := d.block()
		calls := []*call{d.start(t.Context(), single), d.start(t.Context(), single, Claim{"other", 5, time.Hour, 1, "", false, 0})}
		let <- broken
		let <- broken
		calls[0].want(t, false, broken)
		calls[1].want(t, false, broken)
		d.store.healWrites()
		d.wantLeft(3, single)
		d.wantLeft(5, Claim{Key: "other", Limit: 5, Window: time.Hour})
		if n := d.drain(single); n != 3 {
			t.Errorf("%d of 3 after the store recovered", n)
		}
	})
}

func TestAStoreThatCannotBeRead(t *testing.T) {
	d := newDesk(t, Options{})
	d.drain(single)
	d.crash()
	broken := errors.New("broken disk")
	d.store.beforeRead = func(context.Context) error { return broken }
	d.fails(broken, single)
	d.fails(broken, single)
	d.store.beforeRead = nil
	d.wantLeft(0, single)
}

func TestALeaseLastsForItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		let := d.block()
		c := d.start(t.Context(), single)
		d.clock.add(time.Second) // the write takes longer than the bucket lasts
		d.wantLeft(3, single)    // seen by another caller, too
		let <- nil
		c.wantWaiting(t)
		let <- nil
		c.want(t, true, nil)
		d.store.healWrites()
		d.wantLeft(2, single)
		d.crash()
		d.wantLeft(2, single)
	})
}

func TestALeaseThatTheClockPassedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		d.reserve(single)
		d.clock.add(time.Second)
		let := d.block()
		c := d.start(t.Context(), single)
		d.clock.add(-time.Second)
		d.wantLeft(2, single) // observes the step back while the lease is being written
		d.clock.add(time.Second)
		d.wantLeft(2, single) // in the bucket of the lease again
		let <- nil
		c.wantWaiting(t)
		let <- nil
		c.want(t, true, nil)
		d.store.healWrites()
		d.crash()
		d.wantLeft(1, single)
	})
}

func TestACounterStaysWhileItsRecordIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{MaxCounters: 1})
		let := d.block()
		c := d.start(t.Context(), single)
		d.clock.add(5 * time.Minute)
		d.fails(ErrFull, Claim{"other", 1, time.Minute, 1, "", false, 0})
		close(let) // all writes: old records may be deleted in the same write as the lease or before
		c.want(t, true, nil)
	})
}

func TestForgetWhileALeaseIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		d.reserve(single)
		let := d.block()
		before := d.start(t.Context(), single)
		go func() {
			if err := d.Forget(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		}()
		let <- nil // for the first write
		let <- nil
		synctest.Wait()
		d.store.healWrites()
		if !before.returned.Load() { // its lease was invalid
			let <- nil
		}
		before.want(t, true, nil)
		n := d.drain(single)
		if n < 2 {
			t.Errorf("%d more after Forget", n)
		}
		d.crash()
		d.wantLeft(0, single) // the record of the admitted units was not overtaken
	})
}

func TestClose(t *testing.T) {
	d := newDesk(t, Options{})
	for _, c := range []Claim{{"some", 6400, time.Minute, 30, "", false, 0}, {"all", 6400, time.Minute, 6400, "", false, 0}} {
		d.reserve(c)
	}
	given, _ := d.reserve(Claim{"given back", 6400, time.Minute, 30, "", false, 0})
	d.Release(given)
	for range maxBatch {
		given, _ = d.reserve(Claim{given.(*reservation).bookings[0].account.key + "+", 64, time.Minute, 1, "", false, 0})
	}
	closed := d.Ledger
	d.restart()
	if _, ok := d.store.items[string(recordKey("given back"))]; ok {
		t.Error("a record of nothing")
	}
	d.wantLeft(6370, Claim{Key: "some", Limit: 6400, Window: time.Minute})
	d.wantLeft(0, Claim{Key: "all", Limit: 6400, Window: time.Minute})
	d.wantLeft(6400, Claim{Key: "given back", Limit: 6400, Window: time.Minute})
	d.wantLeft(63, Claim{Key: given.(*reservation).bookings[0].account.key, Limit: 64, Window: time.Minute})

	d.Ledger = closed
	d.fails(ErrClosed, single)
	if err := d.Settle(t.Context(), given, []int64{7}); !errors.Is(err, ErrClosed) {
		t.Errorf("Settle: %v, want ErrClosed", err)
	}
	d.Release(given)
	if err := d.Forget(t.Context(), "k"); !errors.Is(err, ErrClosed) {
		t.Errorf("Forget: %v, want ErrClosed", err)
	}
	d.store.calls()
	if err := d.Close(t.Context()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, writes := d.store.calls(); writes > 0 {
		t.Errorf("%d writes of what had been written", writes)
	}
}

func TestCloseWaitsForWritesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		let := d.block()
		c := d.start(t.Context(), single)
		done := make(chan error, 1)
		go func() { done <- d.Close(t.Context()) }()
		synctest.Wait()
		let <- nil
		c.want(t, false, ErrClosed) // it has a lease, but the ledger is closed
		let <- nil
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.crash()
		d.wantLeft(3, single)
	})
}

func TestCloseThatIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		d.drain(single)
		d.block()
		c := d.start(t.Context(), Claim{"other", 1, time.Minute, 1, "", false, 0})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline", err)
		}
		c.want(t, false, context.Canceled)
		d.store.healWrites()
		d.restart()
		d.wantLeft(0, single)
	})
}

// What is read or written of a counter while it is forgotten does not count again: of a budget, it would count forever.
func TestForgetWhileARestedCounterIsReadOrWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := Claim{Key: "k", Limit: 1000, Window: Forever, Units: 7}
		for _, reads := range []bool{false, true} {
			d := newDesk(t, Options{})
			d.reserve(forever)
			held, on := make(chan struct{}), new(atomic.Bool)
			on.Store(true)
			hold := func(context.Context) error {
				if on.CompareAndSwap(true, false) {
					<-held
				}
				return nil
			}
			if reads {
				d.restart()
				d.Ledger.store = &lateReads{d.store, hold}
				d.start(t.Context(), forever)
			} else {
				d.clock.add(time.Hour)
				d.store.beforeWrite = hold
				d.evict(0)
			}
			synctest.Wait()
			if on.Load() {
				t.Fatal("nothing is read or written")
			}
			if err := d.Forget(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			close(held)
			synctest.Wait()
			want := forever.Limit
			if reads { // the call counts
				want -= forever.Units
			}
			d.wantLeft(want, forever)
			for range 3 { // until it is written, and gone from memory
				d.clock.add(time.Hour)
				d.evict(0)
				synctest.Wait()
			}
			d.wantLeft(want, forever)
		}
	})
}

// lateReads is a store that holds back what was read.
type lateReads struct {
	*fakeStore
	hold func(context.Context) error
}

func (s *lateReads) View(ctx context.Context, fn func(storage.Tx) error) error {
	return errors.Join(s.fakeStore.View(ctx, fn), s.hold(ctx))
}

// A large reservation that was given back costs no more after a crash than any other lease, once its counter is
// quiet; and no more is written then.
func TestLeasesOfLargeReservationsAreReduced(t *testing.T) {
	for _, window := range []time.Duration{time.Hour, Forever} {
		clock := newClock()
		store := newStore(clock)
		l := open(store, Options{Now: clock.Now, Uptime: clock.uptime})
		claim := Claim{"k", 20_000, window, 4166, "", true, 0}
		count := func(l *Ledger) (units int64) {
			t.Helper()
			if err := l.Counts(t.Context(), "k", func(c Count) { units = c.Units }); err != nil {
				t.Fatal(err)
			}
			return units
		}
		afterACrash := func() int64 {
			t.Helper()
			l.flights.Wait()
			return count(open(store, Options{Now: clock.Now, Uptime: clock.uptime}))
		}
		reserve := func() Reservation {
			t.Helper()
			r, _, err := l.Reserve(t.Context(), []Claim{claim})
			if err != nil || r == nil {
				t.Fatal(r, err)
			}
			return r
		}
		settle := func(r Reservation) {
			t.Helper()
			if err := l.Settle(t.Context(), r, []int64{2}); err != nil {
				t.Fatal(err)
			}
		}

		first, second := reserve(), reserve()
		settle(first)
		clock.add(quiet)
		l.ReduceLeases()
		if n := afterACrash(); n < 2+4166 { // one is held
			t.Errorf("%v: %d units while a reservation is held", window, n)
		}
		settle(second)
		writes := store.writes
		l.ReduceLeases()
		if n := afterACrash(); n < 4 || n > 4+share(claim.Limit) {
			t.Errorf("%v: %d units after a crash", window, n)
		}
		if store.writes != writes+1 || count(l) != 4 {
			t.Errorf("%v: %d writes, %d units", window, store.writes-writes, count(l))
		}
		clock.add(quiet)
		l.ReduceLeases()
		l.flights.Wait()
		if store.writes != writes+1 {
			t.Errorf("%v: written again", window)
		}

		settle(reserve()) // it is used again at once
		l.ReduceLeases()
		l.flights.Wait()
		if n := afterACrash(); n < 4166 {
			t.Errorf("%v: the lease of a busy counter was reduced to %d", window, n)
		}
	}
}
