package inflight

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// unknownMemory is assumed if the size of the memory cannot be determined.
const unknownMemory = 2 << 30

// Default returns the default limit of a budget: a quarter of Go's memory limit
// (GOMEMLIMIT, or the one that Caddy sets), or else of the control group's limit, or else
// of the machine's memory.
func Default() int64 {
	return quarter(debug.SetMemoryLimit(-1), memlimit.FromCgroup, memlimit.FromSystem)
}

const (
	// memoryOfCall is what a call takes at least, besides its bodies: a stream that waits for its
	// next event takes about 100 KB.
	memoryOfCall = 100 << 10

	leastCalls = 1000
)

// DefaultCalls returns the default limit of a budget of calls: as many as a quarter of the memory
// has room for, as in [Default], and at least 1,000.
func DefaultCalls() int64 { return max(leastCalls, Default()/memoryOfCall) }

// quarter returns a quarter of Go's limit, if there is one, or else of the first source
// that succeeds.
func quarter(limit int64, sources ...func() (uint64, error)) int64 {
	for _, source := range sources {
		if limit < math.MaxInt64 {
			break
		}
		if n, err := source(); err == nil && n > 0 && n < math.MaxInt64 {
			limit = int64(n)
		}
	}
	if limit == math.MaxInt64 {
		limit = unknownMemory
	}
	return limit / 4
}
