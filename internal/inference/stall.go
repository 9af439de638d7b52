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

// guardStalls bounds how long the provider may be silent while it answers.
func (rt *roundTrip) guardStalls(res *http.Response) {
	rt.stallGuard = nil
	if res.Body == nil || res.Body == http.NoBody || res.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	s := &rt.stallRoom
	s.ReadCloser, s.after, s.option = res.Body, rt.timeouts.headers, "provider_header_timeout"
	if isStream(mediaType(res.Header)) {
		s.after, s.option = rt.timeouts.idle, "stream_idle_timeout"
	}
	if s.after == 0 {
		return
	}
	if rt.timeouts.answer == 0 && !rt.x.Body.PassesThrough() { // an upload may still start the deadline over
		s.timer = rt.deadline.pass(s)
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(s.after, s.stall)
		s.timer.Stop()
	}
	rt.stallGuard, res.Body = s, s
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
func (rt *roundTrip) passed() error {
	if err := rt.deadline.passed(); err != nil {
		return err
	}
	return rt.stallGuard.passed()
}
