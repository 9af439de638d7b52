package policies

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// A tokenCall is a call with a JSON Web Token.
type tokenCall struct {
	call
	limits *TokenLimits
}

func (c tokenCall) TokenLimits() *TokenLimits { return c.limits }

// with returns a call with a token that is valid for an hour.
func (w *world) with(id, usage, rates string) tokenCall {
	w.t.Helper()
	limits, err := w.OfToken(&Token{
		ID: id, OrganisationID: "org", Issued: w.clock(), Expires: w.clock().Add(time.Hour), UsageLimits: []byte(usage), RateLimits: []byte(rates),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return tokenCall{call{KeyAPIKey: {"jwt/ci"}}, limits}
}

func (w *world) refusedByToken(c tokenCall) {
	w.t.Helper()
	if v := w.admit("ws-1", c); v.Denied == nil || v.Denied.Carrier() != KeyToken {
		w.t.Errorf("%+v", v.Denied)
	}
}

// The limits of a token count the calls that are made with it, in addition to all others and through restarts, and not those
// with another token of the same caller.
func TestLimitsOfTokensCountByToken(t *testing.T) {
	const budget, rates = `[{"id":"x","type":"requests","credit_limit":3,"status":"active"}]`, `[{"type":"requests","unit":"rpm","value":2}]`
	w := newWorld(t)
	first, second := w.with("a", budget, rates), w.with("b", budget, rates)
	for _, c := range []tokenCall{first, second} {
		w.must(2, "ws-1", c)
		w.refusedByToken(c)
	}
	w.restart()
	first = w.with("a", budget, rates) // as it is read again
	w.refusedByToken(first)
	w.pass(62 * time.Second)
	w.settle(w.admit("ws-1", first), Used{})
	if v := w.admit("ws-1", first); v.Denied == nil || !v.Denied.Spent || v.Denied.Rule.Limit != 3 {
		t.Errorf("%+v", v.Denied)
	}
	w.must(5, "ws-1", w.with("a", "", ""))
}

func TestLimitsOfTokensAreValidated(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ usage, rates, field string }{
		{"", "", ""},
		{`[]`, `[]`, ""},
		{`{"credit_limit":1}`, "", ""},
		{`[{"credit_limit":1.5,"alert_threshold":1,"periodic_reset":"weekly","next_usage_reset_at":"2030-01-01T12:00:00Z"}]`, `[{"type":"tokens","unit":"rpd","value":0},{"type":"requests","unit":"rps","value":1}]`, ""},
		{`{"credit_limit":1,"on_unknown_price":"allow","alert_threshold":null}`, "", ""},
		{`{}`, "", "usage_limits.credit_limit"},
		{`{"credit_limit":1,"on_unknown_price":"guess"}`, "", "usage_limits.on_unknown_price"},
		{`{"credit_limit":0.5}`, "", "usage_limits.credit_limit"},
		{`{"credit_limit":"1"}`, "", "usage_limits"},
		{`{"credit_limit":1.5,"type":"tokens"}`, "", "usage_limits.credit_limit"},
		{`{"credit_limit":1,"type":"calls"}`, "", "usage_limits.type"},
		{`{"credit_limit":1,"alert_threshold":1}`, "", "usage_limits.alert_threshold"},
		{`{"credit_limit":1,"periodic_reset":"daily"}`, "", "usage_limits.periodic_reset"},
		{`{"credit_limit":1,"periodic_reset_days":-1}`, "", "usage_limits.periodic_reset_days"},
		{`{"credit_limit":1,"next_usage_reset_at":"2030-01-01T00:00:00Z"}`, "", "usage_limits.next_usage_reset_at"},
		{`[{"credit_limit":1},{"credit_limit":1}]`, "", "usage_limits"},
		{`"none"`, "", "usage_limits"},
		{"", `{"type":"requests"}`, "rate_limits"},
		{"", `[{"type":"requests","unit":"rpm"}]`, "rate_limits[0].value"},
		{"", `[{"type":"requests","unit":"rpm","value":1.5}]`, "rate_limits"},
		{"", `[{"type":"cost","unit":"rpm","value":1}]`, "rate_limits[0].type"},
		{"", `[{"type":"requests","unit":"rpy","value":1}]`, "rate_limits[0].unit"},
		{"", `[{"type":"requests","unit":"rpm","value":1},{"type":"requests","unit":"rpd","value":1}]`, "rate_limits[1].type"},
	} {
		_, err := w.OfToken(&Token{ID: "x", Expires: w.clock(), UsageLimits: []byte(c.usage), RateLimits: []byte(c.rates)})
		var fault *FieldError
		if errors.As(err, &fault); (err != nil) != (c.field != "") || err != nil && (fault == nil || fault.Field != c.field) {
			t.Errorf("%s %s: got %v, want it at %q", c.usage, c.rates, err, c.field)
		}
	}
}

// The periods of a token's budget are the same however often it is read.
func TestABudgetOfATokenIsReset(t *testing.T) {
	const budget = `{"type":"requests","credit_limit":2,"periodic_reset_days":1}`
	w := newWorld(t)
	token := Token{ID: "a", Issued: w.clock(), Expires: w.clock().Add(72 * time.Hour), UsageLimits: []byte(budget)}
	read := func() tokenCall {
		limits, err := w.OfToken(&token)
		if err != nil {
			t.Fatal(err)
		}
		return tokenCall{limits: limits}
	}
	c := read()
	w.must(2, "ws-1", c)
	w.refusedByToken(c)
	w.pass(24 * time.Hour)
	w.must(1, "ws-1", c)
	w.jobs.Wait() // closing would leave what is forgotten to the end of the token
	w.restart()
	c = read()
	w.must(1, "ws-1", c)
	w.refusedByToken(c)
	w.jobs.Wait()
	counters := 0
	if err := w.ledger.Counts(t.Context(), KeyToken, func(ledger.Count) { counters++ }); err != nil || counters != 1 {
		t.Errorf("%d counters, %v", counters, err)
	}
}

// One workspace's tokens cannot fill memory: another can still use some, and they make room when they rest.
func TestTokensInUseAreBounded(t *testing.T) {
	w := newWorld(t)
	w.tokens.max = 100
	const rates = `[{"type":"requests","unit":"rpm","value":1}]`
	admitted := 0
	for i := range 200 {
		switch v, err := w.Admit(t.Context(), "greedy", w.with(fmt.Sprint(i), "", rates), ScopeAll, 0); {
		case errors.Is(err, errTooManyTokens):
		case err != nil || v.Denied != nil:
			t.Fatal(v, err)
		default:
			admitted++
		}
	}
	if admitted != 75 {
		t.Errorf("%d tokens of a workspace, want three quarters of a hundred", admitted)
	}
	w.must(1, "ws-1", w.with("other", "", rates))
	w.pass(20 * time.Minute)
	w.must(1, "greedy", w.with("again", "", rates))
	if n := len(w.tokens.of); n != 1 || w.tokens.count.n != 1 || len(w.tokens.dues) != 1 {
		t.Errorf("%d tokens", n)
	}
}

// What tokens used is forgotten after they have expired.
func TestExpiredTokensAreForgotten(t *testing.T) {
	w := newWorld(t)
	const budget = `{"type":"requests","credit_limit":1}`
	w.must(1, "ws-1", w.with("a", budget, ""))
	counters := func() (n int) {
		w.jobs.Wait()
		if err := w.ledger.Counts(t.Context(), KeyToken, func(ledger.Count) { n++ }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.pass(25 * time.Hour) // issuers' clocks may be late
	w.must(1, "ws-1", w.with("b", budget, ""))
	if n := counters(); n != 2 {
		t.Errorf("%d counters after a day, want 2", n)
	}
	w.pass(24 * time.Hour)
	w.with("c", budget, "")
	if n := counters(); n != 1 {
		t.Errorf("%d counters after two days, want 1", n)
	}
	w.pass(24 * time.Hour)
	w.restart()
	if n := counters(); n != 0 {
		t.Errorf("%d counters after a restart", n)
	}
}
