package storagetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// term is that of all leases of the tests.
const term = time.Minute

// RunLocks tests a [storage.Locker]. open returns an empty store, which it closes when the
// test ends, and what makes the Locker of one more process over that store, which tells the
// time by now.
func RunLocks(t *testing.T, open func(t *testing.T) (store storage.Store, process func(now func() time.Time) storage.Locker)) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *lockTest)
	}{
		{"gives a lock to one holder", testLockHeld},
		{"gives a lock on when its term has passed", testLockLapses},
		{"knows no lease that it did not give", testLockForged},
		{"lets no two holders write", testLockModel},
		{"lets no two holders write at once", testLockConcurrency},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &lockTest{ctx: t.Context()}
			l.clock.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
			l.store, l.process = open(t)
			test.run(t, l)
		})
	}
}

// A lockTest has the time of all processes that have no other.
type lockTest struct {
	ctx     context.Context
	store   storage.Store
	process func(now func() time.Time) storage.Locker
	clock   atomic.Int64
}

func (l *lockTest) now() time.Time       { return time.Unix(0, l.clock.Load()) }
func (l *lockTest) pass(d time.Duration) { l.clock.Add(int64(d)) }

// write appends the token of a lease to a log, under the lease.
func (l *lockTest) write(locks storage.Locker, lease storage.Lease) error {
	key := []byte("log of " + lease.Name)
	return l.store.Write(l.ctx, func(tx storage.Tx) error {
		if err := locks.Fence(tx, lease); err != nil {
			return err
		}
		value, err := tx.Get(key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return tx.Set(key, binary.BigEndian.AppendUint64(value, lease.Token))
	})
}

// log returns the tokens in the order in which they were written.
func (l *lockTest) log(name string) (tokens []uint64, err error) {
	err = l.store.View(l.ctx, func(tx storage.Tx) error {
		value, err := tx.Get([]byte("log of " + name))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		for len(value) >= 8 {
			tokens, value = append(tokens, binary.BigEndian.Uint64(value)), value[8:]
		}
		return err
	})
	return tokens, err
}

func testLockHeld(t *testing.T, l *lockTest) {
	a, b := l.process(l.now), l.process(l.now)
	first, err := a.Acquire(l.ctx, "job", "ann", term)
	if err != nil {
		t.Fatal(err)
	}
	if first.Name != "job" || first.Owner != "ann" || first.Token == 0 || first.Term != term || first.Until.After(l.now().Add(term)) {
		t.Errorf("the lease is %+v", first)
	}
	for name, other := range map[string]storage.Locker{"bob": b, "ann": a} {
		if _, err := other.Acquire(l.ctx, "job", name, term); !errors.Is(err, storage.ErrLockHeld) || !strings.Contains(err.Error(), "ann") {
			t.Errorf("%s acquires what ann has: %v", name, err)
		}
	}
	if _, err := b.Acquire(l.ctx, "another job", "bob", term); err != nil {
		t.Errorf("another lock: %v", err)
	}
	if _, err := a.Acquire(l.ctx, "third job", "ann", 0); err == nil {
		t.Error("a lease without a term was given")
	}
	if err := l.write(a, first); err != nil {
		t.Errorf("writing: %v", err)
	}
	if err := a.Release(l.ctx, first); err != nil {
		t.Errorf("releasing: %v", err)
	}
	second, err := b.Acquire(l.ctx, "job", "bob", term)
	if err != nil || second.Token <= first.Token {
		t.Fatalf("after a release: %+v, %v", second, err)
	}
	if err := a.Release(l.ctx, first); err != nil {
		t.Errorf("releasing twice: %v", err)
	}
	if _, err := a.Renew(l.ctx, first); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("renewing what was released: %v", err)
	}
	if err := l.write(a, first); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("writing with what was released: %v", err)
	}
	if _, err := b.Renew(l.ctx, second); err != nil {
		t.Errorf("renewing: %v", err)
	}
}

func testLockLapses(t *testing.T, l *lockTest) {
	a, b := l.process(l.now), l.process(l.now)
	first, err := a.Acquire(l.ctx, "job", "ann", term)
	if err != nil {
		t.Fatal(err)
	}
	held := func() {
		t.Helper()
		if _, err := b.Acquire(l.ctx, "job", "bob", term); !errors.Is(err, storage.ErrLockHeld) {
			t.Fatalf("acquiring what is held: %v", err)
		}
	}
	held()
	l.pass(term / 2)
	if first, err = a.Renew(l.ctx, first); err != nil || !first.Until.Equal(l.now().Add(term)) {
		t.Fatalf("renewing: %+v, %v", first, err)
	}
	held()
	l.pass(term - 1)
	held()
	l.pass(1)
	second, err := b.Acquire(l.ctx, "job", "bob", term)
	if err != nil || second.Token <= first.Token {
		t.Fatalf("after the term: %+v, %v", second, err)
	}
	if _, err := a.Renew(l.ctx, first); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("renewing what was lost: %v", err)
	}
	if err := a.Release(l.ctx, first); err != nil {
		t.Errorf("releasing what was lost: %v", err)
	}
	if err := l.write(a, first); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("writing with what was lost: %v", err)
	}
	if err := l.write(b, second); err != nil {
		t.Errorf("writing: %v", err)
	}
}

func testLockForged(t *testing.T, l *lockTest) {
	a := l.process(l.now)
	lease, err := a.Acquire(l.ctx, "job", "ann", term)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*storage.Lease){
		"of an unknown lock":   func(l *storage.Lease) { l.Name = "none" },
		"of somebody else":     func(l *storage.Lease) { l.Owner = "bob" },
		"of an earlier token":  func(l *storage.Lease) { l.Token-- },
		"of a token to come":   func(l *storage.Lease) { l.Token++ },
		"without any contents": func(l *storage.Lease) { *l = storage.Lease{Name: "job"} },
	} {
		forged := lease
		change(&forged)
		if err := l.write(a, forged); !errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("writing with a lease %s: %v", name, err)
		}
		if _, err := a.Renew(l.ctx, forged); !errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("renewing a lease %s: %v", name, err)
		}
		if err := a.Release(l.ctx, forged); err != nil {
			t.Errorf("releasing a lease %s: %v", name, err)
		}
	}
	if err := l.write(a, lease); err != nil {
		t.Errorf("writing: %v", err)
	}
}

// A holder is a process of testLockModel, with a clock that is off.
type holder struct {
	locks storage.Locker
	now   func() time.Time
	off   atomic.Int64
}

// A given lease is one that a holder has got. It may use it long after it lost it, and also
// after it crashed, as a process does that was stopped for a while.
type given struct {
	by    *holder
	locks storage.Locker
	lease storage.Lease
}

// testLockModel has processes acquire, renew, release and write at random, with leases that
// they may have lost, while time passes, clocks step and processes crash. Then it is known
// which lease is the lock's, and only that one may have an effect.
func testLockModel(t *testing.T, l *lockTest) {
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		name := fmt.Sprint("job ", runs)
		holders := make([]*holder, 3)
		for i := range holders {
			h := new(holder)
			h.now = func() time.Time { return l.now().Add(time.Duration(h.off.Load())) }
			h.locks = l.process(h.now)
			holders[i] = h
		}
		var leases []*given
		var current *given // nil: the lock is free
		stepped := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h := rapid.SampledFrom(holders).Draw(t, "process")
			var g *given
			if len(leases) > 0 {
				g = leases[len(leases)-1-rapid.IntRange(0, min(2, len(leases)-1)).Draw(t, "lease")]
			}
			step := rapid.SampledFrom([]string{"acquire", "acquire", "renew", "write", "write", "release", "wait", "wait", "step", "crash"}).Draw(t, "step")
			switch {
			case step == "acquire":
				lease, err := h.locks.Acquire(l.ctx, name, "owner", term)
				switch {
				case errors.Is(err, storage.ErrLockHeld) && current != nil:
				case err != nil:
					t.Fatalf("acquiring: %v; held: %v", err, current != nil)
				case len(leases) > 0 && lease.Token <= leases[len(leases)-1].lease.Token:
					t.Fatalf("token %d came after %d", lease.Token, leases[len(leases)-1].lease.Token)
				case current != nil && !stepped && current.by.now().Before(current.lease.Until):
					t.Fatalf("the lock changed hands before its term was over")
				default:
					current = &given{h, h.locks, lease}
					leases = append(leases, current)
				}
			case step == "wait":
				l.pass(time.Duration(rapid.Int64Range(0, int64(2*term)).Draw(t, "time")))
			case step == "step":
				h.off.Add(rapid.Int64Range(-int64(3*term), int64(3*term)).Draw(t, "off"))
				stepped = true
			case step == "crash":
				h.locks = l.process(h.now)
			case g == nil:
			case step == "renew":
				lease, err := g.locks.Renew(l.ctx, g.lease)
				if (err == nil) != (g == current) || err != nil && !errors.Is(err, storage.ErrLeaseLost) {
					t.Fatalf("renewing: %v; it is the current lease: %v", err, g == current)
				}
				if err == nil {
					g.lease = lease
				}
			case step == "release":
				if err := g.locks.Release(l.ctx, g.lease); err != nil {
					t.Fatalf("releasing: %v", err)
				}
				if g == current {
					current = nil
				}
			case step == "write":
				err := l.write(g.locks, g.lease)
				if (err == nil) != (g == current) || err != nil && !errors.Is(err, storage.ErrLeaseLost) {
					t.Fatalf("writing: %v; it is the current lease: %v", err, g == current)
				}
			}
		}
		tokens, err := l.log(name)
		if err != nil || !slices.IsSorted(tokens) {
			t.Fatalf("holders wrote in the order %v; %v", tokens, err)
		}
		// Whatever happened, the lock can be had again in the end.
		if current != nil {
			_, err := holders[0].locks.Acquire(l.ctx, name, "owner", term)
			if err != nil {
				l.pass(term)
				_, err = holders[0].locks.Acquire(l.ctx, name, "owner", term)
			}
			if err != nil {
				t.Fatalf("acquiring when nobody renews: %v", err)
			}
		}
	})
}

// testLockConcurrency has processes take the lock from each other, as their clock runs so
// fast that each of them loses it while it writes.
func testLockConcurrency(t *testing.T, l *lockTest) {
	const processes, tries = 4, 40
	var group sync.WaitGroup
	for range processes {
		locks := l.process(l.now)
		group.Go(func() {
			for range tries {
				l.pass(term / 2)
				lease, err := locks.Acquire(l.ctx, "job", "owner", term)
				if err != nil {
					if !errors.Is(err, storage.ErrLockHeld) {
						t.Errorf("acquiring: %v", err)
					}
					continue
				}
				for i := 0; i < 10 && err == nil; i++ {
					err = l.write(locks, lease)
					l.pass(term / 8)
				}
				if err == nil && lease.Token%2 == 0 { // else it crashed
					err = locks.Release(l.ctx, lease)
				}
				if err != nil && !errors.Is(err, storage.ErrLeaseLost) {
					t.Errorf("working: %v", err)
				}
			}
		})
	}
	group.Wait()
	tokens, err := l.log("job")
	if err != nil || !slices.IsSorted(tokens) || len(tokens) == 0 {
		t.Errorf("holders wrote in the order %v; %v", tokens, err)
	}
}
