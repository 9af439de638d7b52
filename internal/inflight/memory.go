package inflight

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// unknownMemory is assumed where nothing says how much memory there is.
const unknownMemory = 2 << 30

// Default is the limit of a budget for which nobody sets one: a quarter of Go's memory
// limit (GOMEMLIMIT, or what Caddy makes of the machine), else of the control group's, else
// of the machine's memory.
func Default() int64 {
	return quarter(debug.SetMemoryLimit(-1), memlimit.FromCgroup, memlimit.FromSystem)
}

// quarter is a quarter of Go's limit, where there is one, or of what the first of sources
// knows.
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
