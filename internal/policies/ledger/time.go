package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A timeline is the ledger's time: nanoseconds since 1970, initialized from the wall
// clock when a store is first used, and increased by the time that passes. Within a
// process, that is measured with the monotonic clock. The package documentation says
// what counts between two processes.
type timeline struct {
	wall    func() time.Time
	elapsed func() time.Duration
	uptime  func() (boot string, up time.Duration)
	base    int64 // the ledger's time when elapsed was 0
}

// newTimeline returns a timeline with the clocks of opts, before it begins.
func newTimeline(opts *Options) timeline {
	t := timeline{wall: opts.Now, elapsed: opts.Elapsed, uptime: opts.Uptime}
	if t.uptime == nil {
		t.uptime = func() (string, time.Duration) { return "", 0 }
	}
	switch {
	case t.elapsed != nil:
	case t.wall != nil:
		start := t.wall()
		t.elapsed = func() time.Duration { return t.wall().Sub(start) }
	default:
		start := time.Now()
		t.elapsed = func() time.Duration { return time.Since(start) }
	}
	if t.wall == nil {
		t.wall = time.Now
	}
	return t
}

// now returns the ledger's time.
func (t *timeline) now() int64 { return t.base + int64(t.elapsed()) }

// A moment is the stored state of the time:
//
//	key    "ledger" 00 01 't'
//	value  version 1, varint the ledger's time, varint the wall clock, both in ns since 1970,
//	       uvarint uptime in ns, and the id of the boot
type moment struct {
	ledger, wall int64
	up           time.Duration
	boot         string
}

const (
	momentKey     = "ledger\x00\x01t"
	momentVersion = 1

	// momentsApart is the interval at which the time is written, together with leases.
	momentsApart = int64(time.Minute)
)

// moment returns the current moment. The uptime is read last, so that time that passes
// in between does not count.
func (t *timeline) moment() moment {
	m := moment{ledger: t.now(), wall: t.wall().UnixNano()}
	m.boot, m.up = t.uptime()
	return m
}

// begin continues from the last stored moment, or from the wall clock.
func (t *timeline) begin(last *moment) {
	boot, up := t.uptime() // read before the clock for the same reason
	elapsed, wall := int64(t.elapsed()), t.wall().UnixNano()
	if last == nil {
		t.base = wall - elapsed
		return
	}
	passed := int64(0)
	switch {
	case boot == "":
	case boot == last.boot && up >= last.up:
		passed = int64(up - last.up)
	case boot != last.boot:
		passed = min(wall-last.wall, int64(up))
	}
	t.base = last.ledger + max(passed, 0) - elapsed
}

func (m *moment) encode() []byte {
	b := binary.AppendVarint([]byte{momentVersion}, m.ledger)
	b = binary.AppendVarint(b, m.wall)
	b = binary.AppendUvarint(b, uint64(m.up))
	return append(b, m.boot...)
}

func decodeMoment(record []byte) (*moment, error) {
	if len(record) == 0 || record[0] != momentVersion {
		return nil, errVersion
	}
	d := decoder{rest: record[1:]}
	m := &moment{ledger: d.varint(), wall: d.varint(), up: time.Duration(d.uvarint())}
	if d.err != nil {
		return nil, d.err
	}
	m.boot = string(d.rest)
	return m, nil
}

func lastMoment(ctx context.Context, store Store) (last *moment, err error) {
	err = store.View(ctx, func(tx storage.Tx) error {
		record, err := tx.Get([]byte(momentKey))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if last, err = decodeMoment(record); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the time of the rate-limit ledger: %w", err)
	}
	return last, nil
}

// dueMoment returns the record of the time if it is due, or else nil. Until this
// process has written one, every lease includes it, so that there is no count without a
// time.
func (l *Ledger) dueMoment() []byte {
	now := l.now()
	if saved := l.saved.Load(); l.timed.Load() && now-saved < momentsApart && now >= saved {
		return nil
	}
	l.saved.Store(now)
	m := l.moment()
	return m.encode()
}

// wroteMoment records whether a due record of the time was written.
func (l *Ledger) wroteMoment(record []byte, err error) {
	switch {
	case record == nil:
	case err == nil:
		l.timed.Store(true)
	default:
		l.timed.Store(false)
	}
}
