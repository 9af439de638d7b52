// Package alloctest holds code to what it may allocate.
package alloctest

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/race"
)

// AtMost fails the test where a call of f allocates more than most times, on the average of so many runs. Under the race
// detector it only calls f: pools forget there at random what they hold.
func AtMost(t testing.TB, most float64, runs int, f func()) {
	t.Helper()
	if got := testing.AllocsPerRun(runs, f); got > most && !race.Enabled {
		t.Errorf("%v allocations, want at most %v", got, most)
	}
}
