package policies

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// A call that a rate limit refuses is admitted after the time in its answer, to whole seconds, if nobody else calls, however many
// policies count it, whatever was used, and whatever is still under way.
func TestACallIsAdmittedAfterItsRetryAfter(t *testing.T) {
	w := newWorld(t)
	world := 0
	rapid.Check(t, func(r *rapid.T) {
		world++
		workspace := fmt.Sprint("ws-", world)
		for i := range rapid.IntRange(1, 4).Draw(r, "policies") {
			kind := rapid.SampledFrom([]string{Requests, Tokens}).Draw(r, "type")
			value := rapid.Int64Range(1, 12).Draw(r, "value")
			if kind == Tokens {
				value = rapid.Int64Range(60, 1000).Draw(r, "tokens")
			}
			p := RateLimit{Policy: Policy{ID: fmt.Sprint("p", world, "-", i), WorkspaceID: workspace, Type: kind}, Unit: rapid.SampledFrom(Units).Draw(r, "unit"), Value: value}
			if rapid.Bool().Draw(r, "grouped") {
				p.GroupBy = []string{KeyAPIKey}
			}
			w.put(p)
		}
		ask := func() call {
			return call{KeyAPIKey: {rapid.SampledFrom([]string{"a", "b"}).Draw(r, "key")}, "demand": {fmt.Sprint(rapid.IntRange(1, 30).Draw(r, "bytes"), " ", rapid.IntRange(1, 30).Draw(r, "most"))}}
		}
		refused := 0
		for range rapid.IntRange(1, 60).Draw(r, "calls") {
			w.pass(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(r, "pause")))
			c := ask()
			v := w.admit(workspace, c)
			if v.Denied != nil {
				refused++
				after := v.Denied.RetryAfter
				if after <= 0 {
					r.Fatalf("refused by %s, again in %v", v.Denied.ID, after)
				}
				w.pass((after + time.Second - 1) / time.Second * time.Second)
				if v = w.admit(workspace, c); v.Denied != nil {
					r.Fatalf("still refused by %s (%s %s) after %v, again in %v", v.Denied.ID, v.Denied.Unit, v.Denied.Type, after, v.Denied.RetryAfter)
				}
			}
			switch rapid.IntRange(0, 3).Draw(r, "end") {
			case 0: // it goes on
			case 1:
				w.Release(v)
			default:
				w.settle(v, Used{Tokens: rapid.Int64Range(0, 50).Draw(r, "used")})
			}
		}
	})
}

// What a caller is shown is the policy with the least left, of requests and of tokens, whichever kind of policy
// it is.
func TestTheTightestPolicyIsShown(t *testing.T) {
	w := newWorld(t)
	world := 0
	rapid.Check(t, func(r *rapid.T) {
		world++
		workspace := fmt.Sprint("ws-", world)
		type limit struct {
			kind  string
			value int64
		}
		var limits []limit
		for i := range rapid.IntRange(1, 5).Draw(r, "policies") {
			l := limit{rapid.SampledFrom([]string{Requests, Tokens}).Draw(r, "type"), rapid.Int64Range(1_000, 100_000).Draw(r, "value")}
			limits = append(limits, l)
			base := Policy{ID: fmt.Sprint("p", world, "-", i), WorkspaceID: workspace, Type: l.kind}
			if rapid.Bool().Draw(r, "budget") {
				w.budget(UsageLimit{Policy: base, Limit: l.value})
			} else {
				w.put(RateLimit{Policy: base, Unit: "rpm", Value: l.value})
			}
		}
		used := map[string]int64{}
		for range rapid.IntRange(1, 5).Draw(r, "calls") {
			v := w.admit(workspace, call{}) // reserves 110 tokens
			if v.Denied != nil {
				r.Fatalf("refused by %s", v.Denied.ID)
			}
			for kind, c := range map[string]struct {
				state *ledger.State
				asks  int64
			}{Requests: {v.Requests, 1}, Tokens: {v.Tokens, 110}} {
				least := int64(-1)
				for _, l := range limits {
					if l.kind == kind && (least < 0 || l.value < least) {
						least = l.value
					}
				}
				if (c.state != nil) != (least >= 0) {
					r.Fatalf("%s: %+v", kind, c.state)
				}
				if c.state != nil && (c.state.Limit != least || c.state.Remaining != least-used[kind]-c.asks) {
					r.Errorf("%s: %+v, want %d of %d", kind, c.state, least-used[kind]-c.asks, least)
				}
			}
			tokens := rapid.Int64Range(0, 110).Draw(r, "used")
			w.settle(v, Used{Tokens: tokens})
			used[Requests]++
			used[Tokens] += tokens
		}
	})
}

// A budget is reset by its schedule, and not when what it counts would have left a window.
func TestABudgetSaysWhenItIsReset(t *testing.T) {
	w := newWorld(t)
	b := budgetOf(Requests, 3)
	w.budget(b)
	if v := w.admit("ws-1", call{}); v.Requests.Reset != ledger.Never {
		t.Errorf("%v", v.Requests.Reset)
	}
	b.PeriodicResetDays = 1
	b.Begin(w.clock())
	w.budget(b)
	w.pass(6 * time.Hour)
	if v := w.admit("ws-1", call{}); v.Requests.Reset != 18*time.Hour {
		t.Errorf("%v", v.Requests.Reset)
	}
}
