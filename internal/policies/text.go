package policies

import (
	"context"
	"runtime"
	"time"

	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
)

// A TextCounter is a call at its target that can tell how many tokens the text of its prompt has at most, by counting
// them, which takes some 0.2 ms a KiB; counted: it could.
type TextCounter interface {
	TextTokens() (n int64, counted bool)
}

// What is reserved for text is a token for each byte, which no text exceeds. That is four times what most has, so that
// the tokens are counted of text that would take much of a limit, or that a limit has no room for.
const (
	leastCounted = 256 // bytes of text that is counted before it is refused
	largeShare   = 16  // of a limit
	mostBytes    = 16  // that a token has, as a rule; text that has no room then is not counted

	maxCountWait = time.Second // of other texts of the workspace, or of all
)

func newTextCounters() *fairshare.Semaphore { return fairshare.NewSemaphore(runtime.GOMAXPROCS(0) / 2) }

// largeText reports whether the text of a call would take so much of a limit that its tokens are counted first.
func (v *Verdict) largeText(c *ledger.Claim, r *Rule) bool {
	if v.text == nil || v.demand.Bytes < leastCounted {
		return false
	}
	if r.Type == Cost {
		return c.Units > c.Limit/largeShare
	}
	return v.demand.Bytes > c.Limit/largeShare
}

// worthCounting reports whether a limit that has refused a call may have room for it once the tokens of its text are counted.
func (v *Verdict) worthCounting(d *Denial) bool {
	return v.text != nil && d.Type != Requests && d.Needs > 0 && d.Needs/mostBytes <= d.Remaining+d.Held
}

// countText returns what a call asks for, with the tokens of its text. A workspace's texts are counted within its share of the processors; a call whose
// turn does not come has a token for each byte.
func (l *Limits) countText(ctx context.Context, v *Verdict) *estimate.Demand {
	d := *v.demand
	d.TextTokens = d.Bytes
	turn, cancel := context.WithTimeout(ctx, maxCountWait)
	defer cancel()
	if release, err := l.texts.Acquire(turn, v.workspace); err == nil {
		defer release()
		if n, counted := v.text.TextTokens(); counted {
			d.TextTokens = max(n, 1)
		}
	}
	return &d
}
