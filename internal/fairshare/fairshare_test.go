package fairshare

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the holders before it took, the next one gets a quarter of what each left.
func TestTheNextHolderFindsSomething(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 10_000).Draw(t, "limit")
		free, least := limit, limit
		for range rapid.IntRange(0, 8).Draw(t, "holders") {
			held := rapid.Int64Range(0, free).Draw(t, "held")
			for Left(held, free-held) < 0 {
				held--
			}
			free -= held
			least /= Factor + 1
			if free < least {
				t.Fatalf("%d are free of %d, at least %d should be", free, limit, least)
			}
		}
	})
}

func TestLeft(t *testing.T) {
	for name, c := range map[string]struct{ held, free, want int64 }{
		"all of it":   {75, 25, 0},
		"one more":    {76, 24, -4},
		"nothing":     {0, 0, 0},
		"overdrawn":   {1, -1, -4},
		"without end": {1, math.MaxInt64, math.MaxInt64/6*3 - 1},
		"below":       {1, math.MinInt64, -math.MaxInt64/6*3 - 1},
	} {
		if got := Left(c.held, c.free); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
