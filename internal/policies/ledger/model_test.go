package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A history is the naive model of a counter: a list of all admissions and their times.
type history struct {
	limit  int64
	window time.Duration
	events []*event
}

type event struct {
	at    time.Duration
	units int64
}

// within returns the sum of the events in (now-window, now].
func (h *history) within(now, window time.Duration) (units int64) {
	for _, e := range h.events {
		if e.at > now-window {
			units += e.units
		}
	}
	return units
}

// delay returns how much later than the model a ledger may admit.
func (h *history) delay() time.Duration {
	bucket := (h.window + 59) / 60
	return 61*bucket - h.window
}

// A held reservation has one event per claim.
type held struct {
	reservation Reservation
	events      []*event
	grown       []int64 // units that were added to those of each event
}

// A world holds a ledger, what it admitted, and how the ledger may differ from the
// model.
type world struct {
	crashes, stepsBack, changes bool

	clock  *clock
	passed time.Duration // sum of the clock's forward steps
	store  *fakeStore
	ledger *Ledger
	keys   []*history
	held   []held
}

// exact reports whether the ledger has no reason to admit later than the model, except
// for the length of a bucket.
func (w *world) exact() bool { return !w.crashes && !w.stepsBack && !w.changes }

var windows = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}),
	rapid.SampledFrom([]time.Duration{1, 59, time.Second, 7*time.Second + 3}),
)

func newWorld(t *rapid.T, w world) *world {
	w.clock = newClock()
	w.store = newStore(w.clock)
	w.ledger = open(w.store, Options{Now: w.clock.Now, Uptime: w.clock.uptime})
	for range rapid.IntRange(1, 3).Draw(t, "keys") {
		w.keys = append(w.keys, &history{
			limit:  rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(0, 1000)).Draw(t, "limit"),
			window: windows.Draw(t, "window"),
		})
	}
	return &w
}

func (w *world) reserve(t *rapid.T) {
	var claims []Claim
	asked := make([]int64, len(w.keys))
	for range rapid.IntRange(1, 3).Draw(t, "claims") {
		i := rapid.IntRange(0, len(w.keys)-1).Draw(t, "key")
		h := w.keys[i]
		units := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, h.limit+1)).Draw(t, "units")
		claims = append(claims, Claim{fmt.Sprint(i), h.limit, h.window, units, "", rapid.Bool().Draw(t, "estimate"), 0})
		asked[i] += units
	}
	r, d, err := w.ledger.Reserve(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	if d.Admitted != (d.Denied < 0) || d.Admitted != (r != nil) {
		t.Fatalf("%+v with the reservation %v", d, r)
	}

	// A refusal must have a reason within the window plus one bucket.
	if !d.Admitted {
		i := slices.Index([]string{"0", "1", "2"}, claims[d.Denied].Key)
		h := w.keys[i]
		if w.exact() && h.limit > 0 && h.within(w.passed, h.window+h.delay())+asked[i] <= h.limit {
			t.Fatalf("refused %d of key %d after %v", asked[i], i, h.within(w.passed, h.window+h.delay()))
		}
		if retry := d.States[d.Denied].RetryAfter; retry <= 0 {
			t.Fatalf("refused, but to be tried after %v", retry)
		}
	} else {
		hold := held{reservation: r}
		for _, c := range claims {
			h := w.keys[int(c.Key[0]-'0')]
			e := &event{w.passed, c.Units}
			h.events = append(h.events, e)
			hold.events = append(hold.events, e)
		}
		w.held = append(w.held, hold)
	}

	for n, c := range claims {
		h := w.keys[int(c.Key[0]-'0')]
		used := h.within(w.passed, h.window)
		if d.Admitted && used > h.limit {
			t.Fatalf("%d units of %d in the window of key %s", used, h.limit, c.Key)
		}
		if most := max(h.limit-used, 0); d.States[n].Remaining > most {
			t.Fatalf("%d units remain, of %d", d.States[n].Remaining, most)
		}
		least := max(h.limit-h.within(w.passed, h.window+h.delay()), 0)
		if w.exact() && d.States[n].Remaining < least {
			t.Fatalf("%d units remain, of %d", d.States[n].Remaining, least)
		}
	}
}

// settle ends a reservation, possibly twice, with fewer or more units.
func (w *world) settle(t *rapid.T) {
	if len(w.held) == 0 {
		t.Skip("nothing is held")
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(t, "reservation")
	hold := w.held[i]
	w.held = slices.Delete(w.held, i, i+1)
	var used []int64
	for n, e := range hold.events {
		actual := rapid.Int64Range(0, e.units+3).Draw(t, "used")
		if n < len(hold.grown) { // no less is used in the end
			actual = rapid.Int64Range(0, 3).Draw(t, "more")
			used = append(used, e.units+hold.grown[n]+actual)
			h := w.keys[int(hold.reservation.(*reservation).bookings[n].account.key[0]-'0')]
			h.events = append(h.events, &event{w.passed, actual})
			continue
		}
		used = append(used, actual)
		if actual > e.units { // the rest counts from now on
			h := w.keys[int(hold.reservation.(*reservation).bookings[n].account.key[0]-'0')]
			h.events = append(h.events, &event{w.passed, actual - e.units})
		}
		e.units = min(actual, e.units)
	}
	if err := w.ledger.Settle(t.Context(), hold.reservation, used); err != nil {
		t.Fatal(err)
	}
	w.ledger.Release(hold.reservation)
}

// grow counts what a reservation has used so far, beyond what was reserved.
func (w *world) grow(t *rapid.T) {
	if len(w.held) == 0 {
		t.Skip("nothing is held")
	}
	hold := &w.held[rapid.IntRange(0, len(w.held)-1).Draw(t, "reservation")]
	var used []int64
	grown := make([]int64, len(hold.events))
	copy(grown, hold.grown)
	for n, e := range hold.events {
		more := rapid.Int64Range(0, 3).Draw(t, "more")
		h := w.keys[int(hold.reservation.(*reservation).bookings[n].account.key[0]-'0')]
		h.events = append(h.events, &event{w.passed, more})
		grown[n] += more
		used = append(used, e.units+grown[n])
	}
	hold.grown = grown
	if _, err := w.ledger.Grow(t.Context(), hold.reservation, used); err != nil {
		t.Fatal(err)
	}
}

func (w *world) pass(t *rapid.T) {
	window := rapid.SampledFrom(w.keys).Draw(t, "whose").window
	step := rapid.OneOf(
		rapid.Int64Range(0, int64(window)/30+1),
		rapid.Int64Range(0, int64(window)),
		rapid.Int64Range(int64(window), 2*int64(window)),
		rapid.SampledFrom([]int64{int64(window) / 60, int64(window), int64(window) + int64(window)/60}),
	).Draw(t, "step")
	w.clock.add(time.Duration(step))
	w.passed += time.Duration(step)
}

func (w *world) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"reserve": w.reserve, "reserve again": w.reserve, "and again": w.reserve,
		"prune":  func(t *rapid.T) { prune(t, w.ledger) },
		"settle": w.settle, "grow": w.grow,
		"reduce": func(t *rapid.T) {
			if rapid.Bool().Draw(t, "quiet") {
				w.clock.add(quiet)
				w.passed += quiet
			}
			w.ledger.ReduceLeases()
			w.ledger.flights.Wait() // a process that ended writes nothing any more
		},
		"pass": w.pass, "pass more": w.pass,
		"restart": func(t *rapid.T) {
			if err := w.ledger.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.ledger, w.held = open(w.store, Options{Now: w.clock.Now, Uptime: w.clock.uptime}), nil
		},
	}
	if w.crashes {
		actions["crash"] = func(*rapid.T) {
			w.ledger, w.held = open(w.store, Options{Now: w.clock.Now, Uptime: w.clock.uptime}), nil
		}
	}
	if w.stepsBack {
		actions["step back"] = func(t *rapid.T) {
			window := rapid.SampledFrom(w.keys).Draw(t, "whose").window
			w.clock.add(-time.Duration(rapid.OneOf(
				rapid.Int64Range(0, int64(window)/30+1), rapid.Int64Range(0, 2*int64(window)),
			).Draw(t, "back")))
		}
	}
	if w.changes {
		actions["change"] = func(t *rapid.T) {
			h := rapid.SampledFrom(w.keys).Draw(t, "changed")
			if rapid.Bool().Draw(t, "limit only") {
				h.limit = rapid.Int64Range(0, 20).Draw(t, "limit")
				return
			}
			w.change(t, h, windows.Draw(t, "window"))
		}
	}
	return actions
}

// change changes the window of a counter, and tells the ledger, which then only knows
// what still counted in the old window.
func (w *world) change(t *rapid.T, h *history, window time.Duration) {
	h.events = slices.DeleteFunc(h.events, func(e *event) bool { return e.at <= w.passed-h.window })
	h.window = window
	key := fmt.Sprint(slices.Index(w.keys, h))
	if _, _, err := w.ledger.Reserve(t.Context(), []Claim{{key, h.limit, window, 0, "", false, 0}}); err != nil {
		t.Fatal(err)
	}
}

// TestModel compares ledgers with the model: no window ever exceeds the limit and,
// without crashes, steps back and changed windows, nothing is admitted more than a
// bucket later than by the model.
func TestModel(t *testing.T) {
	for name, w := range map[string]world{
		"exact":      {},
		"crashes":    {crashes: true},
		"steps back": {stepsBack: true},
		"changes":    {changes: true, crashes: true},
		"everything": {crashes: true, stepsBack: true, changes: true},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				t.Repeat(newWorld(t, w).actions())
			})
		})
	}
}

// TestRetryAfterIsExact: a claim is admitted at the time of RetryAfter, but not a
// nanosecond earlier. Likewise, nothing counts at the time of Reset.
func TestRetryAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		l := open(newStore(c), Options{Now: c.Now})
		claim := Claim{"k", rapid.Int64Range(1, 50).Draw(t, "limit"), windows.Draw(t, "window"), 0, "", false, 0}
		try := func(units int64) Decision {
			claim.Units = units
			_, d, err := l.Reserve(t.Context(), []Claim{claim})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			try(rapid.Int64Range(0, claim.Limit).Draw(t, "units"))
			c.add(time.Duration(rapid.Int64Range(0, int64(claim.Window)/5+1).Draw(t, "step")))
		}

		units := rapid.Int64Range(1, claim.Limit).Draw(t, "wanted")
		if d := try(units); !d.Admitted {
			wait := d.States[0].RetryAfter
			c.add(wait - 1)
			if d := try(units); d.Admitted || d.States[0].RetryAfter != 1 {
				t.Fatalf("a nanosecond before %v: %+v", wait, d)
			}
			c.add(1)
			if d := try(units); !d.Admitted || d.States[0].RetryAfter != 0 {
				t.Fatalf("after %v: %+v", wait, d)
			}
		}
		reset := try(0).States[0].Reset
		c.add(reset - 1)
		if d := try(0); d.States[0].Remaining == claim.Limit || d.States[0].Reset != 1 {
			t.Fatalf("a nanosecond before %v: %+v", reset, d)
		}
		c.add(1)
		if d := try(0); d.States[0].Remaining != claim.Limit || d.States[0].Reset != 0 {
			t.Fatalf("after %v: %+v", reset, d)
		}
	})
}
