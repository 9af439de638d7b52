package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// DefaultGCHeadroom is what the heap grows by between two collections, in bytes.
const DefaultGCHeadroom = 20 << 20

const (
	// minGCHeadroom is the least that can be configured: with less, the collector would
	// run without a pause.
	minGCHeadroom = 4 << 20

	// leastLive is what the live heap counts as at least, in bytes: the runtime's own
	// least heap grows with the percentage, and would exceed the headroom.
	leastLive = 4 << 20

	// leastPercent bounds the collector's share of the CPU where the live heap is many
	// times the headroom, which then gives way.
	leastPercent = 50

	// quietTime is how long the collector has not run when memory goes back to the system.
	quietTime = 30 * time.Second
)

// A collector makes the heap grow by an amount between collections, whatever is live,
// where Go's own setting is a percentage: a percentage that saves CPU on a small heap
// wastes memory on a large one. After each collection it sets the percentage that comes
// to that amount. Go's memory limit is stronger still.
//
// There is one for the process, since there is one setting. Of the configurations that
// run, the latest to start decides; when the last one has ended, the setting is what it
// was before.
type collector struct {
	percent func(int) int               // debug.SetGCPercent
	heap    func() (live, roots uint64) // after the last collection, in bytes
	cycles  func() uint64               // collections so far
	free    func()                      // debug.FreeOSMemory

	mu       sync.Mutex
	holders  []*headroom
	before   int // the percentage, while there are holders
	current  int
	quiet    *time.Timer
	freed    uint64 // cycles, after memory went back
	watching bool
}

// A headroom is what one configuration asks for; 0: that Go's setting stays.
type headroom struct{ bytes int64 }

// gc is the collector of the process.
var gc = &collector{percent: debug.SetGCPercent, heap: readHeap, cycles: readCycles, free: debug.FreeOSMemory}

// hold makes the heap grow by so many bytes until release is called. A GOGC in the
// environment is what its operator wants, and stays.
func (c *collector) hold(bytes int64) (release func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	h := &headroom{bytes}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.holders) == 0 {
		c.before = c.percent(100)
		c.current = 100
		c.quiet = time.AfterFunc(quietTime, c.giveBack)
	}
	c.watch()
	c.holders = append(c.holders, h)
	c.tune()
	return sync.OnceFunc(func() { c.drop(h) })
}

func (c *collector) drop(h *headroom) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders = slices.DeleteFunc(c.holders, func(other *headroom) bool { return other == h })
	c.tune()
	if len(c.holders) == 0 {
		c.quiet.Stop()
	}
}

// watch has collected called after the next collection: that is when an object that
// nothing refers to is found.
func (c *collector) watch() {
	if c.watching {
		return
	}
	c.watching = true
	runtime.AddCleanup(new([16]byte), func(c *collector) { c.collected() }, c)
}

func (c *collector) collected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching = false
	if len(c.holders) == 0 {
		return
	}
	c.tune()
	c.quiet.Reset(quietTime)
	c.watch()
}

// tune sets the percentage that comes to the headroom now.
func (c *collector) tune() {
	want := c.before
	if n := len(c.holders); n > 0 && c.holders[n-1].bytes > 0 {
		want = percentFor(c.holders[n-1].bytes, c.heap)
	}
	if want != c.current {
		c.percent(want)
		c.current = want
	}
}

// percentFor is the percentage of what is live, and of the stacks and globals that the
// runtime counts with it, that comes to so many bytes.
func percentFor(bytes int64, heap func() (live, roots uint64)) int {
	live, roots := heap()
	percent := float64(bytes) * 100 / float64(max(live, leastLive)+roots)
	return int(min(max(percent, leastPercent), math.MaxInt32))
}

// giveBack returns what is free to the system, once, when the collector has not run for a
// while: it would otherwise wait for the runtime's next own cycle, minutes later.
func (c *collector) giveBack() {
	c.mu.Lock()
	idle := len(c.holders) > 0 && c.holders[len(c.holders)-1].bytes > 0 && c.cycles() != c.freed
	c.mu.Unlock()
	if !idle {
		return
	}
	c.free() // collects, which ends in collected
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freed = c.cycles()
}

func readHeap() (live, roots uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64() + samples[2].Value.Uint64()
}

func readCycles() uint64 {
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
