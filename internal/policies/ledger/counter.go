package ledger

import (
	"slices"
	"time"
)

const (
	// bucketsPerWindow also determines the precision of a window, which is one bucket.
	bucketsPerWindow = 60

	// leasesPerLimit is approximately the number of leases that a limit is spent in.
	leasesPerLimit = 64
)

// A span holds the units that were admitted in a bucket.
type span struct{ bucket, units int64 }

// A counter implements the arithmetic of a sliding window. Times are in nanoseconds
// since 1970. Bucket b is [b*width, (b+1)*width).
type counter struct {
	window time.Duration
	bucket int64  // the current one
	leased int64  // last bucket for which the store may hold an unspent lease
	total  int64  // sum of spans
	spans  []span // ascending; none is empty or later than the current bucket

	// spare is the lease: the units of the current bucket that the stored record counts
	// and that are not spent yet. It is negative if units were charged that are not in
	// a record yet.
	spare int64

	// held is the number of units that are estimates of reservations that are not
	// settled.
	held int64

	// epoch changes whenever units move between buckets, so that earlier references to
	// a bucket become invalid.
	epoch uint32
}

// width returns the length of a bucket.
func width(window time.Duration) int64 {
	return (int64(window) + bucketsPerWindow - 1) / bucketsPerWindow
}

// bucketAt returns the bucket of t, which may be negative.
func bucketAt(t, width int64) int64 {
	b := t / width
	if t%width < 0 {
		b--
	}
	return b
}

// end returns the time at which units in bucket b stop counting.
func (c *counter) end(b int64) int64 {
	return (b + bucketsPerWindow + 1) * width(c.window)
}

// advance makes the bucket of now the current one.
func (c *counter) advance(now int64) {
	b := bucketAt(now, width(c.window))
	if b == c.bucket {
		return
	}
	c.spare = 0
	if b < c.bucket {
		c.rewind(b)
	}
	c.bucket = b
	c.expire()
}

// expire removes buckets that are a window older than the current one.
func (c *counter) expire() {
	n := 0
	for n < len(c.spans) && c.spans[n].bucket < c.bucket-bucketsPerWindow {
		c.total -= c.spans[n].units
		n++
	}
	if n > 0 {
		c.spans = slices.Delete(c.spans, 0, n)
	}
}

// rewind moves units in buckets later than b into b.
func (c *counter) rewind(b int64) {
	c.renew()
	c.leased = min(c.leased, b)
	c.fold(func(bucket int64) int64 { return min(bucket, b) })
}

// rebase changes the window of the counter, as described in the package documentation.
func (c *counter) rebase(window time.Duration, now int64) {
	c.advance(now)
	from, to := width(c.window), width(window)
	c.fold(func(bucket int64) int64 { return bucketAt(min((bucket+1)*from-1, now), to) })
	c.window = window
	c.bucket = bucketAt(now, to)
	c.leased = c.bucket
	c.spare = 0
	c.renew()
	c.expire()
}

// forget empties the counter.
func (c *counter) forget() {
	c.spans, c.total, c.spare = nil, 0, 0
	c.renew()
}

// renew begins a new epoch: earlier reservations can no longer be given back, so no
// call has to wait for them.
func (c *counter) renew() {
	c.epoch++
	c.held = 0
}

// fold moves the units of each bucket to the bucket that move returns. move must
// preserve the order of buckets.
func (c *counter) fold(move func(int64) int64) {
	kept := c.spans[:0]
	for _, s := range c.spans {
		s.bucket = move(s.bucket)
		if n := len(kept); n > 0 && kept[n-1].bucket == s.bucket {
			kept[n-1].units += s.units
		} else {
			kept = append(kept, s)
		}
	}
	c.spans = kept
}

// fits reports whether a limit has room for more units.
func (c *counter) fits(limit, units int64) bool {
	return limit > 0 && units <= limit-c.total
}

// mayFit reports whether a limit would have room for units if everything held were
// given back.
func (c *counter) mayFit(limit, units int64) bool {
	return limit > 0 && units <= limit-max(c.total-c.held, 0)
}

// spend adds units to the current bucket.
func (c *counter) spend(units int64) {
	c.spare -= units
	c.total += units
	if n := len(c.spans); n > 0 && c.spans[n-1].bucket == c.bucket {
		c.spans[n-1].units += units
	} else if units > 0 {
		c.spans = append(c.spans, span{c.bucket, units})
	}
}

// credit removes units from bucket, as far as they still count.
func (c *counter) credit(bucket, units int64) {
	for i := len(c.spans) - 1; i >= 0 && c.spans[i].bucket >= bucket; i-- {
		s := &c.spans[i]
		if s.bucket != bucket {
			continue
		}
		units = min(units, s.units)
		s.units -= units
		c.total -= units
		if bucket == c.bucket {
			c.spare += units // the stored record counts them in this bucket
		}
		if s.units == 0 {
			c.spans = slices.Delete(c.spans, i, i+1)
		}
		return
	}
}

// grant returns the number of units to lease so that units can be spent: the missing
// units, or a share of the limit if that is more and there is room for it.
func (c *counter) grant(limit, units int64) int64 {
	room := limit - c.total - c.spare
	return max(units-c.spare, min(share(limit), room), 0)
}

// share returns the share of a limit that is leased at a time, at least one unit unless
// the limit is 0.
func share(limit int64) int64 {
	n := limit / leasesPerLimit
	if limit%leasesPerLimit > 0 {
		n++
	}
	return n
}

// reset returns the time until nothing counts any more.
func (c *counter) reset(now int64) time.Duration {
	if len(c.spans) == 0 {
		return 0
	}
	return time.Duration(c.end(c.spans[len(c.spans)-1].bucket) - now)
}

// retryAfter returns the time until the limit has room for units.
func (c *counter) retryAfter(now, limit, units int64) time.Duration {
	if limit == 0 || units > limit {
		return Never
	}
	excess := c.total - (limit - units)
	if excess <= 0 {
		return 0
	}
	for _, s := range c.spans {
		if excess -= s.units; excess <= 0 {
			return time.Duration(c.end(s.bucket) - now)
		}
	}
	return 0
}

// idleAt returns a time before which the counter, or a lease in the stored record,
// still counts something.
func (c *counter) idleAt() int64 {
	if n := len(c.spans); n > 0 {
		return c.end(c.spans[n-1].bucket)
	}
	return c.end(c.leased)
}
