package ledger

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// budget returns a claim of a budget, which counts forever.
func budget(key string, limit, units int64) Claim {
	return Claim{Key: key, Limit: limit, Window: Forever, Units: units, Estimate: true}
}

func TestEstimatesOfOthersAreNamed(t *testing.T) {
	d := newDesk(t, Options{})
	first, _ := d.reserve(budget("k", 100, 60))
	_, decision := d.reserve(budget("k", 100, 50))
	if decision.Admitted || decision.Freed == nil || decision.States[0].Held != 60 || decision.States[0].Remaining != 40 {
		t.Fatalf("%+v", decision)
	}
	select {
	case <-decision.Freed:
		t.Fatal("nothing was given back yet")
	default:
	}
	if err := d.Settle(t.Context(), first, []int64{50}); err != nil {
		t.Fatal(err)
	}
	<-decision.Freed
	second, decision := d.reserve(budget("k", 100, 50))
	if !decision.Admitted || decision.States[0].Held != 50 {
		t.Fatalf("%+v", decision)
	}
	if err := d.Settle(t.Context(), second, []int64{50}); err != nil {
		t.Fatal(err)
	}
	if _, decision := d.reserve(budget("k", 100, 1)); decision.Admitted || decision.Freed != nil || decision.States[0].Held != 0 {
		t.Errorf("what is booked is waited for: %+v", decision)
	}
}

// A call does not wait if everything held would not be enough in one of the counters.
func TestNothingIsWaitedForInVain(t *testing.T) {
	d := newDesk(t, Options{})
	booked, _ := d.reserve(budget("spent", 10, 10))
	if err := d.Settle(t.Context(), booked, []int64{10}); err != nil {
		t.Fatal(err)
	}
	d.reserve(budget("held", 10, 10))
	for name, claims := range map[string][]Claim{
		"more than the limit": {budget("held", 10, 11)},
		"no limit":            {budget("held", 0, 1)},
		"with a spent one":    {budget("held", 10, 1), budget("spent", 10, 1)},
	} {
		if _, decision := d.reserve(claims...); decision.Admitted || decision.Freed != nil {
			t.Errorf("%s: %+v", name, decision)
		}
	}
}

func TestWhatIsForgottenIsNotHeld(t *testing.T) {
	d := newDesk(t, Options{})
	before, _ := d.reserve(budget("k", 10, 10))
	if err := d.Forget(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, decision := d.reserve(budget("k", 10, 10)); !decision.Admitted || decision.States[0].Held != 10 {
		t.Fatalf("%+v", decision)
	}
	d.Release(before)
	if _, decision := d.reserve(budget("k", 10, 1)); decision.Admitted || decision.States[0].Held != 10 {
		t.Errorf("a reservation from before was given back: %+v", decision)
	}
}

func TestABudgetThatRestsLeavesMemoryExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		held, _ := d.reserve(budget("held", 6400, 30))
		for key, used := range map[string]int64{"used": 30, "given back": 0} {
			r, _ := d.reserve(budget(key, 6400, 50))
			if err := d.Settle(t.Context(), r, []int64{used}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // one sweep begins the write, another one drops the account
			d.clock.add(11 * time.Minute)
			for i := range d.shards {
				d.sweep(1<<i, d.now())
			}
			synctest.Wait()
		}
		if n := d.Counters(); n != 1 {
			t.Errorf("%d counters in memory, of which 1 is held", n)
		}
		if n := d.durable("used"); n != 30 {
			t.Errorf("%d units on the disk, want 30", n)
		}
		if n := d.durable("given back"); n != 0 {
			t.Errorf("%d units on the disk, want none", n)
		}
		d.wantLeft(6370, Claim{Key: "used", Limit: 6400, Window: Forever})
		d.Release(held)
		d.wantLeft(6400, Claim{Key: "held", Limit: 6400, Window: Forever})
	})
}

// A bank is the naive model of budgets: the units booked and reserved.
type bank struct {
	limit, booked, held, lost int64
}

// TestBudgets compares budgets with the naive model, for any order of reservations,
// settlements, crashes, steps of the clock and idle times: everything admitted fits,
// everything refused would not have fitted, nothing booked is lost, and without crashes
// exactly the used units are booked.
func TestBudgets(t *testing.T) {
	for name, crashes := range map[string]bool{"without crashes": false, "with crashes": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { testBudgets(t, crashes) })
		})
	}
}

func testBudgets(t *rapid.T, crashes bool) {
	clock := newClock()
	store := newStore(clock)
	start := func() *Ledger { return open(store, Options{Now: clock.Now, Uptime: clock.uptime}) }
	l := start()
	type hold struct {
		of    []*bank
		units []int64
		r     Reservation
	}
	var held []hold
	banks := make([]*bank, rapid.IntRange(1, 3).Draw(t, "budgets"))
	for i := range banks {
		banks[i] = &bank{limit: rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 5000)).Draw(t, "limit")}
	}
	counted := func() map[string]Count {
		all := make(map[string]Count)
		if err := l.Counts(t.Context(), "", func(c Count) { all[c.Key] = c }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	t.Repeat(map[string]func(*rapid.T){
		"reserve": func(t *rapid.T) {
			var claims []Claim
			var h hold
			fits := true
			for i, b := range banks {
				if units := rapid.Int64Range(0, b.limit+1).Draw(t, "units"); units > 0 {
					claims = append(claims, budget(fmt.Sprint(i), b.limit, units))
					h.of, h.units = append(h.of, b), append(h.units, units)
					fits = fits && b.booked+b.held+units <= b.limit
				}
			}
			if len(claims) == 0 {
				t.Skip("nothing is asked for")
			}
			r, d, err := l.Reserve(t.Context(), claims)
			switch {
			case err != nil:
				t.Fatal(err)
			case d.Admitted && !fits:
				t.Fatalf("%v admitted", claims)
			case !d.Admitted && fits && !crashes:
				t.Fatalf("%v refused", claims)
			case !d.Admitted:
				return
			}
			for i, b := range h.of {
				b.held += h.units[i]
			}
			h.r = r
			held = append(held, h)
		},
		"settle": func(t *rapid.T) {
			if len(held) == 0 {
				t.Skip("nothing is held")
			}
			i := rapid.IntRange(0, len(held)-1).Draw(t, "reservation")
			h := held[i]
			held = slices.Delete(held, i, i+1)
			used := make([]int64, len(h.of))
			for i, b := range h.of {
				used[i] = rapid.Int64Range(0, h.units[i]).Draw(t, "used")
				if rapid.IntRange(0, 9).Draw(t, "surprise") == 0 {
					used[i] += rapid.Int64Range(0, 9).Draw(t, "more")
				}
				b.held -= h.units[i]
				b.booked += used[i]
			}
			if err := l.Settle(t.Context(), h.r, used); err != nil {
				t.Fatal(err)
			}
			l.Release(h.r) // has no effect
		},
		"step": func(t *rapid.T) {
			clock.add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "step")))
		},
		"rest": func(*rapid.T) {
			clock.add(11 * time.Minute)
			for i := range l.shards {
				l.shards[i].mu.Lock()
				l.sweep(1<<i, l.now())
				l.shards[i].mu.Unlock()
			}
		},
		"restart": func(t *rapid.T) { // units that were held now count as used
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, h := range held {
				for i, b := range h.of {
					b.held -= h.units[i]
					b.booked += h.units[i]
				}
			}
			l, held = start(), nil
		},
		"crash": func(t *rapid.T) {
			if !crashes {
				t.Skip("nothing crashes")
			}
			l.flights.Wait() // in this test, everything that was started reaches the store
			l.cancel()
			for _, h := range held {
				for i, b := range h.of {
					b.held -= h.units[i]
					b.lost += h.units[i]
				}
			}
			for i, b := range banks { // at most a sixty-fourth is leased, plus what was given back
				hash := l.hashOf(fmt.Sprint(i))
				if a := l.shards[shardOf(hash)].accounts.get(hash, fmt.Sprint(i)); a != nil {
					b.lost += max(a.spare, 0)
				}
			}
			l, held = start(), nil
		},
		"": func(t *rapid.T) {
			all := counted()
			for i, b := range banks {
				c := all[fmt.Sprint(i)]
				if crashes {
					if c.Booked() < b.booked || c.Units > b.booked+b.held+b.lost {
						t.Fatalf("budget %d: %+v, want %+v", i, c, b)
					}
					continue
				}
				if c.Booked() != b.booked || c.Held != b.held {
					t.Fatalf("budget %d: %+v, want %+v", i, c, b)
				}
			}
		},
	})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A guess takes what is left, alone: as long as something is left, and nothing is held, a claim that may be less is
// admitted; at most one at a time.
func TestAGuessTakesWhatIsLeft(t *testing.T) {
	clock := newClock()
	l := open(newStore(clock), Options{Now: clock.Now})
	try := func(units, least int64) (Reservation, Decision) {
		t.Helper()
		r, d, err := l.Reserve(t.Context(), []Claim{{"k", 100, Forever, units, "", true, least}})
		if err != nil {
			t.Fatal(err)
		}
		return r, d
	}
	for left := int64(100); left > 0; left -= 31 {
		r, d := try(100, 10)
		if (r != nil) != (left >= 10) {
			t.Fatalf("%d left: %+v", left, d)
		}
		if r == nil {
			if s := d.States[0]; s.MayFit || s.RetryAfter != l.shards[shardOf(l.hashOf("k"))].accounts.get(l.hashOf("k"), "k").retryAfter(l.now(), 100, 10) {
				t.Errorf("%+v", s)
			}
			break
		}
		if d.States[0].Remaining != 0 {
			t.Errorf("%d left: %+v", left, d.States[0])
		}
		if other, d := try(100, 10); other != nil || !d.States[0].MayFit || d.Freed == nil || d.States[0].RetryAfter <= 0 {
			t.Fatalf("%d left, all of it held: %+v", left, d)
		}
		if err := l.Settle(t.Context(), r, []int64{31}); err != nil {
			t.Fatal(err)
		}
	}
	if _, d := try(7, 0); !d.Admitted {
		t.Errorf("what is no guess: %+v", d)
	}
}
