package exchange

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

const (
	maxSpelled = 128 // bytes of a path for which a nearer one is looked for
	maxEdits   = 3   // by which it may differ
)

// paths are those of the table, sorted.
var paths = func() []string {
	all := slices.Collect(maps.Keys(exactRows))
	for _, rows := range patternRows {
		all = append(all, rows[0].Path)
	}
	slices.Sort(all)
	return all
}()

// Nearest returns the path of the data plane, or of others, that is spelt nearly as path is, or of
// which path has the end, as /v1/keys has that of /v1/api-keys; "" where there is none. What stands
// for a segment in braces may be anything.
func Nearest(path string, others ...string) string {
	path = strings.TrimRight(path, "/")
	if len(path) > maxSpelled || path == "" {
		return ""
	}
	candidates := []string{path}
	if !strings.HasPrefix(path, "/v1") {
		candidates = append(candidates, "/v1"+path)
	}
	best, least := "", maxEdits+1
	for _, list := range [...][]string{paths, others} {
		for _, to := range list {
			for _, p := range candidates {
				if n := edits(strings.ToLower(p), to, least); n < least {
					best, least = to, n
				}
			}
		}
	}
	if best != "" && least < maxEdits {
		return best
	}
	least = maxAdded + 1
	for _, list := range [...][]string{paths, others} {
		for _, to := range list {
			if n := added(strings.ToLower(candidates[len(candidates)-1]), to, least); n < least {
				best, least = to, n
			}
		}
	}
	return best
}

// maxAdded is how many segments, and words of a segment, a path may lack at its beginning.
const maxAdded = 2

// added counts the segments and the words of a segment, divided by hyphens, that pattern has before
// what path has after its version, up to most.
func added(path, pattern string, most int) (n int) {
	got, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	more := len(want) - len(got)
	if len(got) < 3 || more < 0 || more >= most || got[1] != want[1] || strings.Contains(strings.Join(want[2:3+more], "/"), "{") {
		return most
	}
	n = more
	for i, segment := range got[2:] {
		to := want[2+more+i]
		if to == segment || to == segment+"s" || strings.HasPrefix(to, "{") {
			continue
		}
		before, found := strings.CutSuffix(strings.TrimSuffix(to, "s"), "-"+strings.TrimSuffix(segment, "s"))
		if !found {
			return most
		}
		n += 1 + strings.Count(before, "-")
	}
	return min(n, most)
}

// edits counts the changes of a byte, see [credentials.Distance], to make in a path so that it is one of
// pattern's, up to most. A third of a segment at most may be another.
func edits(path, pattern string, most int) (n int) {
	got, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	if len(got) != len(want) {
		return most
	}
	for i := range want {
		if strings.HasPrefix(want[i], "{") {
			continue
		}
		d := credentials.Distance(got[i], want[i])
		if n += d; n >= most || 3*d > len(want[i]) {
			return most
		}
	}
	return n
}

// didYouMean is what an error about a path says of the one that is spelt nearly so.
func didYouMean(path string, others ...string) string {
	if to := Nearest(path, others...); to != "" && to != path {
		return "; did you mean " + credentials.Clip(to) + "?"
	}
	return ""
}
