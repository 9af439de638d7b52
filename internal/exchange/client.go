package exchange

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// ErrClientStalled is the cause of the end of a call whose client stops reading.
var ErrClientStalled = errors.New("the client did not take what it was sent in time")

// A Client is the connection that a call came by, as far as it may stall.
type Client struct {
	request       *http.Request
	writer        http.ResponseWriter // only its deadlines are used
	stallTimeout  time.Duration
	answerStalled atomic.Bool // the client did not take the answer in time
}

// StallTimer returns a timer for a side of the call's WebSocket, with the limit of the call.
func (c *Client) StallTimer(onStall func(*Error)) *StallTimer {
	return NewStallTimer(c.stallTimeout, func() { onStall(MessageTooSlow(c.stallTimeout)) })
}

// Stalled reports whether the call has ended because its client stopped reading.
func (c *Client) Stalled() bool {
	return errors.Is(context.Cause(c.request.Context()), ErrClientStalled)
}

// StallTimeout is how long the client may stall; 0: there is no limit.
func (c *Client) StallTimeout() time.Duration { return c.stallTimeout }

// EndStalledAnswer ends the answer of a call whose client stopped reading it. It reports false if the call is not
// served by a server, so that it has no client that could stall.
func (c *Client) EndStalledAnswer() bool {
	c.answerStalled.Store(true) // before the write that it ends fails
	err := c.stopWriting()
	if err != nil {
		c.answerStalled.Store(false)
	}
	return err == nil
}

// AnswerStalled reports whether EndStalledAnswer has ended the answer.
func (c *Client) AnswerStalled() bool { return c.answerStalled.Load() }

// StopWriting ends a write to the client that is blocked, and all that follow, with an error.
func (c *Client) StopWriting() {
	// A writer without deadlines is not a server's, so no client can be slow.
	_ = c.stopWriting()
}

// stopWriting sets a deadline that has passed. Caddy's writer with a timeout for idle clients is for the goroutine
// alone that writes, but what it writes to has deadlines that others may set.
func (c *Client) stopWriting() error {
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
