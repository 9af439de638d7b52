package handlers_test

import (
	"fmt"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
)

// madeUp is a call of one key with a value that it makes up.
type madeUp string

func (m madeUp) Attribute(key string) (value, alias string, ok bool) {
	switch key {
	case policies.KeyAPIKey:
		return "key", "", true
	case policies.MetadataPrefix + "user":
		return string(m), "", true
	}
	return "", "", false
}

func (madeUp) Demand(*estimate.Estimator) estimate.Demand { return estimate.Demand{} }

func (madeUp) PromptByTarget() bool               { return false }
func (madeUp) Reads() bool                        { return false }
func (madeUp) TokenLimits() *policies.TokenLimits { return nil }

func (madeUp) ModelUnread() (alias string, unseen bool) { return "", false }

// The metrics say how many values have counters of their own, and how many calls were counted
// in one that values share.
func TestGroupsOfRateLimitsAreMetered(t *testing.T) {
	l := newLab(t, "", "", withAdminEndpoint)
	l.on("ok", respond(200, gatewaytest.Completion))
	const groups, overflows = "caddy_gw_rate_limit_groups", "caddy_gw_rate_limit_overflow_total"
	id := l.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"group_by": []any{map[string]any{"key": "metadata.user"}}, "type": "requests", "unit": "rpd", "value": 10,
	}).Get("id").Str
	call := func(user string) {
		t.Helper()
		if a := l.chat(gatewaytest.Chat, `{"provider":"@bad"}`, cue+"ok", `x-gw-metadata: {"user":"`+user+`"}`); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	mustCount(t, l.Gateway, func() { call("a"); call("b"); call("a") }, map[string]string{groups: "2", overflows: "0"})

	module, err := caddy.ActiveContext().App("gw")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := module.(*app.App).Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustCount(t, l.Gateway, func() {
		for i := range policies.MaxGroupsOfCaller + 3 {
			if v, err := rt.Limits.Admit(t.Context(), "workspace", madeUp(fmt.Sprint(i)), policies.ScopeAll, 0); err != nil || v.Denied != nil {
				t.Fatal(v, err)
			}
		}
	}, map[string]string{groups: fmt.Sprint(policies.MaxGroupsOfCaller + 2), overflows: "3"})

	mustCount(t, l.Gateway, func() { l.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil) }, map[string]string{groups: "0", overflows: "0"})
}
