// Package fairshare says how much of something bounded one holder may have: as long as that
// is at most [Factor] times what is free. Alone it gets three quarters, two that take what
// they can get three sevenths each, and however many they are, something is free for the
// next one.
package fairshare

import "math"

// Factor is how many times what is free a holder may have.
const Factor = 3

// Left is what of its share a holder has left, if it has held and this is free besides: less
// than nothing where it has too much. Those that share what a holder has may each have their
// share of what the holder has left.
func Left(held, free int64) int64 {
	const most = math.MaxInt64 / (2 * Factor)
	return Factor*max(min(free, most), -most) - held
}
