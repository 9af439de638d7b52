package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Limits that nothing enforces are not left to be found out.
func TestCallsThatNothingLimitsAreWarnedOf(t *testing.T) {
	const warning = "limits and budgets have no effect on calls that gw_ratelimit does not see"
	for name, c := range map[string]struct {
		site        string
		start, call bool // when it is logged
	}{
		"as it should be":       {"gw_admin\ngw_ratelimit\ngw_inference", false, false},
		"without gw_ratelimit":  {"gw_admin\ngw_inference", true, true},
		"after gw_inference":    {"route {\ngw_admin\ngw_inference\ngw_ratelimit\n}", false, true},
		"for other paths alone": {"gw_admin\ngw_ratelimit /elsewhere/*\ngw_inference", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			up := gatewaytest.NewUpstream(t, nil)
			g := gatewaytest.New(t, up.Provider("file"))
			g.Site = c.site
			g.Load()
			if got := strings.Contains(g.Logs(), warning); got != c.start {
				t.Errorf("logged at the start: %v", got)
			}
			key, _ := g.Key("k")
			for range 2 {
				if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file"); a.Status != 200 {
					t.Fatal(a.Status, a.Body)
				}
			}
			want := 0
			if c.call {
				want = 1
			}
			if got := strings.Count(g.Logs(), warning); got != want {
				t.Errorf("logged %d times, want %d", got, want)
			}
		})
	}
}
