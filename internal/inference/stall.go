package inference

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

var errBodyStalled = errors.New("no more of the answer came in time")

// A stallGuard is a body that fails with errBodyStalled if the provider sends nothing for too long. Only the
// time spent waiting for the provider counts.
type stallGuard struct {
	io.ReadCloser
	after   time.Duration
	option  string // that set the limit, for errors
	timer   *time.Timer
	stalled atomic.Bool
	lifted  atomic.Bool
}

// guardStalls bounds how long the provider may be silent while it answers. uploads: the request may still be
// under way.
func (t *timing) guardStalls(res *http.Response, uploads bool) {
	t.stallGuard = nil
	if res.Body == nil || res.Body == http.NoBody || res.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	s := &t.stallRoom
	s.ReadCloser, s.after, s.option = res.Body, t.limits.headers, "provider_header_timeout"
	if isStream(mediaType(res.Header)) {
		s.after, s.option = t.limits.idle, "stream_idle_timeout"
	}
	if s.after == 0 {
		return
	}
	if t.limits.answer == 0 && !uploads { // which may still start the deadline over
		s.timer = t.deadline.pass(s)
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(s.after, s.stall)
		s.timer.Stop()
	}
	t.stallGuard, res.Body = s, s
}

// stall ends a Read that waits for the provider.
func (s *stallGuard) stall() {
	s.stalled.Store(true)
	_ = s.Close()
}

func (s *stallGuard) Read(p []byte) (int, error) {
	if s.lifted.Load() {
		return s.ReadCloser.Read(p)
	}
	s.timer.Reset(s.after)
	n, err := s.ReadCloser.Read(p)
	s.timer.Stop()
	if s.stalled.Load() {
		return n, errBodyStalled
	}
	return n, err
}

// lift removes the limit: the stream has its own.
func (s *stallGuard) lift() {
	if s != nil {
		s.lifted.Store(true)
	}
}

// passed returns the error that the body ended with, or nil if it did not stall.
func (s *stallGuard) passed() error {
	if s != nil && s.stalled.Load() {
		return errBodyStalled
	}
	return nil
}

// passed returns why the provider was too slow, or nil if it was not.
func (t *timing) passed() error {
	if err := t.deadline.passed(); err != nil {
		return err
	}
	return t.stallGuard.passed()
}
