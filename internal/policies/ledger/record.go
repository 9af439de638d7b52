package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The record of a counter in the store:
//
//	key    "ledger" 00 01 'c', the counter's key
//	value  version 1, or version 2, uvarint length of the owner, owner;
//	       uvarint window in ns, uvarint number of spans,
//	       of the first span: varint bucket, uvarint units,
//	       of each other one: uvarint bucket since the one before, uvarint units
//
// If a counter's key is too long for the store, it is replaced by its first bytes, so
// that it can be found by a prefix, and the SHA-256 of the whole key.
const (
	recordPrefix  = "ledger\x00\x01c"
	recordVersion = 1
	ownedVersion  = 2
	maxPlainKey   = 900

	maxSpans = bucketsPerWindow + 1
)

func recordKey(key string) []byte {
	b := make([]byte, 0, len(recordPrefix)+min(len(key), maxPlainKey+sha256.Size))
	b = append(b, recordPrefix...)
	if len(key) <= maxPlainKey {
		return append(b, key...)
	}
	sum := sha256.Sum256([]byte(key))
	return append(append(b, key[:maxPlainKey]...), sum[:]...)
}

// encode returns the record of the account with lease additional units in its current
// bucket.
func (a *account) encode(lease int64) []byte {
	record := a.counter.encode(lease)
	if a.owner == "" {
		return record
	}
	b := make([]byte, 0, binary.MaxVarintLen64+len(a.owner)+len(record))
	b = binary.AppendUvarint(append(b, ownedVersion), uint64(len(a.owner)))
	return append(append(b, a.owner...), record[1:]...)
}

// encode returns the record of the counter with lease additional units in its current
// bucket.
func (c *counter) encode(lease int64) []byte {
	n := len(c.spans)
	last := span{bucket: c.bucket}
	if n > 0 && c.spans[n-1].bucket == c.bucket {
		n--
		last = c.spans[n]
	}
	last.units += lease
	count := n
	if last.units > 0 {
		count++
	}

	b := make([]byte, 0, 16+6*count)
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, uint64(c.window))
	b = binary.AppendUvarint(b, uint64(count))
	for i := range count {
		s := last
		if i < n {
			s = c.spans[i]
		}
		if i == 0 {
			b = binary.AppendVarint(b, s.bucket)
		} else {
			b = binary.AppendUvarint(b, uint64(s.bucket-c.spans[i-1].bucket))
		}
		b = binary.AppendUvarint(b, uint64(s.units))
	}
	return b
}

var (
	errVersion   = errors.New("unknown version")
	errTruncated = errors.New("truncated")
	errTrailing  = errors.New("trailing bytes")
)

// decode returns the counter in a record, at the time of its last bucket, and its
// owner.
func decode(record []byte) (c counter, owner string, err error) {
	if len(record) == 0 {
		return counter{}, "", errVersion
	}
	d := decoder{rest: record[1:]}
	switch record[0] {
	case recordVersion:
	case ownedVersion:
		owner = d.text()
	default:
		return counter{}, "", errVersion
	}
	c, err = d.counter()
	return c, owner, err
}

func (d *decoder) counter() (counter, error) {
	window, count := d.uvarint(), d.uvarint()
	switch {
	case d.err != nil:
		return counter{}, d.err
	case window == 0 || window > uint64(MaxWindow):
		return counter{}, fmt.Errorf("a window of %d ns", window)
	case count > maxSpans:
		return counter{}, fmt.Errorf("%d buckets", count)
	}

	c := counter{window: time.Duration(window), spans: make([]span, count)}
	limit := math.MaxInt64/width(c.window) - 2*maxSpans // buckets whose ends can be represented
	for i := range c.spans {
		s := &c.spans[i]
		if i == 0 {
			s.bucket = d.varint()
		} else {
			s.bucket = c.bucket + int64(min(d.uvarint(), maxSpans))
		}
		units := d.uvarint()
		switch {
		case d.err != nil:
			return counter{}, d.err
		case s.bucket < -limit || s.bucket > limit,
			i > 0 && (s.bucket == c.bucket || s.bucket > c.spans[0].bucket+bucketsPerWindow):
			return counter{}, fmt.Errorf("bucket %d out of order", i)
		case units == 0 || units > uint64(math.MaxInt64-c.total):
			return counter{}, fmt.Errorf("%d units in bucket %d", units, i)
		}
		s.units = int64(units)
		c.bucket = s.bucket
		c.total += s.units
	}
	if len(d.rest) > 0 {
		return counter{}, errTrailing
	}
	c.leased = c.bucket
	return c, nil
}

// A decoder reads numbers until the first error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.skip(0)
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.err, d.rest = errTruncated, nil
		return
	}
	d.rest = d.rest[n:]
}
