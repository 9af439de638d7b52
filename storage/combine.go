package storage

import "strings"

// Combined is the value of an index by which rows are found by several properties at once.
func Combined(properties ...string) string { return strings.Join(properties, "\x00") }

// Combinations returns the values of an index by which a row is found by any of its properties together: each is either what
// the row has, or "" for any. They are two to the power of the number of properties, which must be small.
func Combinations(properties ...string) []string {
	all := make([]string, 0, 1<<len(properties))
	chosen := make([]string, len(properties))
	for which := range 1 << len(properties) {
		for i, p := range properties {
			if chosen[i] = ""; which&(1<<i) != 0 {
				chosen[i] = p
			}
		}
		all = append(all, Combined(chosen...))
	}
	return all
}
