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

// DefaultGCHeadroom is how much the heap grows between two garbage collections, in bytes.
const DefaultGCHeadroom = 20 << 20

const (
	// minGCHeadroom is the minimum that can be configured. With less, the collector would
	// run all the time.
	minGCHeadroom = 4 << 20

	// leastLive is a lower bound for the size of the live heap in the calculation, in
	// bytes: the runtime's minimum heap size grows with the percentage, and would exceed
	// the headroom.
	leastLive = 4 << 20

	// leastPercent bounds the CPU time of the collector if the live heap is many times the
	// headroom, which is exceeded then.
	leastPercent = 50

	// quietTime is how long after the last collection free memory is returned to the
	// system.
	quietTime = 30 * time.Second

	// startTime is by when Caddy's other apps have started, too.
	startTime = 5 * time.Second
)

// A collector makes the heap grow by a fixed amount between collections, whereas Go's own
// setting is a percentage: one that saves CPU time on a small heap wastes memory on a large
// one. After each collection it sets the percentage that results in that amount. Go's
// memory limit takes precedence.
//
// There is one for the process, because the setting is global. The configuration that
// started last determines it; when the last one has ended, the previous setting is
// restored.
type collector struct {
	percent func(int) int               // debug.SetGCPercent
	heap    func() (live, roots uint64) // after the last collection, in bytes
	cycles  func() uint64               // collections so far
	free    func()                      // freeMemory
	unmap   func()                      // unmapProgram

	mu       sync.Mutex
	holders  []*headroom
	before   int // the percentage, while there are holders
	current  int
	quiet    *time.Timer
	starting *time.Timer
	freed    uint64 // cycles, after memory went back
	watching bool
}

// A headroom is the setting of one configuration; 0 keeps Go's own setting.
type headroom struct{ bytes int64 }

// gc is the collector of the process.
var gc = &collector{percent: debug.SetGCPercent, heap: readHeap, cycles: readCycles, free: freeMemory, unmap: unmapProgram}

// hold makes the heap grow by the given number of bytes until release is called. A GOGC in
// the environment takes precedence.
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
		c.starting = time.AfterFunc(startTime, c.started)
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
		c.starting.Stop()
	}
}

// started releases what only the start of the process needed.
func (c *collector) started() {
	c.mu.Lock()
	tuned := c.tuned()
	c.mu.Unlock()
	if tuned {
		c.unmap()
	}
}

// tuned reports whether memory is up to the collector and not to Go's own setting; c.mu is held.
func (c *collector) tuned() bool {
	n := len(c.holders)
	return n > 0 && c.holders[n-1].bytes > 0
}

// watch arranges for collected to be called after the next collection, by means of an
// unreferenced object.
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

// tune sets the percentage for the current headroom.
func (c *collector) tune() {
	want := c.before
	if c.tuned() {
		want = percentFor(c.holders[len(c.holders)-1].bytes, c.heap)
	}
	if want != c.current {
		c.percent(want)
		c.current = want
	}
}

// percentFor returns the percentage that corresponds to a number of bytes. It applies to
// the live heap and to the stacks and globals, which the runtime includes.
func percentFor(bytes int64, heap func() (live, roots uint64)) int {
	live, roots := heap()
	percent := float64(bytes) * 100 / float64(max(live, leastLive)+roots)
	return int(min(max(percent, leastPercent), math.MaxInt32))
}

// giveBack returns free memory to the system, once, if the collector has not run for a
// while. Otherwise, this would have to wait for the runtime's next periodic cycle, minutes
// later.
func (c *collector) giveBack() {
	c.mu.Lock()
	idle := c.tuned() && c.cycles() != c.freed
	c.mu.Unlock()
	if !idle {
		return
	}
	c.free() // this collects, and so ends in collected
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freed = c.cycles()
}

// freeMemory returns free memory to the system, including that of pools (sync.Pool), which keep
// what they hold for one collection, and the pages of the program.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
	unmapProgram()
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
