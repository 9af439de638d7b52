package routing

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// A Retry says when a target is retried.
type Retry struct {
	Attempts      int        // after the first, 0 to 5
	On            *StatusSet // default 429, 500, 502, 503, 504
	UseRetryAfter bool       // honour the provider's Retry-After for a 429
}

const (
	// MaxRetries bounds how often a target is tried again.
	MaxRetries  = 5
	backoffBase = time.Second
	backoffMost = 16 * time.Second
	// MaxWait bounds each wait, and all waits for one target together.
	MaxWait = 60 * time.Second
)

var retryable = Statuses(429, 500, 502, 503, 504)

// Retries returns how a target is tried again whose config does not say so.
func Retries(n int) *Retry { return &Retry{Attempts: n, On: retryable} }

// Again reports whether a target that answered with status is retried after n retries. A
// nil Retry never retries.
func (r *Retry) Again(status, n int) bool {
	return r != nil && n < r.Attempts && r.On.Has(status)
}

// Wait returns how long to wait before another retry, after n retries and waited in total:
// as long as the provider asks for, if the config says so, or an exponential backoff with
// full jitter (up to 1 s, 2, 4, 8, 16). It returns false if that exceeds what is left of
// MaxWait; then the next target should be tried instead.
func (r *Retry) Wait(n, status int, h http.Header, waited time.Duration, now time.Time, random Rand) (time.Duration, bool) {
	wait, asked := time.Duration(0), false
	if r.UseRetryAfter && status == http.StatusTooManyRequests {
		wait, asked = RetryAfter(h, now)
	}
	if !asked {
		most := backoffMost
		if n < 4 {
			most = backoffBase << max(n, 0)
		}
		wait = time.Duration(random.Float64() * float64(most))
	}
	if wait > MaxWait-waited {
		return 0, false
	}
	return wait, true
}

// RetryAfter returns how long an answer asks to wait, in retry-after-ms,
// x-ms-retry-after-ms, or retry-after in seconds or as a date. Invalid values are ignored;
// a date in the past means no wait.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	for _, f := range []struct {
		name string
		unit time.Duration
	}{
		{"Retry-After-Ms", time.Millisecond},
		{"X-Ms-Retry-After-Ms", time.Millisecond},
		{"Retry-After", time.Second},
	} {
		value := strings.TrimSpace(h.Get(f.name))
		if n, ok := decimal(value); ok && n >= 0 {
			// Longer values are capped so that the duration does not overflow.
			return time.Duration(math.Min(n, 1e9) * float64(f.unit)), true
		}
		if f.unit != time.Second {
			continue
		}
		if at, err := http.ParseTime(value); err == nil {
			return max(0, at.Sub(now)), true
		}
	}
	return 0, false
}
