package admin

import (
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// The quota of a key for custom records, per minute and for bursts. Keys share the
// quota of the key that created them.
const (
	customRecordsPerMinute = 6000
	customBytesPerMinute   = 32 << 20 // of request bodies
)

func newCustomQuota(now func() time.Time) *fairshare.Quota {
	return fairshare.NewQuota(
		fairshare.Rate{PerSecond: customRecordsPerMinute / 60., AtOnce: customRecordsPerMinute},
		fairshare.Rate{PerSecond: customBytesPerMinute / 60., AtOnce: customBytesPerMinute}, now)
}

// mayWrite returns an error if custom records would exceed the key's quota.
func (c *call) mayWrite(records, bytes int) error {
	wait := c.api.written.Take(c.caller.CountedAs, records, bytes)
	if wait == 0 {
		return nil
	}
	e := failure(http.StatusTooManyRequests, "The API key writes too many records of its own: expected at most %d, in at most %d MiB, a minute", customRecordsPerMinute, customBytesPerMinute>>20)
	e.retryAfter = wait
	return e
}
