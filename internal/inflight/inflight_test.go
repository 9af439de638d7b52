package inflight

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Alone, a key gets nine thirteenths. Another key of its workspace finds something, and so
// does another workspace, however many there are.
func TestOneLeavesSomethingForOthers(t *testing.T) {
	for name, workspace := range map[string]func(int) string{
		"other workspaces":           func(i int) string { return fmt.Sprint(i) },
		"other keys of the same one": func(int) string { return "w" },
	} {
		t.Run(name, func(t *testing.T) {
			b := New(13_000)
			leases := make([]Lease, 4)
			take := func(i int) (got int) {
				leases[i].Open(b, workspace(i), fmt.Sprint("key", i))
				for leases[i].Grow(1) == nil {
					got++
				}
				return got
			}
			if got := take(0); got != 9_000 || int64(got) != Most(13_000) {
				t.Errorf("one alone got %d", got)
			}
			for i := 1; i < len(leases); i++ {
				if got := take(i); got == 0 {
					t.Errorf("key %d got nothing", i)
				}
			}
			if err := leases[0].Grow(1); !errors.Is(err, ErrKey) && !errors.Is(err, ErrWorkspace) {
				t.Errorf("one that holds most of it: %v", err)
			}
			if err := leases[3].Grow(13_000); !errors.Is(err, ErrFull) {
				t.Errorf("more than there is: %v", err)
			}
			for i := range leases {
				leases[i].Close()
				leases[i].Close()
				leases[i].Shrink(1)
			}
			if b.InUse() != 0 {
				t.Errorf("%d bytes are still held", b.InUse())
			}
		})
	}
}

// However many keys a tenant has and whatever they take, a sixth of the budget stays for a
// key of another, in any order of what both take and give back.
func TestATenantCannotTakeTheShareOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 1 << 20
		const sure = limit * 9 / 52
		b := New(limit)
		var greedy []*Lease
		var other Lease
		other.Open(b, "other", "key")
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				l := new(Lease)
				l.Open(b, "greedy", fmt.Sprint(rapid.IntRange(0, 50).Draw(t, "key")))
				for n := rapid.IntRange(1, limit).Draw(t, "bytes"); n > 0; n /= 2 {
					for l.Grow(n) == nil {
					}
				}
				greedy = append(greedy, l)
			},
			"give back": func(t *rapid.T) {
				if len(greedy) == 0 {
					t.Skip("nothing is held")
				}
				rapid.SampledFrom(greedy).Draw(t, "lease").Close()
			},
			"the other": func(t *rapid.T) {
				n := rapid.IntRange(0, int(sure-other.Size())).Draw(t, "bytes")
				if err := other.Grow(n); err != nil {
					t.Fatalf("%d after %d: %v", n, other.Size(), err)
				}
				other.Shrink(rapid.IntRange(0, n).Draw(t, "given back"))
			},
		})
	})
}

// Whatever calls the keys of one workspace have under way, there is room for those of another's, in
// any order in which they begin and end.
func TestATenantCannotTakeAllCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(16, 300).Draw(t, "limit")
		sure := int(limit * 9 / 52)
		b := NewCalls(limit)
		var greedy, other []*Lease
		begin := func(workspace, key string) (*Lease, error) {
			l := new(Lease)
			l.Open(b, workspace, key)
			if err := l.Grow(1); err != nil {
				l.Close()
				return nil, err
			}
			return l, nil
		}
		end := func(t *rapid.T, of *[]*Lease) {
			if len(*of) == 0 {
				t.Skip("none is under way")
			}
			i := rapid.IntRange(0, len(*of)-1).Draw(t, "call")
			(*of)[i].Close()
			*of = slices.Delete(*of, i, i+1)
		}
		t.Repeat(map[string]func(*rapid.T){
			"the greedy one begins": func(t *rapid.T) {
				key := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "key"))
				for {
					l, err := begin("greedy", key)
					if err != nil {
						if !errors.Is(err, ErrCallsFull) && !errors.Is(err, ErrCallsWorkspace) && !errors.Is(err, ErrCallsKey) || Refused(err) {
							t.Fatal(err)
						}
						return
					}
					greedy = append(greedy, l)
				}
			},
			"the greedy one ends": func(t *rapid.T) { end(t, &greedy) },
			"the other begins": func(t *rapid.T) {
				if len(other) == sure {
					t.Skip("it has what is sure")
				}
				l, err := begin("other", "key")
				if err != nil {
					t.Fatalf("after %d of %d: %v", len(other), limit, err)
				}
				other = append(other, l)
			},
			"the other ends": func(t *rapid.T) { end(t, &other) },
			"": func(t *rapid.T) {
				if n := int64(len(greedy) + len(other)); b.InUse() != n || n > limit {
					t.Fatalf("%d are counted, %d of %d are under way", b.InUse(), n, limit)
				}
			},
		})
	})
}

// What does not fit takes nothing from others while it is decided.
func TestARefusalIsInNobodysWay(t *testing.T) {
	b := New(1000)
	var huge, small Lease
	huge.Open(b, "a", "huge")
	small.Open(b, "b", "small")
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = huge.Grow(1000)
				}
			}
		})
	}
	for range 20_000 {
		if err := small.Grow(100); err != nil {
			t.Error(err)
			break
		}
		small.Shrink(100)
	}
	close(stop)
	all.Wait()
}

// A smaller limit takes nothing away.
func TestResize(t *testing.T) {
	b := New(1000)
	var l Lease
	l.Open(b, "w", "k")
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
	of.Open(nil, "w", "k")
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
		held, holders := map[*Lease]int64{}, map[*Lease]holder{}
		sum := func(of func(holder) bool) (n int64) {
			for l, h := range holders {
				if of(h) {
					n += held[l]
				}
			}
			return n
		}
		all := func(holder) bool { return true }
		some := func(t *rapid.T) *Lease {
			if len(leases) == 0 {
				t.Skip("there are none")
			}
			return rapid.SampledFrom(leases).Draw(t, "lease")
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				l := new(Lease)
				h := holder{rapid.StringMatching("[vw]").Draw(t, "workspace"), rapid.StringMatching("[ab]?").Draw(t, "key")}
				l.Open(b, h.workspace, h.key)
				leases, holders[l] = append(leases, l), h
			},
			"join": func(t *rapid.T) {
				other, l := some(t), new(Lease)
				if other.closed.Load() {
					t.Skip("it is closed")
				}
				l.Join(other)
				leases, holders[l] = append(leases, l), holders[other]
			},
			"grow": func(t *rapid.T) {
				l, n := some(t), rapid.IntRange(0, 300).Draw(t, "n")
				if l.closed.Load() {
					t.Skip("it is closed")
				}
				own, more := holders[l], int64(n)
				free := limit - sum(all) - more
				left := 3*free - sum(func(h holder) bool { return h.workspace == own.workspace }) - more
				fits := n == 0 || free >= 0 && left >= 0 &&
					(own.key == "" || sum(func(h holder) bool { return h == own })+more <= 3*left)
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
				if b.InUse() != sum(all) {
					t.Fatalf("holds %d, should hold %d", b.InUse(), sum(all))
				}
			},
		})
		for _, l := range leases {
			l.Close()
		}
		if b.InUse() != 0 {
			t.Fatalf("%d bytes are still held", b.InUse())
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
				l.Open(b, fmt.Sprint(n%10), fmt.Sprint((i+n)%100*100))
				_ = l.Grow(n % 400)
				if b.InUse() < 0 {
					t.Error("less than nothing is held")
				}
				l.Close()
			}
		})
	}
	all.Wait()
	if b.InUse() != 0 {
		t.Errorf("%d bytes are still held", b.InUse())
	}
}

// Keys come and go; what is remembered of them is bounded.
func TestSharesOfKeysThatAreGone(t *testing.T) {
	b := New(1 << 20)
	for i := range 100_000 {
		var l Lease
		l.Open(b, fmt.Sprint("workspace", i/3), fmt.Sprint("key", i))
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
	if n := DefaultCalls(); n < 1000 || n > 1000 && n != Default()/memoryOfCall {
		t.Errorf("the default is %d calls", n)
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
			l.Open(budget, "workspace", "key")
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
		l.Open(b, "w", "k")
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 10 {
				_ = l.Grow(1)
			}
		})
		wg.Go(l.Close)
		wg.Wait()
	}
	if held := b.InUse(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}
