package ledger

import (
	"encoding/hex"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A machine has a wall clock that can be set, and a clock for the time that really
// passes.
type machine struct {
	passed *clock // the time that really passes
	ahead  time.Duration
	boot   int
	booted int64 // in the time that really passes
}

func (m *machine) wall() time.Time        { return m.passed.Now().Add(m.ahead) }
func (m *machine) elapsed() time.Duration { return time.Duration(m.passed.ns.Load() - m.booted) }
func (m *machine) options() Options {
	return Options{Now: m.wall, Elapsed: m.elapsed, Uptime: func() (string, time.Duration) {
		if m.boot < 0 {
			return "", 0
		}
		return string(rune('a' + m.boot)), m.elapsed()
	}}
}

// TestStepsOfTheWallClock: whatever the wall clock does, through restarts, crashes and
// reboots, no window of real time exceeds the limit. One window after the last of them,
// the whole limit is admitted again.
func TestStepsOfTheWallClock(t *testing.T) {
	for name, knowsBoot := range map[string]bool{"known boot": true, "unknown boot": false} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { stepTheWallClock(t, knowsBoot) }) })
	}
}

func stepTheWallClock(t *rapid.T, knowsBoot bool) {
	m := &machine{passed: newClock()}
	m.booted = m.passed.ns.Load() - int64(rapid.IntRange(0, 100).Draw(t, "up"))*int64(time.Hour)
	if !knowsBoot {
		m.boot = -1
	}
	store := newStore(m.passed)
	store.now = m.wall
	l := open(store, m.options())
	h := &history{limit: rapid.Int64Range(1, 200).Draw(t, "limit"), window: windows.Draw(t, "window")}
	begun := m.passed.ns.Load()
	truth := func() time.Duration { return time.Duration(m.passed.ns.Load() - begun) }
	pass := func(t *rapid.T) {
		m.passed.add(time.Duration(rapid.Int64Range(0, 2*int64(h.window)).Draw(t, "time")))
	}
	reserve := func(t *rapid.T) {
		units := rapid.Int64Range(1, h.limit).Draw(t, "units")
		_, d, err := l.Reserve(t.Context(), []Claim{{"k", h.limit, h.window, units, "", false, 0}})
		if err != nil {
			t.Fatal(err)
		}
		if d.Admitted {
			h.events = append(h.events, &event{truth(), units})
		}
		if used := h.within(truth(), h.window); used > h.limit {
			t.Fatalf("%d units of %d in a window", used, h.limit)
		}
	}
	stop := func(t *rapid.T) {
		l.flights.Wait()
		if rapid.Bool().Draw(t, "cleanly") {
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	step := func(t *rapid.T) {
		m.ahead += time.Duration(rapid.OneOf(
			rapid.Int64Range(-3*int64(h.window), 3*int64(h.window)), rapid.Int64Range(-1e18, 1e18),
		).Draw(t, "step"))
		m.ahead = min(max(m.ahead, -1e18), 1e18)
	}
	t.Repeat(map[string]func(*rapid.T){
		"reserve": reserve, "reserve more": reserve, "pass": pass, "step": step,
		"prune": func(t *rapid.T) { prune(t, l) },
		"restart": func(t *rapid.T) {
			stop(t)
			pass(t)
			step(t)
			l = open(store, m.options())
		},
		"reboot": func(t *rapid.T) {
			stop(t)
			pass(t)
			if m.boot >= 0 {
				m.boot++
			}
			m.booted = m.passed.ns.Load()
			pass(t)
			step(t)
			l = open(store, m.options())
		},
	})
	// Units that a crash left in the ledger's future count from when they are first
	// read.
	if _, _, err := l.Reserve(t.Context(), []Claim{{"k", h.limit, h.window, 0, "", false, 0}}); err != nil {
		t.Fatal(err)
	}
	m.passed.add(h.window + h.delay())
	_, d, err := l.Reserve(t.Context(), []Claim{{"k", h.limit, h.window, h.limit, "", false, 0}})
	if err != nil || !d.Admitted {
		t.Fatalf("after a window: %+v, %v", d, err)
	}
}

// Time while the ledger was closed counts as far as it is plausible.
func TestTimeWhileTheLedgerWasClosed(t *testing.T) {
	for name, c := range map[string]struct {
		reboot       bool
		truly, steps time.Duration
		up           time.Duration // since a reboot
		counts       time.Duration
	}{
		"a restart":                         {truly: 40 * time.Second, counts: 40 * time.Second},
		"a restart and a step":              {truly: 10 * time.Second, steps: time.Hour, counts: 10 * time.Second},
		"a restart and a step back":         {truly: 10 * time.Second, steps: -time.Hour, counts: 10 * time.Second},
		"a reboot":                          {reboot: true, truly: 40 * time.Second, up: 30 * time.Second, counts: 30 * time.Second},
		"a reboot and a step":               {reboot: true, truly: 40 * time.Second, up: 30 * time.Second, steps: time.Hour, counts: 30 * time.Second},
		"a reboot and a step back":          {reboot: true, truly: 40 * time.Second, up: 30 * time.Second, steps: -time.Hour},
		"a machine that is up since longer": {reboot: true, truly: 20 * time.Second, up: time.Hour, counts: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{passed: newClock()}
			m.booted = m.passed.ns.Load()
			store := newStore(m.passed)
			l := open(store, m.options())
			claim := []Claim{{"k", 1, time.Minute, 1, "", false, 0}}
			if _, d, err := l.Reserve(t.Context(), claim); err != nil || !d.Admitted {
				t.Fatal(d, err)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.passed.add(c.truly)
			m.ahead += c.steps
			if c.reboot {
				m.boot++
				m.booted = m.passed.ns.Load() - int64(c.up)
			}
			l = open(store, m.options())
			_, d, err := l.Reserve(t.Context(), claim)
			if err != nil || d.Admitted {
				t.Fatal(d, err)
			}
			if want := 61*time.Second - c.counts; d.States[0].Reset != want {
				t.Errorf("counts for %v, want %v", d.States[0].Reset, want)
			}
		})
	}
}

// TestMomentFormat pins version 1, which exists in stores.
func TestMomentFormat(t *testing.T) {
	m := moment{ledger: 1000, wall: -5, up: 300, boot: "id"}
	if got := hex.EncodeToString(m.encode()); got != "01d00f09ac026964" {
		t.Errorf("record %s", got)
	}
	if got, err := decodeMoment(m.encode()); err != nil || *got != m {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "\x02", "\x01", "\x01\x80", "\x01\x00\x00"} {
		if _, err := decodeMoment([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
