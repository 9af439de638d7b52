package app_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A machine has a wall clock that can be set, and two that cannot: the monotonic one, and the time since its boot.
type machine struct {
	begun time.Time    // with a monotonic reading
	ahead atomic.Int64 // of the wall clock
}

// noon is far from the end of a day, a week and a month, when budgets start over by the calendar.
var noon = time.Date(2026, time.March, 11, 12, 0, 0, 0, time.UTC)

func (m *machine) elapsed() time.Duration { return time.Since(m.begun) }
func (m *machine) wall() time.Time {
	return noon.Add(m.elapsed() + time.Duration(m.ahead.Load())).In(time.Local)
}

// Whatever the wall clock does, within the process and while it is stopped, a rate limit and budgets admit nothing
// twice, through all of the gateway.
func TestStepsOfTheClockAdmitNothing(t *testing.T) {
	for name, boot := range map[string]string{"the boot is known": "boot", "the boot is unknown": ""} {
		t.Run(name, func(t *testing.T) {
			m := &machine{begun: time.Now()}
			restore := app.SetClocks(m.wall, m.elapsed, func() (string, time.Duration) {
				if boot == "" {
					return "", 0
				}
				return boot, time.Hour + m.elapsed()
			})
			t.Cleanup(restore)
			up := gatewaytest.NewUpstream(t, nil)
			g := gatewaytest.Start(t, "price file m {\ninput_mtok 1000\noutput_mtok 1000\n}\n"+up.Provider("file"))
			const (
				most    = 6
				dollars = 0.1 // of which gatewaytest.Completion costs half a cent
			)
			type limited struct {
				key      string
				refusal  int
				most     int
				admitted int
			}
			limits := make(map[string]*limited)
			for name, policy := range map[string]map[string]any{
				"an hour":          {"path": "rate-limits", "type": "requests", "unit": "rph", "value": most},
				"a day":            {"path": "rate-limits", "type": "requests", "unit": "rpd", "value": most},
				"a week":           {"path": "rate-limits", "type": "requests", "unit": "rpw", "value": most},
				"a budget":         {"path": "usage-limits", "type": "requests", "credit_limit": most},
				"a monthly budget": {"path": "usage-limits", "type": "requests", "credit_limit": most, "periodic_reset": "monthly"},
				"a weekly budget":  {"path": "usage-limits", "type": "requests", "credit_limit": most, "periodic_reset": "weekly"},
				"dollars":          {"path": "usage-limits", "type": "cost", "credit_limit": dollars, "periodic_reset": "weekly"},
			} {
				key, id := g.Key(name)
				l := &limited{key: key, refusal: http.StatusTooManyRequests, most: most}
				if policy["type"] == "cost" {
					l.most = dollars / 0.005
				}
				if policy["path"] == "usage-limits" {
					l.refusal = http.StatusPreconditionFailed
				}
				path := "/v1/policies/" + policy["path"].(string)
				delete(policy, "path")
				policy["conditions"] = []any{map[string]any{"key": "api_key", "value": id}}
				g.Admin("POST", path, policy)
				limits[name] = l
			}
			// call makes calls until each limit refuses one, or as many as given.
			call := func(when string, atMost int) {
				t.Helper()
				for name, l := range limits {
					for range atMost {
						a := g.Do("POST", "/v1/chat/completions", `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"a"}]}`, "x-gw-api-key: "+l.key, "x-gw-provider: file")
						if a.Status == http.StatusOK {
							l.admitted++
							continue
						}
						if a.Status != l.refusal {
							t.Errorf("%s, %s: %d %s", name, when, a.Status, a.Body)
						}
						break
					}
					if l.admitted > l.most {
						t.Errorf("%s: %d calls of %d were admitted %s", name, l.admitted, l.most, when)
					}
				}
			}
			call("at first", 2)
			for n, step := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour, -time.Hour, time.Hour, -24 * time.Hour, 24 * time.Hour} {
				restarts := n%2 == 1
				when := fmt.Sprintf("after a step of %v (a restart: %v)", step, restarts)
				for range 2 { // each step with a restart, and without
					if restarts {
						g.Stop()
					}
					m.ahead.Add(int64(step))
					if restarts {
						g.Load()
					}
					call(when, 1)
					m.ahead.Add(-int64(step))
					call(when+" and back", 1)
					restarts = !restarts
				}
			}
			call("in the end", most)
			for name, l := range limits {
				if l.admitted < most { // of dollars, the last calls are refused what they reserve
					t.Errorf("%s: only %d of %d calls were admitted", name, l.admitted, l.most)
				}
			}
		})
	}
}
