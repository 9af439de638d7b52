package exchange

import (
	"errors"
	"io"
	"sync"
)

// ErrNotReplayable means that a body passed through and was too large to be kept for
// another attempt.
var ErrNotReplayable = errors.New("the request body is too large to be sent again")

// A Spool is a body that passes through: it is read once from the client, and what
// was read is kept up to a limit, so that an attempt that failed early can be
// followed by another.
type Spool struct {
	reading sync.Mutex // held while src is read, which may take as long as the client does
	src     io.Reader

	mu    sync.Mutex // of what follows
	kept  []byte
	limit int
	read  int64 // bytes taken from src
	lost  bool  // more was read than is kept
	err   error // that src ended with
}

// NewSpool returns a spool over src that keeps at most limit bytes.
func NewSpool(src io.Reader, limit int) *Spool { return &Spool{src: src, limit: limit} }

// Replayable returns nil if the body can be read from its beginning, and otherwise why
// it cannot: ErrNotReplayable, or that it went on past its limit.
func (s *Spool) Replayable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(s.err, errBodyTooLarge):
		return s.err
	case s.lost:
		return ErrNotReplayable
	}
	return nil
}

// Reader returns a reader of the body from its beginning. Where that is gone, its
// first Read returns ErrNotReplayable.
func (s *Spool) Reader() io.ReadCloser { return s.reader(0) }

// reader returns a reader of the body from an offset.
func (s *Spool) reader(off int64) *spoolReader { return &spoolReader{spool: s, off: off} }

// Peek reads the body from its beginning until enough, which is given all that came,
// says so, or no more of it is kept.
func (s *Spool) Peek(enough func(head []byte) bool) {
	var scratch [4 << 10]byte
	for off := 0; off < s.limit; {
		n, err := s.readAt(scratch[:min(len(scratch), s.limit-off)], int64(off))
		off += n
		if enough(s.kept[:off]) || err != nil {
			return
		}
	}
}

// readAt reads at an offset that a reader has come to.
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
	if !s.lost {
		if len(s.kept)+n > s.limit {
			s.lost, s.kept = true, nil
		} else {
			s.kept = append(s.kept, p[:n]...)
		}
	}
	return n, err
}

// readKept reads what needs no look at the client; ok is false where that is needed.
func (s *Spool) readKept(p []byte, off int64) (n int, err error, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.lost && off < int64(len(s.kept)):
		return copy(p, s.kept[off:]), nil, true
	case errors.Is(s.err, errBodyTooLarge):
		return 0, s.err, true
	case off != s.read:
		return 0, ErrNotReplayable, true
	case s.err != nil:
		return 0, s.err, true
	}
	return 0, nil, false
}

// A spoolReader may be closed while another goroutine reads it, as an HTTP transport
// does with a body that it gave up on.
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

// A limited reader fails with errBodyTooLarge where a body goes on past a limit.
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
