package admin

import (
	"maps"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The quota of a key for custom records, per minute and for bursts. Keys share the
// quota of the key that created them.
const (
	customRecordsPerMinute = 6000
	customBytesPerMinute   = 32 << 20 // of request bodies
)

// A quota limits what each key may write.
type quota struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[string]*written
}

// written is the state of a key's quota.
type written struct{ records, bytes *rate.Limiter }

func newQuota(now func() time.Time) *quota {
	return &quota{now: now, keys: make(map[string]*written)}
}

// take takes records with the given total size from a key's quota, all or none. If they do
// not fit, it returns how long to wait.
func (q *quota) take(key string, records, bytes int) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	w := q.keys[key]
	if w == nil {
		if len(q.keys) >= maxThrottled {
			maps.DeleteFunc(q.keys, func(_ string, w *written) bool { return w.idle(now) })
		}
		w = &written{
			records: rate.NewLimiter(customRecordsPerMinute/60., customRecordsPerMinute),
			bytes:   rate.NewLimiter(customBytesPerMinute/60., customBytesPerMinute),
		}
		q.keys[key] = w
	}
	for _, l := range []struct {
		*rate.Limiter
		n int
	}{{w.records, records}, {w.bytes, bytes}} {
		if missing := float64(l.n) - l.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(math.Ceil(missing/float64(l.Limit())))*time.Second)
		}
	}
	if wait == 0 {
		w.records.AllowN(now, records)
		w.bytes.AllowN(now, bytes)
	}
	return wait
}

// idle reports whether the quota is unused, so that it can be forgotten.
func (w *written) idle(now time.Time) bool {
	return w.records.TokensAt(now) >= customRecordsPerMinute && w.bytes.TokensAt(now) >= customBytesPerMinute
}

// mayWrite returns an error if custom records would exceed the key's quota.
func (c *call) mayWrite(records, bytes int) error {
	wait := c.api.written.take(c.caller.CountedAs, records, bytes)
	if wait == 0 {
		return nil
	}
	e := failure(http.StatusTooManyRequests, "The API key writes too many records of its own: expected at most %d, in at most %d MiB, a minute", customRecordsPerMinute, customBytesPerMinute>>20)
	e.retryAfter = wait
	return e
}
