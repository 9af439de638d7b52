package routing

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checkBreakerTable checks that the lists of a table have each of its states once, and no more
// than it may have.
func checkBreakerTable(t interface{ Errorf(string, ...any) }, table *breakerTable) {
	n, closed := 0, 0
	for name, w := range table.workspaces {
		if w.len() == 0 {
			t.Errorf("workspace %s has no states", name)
		}
		n, closed = n+w.len(), closed+w.closed.Len()
	}
	if len(table.states) > table.most || n != len(table.states) || closed != table.closed.Len() {
		t.Errorf("%d states of %d, %d in order, %d and %d of them closed", len(table.states), table.most, n, closed, table.closed.Len())
	}
}

// Whatever a workspace does, the breakers of another are as if that were alone.
func TestNoWorkspaceMakesBreakersOfAnotherBeForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &clock{noon}
		most := rapid.IntRange(16, 64).Draw(t, "most")
		shared, alone := NewBreakers(clock.Now, most), NewBreakers(clock.Now, 0)
		policy := &BreakerPolicy{Failures: 2, Cooldown: cooldown}
		// A quarter is left by the greedy one, and three quarters of that are the other's.
		sure := most * 3 / 16
		status := rapid.SampledFrom([]int{200, 500})
		t.Repeat(map[string]func(*rapid.T){
			"the greedy one": func(t *rapid.T) {
				from := rapid.IntRange(0, 200).Draw(t, "target")
				times := rapid.IntRange(1, 3).Draw(t, "times")
				for n := range rapid.IntRange(1, 100).Draw(t, "targets") {
					k := BreakerKey{"greedy", "c", fmt.Sprint(from + n), ""}
					for range times {
						shared.StartCall(k)
						shared.Report(k, policy, 500)
					}
				}
			},
			"the other": func(t *rapid.T) {
				k := BreakerKey{"other", "c", fmt.Sprint(rapid.IntRange(1, sure).Draw(t, "target")), ""}
				s := status.Draw(t, "status")
				for _, b := range []*Breakers{shared, alone} {
					b.StartCall(k)
					b.Report(k, policy, s)
				}
			},
			"time": func(t *rapid.T) {
				clock.pass(rapid.SampledFrom([]time.Duration{time.Second, cooldown, 12 * time.Hour}).Draw(t, "time"))
			},
			"": func(t *rapid.T) {
				checkBreakerTable(t, &shared.table)
				for i := range sure {
					k := BreakerKey{"other", "c", fmt.Sprint(i + 1), ""}
					if got, want := shared.Open(k), alone.Open(k); got != want {
						t.Fatalf("target %d of the other: open is %v, alone it is %v", i+1, got, want)
					}
				}
			},
		})
	})
}

// A workspace that watches more targets than it may forgets what is open last.
func TestOpenBreakersAreForgottenLast(t *testing.T) {
	clock := &clock{noon}
	b := NewBreakers(clock.Now, 16) // of which one workspace has twelve
	at := func(n int) BreakerKey { return BreakerKey{"w", "c", fmt.Sprint(n), ""} }
	once := &BreakerPolicy{Failures: 1, Cooldown: cooldown}
	for n := range 5 {
		b.Report(at(n), once, 500)
	}
	for n := range 1000 {
		b.Report(at(100+n), once, 200)
	}
	for n := range 5 {
		if !b.Open(at(n)) {
			t.Errorf("open breaker %d was forgotten for closed ones", n)
		}
	}
	for n := range 12 {
		b.Report(at(10+n), once, 500)
	}
	if b.Open(at(0)) || !b.Open(at(21)) {
		t.Error("of breakers that are all open, the latest are not kept")
	}
	checkBreakerTable(t, &b.table)
}

// Workspaces that fill a table together leave room for none without closed breakers, and one that
// finds no room is not watched.
func TestAFullTableOfBreakers(t *testing.T) {
	b := NewBreakers((&clock{noon}).Now, 4)
	once := &BreakerPolicy{Failures: 1, Cooldown: cooldown}
	for n := range 10 {
		b.Report(BreakerKey{fmt.Sprint(n), "c", "p", ""}, once, 500)
		checkBreakerTable(t, &b.table)
	}
	for n := range 10 {
		if got, want := b.Open(BreakerKey{fmt.Sprint(n), "c", "p", ""}), n < 4; got != want {
			t.Errorf("workspace %d: open is %v", n, got)
		}
	}
}
