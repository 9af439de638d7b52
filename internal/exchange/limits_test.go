package exchange

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// A counting limiter notes what becomes of its holds.
type counting struct {
	asked  int
	events []string
}

type counted struct {
	to *counting
	n  int
}

func (c *counting) Admit(_ context.Context, _ *Call, target *Attempt) (Hold, *Error) {
	c.asked++
	what := "call"
	if target != nil {
		what = target.Target
	}
	c.events = append(c.events, "admit "+what)
	return &counted{c, c.asked}, nil
}

func (h *counted) Header() []HeaderField { return nil }

func (h *counted) Settle(sent []*Attempt) {
	h.to.events = append(h.to.events, fmt.Sprintf("settle %d of %d", h.n, len(sent)))
}

func (h *counted) Release() { h.to.events = append(h.to.events, fmt.Sprint("release ", h.n)) }

// What was counted for a target that nothing was sent to is given back, and nothing is
// ended twice.
func TestHoldsAreSettledOrReleased(t *testing.T) {
	t.Parallel()
	send := func(x *Exchange) { x.Begin(0) }
	nothing := func(*Exchange) {}
	for name, c := range map[string]struct {
		targets []func(*Exchange)
		want    []string
	}{
		"nothing is sent":     {[]func(*Exchange){nothing}, []string{"admit call", "admit target", "release 2", "release 1"}},
		"one target":          {[]func(*Exchange){send}, []string{"admit call", "admit target", "settle 2 of 1", "settle 1 of 1"}},
		"the second refuses":  {[]func(*Exchange){send, nothing}, []string{"admit call", "admit target", "settle 2 of 1", "admit target", "release 3", "settle 1 of 1"}},
		"the second is tried": {[]func(*Exchange){nothing, send}, []string{"admit call", "admit target", "release 2", "admit target", "settle 3 of 1", "settle 1 of 1"}},
	} {
		limiter := new(counting)
		x := &Exchange{Call: &Call{Config: new(routing.Config)}}
		x.Limit(limiter)
		x.chosen = x.NewAttempt("target", new(credentials.Route), nil)
		for _, target := range c.targets {
			if err := x.AdmitCall(t.Context()); err != nil {
				t.Fatal(err)
			}
			func() {
				defer x.LeaveTarget()
				if err := x.AdmitTarget(t.Context()); err != nil {
					t.Fatal(err)
				}
				target(x)
			}()
		}
		for range 2 {
			x.LeaveTarget()
			x.endHolds(&x.callHolds, 0)
		}
		if !slices.Equal(limiter.events, c.want) {
			t.Errorf("%s: %q, want %q", name, limiter.events, c.want)
		}
	}
}
