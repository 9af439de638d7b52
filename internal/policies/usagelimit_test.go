package policies

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/storage"
)

func (w *world) budget(p UsageLimit) {
	w.t.Helper()
	if p.WorkspaceID == "" {
		p.WorkspaceID = "ws-1"
	}
	if err := w.db.Update(w.t.Context(), func(tx *storage.Txn) error { return w.Budgets.Put(tx, &p) }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) settle(v *Verdict, used Used) {
	w.t.Helper()
	if err := w.Settle(w.t.Context(), v, used); err != nil {
		w.t.Fatal(err)
	}
}

// booked returns what a budget has booked, by value key.
func (w *world) booked(id string) map[string]int64 {
	w.t.Helper()
	p, _ := w.Budgets.Get(id)
	all, err := w.Entities(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	booked := make(map[string]int64)
	for _, e := range all {
		booked[e.Group] = e.Booked
	}
	return booked
}

func budgetOf(kind string, limit int64) UsageLimit {
	return UsageLimit{Policy: Policy{ID: "b", Type: kind}, Limit: limit}
}

func TestUsageLimitsNameTheFieldAtFault(t *testing.T) {
	threshold := func(n int64) *int64 { return &n }
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*UsageLimit)
		field  string
	}{
		"the least":              {func(*UsageLimit) {}, ""},
		"tokens":                 {func(p *UsageLimit) { p.Type = Tokens }, ""},
		"requests":               {func(p *UsageLimit) { p.Type = Requests }, ""},
		"no type":                {func(p *UsageLimit) { p.Type = "" }, "type"},
		"less than nothing":      {func(p *UsageLimit) { p.Limit = -1 }, "credit_limit"},
		"an alert":               {func(p *UsageLimit) { p.AlertThreshold = threshold(9) }, ""},
		"an alert too late":      {func(p *UsageLimit) { p.AlertThreshold = threshold(10) }, "alert_threshold"},
		"weekly":                 {func(p *UsageLimit) { p.PeriodicReset = "weekly" }, ""},
		"daily":                  {func(p *UsageLimit) { p.PeriodicReset = "daily" }, "periodic_reset"},
		"the most days":          {func(p *UsageLimit) { p.PeriodicResetDays = 365 }, ""},
		"more days":              {func(p *UsageLimit) { p.PeriodicResetDays = 366 }, "periodic_reset_days"},
		"days and months":        {func(p *UsageLimit) { p.PeriodicResetDays, p.PeriodicReset = 1, "monthly" }, "periodic_reset_days"},
		"a reset of no period":   {func(p *UsageLimit) { p.NextResetAt = &day }, "next_usage_reset_at"},
		"unknown prices allowed": {func(p *UsageLimit) { p.OnUnknownPrice = Allow }, ""},
		"unknown prices guessed": {func(p *UsageLimit) { p.OnUnknownPrice = "guess" }, "on_unknown_price"},
		"prices of requests":     {func(p *UsageLimit) { p.Type, p.OnUnknownPrice = Requests, Allow }, "on_unknown_price"},
	} {
		p := budgetOf(Cost, 10)
		c.change(&p)
		var fault *FieldError
		if err := p.Validate(); (err != nil) != (c.field != "") || err != nil && (!errors.As(err, &fault) || fault.Field != c.field) {
			t.Errorf("%s: got %v, want it at %q", name, err, c.field)
		}
	}
}

// A token policy reserves what a call may use, and books what it did.
func TestTokensAreReservedAndSettled(t *testing.T) {
	w := newWorld(t)
	w.put(RateLimit{Policy: Policy{ID: "p", WorkspaceID: "ws-1", Type: Tokens}, Value: 250})
	first := w.admit("ws-1", call{}) // 100 bytes, and 10 tokens at most
	second := w.admit("ws-1", call{})
	if first.Tokens.Remaining != 140 || second.Tokens.Remaining != 30 || second.Requests != nil {
		t.Fatalf("%+v, %+v", first.Tokens, second.Tokens)
	}
	w.refused("ws-1", call{}, "p")
	w.settle(first, Used{Tokens: 40})
	w.settle(first, Used{Tokens: 40}) // to no effect
	w.Release(second)
	third := w.admit("ws-1", call{})
	if third.Denied != nil || third.Tokens.Remaining != 100 {
		t.Fatalf("%+v", third.Tokens)
	}
	w.settle(third, Used{Tokens: 500}) // a surprise, which counts
	if v := w.refused("ws-1", call{}, "p"); v.Tokens.RetryAfter < 59*time.Second || v.Tokens.RetryAfter > 61*time.Second {
		t.Errorf("%+v", v.Tokens)
	}
	w.pass(61 * time.Second)
	w.must(2, "ws-1", call{})
}

// A bound that was only learned does not keep out a call for ever.
func TestAnUnboundedCallFitsAnEmptyLimit(t *testing.T) {
	w := newWorld(t)
	w.budget(budgetOf(Tokens, 200))
	unbounded := call{"demand": {"100 -1"}}
	v := w.admit("ws-1", unbounded)
	if v.Denied != nil {
		t.Fatal("refused")
	}
	if held := w.refused("ws-1", unbounded, "b"); held.Denied.Spent || held.Denied.RetryAfter <= 0 {
		t.Errorf("%+v", held.Denied)
	}
	w.settle(v, Used{Tokens: 30})
	if spent := w.refused("ws-1", call{"demand": {"100 5000"}}, "b"); !spent.Denied.Spent {
		t.Errorf("%+v", spent.Denied)
	}
	w.must(1, "ws-1", call{})
}

// Until it is known how long answers are, a call that names no maximum takes what is left of a limit, as long as there is
// room for its prompt: a small budget is not spent by one short answer.
func TestAGuessTakesWhatIsLeftOfALimit(t *testing.T) {
	for kind, prompt := range map[string]int64{Tokens: 100, Cost: 1} { // the price of a prompt is nothing
		w := newWorld(t)
		unit := int64(1)
		if kind == Cost {
			unit = int64(prices.Dollar) / 100
		}
		w.budget(budgetOf(kind, 2000*unit))
		guess := call{"demand": {"100 -1"}, "price": {"10000"}} // a cent a token
		for used := int64(0); 2000-used >= prompt; used += 300 {
			v := w.admit("ws-1", guess)
			if v.Denied != nil {
				t.Fatalf("%s: refused with %d used: %+v", kind, used, v.Denied)
			}
			if held := w.refused("ws-1", guess, "b"); held.Denied.Spent || held.Denied.RetryAfter <= 0 {
				t.Errorf("%s: %+v", kind, held.Denied)
			}
			w.settle(v, Used{Tokens: 300, Cost: prices.Amount(300 * unit)})
		}
		if spent := w.refused("ws-1", guess, "b"); !spent.Denied.Spent || spent.Denied.Needs != prompt {
			t.Errorf("%s: %+v", kind, spent.Denied)
		}
	}
}

func TestBudgetsOfCostNeedAPrice(t *testing.T) {
	w := newWorld(t)
	w.budget(budgetOf(Cost, int64(prices.Dollar)))
	if v := w.refused("ws-1", call{}, "b"); !v.Denied.UnknownPrice || v.Denied.Group != "default" {
		t.Errorf("%+v", v.Denied)
	}
	if v := w.admit("ws-1", call{"unseen": {}}); v.Undecided == nil {
		t.Errorf("a model that was not read: %+v", v)
	}
	if v := w.admit("ws-1", call{"unseen": {}, "price": {"1"}}); v.Undecided == nil {
		t.Errorf("a cheap model beside one that was not read: %+v", v)
	}
	allowing := budgetOf(Cost, int64(prices.Dollar))
	allowing.OnUnknownPrice = Allow
	w.budget(allowing)
	w.must(3, "ws-1", call{})
	v := w.admit("ws-1", call{"price": {"50000"}}) // ten tokens are half a dollar
	if v.Denied != nil {
		t.Fatalf("%+v", v.Denied)
	}
	w.settle(v, Used{Cost: prices.Dollar / 4})
	if booked := w.booked("b"); booked["default"] != int64(prices.Dollar/4) {
		t.Errorf("%v", booked)
	}
}

// A call that only others' reservations keep out waits for them.
func TestCallsWaitForWhatOthersReserved(t *testing.T) {
	w := newWorld(t)
	w.budget(budgetOf(Tokens, 110))
	first := w.admit("ws-1", call{})
	done := make(chan *Verdict)
	go func() {
		v, err := w.Admit(t.Context(), "ws-1", call{"demand": {"10 10"}}, ScopeAll, time.Hour)
		if err != nil {
			t.Error(err)
		}
		done <- v
	}()
	for range 100 { // it waits, however long
		select {
		case v := <-done:
			t.Fatalf("did not wait: %+v", v)
		default:
			runtime.Gosched()
		}
	}
	w.settle(first, Used{Tokens: 50})
	if v := <-done; v == nil || v.Denied != nil {
		t.Errorf("%+v", v)
	}
	w.settle(w.admit("ws-1", call{"demand": {"20 20"}}), Used{Tokens: 100})
	if v, err := w.Admit(t.Context(), "ws-1", call{"demand": {"5 60"}}, ScopeAll, time.Millisecond); err != nil || v.Denied == nil || !v.Denied.Spent {
		t.Errorf("%+v, %v", v, err)
	}
}

// 64 callers of a budget that fits 1000 calls, who ask again while others hold what they need:
// exactly 1000 requests pass, and of costs all but less than one reservation is booked.
func TestABudgetIsSpentExactlyByManyCallers(t *testing.T) {
	const fits = 1000
	for kind, c := range map[string]struct{ limit, reserved, used int64 }{
		Requests: {fits, 1, 1},
		Tokens:   {fits * 37, 110, 37},
		Cost:     {fits * 370_000, 1_000_000, 370_000}, // a tenth of a dollar for a million tokens
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.budget(budgetOf(kind, c.limit))
			var passed, refused atomic.Int64
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					for {
						v, err := w.Admit(t.Context(), "ws-1", call{"price": {"0.1"}}, ScopeAll, time.Second)
						if err != nil {
							t.Error(err)
							return
						}
						if v.Denied != nil && v.Denied.Spent {
							refused.Add(1)
							return
						}
						if v.Denied != nil {
							continue
						}
						for range rand.IntN(5) {
							runtime.Gosched()
						}
						if rand.IntN(8) == 0 {
							w.Release(v) // it failed before it was sent
							continue
						}
						passed.Add(1)
						if err := w.Settle(t.Context(), v, Used{Tokens: 37, Cost: 370_000}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			callers.Wait()
			booked := w.booked("b")["default"]
			if booked != passed.Load()*c.used || booked > c.limit || booked <= c.limit-c.reserved || refused.Load() != 64 {
				t.Errorf("%d booked of %d by %d calls", booked, c.limit, passed.Load())
			}
			w.restart()
			if after := w.booked("b")["default"]; after != booked {
				t.Errorf("%d booked after a restart, and %d before", after, booked)
			}
		})
	}
}

func TestRaisingABudgetReactivatesIt(t *testing.T) {
	w := newWorld(t)
	w.budget(budgetOf(Requests, 1))
	w.settle(w.admit("ws-1", call{}), Used{})
	if v := w.refused("ws-1", call{}, "b"); !v.Denied.Spent {
		t.Errorf("%+v", v.Denied)
	}
	w.budget(budgetOf(Requests, 2))
	w.must(1, "ws-1", call{})
}

func TestEntitiesAreNamedByTheirValuesAndReset(t *testing.T) {
	w := newWorld(t)
	p := budgetOf(Requests, 1)
	p.GroupBy = []string{KeyAPIKey, metadataUser}
	w.budget(p)
	for _, user := range []string{"ann", "b:o-b"} {
		w.settle(w.admit("ws-1", userOf("key", user)), Used{})
		w.refused("ws-1", userOf("key", user), "b")
	}
	if booked := w.booked("b"); len(booked) != 2 || booked["api_key:key-metadata.user:ann"] != 1 || booked["api_key:key-metadata.user:b:o-b"] != 1 {
		t.Fatalf("%v", booked)
	}
	all, err := w.Entities(t.Context(), &p)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !p.Exhausted(e) || len(e.ID) != 36 {
			t.Errorf("%+v", e)
		}
		if e.Group == "api_key:key-metadata.user:ann" {
			if err := w.ResetEntity(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.must(1, "ws-1", userOf("key", "ann"))
	w.refused("ws-1", userOf("key", "b:o-b"), "b")
}

func TestBudgetsAreResetByTheirSchedule(t *testing.T) {
	at := func(s string) time.Time {
		day, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return day
	}
	for name, c := range map[string]struct {
		schedule   Schedule
		now        string
		first, far string // the next reset, and the one after a time
		resets     int64
	}{
		"monthly":               {Schedule{PeriodicReset: "monthly"}, "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z", "2026-05-01T00:00:00Z", 3},
		"monthly, on the first": {Schedule{PeriodicReset: "monthly"}, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-05-01T00:00:00Z", 3},
		"weekly":                {Schedule{PeriodicReset: "weekly"}, "2026-04-15T12:00:00Z", "2026-04-20T00:00:00Z", "2026-04-20T00:00:00Z", 0},
		"weekly, on a Monday":   {Schedule{PeriodicReset: "weekly"}, "2026-04-06T12:00:00Z", "2026-04-13T00:00:00Z", "2026-04-20T00:00:00Z", 1},
		"every ten days":        {Schedule{PeriodicResetDays: 10}, "2026-04-01T23:59:00Z", "2026-04-11T00:00:00Z", "2026-04-21T00:00:00Z", 1},
		"never":                 {Schedule{}, "2026-04-01T00:00:00Z", "", "", 0},
	} {
		s := c.schedule
		s.Begin(at(c.now))
		shown := func(t *time.Time) string {
			if t == nil {
				return ""
			}
			return t.Format(time.RFC3339)
		}
		later := s.At(at("2026-04-17T08:00:00Z"))
		if shown(s.NextResetAt) != c.first || shown(later.NextResetAt) != c.far || later.Resets != c.resets {
			t.Errorf("%s: first %s, then %s after %d", name, shown(s.NextResetAt), shown(later.NextResetAt), later.Resets)
		}
	}
}

// However often it is asked, and stored between, a schedule is at the same.
func TestASchedulePassesThroughNoOtherResets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "now"), 0)
		var s Schedule
		if days := rapid.IntRange(-1, 365).Draw(t, "days"); days > 0 {
			s.PeriodicResetDays = days
		} else {
			s.PeriodicReset = rapid.SampledFrom([]string{"monthly", "weekly"}).Draw(t, "period")
		}
		s.Begin(now)
		once, many := s, s
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 1e16).Draw(t, "step")))
			many = many.At(now)
		}
		once = once.At(now)
		if !once.NextResetAt.Equal(*many.NextResetAt) || once.Resets != many.Resets {
			t.Fatalf("%+v and %+v", once, many)
		}
		if next := *once.NextResetAt; !next.After(now) || !next.Equal(Midnight(next)) {
			t.Fatalf("after %s, reset at %s", now, next)
		}
	})
}

// A period ends for good: the clock may step back, the process may crash.
func TestAPeriodBeginsOnce(t *testing.T) {
	w := newWorld(t)
	p := budgetOf(Requests, 2)
	p.PeriodicResetDays = 1
	p.Begin(w.clock())
	w.budget(p)
	w.settle(w.admit("ws-1", call{}), Used{})
	w.settle(w.admit("ws-1", call{}), Used{})
	w.refused("ws-1", call{}, "b")
	w.pass(24 * time.Hour)
	w.settle(w.admit("ws-1", call{}), Used{})
	w.jobs.Wait() // it is stored
	w.pass(-time.Hour)
	if booked := w.booked("b"); booked["default"] != 1 {
		t.Errorf("%v", booked)
	}
	w.settle(w.admit("ws-1", call{}), Used{})
	w.refused("ws-1", call{}, "b")
	w.restart()
	w.refused("ws-1", call{}, "b")
	stored, _ := w.Budgets.Get("b")
	if stored.Resets != 1 || stored.LastResetAt == nil {
		t.Errorf("%+v", stored.Schedule)
	}
	w.pass(25 * time.Hour)
	w.must(2, "ws-1", call{})
}

func TestConditionsExclude(t *testing.T) {
	c := call{KeyModel: {"m", "@own/m"}, KeyConfig: {"cheap"}}
	for _, x := range []struct {
		condition Condition
		want      bool
	}{
		{Condition{KeyModel, []string{"*"}, []string{"m"}}, false},
		{Condition{KeyModel, []string{"*"}, []string{"@own/*"}}, false},
		{Condition{KeyModel, []string{"*"}, []string{"other"}}, true},
		{Condition{KeyModel, []string{"m"}, []string{"*"}}, false},
		{Condition{KeyConfig, []string{"cheap"}, nil}, true},
		{Condition{KeyPrompt, []string{"*"}, nil}, false},
	} {
		if got := x.condition.holds(c); got != x.want {
			t.Errorf("%+v: %t", x.condition, got)
		}
	}
}

// The cost of policies to a call: of 0, 1, 10 and 100, of which one matches.
func BenchmarkPolicies(b *testing.B) {
	for _, kind := range []string{Requests, Tokens, Cost} {
		for _, n := range []int{0, 1, 10, 100} {
			b.Run(fmt.Sprintf("%s/policies=%d", kind, n), func(b *testing.B) {
				w := newWorld(b)
				for i := range n {
					p := budgetOf(kind, 1<<60)
					p.ID = fmt.Sprint(i)
					p.Conditions = []Condition{{KeyAPIKey, []string{"another"}, nil}}
					if i == 0 {
						p.Conditions[0].Values = []string{"key"}
					}
					w.budget(p)
				}
				price, err := prices.ParsePrice(map[string]string{"input_mtok": "1", "output_mtok": "1"})
				if err != nil {
					b.Fatal(err)
				}
				c := &keyCall{"key", estimate.Demand{Bytes: 100, Most: 10, Price: price}}
				b.ReportAllocs()
				for b.Loop() {
					v, err := w.Admit(b.Context(), "ws-1", c, ScopeAll, 0)
					if err != nil || v.Denied != nil {
						b.Fatal(v, err)
					}
					if err := w.Settle(b.Context(), v, Used{Tokens: 1, Cost: 1}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
