package routing

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A clock stands until it is moved.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

const cooldown = 30 * time.Second

var key = BreakerKey{"w", "cfg", "config.targets[0]", "k"}

func TestBreakerOpensTriesAndCloses(t *testing.T) {
	clock := &clock{noon}
	b := NewBreakers(clock.Now, 0)
	policy := &BreakerPolicy{Failures: 2, Cooldown: cooldown}
	expect := func(when string, open bool) {
		t.Helper()
		if got := b.Open(key); got != open {
			t.Fatalf("%s: open is %v", when, got)
		}
	}
	b.Report(key, policy, 500)
	b.Report(key, policy, 404)
	b.Report(key, policy, 200)
	expect("after one failure", false)
	b.Report(key, policy, 503)
	expect("after two failures", true)
	if other := (BreakerKey{"w", "cfg", "config.targets[0]", "l"}); b.Open(other) {
		t.Error("a target that leads elsewhere is left out too")
	}

	clock.pass(cooldown - 1)
	b.StartCall(key) // its strategy had nothing else
	b.Report(key, policy, 200)
	expect("before the cooldown is over", true)
	clock.pass(1)
	expect("after the cooldown", false)
	b.Report(key, policy, 200) // a call from before it opened
	b.StartCall(key)
	expect("while a call tries it", true)
	b.Report(key, policy, 500)
	expect("when the try failed", true)
	if open := b.Snapshot(); len(open) != 1 || open[0].Since != clock.now || !strings.Contains(open[0].Reason, "status 500") {
		t.Fatalf("snapshot: %+v", open)
	}

	clock.pass(cooldown)
	b.StartCall(key)
	clock.pass(cooldown)
	expect("when the try was never reported on", false)
	b.StartCall(key)
	b.Report(key, policy, 200)
	expect("when the try succeeded", false)
	b.Report(key, policy, 500)
	expect("and counts from nothing again", false)
}

func TestBreakerThresholds(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   BreakerPolicy
		statuses []int
		opens    int // with which report, counted from one; 0: never
	}{
		{"number", BreakerPolicy{Failures: 3}, []int{500, 200, 599, 200, 500}, 5},
		{"number of one", BreakerPolicy{Failures: 1}, []int{200, 500}, 2},
		{"share, after the minimum", BreakerPolicy{Percentage: 50, MinimumRequests: 5}, []int{500, 500, 500, 500, 500}, 5},
		{"share, exactly", BreakerPolicy{Percentage: 50, MinimumRequests: 2}, []int{200, 200, 500, 500}, 4},
		{"share, not reached", BreakerPolicy{Percentage: 50, MinimumRequests: 2}, []int{200, 200, 500, 200}, 0},
		{"a success does not open it", BreakerPolicy{Percentage: 50, MinimumRequests: 3}, []int{500, 500, 200, 500}, 4},
		{"either", BreakerPolicy{Failures: 2, Percentage: 90, MinimumRequests: 100}, []int{500, 200, 500}, 3},
		{"statuses below 500 are not failures", BreakerPolicy{Failures: 1}, []int{429, 408, 400, 499}, 0},
		{"listed statuses are", BreakerPolicy{Failures: 2, On: Statuses(429)}, []int{500, 429, 503, 429}, 4},
	} {
		b := NewBreakers((&clock{noon}).Now, 0)
		c.policy.Cooldown = cooldown
		opened := 0
		for i, status := range c.statuses {
			if b.Report(key, &c.policy, status); b.Open(key) && opened == 0 {
				opened = i + 1
			}
		}
		if opened != c.opens {
			t.Errorf("%s: opened with report %d, want %d", c.name, opened, c.opens)
		}
	}
}

func TestBreakerCountersLiveForADay(t *testing.T) {
	clock := &clock{noon}
	b := NewBreakers(clock.Now, 0)
	policy := &BreakerPolicy{Failures: 2, Cooldown: cooldown}
	b.Report(key, policy, 500)
	clock.pass(24 * time.Hour)
	b.Report(key, policy, 500)
	if b.Open(key) {
		t.Error("a failure of yesterday counts")
	}
	clock.pass(24*time.Hour - 1)
	if b.Report(key, policy, 500); !b.Open(key) {
		t.Error("a failure of today does not count")
	}
}

func TestBreakersAreBounded(t *testing.T) {
	clock := &clock{noon}
	b := NewBreakers(clock.Now, 4) // of which one workspace has three
	policy := &BreakerPolicy{Failures: 1, Cooldown: cooldown}
	at := func(n int) BreakerKey { return BreakerKey{Config: "c", Path: fmt.Sprint(n)} }
	for n := range 3 {
		b.Report(at(n), policy, 500)
	}
	b.Report(at(0), policy, 500)
	b.Report(at(3), policy, 500)
	for n, open := range []bool{true, false, true, true} {
		if b.Open(at(n)) != open {
			t.Errorf("target %d: open is %v", n, !open)
		}
	}
	if n := len(b.table.states); n != 3 {
		t.Errorf("%d states", n)
	}
}

func TestBreakerSnapshot(t *testing.T) {
	clock := &clock{noon}
	b := NewBreakers(clock.Now, 0)
	b.Report(BreakerKey{"w", "b", "config", "x"}, &BreakerPolicy{Failures: 1, Cooldown: time.Hour}, 502)
	b.Report(BreakerKey{"w", "a", "config.targets[1]", "y"}, &BreakerPolicy{Percentage: 100, MinimumRequests: 1, Cooldown: cooldown}, 500)
	b.Report(BreakerKey{"w", "a", "config.targets[0]", "z"}, &BreakerPolicy{Failures: 2, Cooldown: cooldown}, 500)
	clock.pass(time.Minute)
	want := []OpenBreaker{
		{BreakerKey{"w", "a", "config.targets[1]", "y"}, noon, noon.Add(cooldown), true, "1 of 1 calls failed (failure_threshold_percentage 100), the last with status 500"},
		{BreakerKey{"w", "b", "config", "x"}, noon, noon.Add(time.Hour), false, "1 failures (failure_threshold 1), the last with status 502"},
	}
	if got := b.Snapshot(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v", got)
	}
	clock.pass(25 * time.Hour)
	if got := b.Snapshot(); len(got) != 0 {
		t.Errorf("a day later: %+v", got)
	}
}

func TestBreakersOfAConfig(t *testing.T) {
	clock := &clock{noon}
	b := NewBreakers(clock.Now, 0)
	c := parse(t, `{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":1}},"targets":[{"virtual_key":"k"},{"provider":"@l"},{"override_params":{"model":"@m/x"}}]}`)
	down := func(string) Outcome { return Outcome{Status: 500} }
	circuit := b.Of("w", "cfg")
	for i, slug := range []string{"k", "@l", "@m/x"} {
		circuit.Report(c.Root.Targets[i], 500)
		if open := b.Snapshot(); len(open) != i+1 || open[i].Slug != slug || open[i].Config != "cfg" {
			t.Fatalf("snapshot: %+v", open)
		}
		paths, _ := walk(c, Input{Circuit: circuit}, down)
		if want := []int{2, 1, 3}[i]; len(paths) != want {
			t.Errorf("with %d open, the plan is %s", i+1, paths)
		}
	}
	if paths, _ := walk(c, Input{Circuit: b.Of("w", "other")}, down); len(paths) != 3 {
		t.Errorf("another config's plan is %s", paths)
	}
	clock.pass(cooldown)
	plan, err := c.Plan(Input{Circuit: circuit}, nil)
	if err != nil || plan.Target() != c.Root.Targets[0] {
		t.Fatalf("after the cooldown: %v %v", plan.Target(), err)
	}
	if paths, _ := walk(c, Input{Circuit: circuit}, down); len(paths) != 2 {
		t.Errorf("while the first is tried, the plan is %s", paths)
	}
	circuit.Report(parse(t, vk).Root, 500) // no breaker: nothing to report
}

// A model breaker keeps every event and derives the rest.
type modelBreaker struct {
	policy BreakerPolicy
	calls  []struct {
		at     time.Time
		failed bool
	}
	opened, tried time.Time
}

func (m *modelBreaker) phase(now time.Time) string {
	switch {
	case !m.opened.IsZero() && now.Sub(m.opened) >= 24*time.Hour+cooldown:
		m.opened, m.tried, m.calls = time.Time{}, time.Time{}, nil
	case m.opened.IsZero() && len(m.calls) > 0 && now.Sub(m.calls[0].at) >= 24*time.Hour:
		m.calls = nil
	}
	switch {
	case m.opened.IsZero():
		return "closed"
	case now.Sub(m.opened) < cooldown:
		return "open"
	case !m.tried.IsZero() && now.Sub(m.tried) < cooldown:
		return "trying"
	}
	return "half open"
}

func (m *modelBreaker) report(now time.Time, status int) {
	failed := status >= 500
	switch phase := m.phase(now); {
	case phase == "closed":
		m.calls = append(m.calls, struct {
			at     time.Time
			failed bool
		}{now, failed})
		failures := 0
		for _, c := range m.calls {
			if c.failed {
				failures++
			}
		}
		byNumber := m.policy.Failures > 0 && failures >= m.policy.Failures
		byShare := m.policy.Percentage > 0 && len(m.calls) >= m.policy.MinimumRequests && float64(failures)*100 >= m.policy.Percentage*float64(len(m.calls))
		if failed && (byNumber || byShare) {
			m.opened = now
		}
	case phase == "trying" && failed:
		m.opened, m.tried = now, time.Time{}
	case phase == "trying":
		m.opened, m.tried, m.calls = time.Time{}, time.Time{}, nil
	}
}

func TestBreakersAreTheModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := BreakerPolicy{Cooldown: cooldown, MinimumRequests: rapid.IntRange(1, 6).Draw(t, "minimum")}
		policy.Failures = rapid.IntRange(0, 4).Draw(t, "failures")
		policy.Percentage = rapid.SampledFrom([]float64{0, 25, 50, 100}).Draw(t, "percentage")
		clock := &clock{noon}
		b := NewBreakers(clock.Now, 0)
		models := []*modelBreaker{{policy: policy}, {policy: policy}}
		keys := []BreakerKey{{"w", "c", "config.targets[0]", "k"}, {"w", "c", "config.targets[1]", "k"}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "target")
			m := models[i]
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				clock.pass(rapid.SampledFrom([]time.Duration{0, 1, time.Second, cooldown - 1, cooldown, cooldown + 1, 12 * time.Hour, 24 * time.Hour}).Draw(t, "time"))
			case 1:
				b.StartCall(keys[i])
				if m.phase(clock.now) == "half open" {
					m.tried = clock.now
				}
			default:
				status := rapid.SampledFrom([]int{200, 429, 500, 503}).Draw(t, "status")
				b.Report(keys[i], &policy, status)
				m.report(clock.now, status)
			}
			listed := make(map[string]OpenBreaker)
			for _, open := range b.Snapshot() {
				listed[open.Path] = open
			}
			for i, m := range models {
				phase := m.phase(clock.now)
				if got, want := b.Open(keys[i]), phase == "open" || phase == "trying"; got != want {
					t.Fatalf("target %d is %s, Open is %v", i, phase, got)
				}
				if open, ok := listed[keys[i].Path]; ok != (phase != "closed") || ok && (open.Since != m.opened || open.HalfOpen != (phase != "open")) {
					t.Fatalf("target %d is %s, and listed as %+v", i, phase, open)
				}
			}
		}
	})
}

func TestBreakersAreSafeForConcurrentUse(t *testing.T) {
	b := NewBreakers(time.Now, 8)
	policy := &BreakerPolicy{Failures: 3, Percentage: 50, MinimumRequests: 2, Cooldown: time.Nanosecond}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 500 {
				k := BreakerKey{Config: "c", Path: fmt.Sprint((g + n) % 12)}
				if !b.Open(k) {
					b.StartCall(k)
				}
				b.Report(k, policy, 200+300*(n%2))
				if n%50 == 0 {
					b.Snapshot()
				}
			}
		})
	}
	wg.Wait()
	checkBreakerTable(t, &b.table)
}

func TestConfigsAreSafeForConcurrentUse(t *testing.T) {
	c := parse(t, `{"override_params":{"a":1},"strategy":{"mode":"conditional","default":"a","conditions":[{"query":{"params.n":1},"then":"b"}]},
		"targets":[{"name":"a","virtual_key":"k","override_params":{"b":2}},{"name":"b","virtual_key":"k","drop_params":["c"]}]}`)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			p, err := c.Plan(Input{Body: fmt.Appendf(nil, `{"n":%d}`, n%2)}, seeded())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := Apply([]byte(`{"c":1}`), p.Target().Edit()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
