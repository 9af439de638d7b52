package exchange

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/caddy-gw/gateway/internal/inflight"
)

// ErrNotReplayable means that a body passed through and was too large to be kept for
// another attempt.
var ErrNotReplayable = errors.New("the request body is too large to be sent again")

// A Spool is a body that passes through: it is read once from the client, and kept up to a limit,
// so that another attempt can follow one that failed early.
type Spool struct {
	reading sync.Mutex // held while src is read, which may take long
	src     io.Reader

	mu    sync.Mutex // of what follows
	kept  []byte
	limit int
	lease *inflight.Lease // of what is kept
	read  int64           // bytes taken from src
	lost  bool            // more was read than is kept
	full  error           // why there was no memory to keep it
	final bool            // no more has to be kept
	err   error           // that src ended with
}

// NewSpool returns a spool over src that keeps at most limit bytes, which are charged to the
// lease of the call; nil: they are not charged.
func NewSpool(src io.Reader, limit int, lease *inflight.Lease) *Spool {
	return &Spool{src: src, limit: limit, lease: lease}
}

// Replayable returns nil if the body can be read from its beginning. Otherwise it returns
// ErrNotReplayable, or an error for [RequestBody.Refusal].
func (s *Spool) Replayable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ofTheClient(s.err):
		return s.err
	case s.full != nil:
		return fmt.Errorf("%w: %w", ErrNotReplayable, s.full)
	case s.lost:
		return ErrNotReplayable
	}
	return nil
}

// size returns how many bytes were read from the client, and whether that was all of the body.
func (s *Spool) size() (n int64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read, errors.Is(s.err, io.EOF)
}

// Reader returns a reader of the body from its beginning. If the beginning was not kept, its
// first Read returns ErrNotReplayable.
func (s *Spool) Reader() io.ReadCloser { return s.reader(0) }

// reader returns a reader of the body from an offset.
func (s *Spool) reader(off int64) *spoolReader { return &spoolReader{spool: s, off: off} }

// Peek reads the body from its beginning until enough, which gets all that was read, returns
// true, or the limit is reached. The error means that there was no memory to keep it.
func (s *Spool) Peek(enough func(head []byte) bool) error {
	var scratch [4 << 10]byte
	for off, over := 0, false; off < s.limit && !over; {
		n, err := s.readAt(scratch[:min(len(scratch), s.limit-off)], int64(off))
		off += n
		if s.full != nil {
			return s.full
		}
		over = enough(s.kept[:off]) || err != nil // the next reader gets it, too
	}
	return nil
}

// readAt reads at the offset of a reader.
func (s *Spool) readAt(p []byte, off int64) (int, error) {
	if n, err, ok := s.readKept(p, off); ok {
		return n, err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if n, err, ok := s.readKept(p, off); ok { // another reader was there first
		return n, err
	}
	n, err := s.src.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.err = s.read+int64(n), err
	if !s.lost && n > 0 && (s.final || !s.keep(p[:n])) {
		s.drop()
	}
	return n, err
}

// commit notes that no other attempt follows: what is kept is dropped as soon as the
// current attempt has read it.
func (s *Spool) commit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = true
}

// keep keeps what was read, and reports whether there is room for it. Without memory for it the
// body can still pass once.
func (s *Spool) keep(p []byte) bool {
	need := len(s.kept) + len(p)
	if need > s.limit {
		return false
	}
	if need > cap(s.kept) {
		size := min(max(need, 2*cap(s.kept), leastKept), max(need, s.limit))
		if s.full = s.lease.Grow(size); s.full != nil {
			return false
		}
		larger := make([]byte, len(s.kept), size)
		copy(larger, s.kept)
		s.lease.Shrink(cap(s.kept))
		s.kept = larger
	}
	s.kept = append(s.kept, p...)
	return true
}

// leastKept is the initial room for what is kept.
const leastKept = 4 << 10

// drop drops what was kept.
func (s *Spool) drop() {
	s.lease.Shrink(cap(s.kept))
	s.lost, s.kept = true, nil
}

// readKept reads what is kept; ok is false if the client has to be read.
func (s *Spool) readKept(p []byte, off int64) (n int, err error, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.lost && off < int64(len(s.kept)):
		return copy(p, s.kept[off:]), nil, true
	case s.final && !s.lost && off == s.read:
		s.drop()
		if s.err != nil {
			return 0, s.err, true
		}
		return 0, nil, false
	case ofTheClient(s.err):
		return 0, s.err, true
	case off != s.read:
		return 0, ErrNotReplayable, true
	case s.err != nil:
		return 0, s.err, true
	}
	return 0, nil, false
}

// A spoolReader may be closed while another goroutine reads it, as HTTP transports do with bodies
// that they give up on.
type spoolReader struct {
	spool  *Spool
	mu     sync.Mutex
	off    int64
	closed bool
}

func (r *spoolReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	off, closed := r.off, r.closed
	r.mu.Unlock()
	if closed {
		return 0, errors.New("read of a closed body")
	}
	n, err := r.spool.readAt(p, off)
	r.mu.Lock()
	r.off += int64(n)
	r.mu.Unlock()
	return n, err
}

func (r *spoolReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// A limited reader fails with errBodyTooLarge if a body is longer than a limit.
type limited struct {
	src  io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.src.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errBodyTooLarge
	}
	return n, err
}
