package ledger

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/storetest"
)

// What was detached is settled by a later process as it would have been by the first, whether that was closed or
// killed, and never counts less than what it holds.
func TestDetachedClaimsAreSettledByALaterProcess(t *testing.T) {
	db := storetest.OpenDB(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		open := func() *Ledger {
			l, err := Open(t.Context(), db, Options{Now: func() time.Time { return now }, Uptime: func() (string, time.Duration) { return "boot", time.Hour }})
			if err != nil {
				rt.Fatal(err)
			}
			return l
		}
		l := open()
		key := "run" + string(rune('a'+run%26)) + time.Duration(run).String()
		const limit = 1 << 40
		claim := func(units int64) []Claim {
			return []Claim{{Key: key + "/calls", Limit: limit, Window: Forever, Units: 1, Estimate: true}, {Key: key + "/tokens", Limit: limit, Window: Forever, Units: units, Estimate: true}}
		}
		count := func(name string) (c Count) {
			if err := l.Counts(t.Context(), key+name, func(found Count) { c = found }); err != nil {
				rt.Fatal(err)
			}
			return c
		}
		other := rapid.Int64Range(0, 1000).Draw(rt, "other")
		if _, _, err := l.Reserve(t.Context(), claim(other)[1:]); err != nil {
			rt.Fatal(err)
		}
		units := rapid.Int64Range(1, 1000).Draw(rt, "units")
		r, _, err := l.Reserve(t.Context(), claim(units))
		if err != nil {
			rt.Fatal(err)
		}
		parked, held := l.Detach(r, []int{1})
		if err := l.Settle(t.Context(), r, []int64{1, 0}); err != nil {
			rt.Fatal(err)
		}
		if c := count("/tokens"); c.Units != other+units || c.Held != other+units {
			rt.Fatalf("%+v once the rest was settled", c)
		}
		forgotten := false
		for range rapid.IntRange(0, 3).Draw(rt, "restarts") {
			if rapid.Bool().Draw(rt, "closed") {
				if err := l.Close(t.Context()); err != nil {
					rt.Fatal(err)
				}
			} // otherwise it is killed: what it leased stays counted
			l = open()
			if parked, err = l.Restore(t.Context(), held); err != nil {
				rt.Fatal(err)
			}
			if c := count("/tokens"); c.Units < other+units || c.Held != units {
				rt.Fatalf("%+v after a restart, %d are held", c, units)
			}
		}
		if rapid.Bool().Draw(rt, "forgotten") {
			forgotten = true
			if err := l.Forget(t.Context(), key); err != nil {
				rt.Fatal(err)
			}
		}
		before := count("/tokens").Units
		used := rapid.Int64Range(0, 2000).Draw(rt, "used")
		if err := l.Settle(t.Context(), parked, []int64{used}); err != nil {
			rt.Fatal(err)
		}
		_ = l.Settle(t.Context(), parked, []int64{used})
		want := before + used - units
		if forgotten {
			want = max(used-units, 0)
		}
		if got := count("/tokens").Units; got != want {
			rt.Fatalf("%d units, want %d: %d of %d were used, and %d counted before", got, want, used, units, before)
		}
		if got := count("/calls").Units; got < 1 && !forgotten {
			rt.Fatalf("%d calls", got)
		}
	})
}
