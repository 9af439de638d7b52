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

// An Arriving is a message of a WebSocket that has to come in time, by the rule for request bodies: some of it
// every so often, and in the long run at least leastRate bytes a second. Only the time spent waiting for more of
// the message counts. By the same rule, the other side has to take what it is sent. It is safe for concurrent use.
type Arriving struct {
	patience time.Duration // 0: no limit
	late     func()

	mu     sync.Mutex
	timer  *time.Timer // nil: nothing was waited for yet
	begun  time.Time   // of waiting; zero: not waiting
	waited time.Duration
}

// NewArriving returns what calls late, once a message is late.
func NewArriving(patience time.Duration, late func()) *Arriving {
	return &Arriving{patience: patience, late: late}
}

// Arriving returns what calls late once a message of the call's WebSocket is late.
func (c *Call) Arriving(late func(*Error)) *Arriving {
	return NewArriving(c.patience, func() { late(MessageTooSlow(c.patience)) })
}

// Came says that so many bytes came.
func (a *Arriving) Came(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun.IsZero() {
		return
	}
	a.timer.Stop()
	a.waited = max(0, a.waited+time.Since(a.begun)-time.Duration(n)*time.Second/leastRate)
	a.begun = time.Time{}
}

// Wait says that the next bytes are waited for. With begun, they are of a message that has begun.
func (a *Arriving) Wait(begun bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch left := a.patience - a.waited; {
	case a.patience == 0:
	case !begun:
		a.waited = 0
	case a.timer == nil:
		a.begun, a.timer = time.Now(), time.AfterFunc(max(left, 0), a.late)
	default:
		a.begun = time.Now()
		a.timer.Reset(max(left, 0))
	}
}

// Stop ends the waiting.
func (a *Arriving) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.patience = 0; a.timer != nil {
		a.timer.Stop()
	}
}

// MessageTooSlow is the refusal of a message that does not come in time.
func MessageTooSlow(patience time.Duration) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: typeTimeout,
		Message: "A message of the WebSocket did not come in time: expected some of it every " + strconv.FormatInt(patience.Milliseconds(), 10) +
			"ms, and in the long run at least " + strconv.Itoa(leastRate) + " bytes a second",
	}
}

// ErrNotTaken is the cause of the end of a call whose client does not take what it is sent.
var ErrNotTaken = errors.New("the client did not take what it was sent in time")

// NotTaken reports whether the call has ended because its client did not take what it was sent.
func (c *Call) NotTaken() bool { return errors.Is(context.Cause(c.request.Context()), ErrNotTaken) }

// Patience is how long the client may keep the gateway waiting; 0: for as long as it likes.
func (c *Call) Patience() time.Duration { return c.patience }

// EndAnswer ends the answer of a call whose client does not take it in time. It reports false if the client is none of
// a server, so that it cannot be slow.
func (c *Call) EndAnswer() bool {
	c.untaken.Store(true) // before the write that it ends fails
	err := c.stopWriting()
	if err != nil {
		c.untaken.Store(false)
	}
	return err == nil
}

// AnswerNotTaken reports whether EndAnswer has ended the answer.
func (c *Call) AnswerNotTaken() bool { return c.untaken.Load() }

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

// TimeToTake is how long a client may take for a message of so many bytes that it is sent at once: patience,
// and more for what a slow connection has to carry. With a patience of 0 there is no limit.
func TimeToTake(patience time.Duration, size int) time.Duration {
	if patience == 0 {
		return 0
	}
	return patience + TimeOf(size)
}

// TimeOf is how long the slowest connection that is waited for carries so many bytes.
func TimeOf(size int) time.Duration { return time.Duration(size) * time.Second / leastRate }
