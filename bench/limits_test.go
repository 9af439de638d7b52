package main

import (
	"testing"
	"time"
)

func TestTheWorstWindowHasMostCalls(t *testing.T) {
	t.Parallel()
	begin := time.Unix(0, 0)
	for name, c := range map[string]struct {
		at   []int // milliseconds
		want int
	}{
		"none":             {nil, 0},
		"one":              {[]int{5}, 1},
		"all at once":      {[]int{5, 5, 5}, 3},
		"a window apart":   {[]int{0, 1000, 2000}, 1},
		"just within":      {[]int{0, 999, 1000}, 2},
		"not in order":     {[]int{1500, 0, 900, 1600, 1700}, 4},
		"across its bound": {[]int{0, 900, 950, 1050, 1100, 1899}, 5},
	} {
		var calls []time.Time
		for _, ms := range c.at {
			calls = append(calls, begin.Add(time.Duration(ms)*time.Millisecond))
		}
		if got := worstWindow(calls, time.Second); got != c.want {
			t.Errorf("%s: %d calls, want %d", name, got, c.want)
		}
	}
}

func TestResultsOfLimitsAreATable(t *testing.T) {
	t.Parallel()
	const want = "| limiter | keys | peak memory for them | bytes a key | over 100 in the worst 1s | over 100 in the worst 1m0s, killed in it |\n|---|---|---|---|---|---|\n| rate_limit | 1000 | 2.0 MiB | 2097 | 1 | 100 |\n"
	if got := limitTable([]limitResult{{"rate_limit", 1000, 2 << 20, 2097.152, 1, 100}}); got != want {
		t.Errorf("got %q", got)
	}
}
