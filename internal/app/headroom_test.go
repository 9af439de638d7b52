package app

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fixed is a collector over a heap that does not change, and the percentage that it set.
func fixed(live, roots uint64) (c *collector, percent, freed *int, cycles *uint64) {
	percent, freed, cycles = new(int), new(int), new(uint64)
	*percent = 100
	c = &collector{
		percent: func(p int) int { old := *percent; *percent = p; return old },
		heap:    func() (uint64, uint64) { return live, roots },
		cycles:  func() uint64 { return *cycles },
		free:    func() { *freed++; *cycles++ },
		unmap:   func() {},
	}
	return c, percent, freed, cycles
}

func TestTheHeapGrowsByTheHeadroom(t *testing.T) {
	for _, test := range []struct {
		name        string
		live, roots uint64
		headroom    int64
		percent     int
	}{
		{"as much as is live", 30 << 20, 10 << 20, 40 << 20, 100},
		{"little is live", 10 << 20, 0, 40 << 20, 400},
		{"nothing is live", 0, 0, 40 << 20, 1000},
		{"much is live", 1 << 30, 0, 40 << 20, leastPercent},
		{"off", 30 << 20, 0, 0, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			c, percent, _, _ := fixed(test.live, test.roots)
			release := c.hold(test.headroom)
			if *percent != test.percent {
				t.Errorf("%d%%, want %d%%", *percent, test.percent)
			}
			release()
			if *percent != 100 {
				t.Errorf("%d%% afterwards", *percent)
			}
		})
	}
}

// While configurations come and go, the latest of those that run decides; after the last
// one, the setting is what it was.
func TestTheLatestConfigurationDecides(t *testing.T) {
	t.Setenv("GOGC", "")
	rapid.Check(t, func(t *rapid.T) {
		c, percent, _, _ := fixed(10<<20, 0)
		type holder struct {
			headroom int64
			release  func()
		}
		var running []holder
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "ends") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				running[i].release()
				running[i].release() // of no effect
				running = append(running[:i:i], running[i+1:]...)
			} else {
				h := rapid.SampledFrom([]int64{0, 10 << 20, 20 << 20, 80 << 20}).Draw(t, "headroom")
				running = append(running, holder{h, c.hold(h)})
			}
			want := 100
			if n := len(running); n > 0 && running[n-1].headroom > 0 {
				want = int(running[n-1].headroom / (10 << 20) * 100)
			}
			if *percent != want {
				t.Fatalf("%d%%, want %d%% of %v", *percent, want, running)
			}
		}
	})
}

func TestTheEnvironmentsGOGCStays(t *testing.T) {
	t.Setenv("GOGC", "77")
	c, percent, _, _ := fixed(10<<20, 0)
	c.hold(40 << 20)()
	if *percent != 100 || len(c.holders) != 0 {
		t.Errorf("%d%%", *percent)
	}
}

func TestMemoryGoesBackOnceWhenNothingIsCollected(t *testing.T) {
	t.Setenv("GOGC", "")
	c, _, freed, cycles := fixed(10<<20, 0)
	release := c.hold(40 << 20)
	*cycles = 5
	c.giveBack()
	c.giveBack()
	if *freed != 1 {
		t.Errorf("given back %d times", *freed)
	}
	*cycles++
	c.giveBack()
	if *freed != 2 {
		t.Errorf("given back %d times after another collection", *freed)
	}
	release()
	*cycles++
	c.giveBack()
	if *freed != 2 {
		t.Error("given back though no configuration runs")
	}
}

func TestThePagesOfTheStartAreReleasedWhileAConfigurationRuns(t *testing.T) {
	t.Setenv("GOGC", "")
	c, _, _, _ := fixed(10<<20, 0)
	unmapped := 0
	c.unmap = func() { unmapped++ }
	c.started()
	off := c.hold(0)
	c.started()
	if unmapped != 0 {
		t.Error("released though memory is left to Go")
	}
	on := c.hold(40 << 20)
	c.started()
	if unmapped != 1 {
		t.Errorf("released %d times", unmapped)
	}
	on()
	off()
}

// The runtime's own collector follows what is live.
func TestTheHeadroomFollowsTheLiveHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	c := &collector{percent: debug.SetGCPercent, heap: readHeap, cycles: readCycles, free: debug.FreeOSMemory, unmap: func() {}}
	release := c.hold(64 << 20)
	defer release()
	percent := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.current
	}
	await := func(what string, condition func(int) bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !condition(percent()); runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: still %d%%", what, percent())
			}
		}
	}
	small := percent()
	held := make([]byte, 64<<20)
	await("more is live", func(p int) bool { return p < small && p < 100 })
	runtime.KeepAlive(held) // and no longer
	await("less is live", func(p int) bool { return p > 100 })
}
