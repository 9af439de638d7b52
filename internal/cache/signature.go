package cache

import (
	"math"
	"math/bits"
	"sync"
)

const (
	signatureBits = 1024
	// maxDimensions bounds the length of an embedding. Embedding models have up to a
	// few thousand dimensions.
	maxDimensions = 8192
)

// A signature has one bit for each of 1024 planes, which is the side of the plane that
// a vector lies on. The fraction of bits in which two vectors differ approximates their
// angle divided by π, so a few words tell which of thousands of vectors may be close.
// The decision is always made by the vectors.
type signature [signatureBits / 64]uint64

func (s *signature) distance(other *signature) (n int) {
	for i, word := range s {
		n += bits.OnesCount64(word ^ other[i])
	}
	return n
}

// rounding is the largest error of a computed cosine. It matters close to 1, where
// vectors at such a small angle may have different signatures.
const rounding = 1e-6

// farthest returns the number of bits in which the signatures of two vectors with a
// cosine of threshold may differ. The probability that they differ in more is one in a
// billion.
func farthest(threshold float64) int {
	p := math.Acos(max(-1, min(1, threshold-rounding))) / math.Pi
	return int(math.Ceil(signatureBits*p + 6*math.Sqrt(signatureBits*p*(1-p))))
}

// workspaces are buffers for computing signatures.
var workspaces = sync.Pool{New: func() any { return new([]float32) }}

// signatureOf returns the signature of a vector. The planes are those of a rotation
// that is fast to compute: random signs and a Walsh–Hadamard transform, twice.
func signatureOf(vector []float32) (s signature) {
	n := max(signatureBits, 1<<bits.Len(uint(len(vector)-1)))
	w := workspaces.Get().(*[]float32)
	defer workspaces.Put(w)
	if cap(*w) < n {
		*w = make([]float32, n)
	}
	x := (*w)[:n]
	clear(x[copy(x, vector):])
	for round := range uint64(2) {
		flip(x, round)
		transform(x)
	}
	for i, v := range x[:signatureBits] {
		if v > 0 {
			s[i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// flip changes the signs of some numbers, always at the same positions.
func flip(x []float32, round uint64) {
	for i := 0; i < len(x); i += 64 {
		// SplitMix64 of the position.
		z := (uint64(i/64) + 1 + round<<32) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		for j := range x[i : i+64] {
			if z>>j&1 == 1 {
				x[i+j] = -x[i+j]
			}
		}
	}
}

// transform is the Walsh–Hadamard transform. The length of x is a power of two.
func transform(x []float32) {
	for half := 1; half < len(x); half *= 2 {
		for i := 0; i < len(x); i += 2 * half {
			low, high := x[i:i+half], x[i+half:i+2*half]
			for j, a := range low {
				b := high[j]
				low[j], high[j] = a+b, a-b
			}
		}
	}
}

// unit returns the vector of length 1 in the same direction. ok is false if there is
// none.
func unit(vector []float32) (u []float32, ok bool) {
	var sum float64
	for _, v := range vector {
		sum += float64(v) * float64(v)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) || len(vector) > maxDimensions {
		return nil, false
	}
	scale := 1 / math.Sqrt(sum)
	u = make([]float32, len(vector))
	for i, v := range vector {
		u[i] = float32(float64(v) * scale)
	}
	return u, true
}

// cosine returns the cosine of two vectors of length 1.
func cosine(a, b []float32) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return float64(s0) + float64(s1) + float64(s2) + float64(s3)
}
