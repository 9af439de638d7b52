package policies

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/prices"
)

var callsOfTheDay = flag.Int("calls", 200_000, "`calls` of the simulated day, of a thousandth as many keys")

// heapInUse returns the bytes of the heap that are in use.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A keyCall is a call of an API key, of a workspace.
type keyCall struct {
	key    string
	demand estimate.Demand
}

func (c *keyCall) Attribute(key string) (value, alias string, ok bool) {
	switch key {
	case KeyAPIKey:
		return c.key, "", true
	case KeyWorkspace:
		return "ws-1", "", true
	}
	return "", "", false
}

func (*keyCall) ModelUnread() (alias string, unread bool)     { return "", false }
func (*keyCall) PromptByTarget() bool                         { return false }
func (*keyCall) Reads() bool                                  { return false }
func (*keyCall) TokenLimits() *TokenLimits                    { return nil }
func (c *keyCall) Demand(*estimate.Estimator) estimate.Demand { return c.demand }

// A day of calls is counted by a limit of requests and a budget of tokens of each key, and a budget of dollars
// of all: what was admitted and used is what is counted and what is in the journal, no key exceeds its limit, and
// memory does not grow with the number of calls.
func TestADayOfCallsIsCountedExactly(t *testing.T) {
	const (
		phases    = 8       // of the day
		open      = 16      // calls of a worker that are under way at the same time
		ofRequest = 5000    // calls of a key
		ofTokens  = 200_000 // tokens of a key
		perToken  = 100_000 // pico-dollars
	)
	calls := *callsOfTheDay
	keys := max(calls/1000, 100)
	step := int64(24*time.Hour) / int64(calls)
	price, err := prices.ParsePrice(map[string]string{"input_mtok": "0.1", "output_mtok": "0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "calls", WorkspaceID: "ws-1", GroupBy: []string{KeyAPIKey}}, Unit: "rpd", Value: ofRequest})
	w.budget(UsageLimit{Policy: Policy{ID: "tokens", Type: Tokens, GroupBy: []string{KeyAPIKey}}, Limit: ofTokens})
	w.budget(UsageLimit{Policy: Policy{ID: "dollars", Type: Cost}, Limit: int64(prices.MaxAmount)})

	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("key-", i)
	}
	var (
		requests = make([]atomic.Int64, keys)
		tokens   = make([]atomic.Int64, keys)
		dollars  atomic.Int64
		refused  atomic.Int64
	)
	type underWay struct {
		key     int
		verdict *Verdict
	}
	end := func(random *rand.Rand, c underWay) {
		var used Used
		switch n := random.IntN(100); {
		case n < 10: // it failed
			w.Release(c.verdict)
			return
		case n < 15: // it used more than it could, as far as anybody knew
			used.Tokens = 120 + random.Int64N(50)
		case n < 95:
			used.Tokens = 5 + random.Int64N(50)
		}
		used.Cost = prices.Amount(used.Tokens * perToken)
		requests[c.key].Add(1)
		tokens[c.key].Add(used.Tokens)
		dollars.Add(int64(used.Cost))
		if err := w.Settle(t.Context(), c.verdict, used); err != nil {
			t.Error(err)
		}
	}
	work := func(random *rand.Rand, n int) {
		var going [open]underWay
		for i := range n {
			w.now.Add(step)
			key := random.IntN(keys)
			if random.IntN(8) == 0 { // one of a hundred keys is busier than it may be
				key = random.IntN(keys/100) * 100
			}
			c := keyCall{names[key], estimate.Demand{Bytes: 100, Most: 10, Price: price}}
			v, err := w.Admit(t.Context(), "ws-1", &c, ScopeAll, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if v.Denied != nil {
				refused.Add(1)
				continue
			}
			slot := &going[i%open]
			if slot.verdict != nil {
				end(random, *slot)
			}
			*slot = underWay{key, v}
		}
		for _, c := range going {
			if c.verdict != nil {
				end(random, c)
			}
		}
	}

	begun := time.Now()
	workers := 4 * runtime.GOMAXPROCS(0)
	var early, heap uint64
	for phase := range phases {
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() { work(rand.New(rand.NewPCG(uint64(phase), uint64(i))), calls/phases/workers) })
		}
		group.Wait()
		if heap = heapInUse(); phase == 0 {
			early = heap
		}
		t.Logf("after %d of %d hours: %d counters, a heap of %.1f MiB", 24*(phase+1)/phases, 24, w.ledger.(*ledger.Ledger).Counters(), float64(heap)/(1<<20))
	}
	t.Logf("%d calls of %d keys took %v, %d were refused", calls, keys, time.Since(begun), refused.Load())

	// The counters of requests have a bucket for each 24 minutes by the end of the day.
	const buckets, others = 1300, 16 << 20
	if most := early + uint64(keys)*buckets + others; heap > most {
		t.Errorf("the heap grew from %d to %d bytes in the day", early, heap)
	}
	if refused.Load() == 0 {
		t.Error("no call was refused")
	}
	check := func(when string) {
		t.Helper()
		counted := make(map[string]int64)
		if err := w.ledger.Counts(t.Context(), prefix("calls"), func(c ledger.Count) {
			counted[valueKey([]string{KeyAPIKey}, c.Key, "calls")] = c.Booked()
		}); err != nil {
			t.Fatal(err)
		}
		booked := w.booked("tokens")
		for i, name := range names {
			name = KeyAPIKey + ":" + name
			if n := requests[i].Load(); counted[name] != n || n > ofRequest {
				t.Fatalf("%s: %d requests of %s are counted, %d were made", when, counted[name], name, n)
			}
			if n := tokens[i].Load(); booked[name] != n {
				t.Fatalf("%s: %d tokens of %s are booked, %d were used", when, booked[name], name, n)
			}
		}
		if n := w.booked("dollars")[defaultGroup]; n != dollars.Load() {
			t.Fatalf("%s: %d pico-dollars are booked, %d were used", when, n, dollars.Load())
		}
	}
	check("at the end of the day")
	w.restart()
	check("after a restart")
}

// The memory of counters: of a limit of requests of each key, after one call of each.
func BenchmarkKeys(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			var perKey float64
			for b.Loop() {
				w := newWorld(b)
				w.put(RateLimit{Policy: Policy{ID: "calls", WorkspaceID: "ws-1", GroupBy: []string{KeyAPIKey}}, Unit: "rpd", Value: 1000})
				before := heapInUse()
				var group sync.WaitGroup
				workers := 4 * runtime.GOMAXPROCS(0)
				for i := range workers {
					group.Go(func() {
						for n := i; n < keys; n += workers {
							c := keyCall{key: fmt.Sprint("key-", n)}
							v, err := w.Admit(b.Context(), "ws-1", &c, ScopeAll, 0)
							if err != nil || v.Denied != nil {
								b.Error(v, err)
								return
							}
							if err := w.Settle(b.Context(), v, Used{}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				group.Wait()
				if n := w.ledger.(*ledger.Ledger).Counters(); n != keys {
					b.Errorf("%d counters of %d keys", n, keys)
				}
				perKey = float64(heapInUse()-before) / float64(keys)
			}
			b.ReportMetric(perKey, "B/key")
		})
	}
}
