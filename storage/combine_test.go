package storage

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A row is found by what it has, with any of it left out, and by nothing else.
func TestCombinations(t *testing.T) {
	property := rapid.SampledFrom([]string{"", "a", "b", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "n")
		row, wanted := rapid.SliceOfN(property, n, n).Draw(t, "row"), rapid.SliceOfN(property, n, n).Draw(t, "wanted")
		want := true
		for i, w := range wanted {
			want = want && (w == "" || w == row[i])
		}
		if got := slices.Contains(Combinations(row...), Combined(wanted...)); got != want {
			t.Fatalf("%s of %s: %v", strings.Join(wanted, ","), strings.Join(row, ","), got)
		}
	})
}
