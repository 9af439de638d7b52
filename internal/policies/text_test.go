package policies

import (
	"fmt"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// A texted call has text of which the tokens can be counted.
type texted struct {
	call
	tokens int64
	times  *atomic.Int64 // that they were
}

func (c texted) TextTokens() (int64, bool) {
	c.times.Add(1)
	return c.tokens, c.tokens > 0
}

func (w *world) texted(workspace, demand string, tokens int64) (*Verdict, int64) {
	w.t.Helper()
	c := texted{call{"demand": {demand}}, tokens, new(atomic.Int64)}
	v, err := w.Admit(w.t.Context(), workspace, c, ScopeAll, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return v, c.times.Load()
}

// A byte of text is a token, unless that is much of a limit, or there is no room for it.
func TestTextIsCountedWhereALimitIsTight(t *testing.T) {
	for name, c := range map[string]struct {
		limit, booked int64
		demand        string // bytes, and tokens of the answer
		tokens        int64
		counted       int64 // times
		reserved      int64 // -1: it is refused
		spent         bool
	}{
		"room for each byte":               {100_000, 0, "4000 100", 1000, 0, 4100, false},
		"much of the limit":                {10_000, 0, "4000 100", 1000, 1, 1100, false},
		"more than the limit":              {3000, 0, "4000 100", 1000, 1, 1100, false},
		"no room for each byte":            {100_000, 98_000, "4000 100", 1000, 1, 1100, false},
		"no room":                          {100_000, 99_000, "4000 100", 1000, 1, -1, true},
		"a short text":                     {1000, 0, "200 10", 50, 0, 210, false},
		"a short text without room":        {100, 0, "200 10", 50, 1, 60, false},
		"no room, whatever its tokens are": {100_000, 99_900, "4000 100", 1, 0, -1, true},
		"nothing left":                     {100_000, 100_000, "4000 100", 1, 0, -1, true},
		"each byte is a token":             {100_000, 96_500, "4000 100", 4000, 1, -1, true},
		"text that cannot be counted":      {10_000, 0, "4000 100", 0, 1, 4100, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.budget(budgetOf(Tokens, c.limit))
			if c.booked > 0 {
				w.settle(w.admit("ws-1", call{"demand": {"1 1"}}), Used{Tokens: c.booked})
			}
			v, counted := w.texted("ws-1", c.demand, c.tokens)
			switch {
			case counted != c.counted:
				t.Errorf("counted %d times", counted)
			case (v.Denied != nil) != (c.reserved < 0):
				t.Errorf("refused: %v", v.Denied)
			case v.Denied != nil && v.Denied.Spent != c.spent:
				t.Errorf("%+v", v.Denied)
			}
			if most := v.Most(); c.reserved >= 0 && most.Prompt+most.Completion != c.reserved {
				t.Errorf("%d tokens reserved", most.Prompt+most.Completion)
			}
		})
	}
}

// Whatever earlier calls had for a byte, calls that use as much as their text and their maximum allow overspend nothing.
func TestTextOverspendsNoBudget(t *testing.T) {
	w, draws := newWorld(t), 0
	rapid.Check(t, func(r *rapid.T) {
		draws++
		b := budgetOf(Tokens, rapid.Int64Range(500, 200_000).Draw(r, "limit"))
		b.ID, b.WorkspaceID = fmt.Sprint("b-", draws), fmt.Sprint("ws-", draws)
		w.budget(b)
		type open struct {
			v    *Verdict
			used int64
		}
		var under []open
		var booked int64
		end := func(i int) {
			w.settle(under[i].v, Used{Tokens: under[i].used})
			booked += under[i].used
			under = append(under[:i], under[i+1:]...)
		}
		for range rapid.IntRange(1, 60).Draw(r, "calls") {
			if len(under) > 0 && rapid.Bool().Draw(r, "one ends") {
				end(rapid.IntRange(0, len(under)-1).Draw(r, "which"))
				continue
			}
			bytes := rapid.Int64Range(1, 20_000).Draw(r, "bytes")
			tokens, most := rapid.Int64Range(1, bytes).Draw(r, "tokens"), rapid.Int64Range(0, 1000).Draw(r, "most")
			v, _ := w.texted(b.WorkspaceID, fmt.Sprint(bytes, " ", most), tokens)
			if v.Denied != nil {
				w.Release(v)
				continue
			}
			under = append(under, open{v, rapid.Int64Range(0, tokens+most).Draw(r, "used")})
			if rapid.Bool().Draw(r, "as much as it may") {
				under[len(under)-1].used = tokens + most
			}
		}
		for len(under) > 0 {
			end(0)
		}
		if all := w.booked(b.ID)["default"]; booked > b.Limit || all != booked {
			r.Fatalf("%d of %d, %d are booked", booked, b.Limit, all)
		}
	})
}
