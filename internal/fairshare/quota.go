package fairshare

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Rate is how many of something a holder of a [Quota] may add: so many at once, and then so many a second.
type Rate struct {
	PerSecond float64
	AtOnce    int
}

// A Quota limits what each holder adds to something that others use too, such as a log: records, and their bytes.
// It is safe for concurrent use.
type Quota struct {
	records, bytes Rate
	now            func() time.Time

	mu      sync.Mutex
	holders map[string]*added
}

// added is what a holder has added lately.
type added struct {
	records, bytes *rate.Limiter
	told           time.Time // see [Quota.Tell]
}

// NewQuota returns a quota of records and of their bytes for each holder.
func NewQuota(records, bytes Rate, now func() time.Time) *Quota {
	return &Quota{records: records, bytes: bytes, now: now, holders: make(map[string]*added)}
}

// maxIdle is how many holders are known before those that have used nothing lately are forgotten.
const maxIdle = 10_000

// tellEvery is how often it is told of a holder that its quota is spent.
const tellEvery = time.Minute

// Take takes records with so many bytes from a holder's quota, all or none. If they do not fit, it returns how long to
// wait, in whole seconds.
func (q *Quota) Take(name string, records, bytes int) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	h := q.holder(name, now)
	for _, l := range []struct {
		*rate.Limiter
		n int
	}{{h.records, records}, {h.bytes, bytes}} {
		if missing := float64(l.n) - l.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(math.Ceil(missing/float64(l.Limit())))*time.Second)
		}
	}
	if wait == 0 {
		h.records.AllowN(now, records)
		h.bytes.AllowN(now, bytes)
	}
	return wait
}

// Tell reports whether the operator should be told that a holder's quota is spent: once a minute.
func (q *Quota) Tell(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	h := q.holder(name, now)
	if !h.told.IsZero() && now.Sub(h.told) < tellEvery {
		return false
	}
	h.told = now
	return true
}

func (q *Quota) holder(name string, now time.Time) *added {
	h := q.holders[name]
	if h == nil {
		if len(q.holders) >= maxIdle {
			maps.DeleteFunc(q.holders, func(_ string, h *added) bool { return q.idle(h, now) })
		}
		h = &added{
			records: rate.NewLimiter(rate.Limit(q.records.PerSecond), q.records.AtOnce),
			bytes:   rate.NewLimiter(rate.Limit(q.bytes.PerSecond), q.bytes.AtOnce),
		}
		q.holders[name] = h
	}
	return h
}

// idle reports whether a holder's quota is unused, so that it can be forgotten.
func (q *Quota) idle(h *added, now time.Time) bool {
	return h.records.TokensAt(now) >= float64(q.records.AtOnce) && h.bytes.TokensAt(now) >= float64(q.bytes.AtOnce)
}
