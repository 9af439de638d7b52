// Package fairshare limits how much of a bounded resource one holder may have: at most
// [Factor] times what is free. A single holder gets three quarters of the resource, two
// greedy ones three sevenths each, and however many there are, something is left for the
// next one. A [Semaphore] shares what runs at the same time.
package fairshare

import "math"

// Factor is the maximum ratio of a holder's part to what is free.
const Factor = 3

// Left returns how much of its share is left to a holder that has held while free is free;
// negative if it has too much. Users who share a holder's part may each have their share of
// what it has left.
func Left(held, free int64) int64 {
	const most = math.MaxInt64 / (2 * Factor)
	return Factor*max(min(free, most), -most) - held
}
