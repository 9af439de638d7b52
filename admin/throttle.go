package admin

import (
	linked "container/list" // list is a function in this package
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// A throttle limits, for each key, the number of forbidden requests that are processed,
// because many of them are an attempt to find out what a key may do; and the number of
// refusals of any kind that are recorded, so that the audit trail cannot be used to fill
// the disk.
//
// The state of a key is only dropped when it no longer has any effect. The keys of a
// workspace that exceed its share of maxThrottled are throttled together.
type throttle struct {
	now func() time.Time

	mu      sync.Mutex
	known   map[throttled]*refusals
	idle    linked.List // of *refusals; the least recently refused first
	keys    int
	keysOf  map[string]int // by workspace
	maximum int
}

// throttled identifies a key of a workspace or, with an empty key, all keys of the
// workspace that are throttled together.
type throttled struct{ workspace, key string }

// refusals is the state of a key.
type refusals struct {
	of              throttled
	forbidden, rows *rate.Limiter
	last            time.Time
	idle            *linked.Element
}

const (
	refusalsPerSecond = 2
	refusalsAtOnce    = 120
	maxThrottled      = 10_000 // keys with a state of their own

	// throttledFor is how long a refusal has an effect: until the limits are back at their
	// maximum.
	throttledFor = refusalsAtOnce / refusalsPerSecond * time.Second
)

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, known: make(map[throttled]*refusals), keysOf: make(map[string]int), maximum: maxThrottled}
}

// spent reports whether a key has recently exceeded its limit of forbidden requests.
func (t *throttle) spent(workspace, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.sweep(now)
	r := t.known[t.of(workspace, key)]
	return r != nil && r.forbidden.TokensAt(now) < 1
}

// refused counts a refusal, and reports whether it should be recorded. last means that
// the key's next refusal will not be.
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
		// Forbidden requests are always recorded, because their number is limited by the
		// throttle itself.
		r.forbidden.AllowN(now, 1)
		return true, false
	}
	record = r.rows.AllowN(now, 1)
	return record, record && r.rows.TokensAt(now) < 1
}

// of returns the state that applies to a key: its own, if it has one or there is room
// for one, or that of its workspace.
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
		return // there are at most as many of these as workspaces
	}
	t.keys += n
	if t.keysOf[of.workspace] += n; t.keysOf[of.workspace] == 0 {
		delete(t.keysOf, of.workspace)
	}
}

// sweep drops states that no longer have an effect.
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
