package admin

import (
	linked "container/list" // list is a function here
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// A throttle bounds, for each key, how many forbidden actions are looked at, which is
// what somebody makes who tries out what a key may do; and how many refusals of any
// kind are recorded, because the audit trail must not be a way to fill the disk.
//
// What it knows of a key is dropped only when that holds nobody back any more. The keys of a
// workspace beyond its share of maxThrottled are throttled together.
type throttle struct {
	now func() time.Time

	mu      sync.Mutex
	known   map[throttled]*refusals
	idle    linked.List // of *refusals; the one that was refused longest ago comes first
	keys    int
	keysOf  map[string]int // by workspace
	maximum int
}

// throttled is a key of a workspace; without a key, it is those keys that are throttled
// together.
type throttled struct{ workspace, key string }

// refusals is what is left to a key.
type refusals struct {
	of              throttled
	forbidden, rows *rate.Limiter
	last            time.Time
	idle            *linked.Element
}

const (
	refusalsPerSecond = 2
	refusalsAtOnce    = 120
	maxThrottled      = 10_000 // keys that are told apart

	// throttledFor is how long a refusal counts: until all is left again.
	throttledFor = refusalsAtOnce / refusalsPerSecond * time.Second
)

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, known: make(map[throttled]*refusals), keysOf: make(map[string]int), maximum: maxThrottled}
}

// spent reports whether a key has been forbidden too much lately.
func (t *throttle) spent(workspace, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.sweep(now)
	r := t.known[t.of(workspace, key)]
	return r != nil && r.forbidden.TokensAt(now) < 1
}

// refused counts a refusal, and reports whether it is to be recorded; last says that the
// next one of the key will not be.
func (t *throttle) refused(workspace, key string, forbidden bool) (record, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.sweep(now)
	of := t.of(workspace, key)
	r := t.known[of]
	if r == nil {
		r = t.add(of)
	}
	r.last = now
	t.idle.MoveToBack(r.idle)
	if forbidden {
		// It has its row whatever else was refused: there are as many of them as
		// the throttle lets through.
		r.forbidden.AllowN(now, 1)
		return true, false
	}
	record = r.rows.AllowN(now, 1)
	return record, record && r.rows.TokensAt(now) < 1
}

// of says by which refusals a key is throttled: its own, if it has any or there is room.
func (t *throttle) of(workspace, key string) throttled {
	own := throttled{workspace, key}
	if t.known[own] == nil && fairshare.Left(int64(t.keysOf[workspace]+1), int64(t.maximum-t.keys-1)) < 0 {
		return throttled{workspace: workspace}
	}
	return own
}

func (t *throttle) add(of throttled) *refusals {
	r := &refusals{
		of:        of,
		forbidden: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
		rows:      rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
	}
	r.idle = t.idle.PushBack(r)
	t.known[of] = r
	t.count(of, 1)
	return r
}

func (t *throttle) count(of throttled, n int) {
	if of.key == "" {
		return // as many as there are workspaces at the most
	}
	t.keys += n
	if t.keysOf[of.workspace] += n; t.keysOf[of.workspace] == 0 {
		delete(t.keysOf, of.workspace)
	}
}

// sweep drops what counts no more.
func (t *throttle) sweep(now time.Time) {
	for e := t.idle.Front(); e != nil; e = t.idle.Front() {
		r := e.Value.(*refusals)
		if now.Sub(r.last) < throttledFor {
			return
		}
		t.idle.Remove(e)
		delete(t.known, r.of)
		t.count(r.of, -1)
	}
}
