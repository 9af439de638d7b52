package inference

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
)

// A roomyLimiter has room for so many tokens.
type roomyLimiter struct {
	*meteringLimiter
	room int64
}

func (l roomyLimiter) Admit(ctx context.Context, call *exchange.Call, target *exchange.Attempt) (exchange.Hold, *exchange.Error) {
	if target == nil {
		return nil, nil
	}
	h, err := l.meteringLimiter.Admit(ctx, call, target)
	return roomyHold{h, l.room}, err
}

type roomyHold struct {
	exchange.Hold
	room int64
}

func (h roomyHold) Grow(_ context.Context, tokens int64, _ prices.Amount) *exchange.Error {
	if tokens > h.room {
		return exchange.RateLimited("no room", 0)
	}
	return nil
}

// An attempt that used something, and is made again, takes room for both. One that used nothing does not.
func TestRetriesAreMadeWhileTheirLimitsHaveRoom(t *testing.T) {
	const config = `{"provider":"@one","retry":{"attempts":5,"on_status_codes":[446,500]}}`
	body := strings.Replace(plainChat, "}]", `}],"max_tokens":900`, 1)
	for name, c := range map[string]struct {
		status int
		room   int64
		sent   int
	}{
		"answers that are refused":    {200, 4 * 1100, 4},
		"room for one":                {200, 1100, 1},
		"room for all":                {200, 10_000, 6},
		"answers that were not given": {500, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			counting := newCounter(t)
			b := counting.bench
			b.answers["one"] = func() *http.Response { return answering(c.status, "application/json", answerOf("one")) }
			b.hooks = []Hook{&scripted{recordedHold: &recordedHold{bench: b}, complete: func(*Answer) *exchange.Error {
				return &exchange.Error{Status: exchange.StatusHooksDenied, Message: "denied"}
			}}}
			b.conclude = nil
			b.request(t, http.MethodPost, "/chat/completions", body, roomyLimiter{&counting.meteringLimiter, c.room}, "X-Gw-Config", config)
			if n := len(b.bodies); n != c.sent {
				t.Errorf("%d attempts, want %d", n, c.sent)
			}
		})
	}
}
