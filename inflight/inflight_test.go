package inflight

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestOneKeyLeavesSomethingForOthers(t *testing.T) {
	b := New(1000)
	leases := make([]Lease, 5)
	take := func(i int) (got int) {
		leases[i].Open(b, fmt.Sprint("key", i))
		for leases[i].Grow(1) == nil {
			got++
		}
		return got
	}
	if got := take(0); got != 750 || int64(got) != b.Most() {
		t.Errorf("one alone got %d, and may have %d", got, b.Most())
	}
	for i := 1; i < len(leases); i++ {
		if got := take(i); got == 0 {
			t.Errorf("key %d got nothing", i)
		}
	}
	if err := leases[0].Grow(1); !errors.Is(err, ErrShare) {
		t.Errorf("one that holds most of it: %v", err)
	}
	if err := leases[4].Grow(1000); !errors.Is(err, ErrFull) {
		t.Errorf("more than there is: %v", err)
	}
	for i := range leases {
		leases[i].Close()
		leases[i].Close()
		leases[i].Shrink(1)
	}
	if b.Held() != 0 {
		t.Errorf("%d bytes are still held", b.Held())
	}
}

// A smaller limit takes nothing away.
func TestResize(t *testing.T) {
	b := New(1000)
	var l Lease
	l.Open(b, "k")
	if err := l.Grow(500); err != nil {
		t.Fatal(err)
	}
	b.Resize(100)
	if err := l.Grow(1); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	l.Shrink(490)
	if err := l.Grow(1); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestALeaseOfNoBudgetGrows(t *testing.T) {
	var none *Lease
	var zero, of Lease
	of.Open(nil, "k")
	for _, l := range []*Lease{none, &zero, &of} {
		if err := l.Grow(math.MaxInt); err != nil {
			t.Error(err)
		}
		l.Shrink(1)
		l.Close()
	}
}

// What is held is the sum of what leases hold, a key never gets more than its share of
// what is free, and what fits is not refused.
func TestBudgetKeepsItsAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 500).Draw(t, "limit")
		b := New(limit)
		var leases []*Lease
		held, keys := map[*Lease]int64{}, map[*Lease]string{}
		sum := func(key string) (n int64) {
			for l, k := range keys {
				if key == "" || k == key {
					n += held[l]
				}
			}
			return n
		}
		some := func(t *rapid.T) *Lease {
			if len(leases) == 0 {
				t.Skip("there are none")
			}
			return rapid.SampledFrom(leases).Draw(t, "lease")
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				l := new(Lease)
				key := rapid.StringMatching("[a-d]").Draw(t, "key")
				l.Open(b, key)
				leases, keys[l] = append(leases, l), key
			},
			"join": func(t *rapid.T) {
				other, l := some(t), new(Lease)
				if other.closed.Load() {
					t.Skip("it is closed")
				}
				l.Join(other)
				leases, keys[l] = append(leases, l), keys[other]
			},
			"grow": func(t *rapid.T) {
				l, n := some(t), rapid.IntRange(0, 300).Draw(t, "n")
				if l.closed.Load() {
					t.Skip("it is closed")
				}
				fits := n == 0 || sum(keys[l])+int64(n) <= ShareOfFree*(limit-sum("")-int64(n))
				err := l.Grow(n)
				if (err == nil) != fits {
					t.Fatalf("%d more of %d: %v, and it fits: %v", n, limit, err, fits)
				}
				if err == nil {
					held[l] += int64(n)
				}
			},
			"shrink": func(t *rapid.T) {
				l, n := some(t), rapid.IntRange(0, 300).Draw(t, "n")
				l.Shrink(n)
				held[l] -= min(held[l], int64(n))
			},
			"close": func(t *rapid.T) {
				l := some(t)
				l.Close()
				held[l] = 0
			},
			"": func(t *rapid.T) {
				if b.Held() != sum("") {
					t.Fatalf("holds %d, should hold %d", b.Held(), sum(""))
				}
			},
		})
		for _, l := range leases {
			l.Close()
		}
		if b.Held() != 0 {
			t.Fatalf("%d bytes are still held", b.Held())
		}
	})
}

func TestConcurrentLeases(t *testing.T) {
	b := New(1000)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				var l Lease
				l.Open(b, fmt.Sprint((i+n)%100*100))
				_ = l.Grow(n % 400)
				if b.Held() < 0 {
					t.Error("less than nothing is held")
				}
				l.Close()
			}
		})
	}
	all.Wait()
	if b.Held() != 0 {
		t.Errorf("%d bytes are still held", b.Held())
	}
}

// Keys come and go; what is remembered of them is bounded.
func TestSharesOfKeysThatAreGone(t *testing.T) {
	b := New(1 << 20)
	for i := range 100_000 {
		var l Lease
		l.Open(b, fmt.Sprint("key", i))
		l.Close()
	}
	n := 0
	for i := range b.shards {
		n += len(b.shards[i].shares)
	}
	if n > len(b.shards)*maxIdle {
		t.Errorf("%d shares are kept", n)
	}
}

func TestDefaultLimit(t *testing.T) {
	knows := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	fails := func() (uint64, error) { return 0, errors.New("nothing known") }
	for name, c := range map[string]struct{ got, want int64 }{
		"GOMEMLIMIT":    {quarter(400, knows(800), knows(1200)), 100},
		"control group": {quarter(math.MaxInt64, knows(800), knows(1200)), 200},
		"unlimited":     {quarter(math.MaxInt64, knows(math.MaxUint64), knows(1200)), 300},
		"machine":       {quarter(math.MaxInt64, fails, knows(1200)), 300},
		"unknown":       {quarter(math.MaxInt64, fails, fails), unknownMemory / 4},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", name, c.got, c.want)
		}
	}
	if Default() < 16<<20 {
		t.Errorf("the default is %d", Default())
	}
}

func BenchmarkSmallCall(b *testing.B) {
	budget := New(1 << 30)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var l Lease
		for pb.Next() {
			l.Open(budget, "key")
			_ = l.Grow(4096)
			l.Close()
		}
	})
}

// What is taken while the lease is closed is given back all the same.
func TestALeaseThatGrowsWhileItClosesLosesNothing(t *testing.T) {
	b := New(1 << 30)
	for range 2000 {
		l := new(Lease)
		l.Open(b, "k")
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 10 {
				_ = l.Grow(1)
			}
		})
		wg.Go(l.Close)
		wg.Wait()
	}
	if held := b.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}
