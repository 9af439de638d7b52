package admin

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A throttle bounds, for each key, how many forbidden actions are looked at, which is
// what somebody makes who tries out what a key may do; and how many refusals of any
// kind are recorded, because the audit trail must not be a way to fill the disk.
type throttle struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[string]*refusals
}

// refusals is what is left to a key.
type refusals struct{ forbidden, rows *rate.Limiter }

const (
	refusalsPerSecond = 2
	refusalsAtOnce    = 120
	maxThrottled      = 10_000 // keys; beyond that the oldest knowledge is forgotten
)

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, keys: make(map[string]*refusals)}
}

// spent reports whether a key has been forbidden too much lately.
func (t *throttle) spent(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.keys[key]
	return r != nil && r.forbidden.TokensAt(t.now()) < 1
}

// refused counts a refusal, and reports whether it is to be recorded; last says that the
// next one of the key will not be.
func (t *throttle) refused(key string, forbidden bool) (record, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.keys[key]
	if r == nil {
		if len(t.keys) >= maxThrottled {
			clear(t.keys)
		}
		r = &refusals{
			forbidden: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
			rows:      rate.NewLimiter(refusalsPerSecond, refusalsAtOnce),
		}
		t.keys[key] = r
	}
	now := t.now()
	if forbidden {
		// It has its row whatever else was refused: there are as many of them as
		// the throttle lets through.
		r.forbidden.AllowN(now, 1)
		return true, false
	}
	record = r.rows.AllowN(now, 1)
	return record, record && r.rows.TokensAt(now) < 1
}
