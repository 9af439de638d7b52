package admin

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A throttle bounds how many refused actions of a key are looked at and recorded:
// each of them is a row in the audit trail, which must not be a way to fill the disk.
type throttle struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[string]*rate.Limiter
}

const (
	refusalsPerSecond = 2
	refusalsAtOnce    = 120
	maxThrottled      = 10_000 // keys; beyond that the oldest knowledge is forgotten
)

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, keys: make(map[string]*rate.Limiter)}
}

// spent reports whether a key has been refused too often lately.
func (t *throttle) spent(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.keys[key]
	return l != nil && l.TokensAt(t.now()) < 1
}

// refused counts a refusal.
func (t *throttle) refused(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.keys[key]
	if l == nil {
		if len(t.keys) >= maxThrottled {
			clear(t.keys)
		}
		l = rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)
		t.keys[key] = l
	}
	l.AllowN(t.now(), 1)
}
