package estimate

import "math/bits"

// A histogram counts numbers in buckets, of which the bounds are a quarter of an octave apart,
// so that a quantile is at most a quarter too high.
type histogram struct {
	n       uint32
	buckets [4 * 40]uint32
}

// bucket returns the bucket of a number.
func bucket(x int64) int {
	if x < 4 {
		return int(max(x, 0))
	}
	top := bits.Len64(uint64(x)) - 1 // at least 2
	return min(4*(top-1)+int(x>>(top-2))&3, len(histogram{}.buckets)-1)
}

// upper returns the largest number of a bucket.
func upper(b int) int64 {
	if b < 4 {
		return int64(b)
	}
	top := b/4 + 1
	return int64(4+b%4+1)<<(top-2) - 1
}

// add counts a number. What came long ago counts less and less.
func (h *histogram) add(x int64) {
	h.buckets[bucket(x)]++
	if h.n++; h.n < horizon {
		return
	}
	h.n = 0
	for i := range h.buckets {
		h.buckets[i] /= 2
		h.n += h.buckets[i]
	}
}

// quantile returns a number that so many of a thousand do not exceed.
func (h *histogram) quantile(perMille uint64) int64 {
	rest := (uint64(h.n)*perMille + 999) / 1000
	for i, n := range h.buckets {
		if uint64(n) >= rest {
			return upper(i)
		}
		rest -= uint64(n)
	}
	return upper(len(h.buckets) - 1)
}
