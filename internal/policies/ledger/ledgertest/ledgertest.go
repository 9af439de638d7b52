// Package ledgertest tests implementations of [ledger.Counter].
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// window is the window of all claims. A counter may count units for slack longer than
// that.
// it for units that count still.
const (
	window = time.Minute
	slack  = window / 30
)

// Run tests a counter. open returns an empty one that uses now as its clock and stays
// open until it is closed.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) ledger.Counter) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, ledger.Counter, *clock)
	}{
		{"agrees with a list of what was admitted", testModel},
		{"admits no more than the limit at once", testConcurrency},
		{"admits all claims or none", testTogether},
		{"settles what was detached by itself", testDetached},
		{"grows with what is used", testGrow},
		{"lists and forgets by prefix", testPrefix},
		{"answers when closed", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := new(clock)
			c.at.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
			test.run(t, open(t, c.now), c)
		})
	}
}

type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func claim(key string, limit, units int64) ledger.Claim {
	return ledger.Claim{Key: key, Limit: limit, Window: window, Units: units}
}

// An event is an admission of units.
type event struct {
	at    time.Time
	units int64
	held  ledger.Reservation
}

// sum returns the units admitted since a time.
func sum(events []*event, since time.Time) (n int64) {
	for _, e := range events {
		if e.at.After(since) {
			n += e.units
		}
	}
	return n
}

// testModel makes random calls and compares the results with a list of all events.
func testModel(t *testing.T, c ledger.Counter, clock *clock) {
	const limit = 10
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		key := fmt.Sprintf("%d/", runs) // a new counter
		var events []*event
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"reserve", "reserve", "reserve", "wait", "release", "settle", "forget"}).Draw(t, "step") {
			case "reserve":
				units := rapid.Int64Range(0, limit+1).Draw(t, "units")
				held, d, err := c.Reserve(t.Context(), []ledger.Claim{claim(key, limit, units)})
				if err != nil {
					t.Fatal(err)
				}
				if d.Admitted != (held != nil) {
					t.Fatalf("admitted: %t, with the reservation %v", d.Admitted, held)
				}
				now := clock.now()
				exact, wide := sum(events, now.Add(-window)), sum(events, now.Add(-window-slack))
				switch {
				case d.Admitted && exact+units > limit:
					t.Fatalf("%d units were admitted with %d in the window, of %d", units, exact, limit)
				case !d.Admitted && wide+units <= limit:
					t.Fatalf("%d units were refused with %d in the window, of %d", units, wide, limit)
				case d.Admitted:
					events = append(events, &event{now, units, held})
				}
			case "wait":
				clock.advance(time.Duration(rapid.Int64Range(0, int64(window)).Draw(t, "wait")))
			case "release":
				if e := pick(t, events); e != nil {
					c.Release(e.held)
					c.Release(e.held) // has no effect
					e.units, e.held = 0, nil
				}
			case "settle":
				e := pick(t, events)
				if e == nil {
					continue
				}
				used := rapid.Int64Range(0, 2*limit).Draw(t, "used")
				if err := c.Settle(t.Context(), e.held, []int64{used}); err != nil {
					t.Fatal(err)
				}
				if more := used - e.units; more > 0 {
					events = append(events, &event{at: clock.now(), units: more})
				} else {
					e.units = used
				}
				now := clock.now()
				of, booked := c.Booked(e.held, 0)
				if exact, wide := sum(events, now.Add(-window)), sum(events, now.Add(-window-slack)); of != key || booked < exact || booked > wide {
					t.Fatalf("%d units of %q are booked, of %d to %d in the window", booked, of, exact, wide)
				}
				e.held = nil
			case "forget":
				if err := c.Forget(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				events = nil
			}
		}
	})
}

// pick returns a random event whose reservation has not ended, or nil if there is none.
func pick(t *rapid.T, events []*event) *event {
	var held []*event
	for _, e := range events {
		if e.held != nil {
			held = append(held, e)
		}
	}
	if len(held) == 0 {
		return nil
	}
	return rapid.SampledFrom(held).Draw(t, "reservation")
}

func testConcurrency(t *testing.T, c ledger.Counter, _ *clock) {
	const limit, workers, each = 100, 8, 25
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range each {
				_, d, err := c.Reserve(t.Context(), []ledger.Claim{claim("k", limit, 1)})
				if err != nil {
					t.Error(err)
				}
				if d.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := admitted.Load(); n != limit {
		t.Errorf("%d of %d units were admitted", n, limit)
	}
}

func testTogether(t *testing.T, c ledger.Counter, _ *clock) {
	both := []ledger.Claim{claim("wide", 10, 1), claim("narrow", 1, 1)}
	for n, want := range []bool{true, false} {
		_, d, err := c.Reserve(t.Context(), both)
		if err != nil || d.Admitted != want {
			t.Fatalf("reservation %d: %+v, %v", n, d, err)
		}
		if !want && d.Denied != 1 {
			t.Errorf("claim %d was refused, want 1", d.Denied)
		}
	}
	_, d, err := c.Reserve(t.Context(), []ledger.Claim{claim("wide", 10, 0)})
	if err != nil || len(d.States) != 1 || d.States[0].Remaining != 9 {
		t.Errorf("what was refused has left %+v, %v", d.States, err)
	}
}

func testDetached(t *testing.T, c ledger.Counter, _ *clock) {
	left := func(key string) int64 {
		t.Helper()
		_, d, err := c.Reserve(t.Context(), []ledger.Claim{claim(key, 10, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return d.States[0].Remaining
	}
	both := []ledger.Claim{claim("stays", 10, 4), claim("goes", 10, 6)}
	both[0].Estimate, both[1].Estimate = true, true
	r, _, err := c.Reserve(t.Context(), both)
	if err != nil {
		t.Fatal(err)
	}
	part, held := c.Detach(r, []int{1})
	if len(held) != 1 || held[0].Key != "goes" || held[0].Units != 6 {
		t.Fatalf("held is %+v", held)
	}
	if err := c.Settle(t.Context(), r, []int64{1, 0}); err != nil || left("stays") != 9 || left("goes") != 4 {
		t.Errorf("%d and %d are left, %v", left("stays"), left("goes"), err)
	}
	if err := c.Settle(t.Context(), part, []int64{2}); err != nil || left("stays") != 9 || left("goes") != 8 {
		t.Errorf("%d and %d are left in the end, %v", left("stays"), left("goes"), err)
	}
}

func testGrow(t *testing.T, c ledger.Counter, _ *clock) {
	asked := []ledger.Claim{claim("fits", 10, 4), claim("full", 10, 6)}
	asked[0].Estimate, asked[1].Estimate = true, true
	r, _, err := c.Reserve(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	want := func(fits, full int64) {
		t.Helper()
		_, d, err := c.Reserve(t.Context(), []ledger.Claim{claim("fits", 10, 0), claim("full", 20, 0)})
		if err != nil || d.States[0].Remaining != fits || d.States[1].Remaining != full {
			t.Errorf("%d and %d are left of 10 and 20, want %d and %d (%v)", d.States[0].Remaining, d.States[1].Remaining, fits, full, err)
		}
	}
	for _, g := range []struct {
		used       []int64
		over       int
		fits, full int64
	}{{[]int64{1, 1}, -1, 6, 14}, {[]int64{7, 10}, -1, 3, 10}, {[]int64{7, 11}, 1, 3, 9}, {[]int64{7, 11}, -1, 3, 9}} {
		// The limit is that of the latest claim.
		if _, _, err := c.Reserve(t.Context(), []ledger.Claim{claim("full", 10, 0)}); err != nil {
			t.Fatal(err)
		}
		over, err := c.Grow(t.Context(), r, g.used)
		if err != nil || over != g.over {
			t.Errorf("after %v claim %d is over its limit (%v), want %d", g.used, over, err, g.over)
		}
		want(g.fits, g.full)
	}
	if err := c.Settle(t.Context(), r, []int64{8, 11}); err != nil {
		t.Fatal(err)
	}
	want(2, 9)
	if _, err := c.Grow(t.Context(), r, []int64{20, 20}); err != nil {
		t.Error(err)
	}
	want(2, 9)
}

func testPrefix(t *testing.T, c ledger.Counter, _ *clock) {
	for _, key := range []string{"a/1", "a/2", "b/1"} {
		asked := claim(key, 1, 1)
		asked.Owner = "owner of " + key
		if _, d, err := c.Reserve(t.Context(), []ledger.Claim{asked}); err != nil || !d.Admitted {
			t.Fatalf("%s: %+v, %v", key, d, err)
		}
	}
	list := func() (keys []string) {
		err := c.Counts(t.Context(), "a/", func(n ledger.Count) {
			if n.Owner != "owner of "+n.Key || n.Units != 1 || n.Held != 0 {
				t.Errorf("%s: %+v", n.Key, n)
			}
			keys = append(keys, n.Key)
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	if keys := list(); !slices.Equal(keys, []string{"a/1", "a/2"}) {
		t.Errorf("listed %q", keys)
	}
	if err := c.Forget(t.Context(), "a/"); err != nil {
		t.Fatal(err)
	}
	if keys := list(); len(keys) > 0 {
		t.Errorf("%q are left", keys)
	}
	for key, want := range map[string]bool{"a/1": true, "b/1": false} {
		if _, d, err := c.Reserve(t.Context(), []ledger.Claim{claim(key, 1, 1)}); err != nil || d.Admitted != want {
			t.Errorf("%s afterwards: %+v, %v", key, d, err)
		}
	}
}

func testClosed(t *testing.T, c ledger.Counter, _ *clock) {
	held, _, err := c.Reserve(t.Context(), []ledger.Claim{claim("k", 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.Release(held)
	c.Release(nil)
	if _, _, err := c.Reserve(t.Context(), []ledger.Claim{claim("k", 1, 1)}); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Reserve: %v", err)
	}
}
