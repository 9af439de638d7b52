package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A desk is a ledger with a fake store and clock.
type desk struct {
	*testing.T
	*Ledger
	clock *clock
	store *fakeStore
}

func newDesk(t *testing.T, opts Options) *desk {
	c := newClock()
	opts.Now, opts.Uptime = c.Now, c.uptime
	store := newStore(c)
	return &desk{t, open(store, opts), c, store}
}

// crash discards the ledger and opens another one with the same store.
func (d *desk) crash() {
	d.store = d.store.copy()
	d.Ledger = open(d.store, Options{Now: d.clock.Now, Uptime: d.clock.uptime})
}

func (d *desk) restart() {
	d.Helper()
	if err := d.Close(d.Context()); err != nil {
		d.Fatal(err)
	}
	d.crash()
}

// reserve returns the decision on claims. The test fails on an error.
func (d *desk) reserve(claims ...Claim) (Reservation, Decision) {
	d.Helper()
	r, decision, err := d.Reserve(d.Context(), claims)
	if err != nil {
		d.Fatal(err)
	}
	return r, decision
}

// fails checks the error of Reserve.
func (d *desk) fails(want error, claims ...Claim) error {
	d.Helper()
	r, decision, err := d.Reserve(d.Context(), claims)
	if !errors.Is(err, want) || r != nil || decision.Admitted {
		d.Fatalf("%v, %+v, %v; want the error %v", r, decision, err, want)
	}
	return err
}

// drain reserves single units until one is refused, and returns how many were admitted.
func (d *desk) drain(c Claim) (n int64) {
	d.Helper()
	for c.Units = 1; ; n++ {
		if _, decision := d.reserve(c); !decision.Admitted {
			return n
		}
	}
}

func (d *desk) wantLeft(want int64, c Claim) {
	d.Helper()
	c.Units = 0
	if _, decision := d.reserve(c); decision.States[0].Remaining != want {
		d.Fatalf("%d units of %q remain, want %d", decision.States[0].Remaining, c.Key, want)
	}
}

func TestInvalidClaims(t *testing.T) {
	d := newDesk(t, Options{})
	for name, claims := range map[string][]Claim{
		"negative units":     {{"k", 1, time.Minute, -1, "", false, 0}},
		"negative limit":     {{"k", -1, time.Minute, 1, "", false, 0}},
		"no window":          {{"k", 1, 0, 1, "", false, 0}},
		"too long a window":  {{"k", 1, MaxWindow + 1, 1, "", false, 0}},
		"windows that clash": {{"k", 1, time.Minute, 1, "", false, 0}, {"k", 1, time.Hour, 1, "", false, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := d.fails(ErrClaim, claims...); !strings.Contains(err.Error(), `"k"`) {
				t.Errorf("%v does not name the key", err)
			}
		})
	}
	d.wantLeft(1, Claim{Key: "k", Limit: 1, Window: time.Minute})

	r, decision := d.reserve()
	if !decision.Admitted || decision.Denied != -1 || r == nil {
		t.Errorf("no claims: %+v", decision)
	}
}

func TestWhatCanNeverBeAdmitted(t *testing.T) {
	d := newDesk(t, Options{})
	for _, c := range []Claim{{"zero", 0, time.Minute, 1, "", false, 0}, {"zero", 0, time.Minute, 0, "", false, 0}, {"large", 5, time.Minute, 6, "", false, 0}} {
		_, decision := d.reserve(c)
		if decision.Admitted || decision.Denied != 0 || decision.States[0].RetryAfter != Never {
			t.Errorf("%+v: %+v", c, decision)
		}
	}
	if _, writes := d.store.calls(); writes > 0 {
		t.Errorf("%d writes for refusals", writes)
	}
}

func TestStates(t *testing.T) {
	d := newDesk(t, Options{})
	c := Claim{"k", 10, time.Minute, 4, "", false, 0}
	want := func(want State) {
		t.Helper()
		if _, decision := d.reserve(c); decision.States[0] != want {
			t.Errorf("%+v, want %+v", decision.States[0], want)
		}
	}
	d.clock.add(500 * time.Millisecond)
	want(State{Limit: 10, Remaining: 6, Reset: 60500 * time.Millisecond})
	d.clock.add(time.Second)
	want(State{Limit: 10, Remaining: 2, Reset: 60500 * time.Millisecond})
	want(State{Limit: 10, Remaining: 2, Reset: 60500 * time.Millisecond, RetryAfter: 59500 * time.Millisecond})
	c.Units = 7
	want(State{Limit: 10, Remaining: 2, Reset: 60500 * time.Millisecond, RetryAfter: 60500 * time.Millisecond})
	d.clock.add(59500 * time.Millisecond)
	c.Units = 0
	want(State{Limit: 10, Remaining: 6, Reset: time.Second})
}

func TestAllOrNothing(t *testing.T) {
	d := newDesk(t, Options{})
	wide := Claim{"wide", 100, time.Hour, 10, "", false, 0}
	narrow := Claim{"narrow", 3, time.Minute, 2, "", false, 0}
	if _, decision := d.reserve(wide, narrow); !decision.Admitted {
		t.Fatal(decision)
	}
	_, decision := d.reserve(wide, narrow)
	if decision.Admitted || decision.Denied != 1 {
		t.Fatalf("%+v, want a refusal by the second claim", decision)
	}
	if s := decision.States[0]; s.Remaining != 90 || s.RetryAfter != 0 {
		t.Errorf("the claim that fits: %+v", s)
	}
	d.wantLeft(90, wide)
	d.wantLeft(1, narrow)
}

func TestClaimsOnTheSameKeyAddUp(t *testing.T) {
	d := newDesk(t, Options{})
	c := func(limit, units int64) Claim { return Claim{"k", limit, time.Minute, units, "", false, 0} }
	if _, decision := d.reserve(c(10, 4), c(10, 7)); decision.Admitted || decision.Denied != 0 {
		t.Errorf("11 of 10: %+v", decision)
	}
	if _, decision := d.reserve(c(20, 4), c(10, 7)); decision.Admitted || decision.Denied != 1 {
		t.Errorf("11 of 20 and of 10: %+v", decision)
	}
	if _, decision := d.reserve(c(10, 1<<62), c(10, 1<<62), c(10, 1<<62)); decision.Admitted {
		t.Error("the sum of the units overflowed")
	}
	r, decision := d.reserve(c(10, 4), c(10, 6))
	if !decision.Admitted || decision.States[0].Remaining != 0 || decision.States[1].Remaining != 0 {
		t.Errorf("10 of 10: %+v", decision)
	}
	if err := d.Settle(t.Context(), r, []int64{4, 1}); err != nil {
		t.Fatal(err)
	}
	d.wantLeft(5, c(10, 0))
}

func TestKeysOfAnyBytes(t *testing.T) {
	d := newDesk(t, Options{})
	long := strings.Repeat("k", maxPlainKey)
	keys := []string{"", "\x00", "\xff\xfe", "a", "a\x00", long, long + "1", long + "2", strings.Repeat("é", 5000)}
	for i, key := range keys {
		d.reserve(Claim{key, 100, time.Minute, int64(i + 1), "", false, 0})
	}
	d.crash()
	for i, key := range keys {
		// The lease of a limit of 100 is 2 units.
		d.wantLeft(100-max(int64(i+1), 2), Claim{Key: key, Limit: 100, Window: time.Minute})
	}
}

func TestLimitChanges(t *testing.T) {
	d := newDesk(t, Options{})
	c := func(limit int64) Claim { return Claim{Key: "k", Limit: limit, Window: time.Minute} }
	if n := d.drain(c(10)); n != 10 {
		t.Fatalf("%d of 10", n)
	}
	d.wantLeft(0, c(3))
	if n := d.drain(c(3)); n != 0 {
		t.Errorf("%d more of a lower limit", n)
	}
	if n := d.drain(c(15)); n != 5 {
		t.Errorf("%d more of 15, want 5", n)
	}
	d.clock.add(61 * time.Second)
	if n := d.drain(c(3)); n != 3 {
		t.Errorf("%d of 3 in the next window", n)
	}
}

func TestWindowChanges(t *testing.T) {
	claim := func(window time.Duration) Claim { return Claim{Key: "k", Limit: 10, Window: window} }
	t.Run("to a longer one, through a crash", func(t *testing.T) {
		d := newDesk(t, Options{})
		d.drain(claim(time.Minute))
		d.clock.add(30 * time.Second)
		if n := d.drain(claim(time.Hour)); n != 0 {
			t.Fatalf("%d more in an hour", n)
		}
		d.clock.add(5 * time.Minute) // a record of one minute would have expired
		d.crash()
		if n := d.drain(claim(time.Hour)); n != 0 {
			t.Errorf("%d more in an hour, after a crash", n)
		}
		d.clock.add(56 * time.Minute)
		if n := d.drain(claim(time.Hour)); n != 10 {
			t.Errorf("%d in the next hour", n)
		}
	})
	t.Run("to a shorter one", func(t *testing.T) {
		d := newDesk(t, Options{})
		d.reserve(Claim{"k", 10, time.Hour, 4, "", false, 0})
		d.clock.add(10 * time.Minute)
		d.reserve(Claim{"k", 10, time.Hour, 3, "", false, 0})
		d.clock.add(10 * time.Second)
		d.wantLeft(7, claim(time.Minute)) // the bucket of a window of one hour has not ended
		d.clock.add(61 * time.Second)
		d.wantLeft(10, claim(time.Minute))
	})
	t.Run("not without the new record", func(t *testing.T) {
		d := newDesk(t, Options{})
		d.drain(claim(time.Minute))
		broken := errors.New("broken disk")
		d.store.failWrites(broken)
		d.fails(broken, Claim{"k", 10, time.Hour, 1, "", false, 0})
		d.store.healWrites()
		if n := d.drain(claim(time.Hour)); n != 0 {
			t.Errorf("%d more in an hour", n)
		}
	})
}

func TestForget(t *testing.T) {
	d := newDesk(t, Options{})
	claim := func(key string) Claim { return Claim{Key: key, Limit: 3, Window: time.Hour} }
	keys := []string{"p1/", "p1/a", "p1/" + strings.Repeat("b", 2000), "p10/a", "p2/a"}
	for i := range 2 * maxBatch { // more records than a transaction removes
		keys = append(keys, fmt.Sprintf("p1/%d", i))
	}
	for _, key := range keys {
		d.drain(claim(key))
	}
	if err := d.Forget(t.Context(), "p1/"); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for _, key := range keys {
			want := int64(0)
			if strings.HasPrefix(key, "p1/") {
				want = 3
			}
			d.wantLeft(want, claim(key))
		}
	}
	check()
	d.crash()
	check()
	if err := d.Forget(t.Context(), strings.Repeat("p", maxPlainKey+1)); !errors.Is(err, ErrClaim) {
		t.Errorf("a long prefix: %v", err)
	}
}

func TestALeaseIsForgottenToo(t *testing.T) {
	d := newDesk(t, Options{})
	c := Claim{"k", 640, time.Minute, 1, "", false, 0} // a lease is 10 units
	d.reserve(c)
	if err := d.Forget(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	d.reserve(c)
	d.crash()
	d.wantLeft(630, c)
}

func TestClockStepsBack(t *testing.T) {
	d := newDesk(t, Options{})
	c := Claim{Key: "k", Limit: 5, Window: time.Minute}
	r, _ := d.reserve(Claim{"k", 5, time.Minute, 5, "", false, 0})
	d.clock.add(-24 * time.Hour)
	if n := d.drain(c); n != 0 {
		t.Errorf("%d admitted because of a step back", n)
	}
	d.Release(r) // of a bucket that was moved
	if n := d.drain(c); n != 0 {
		t.Errorf("%d given back to the wrong bucket", n)
	}
	d.crash()
	d.wantLeft(0, c)
	d.clock.add(61 * time.Second)
	if n := d.drain(c); n != 5 {
		t.Errorf("%d a window after a step back, want 5", n)
	}
}

func TestDecidesOnEveryClaim(t *testing.T) {
	d := newDesk(t, Options{})
	var claims []Claim
	for i := range 20 { // more than there is room for on the stack
		claims = append(claims, Claim{fmt.Sprint(i), 3, time.Minute, 1, "", false, 0})
	}
	r, _ := d.reserve(claims...)
	d.reserve(claims...)
	d.reserve(claims...)
	if _, decision := d.reserve(claims...); decision.Admitted || len(decision.States) != len(claims) {
		t.Errorf("%+v", decision)
	}
	d.Release(r)
	slices.Reverse(claims)
	if _, decision := d.reserve(claims...); !decision.Admitted {
		t.Errorf("after a release: %+v", decision)
	}
}

func TestTheTighterOfTwoStates(t *testing.T) {
	few, many := &State{Remaining: 1, Reset: time.Minute}, &State{Remaining: 2, Reset: time.Hour}
	slow := &State{Remaining: 1, Reset: time.Hour}
	for _, c := range []struct{ a, b, want *State }{
		{nil, nil, nil},
		{few, nil, few},
		{nil, few, few},
		{few, many, few},
		{many, few, few},
		{few, slow, slow},
		{slow, few, slow},
	} {
		if got := Tighter(c.a, c.b); got != c.want {
			t.Errorf("of %v and %v: %v", c.a, c.b, got)
		}
	}
}
