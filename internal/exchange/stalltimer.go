package exchange

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A StallTimer limits how long one side of a WebSocket may stall, by the rule for request bodies: some bytes have
// to pass every so often, and in the long run at least minRate of them a second. Only the time spent waiting for
// that side counts. It is safe for concurrent use.
type StallTimer struct {
	timeout time.Duration // 0: no limit
	onStall func()

	mu     sync.Mutex
	timer  *time.Timer // nil: nothing was waited for yet
	begun  time.Time   // of waiting; zero: not waiting
	waited time.Duration
}

// NewStallTimer returns a timer that calls onStall once the limit is exceeded.
func NewStallTimer(timeout time.Duration, onStall func()) *StallTimer {
	return &StallTimer{timeout: timeout, onStall: onStall}
}

// StallTimer returns a timer for a side of the call's WebSocket, with the limit of the call.
func (c *Call) StallTimer(onStall func(*Error)) *StallTimer {
	return NewStallTimer(c.stallTimeout, func() { onStall(MessageTooSlow(c.stallTimeout)) })
}

// Transferred stops the timer, because n bytes were read or written.
func (t *StallTimer) Transferred(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun.IsZero() {
		return
	}
	t.timer.Stop()
	t.waited = max(0, t.waited+time.Since(t.begun)-time.Duration(n)*time.Second/minRate)
	t.begun = time.Time{}
}

// Start starts the timer before a read or write. Between two messages (inMessage is false) there is no limit.
func (t *StallTimer) Start(inMessage bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch left := t.timeout - t.waited; {
	case t.timeout == 0:
	case !inMessage:
		t.waited = 0
	case t.timer == nil:
		t.begun, t.timer = time.Now(), time.AfterFunc(max(left, 0), t.onStall)
	default:
		t.begun = time.Now()
		t.timer.Reset(max(left, 0))
	}
}

// Stop ends the waiting.
func (t *StallTimer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timeout = 0; t.timer != nil {
		t.timer.Stop()
	}
}

// MessageTooSlow is the refusal of a message that does not come in time.
func MessageTooSlow(timeout time.Duration) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: typeTimeout,
		Message: "A message of the WebSocket did not come in time: expected some of it every " + strconv.FormatInt(timeout.Milliseconds(), 10) +
			"ms, and in the long run at least " + strconv.Itoa(minRate) + " bytes a second",
	}
}

// ErrClientStalled is the cause of the end of a call whose client stops reading.
var ErrClientStalled = errors.New("the client did not take what it was sent in time")

// ClientStalled reports whether the call has ended because its client stopped reading.
func (c *Call) ClientStalled() bool {
	return errors.Is(context.Cause(c.request.Context()), ErrClientStalled)
}

// StallTimeout is how long the client may stall; 0: there is no limit.
func (c *Call) StallTimeout() time.Duration { return c.stallTimeout }

// EndStalledAnswer ends the answer of a call whose client stopped reading it. It reports false if the call is not
// served by a server, so that it has no client that could stall.
func (c *Call) EndStalledAnswer() bool {
	c.answerStalled.Store(true) // before the write that it ends fails
	err := c.stopWriting()
	if err != nil {
		c.answerStalled.Store(false)
	}
	return err == nil
}

// AnswerStalled reports whether EndStalledAnswer has ended the answer.
func (c *Call) AnswerStalled() bool { return c.answerStalled.Load() }

// StopWriting ends a write to the client that is blocked, and all that follow, with an error.
func (c *Call) StopWriting() {
	// A writer without deadlines is not a server's, so no client can be slow.
	_ = c.stopWriting()
}

// stopWriting sets a deadline that has passed. Caddy's writer with a timeout for idle clients is for the goroutine
// alone that writes, but what it writes to has deadlines that others may set.
func (c *Call) stopWriting() error {
	passed := time.Unix(1, 0)
	for w := c.writer; w != nil; {
		if idle, ok := w.(*caddyhttp.IdleTimeoutWriter); ok {
			return idle.Ctrl.SetWriteDeadline(passed)
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	return http.NewResponseController(c.writer).SetWriteDeadline(passed)
}

// WriteTimeout is how long writing a message of size bytes to a client may take: the timeout for stalls, and the
// time that a slow connection needs. Both are 0 if there is no limit.
func WriteTimeout(stallTimeout time.Duration, size int) time.Duration {
	if stallTimeout == 0 {
		return 0
	}
	return stallTimeout + TransferTime(size)
}

// TransferTime is how long size bytes take at the least rate that is allowed.
func TransferTime(size int) time.Duration { return time.Duration(size) * time.Second / minRate }
