package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// yields makes transactions of the store interleave with everything else.
func yields(context.Context) error {
	for range rand.IntN(5) {
		runtime.Gosched()
	}
	return nil
}

// durable returns the number of units in the stored record of a key.
func (d *desk) durable(key string) (total int64) {
	item, ok := d.store.copy().items[string(recordKey(key))]
	if !ok {
		return 0
	}
	c, _, err := decode(item.value)
	if err != nil {
		d.Error(err)
	}
	return c.total
}

func TestExactlyTheLimitIsAdmittedAtOnce(t *testing.T) {
	for _, limit := range []int64{1, 10, 64, 101, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			d := newDesk(t, Options{})
			d.store.beforeRead, d.store.beforeWrite = yields, yields
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() {
					for range limit/10 + 2 {
						_, decision, err := d.Reserve(t.Context(), []Claim{{"k", limit, time.Minute, 1, "", false, 0}})
						if err != nil {
							t.Error(err)
						}
						if !decision.Admitted {
							continue
						}
						if n := admitted.Add(1); limit < 1000 && d.durable("k") < n {
							t.Errorf("%d admitted, %d on the disk", n, d.durable("k"))
						}
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != limit {
				t.Errorf("%d admitted, want %d", n, limit)
			}
			reads, writes := d.store.calls()
			if reads > 2+writes/prunedLeases || writes > 64 { // includes the time, the counter, and steps of pruning
				t.Errorf("%d reads and %d writes", reads, writes)
			}
			if n := d.durable("k"); n != limit {
				t.Errorf("%d on the disk, want %d", n, limit)
			}
		})
	}
}

// TestManyKeysAtOnce reserves, settles and releases claims on several keys from many
// goroutines, while time passes and policies are forgotten.
func TestManyKeysAtOnce(t *testing.T) {
	const limit = 200
	d := newDesk(t, Options{})
	d.store.beforeRead, d.store.beforeWrite = yields, yields
	d.clock.add(time.Minute / 2)
	var used [4]atomic.Int64
	for step := range 30 {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					var claims []Claim
					for range rand.IntN(3) + 1 {
						claims = append(claims, Claim{fmt.Sprint(rand.IntN(len(used))), limit, time.Hour, rand.Int64N(4), "", false, 0})
					}
					r, decision, err := d.Reserve(t.Context(), claims)
					if err != nil {
						t.Error(err)
					}
					if !decision.Admitted {
						continue
					}
					if rand.IntN(2) == 0 {
						d.Release(r)
						go d.Release(r)
						continue
					}
					final := make([]int64, len(claims))
					for i, c := range claims {
						final[i] = rand.Int64N(c.Units + 1)
						used[c.Key[0]-'0'].Add(final[i])
					}
					if err := d.Settle(t.Context(), r, final); err != nil {
						t.Error(err)
					}
				}
			})
		}
		if step%10 == 9 {
			wg.Go(func() {
				if err := d.Forget(t.Context(), "another policy"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		d.clock.add(time.Minute / 2)
	}
	d.restart()
	for i := range used {
		if n := used[i].Load(); n > limit {
			t.Errorf("%d units of key %d", n, i)
		}
		d.wantLeft(limit-used[i].Load(), Claim{Key: fmt.Sprint(i), Limit: limit, Window: time.Hour})
	}
}

func TestWritesAreBounded(t *testing.T) {
	d := newDesk(t, Options{})
	c := Claim{"k", 100_000, time.Minute, 1, "", false, 0}
	d.reserve(c)
	d.clock.add(time.Minute)
	d.store.calls()
	var reads, writes int // of all windows, because pruning may end in the next one
	for window := range 5 {
		for range 60 {
			for range 1700 { // a little more than the limit allows
				d.reserve(c)
			}
			d.clock.add(time.Second)
		}
		r, w := d.store.calls()
		reads, writes = reads+r, writes+w
		if windows := window + 1; reads > windows+writes/prunedLeases || writes > windows*(64+60) {
			t.Errorf("%d reads and %d writes in %d windows", reads, writes, windows)
		}
	}
}

func TestCountersInMemoryAreBounded(t *testing.T) {
	d := newDesk(t, Options{MaxCounters: 10})
	claim := func(i int) Claim { return Claim{fmt.Sprint(i), 5, time.Minute, 1, "", false, 0} }
	held := func() (n int) {
		for i := range d.shards {
			n += len(d.shards[i].accounts)
		}
		if int64(n) != d.live.Load() {
			t.Errorf("%d counters, counted as %d", n, d.live.Load())
		}
		return n
	}
	fill := func(from int) {
		t.Helper()
		for i := range 10 {
			d.reserve(claim(from + i))
		}
		d.fails(ErrFull, claim(from+10))
		d.fails(ErrFull, claim(from), claim(from+10))
		if _, decision := d.reserve(claim(from)); !decision.Admitted { // known keys are still admitted
			t.Error(decision)
		}
		if n := held(); n != 10 {
			t.Errorf("%d counters in memory, want 10", n)
		}
	}
	fill(0)
	d.clock.add(59 * time.Second)
	d.fails(ErrFull, claim(20))
	d.clock.add(2 * time.Second)
	fill(20)

	// An evicted counter is still counted.
	d.wantLeft(3, Claim{Key: "20", Limit: 5, Window: time.Minute})

	// A clock that was far ahead does not keep counters in memory.
	d.clock.add(365 * 24 * time.Hour)
	fill(40)
	d.clock.add(-365 * 24 * time.Hour)
	d.fails(ErrFull, claim(60))
	d.clock.add(61 * time.Second)
	fill(60)
}

func TestIdleCountersAreSwept(t *testing.T) {
	d := newDesk(t, Options{})
	for i := range 10_000 {
		d.reserve(Claim{fmt.Sprint("old ", i), 5, time.Minute, 1, "", false, 0})
	}
	d.clock.add(2 * time.Minute)
	for i := range 10_000 {
		d.reserve(Claim{fmt.Sprint("new ", i%1000), 1000, time.Hour, 1, "", false, 0})
	}
	if n := d.live.Load(); n > 1500 {
		t.Errorf("%d counters in memory, of which 1000 count", n)
	}
}

// TestACounterStaysWhileItsLeaseCounts: if everything was given back, the record still
// counts the lease, so reading it again would lose a unit.
func TestACounterStaysWhileItsLeaseCounts(t *testing.T) {
	other := Claim{"other", 1, time.Second, 1, "", false, 0}
	t.Run("empty", func(t *testing.T) {
		d := newDesk(t, Options{MaxCounters: 1})
		r, _ := d.reserve(single)
		d.Release(r)
		d.clock.add(60 * time.Second)
		d.fails(ErrFull, other)
		d.wantLeft(3, single)
		d.clock.add(time.Second)
		d.reserve(other)
	})
	t.Run("with units of an earlier bucket", func(t *testing.T) {
		d := newDesk(t, Options{MaxCounters: 1})
		d.reserve(single)
		d.clock.add(10 * time.Second)
		r, _ := d.reserve(single)
		d.Release(r)
		d.clock.add(51 * time.Second)
		d.fails(ErrFull, other)
		d.wantLeft(3, single)
	})
	t.Run("with another window", func(t *testing.T) {
		d := newDesk(t, Options{MaxCounters: 1})
		r, _ := d.reserve(single)
		d.Release(r)
		d.wantLeft(3, Claim{Key: "k", Limit: 3, Window: time.Hour})
		d.clock.add(60 * time.Minute)
		d.fails(ErrFull, other)
		d.clock.add(time.Minute)
		d.reserve(other)
	})
}

func TestARefusedKeyIsNotReadEachTime(t *testing.T) {
	d := newDesk(t, Options{})
	for range 1000 {
		d.reserve(Claim{"k", 0, time.Minute, 1, "", false, 0})
		d.clock.add(time.Millisecond)
	}
	if reads, writes := d.store.calls(); reads > 2 || writes > 0 {
		t.Errorf("%d reads and %d writes", reads, writes)
	}
}
