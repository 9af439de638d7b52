package inference

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// A timedAnswer is an answer that the client has to read as it comes, by the rule for request bodies: some of it
// every so often, and in the long run at least 1,024 bytes a second. Otherwise a client that reads nothing would hold
// the provider's connection, and the memory of its call, for as long as it likes. Only the time spent writing to the
// client counts, so that a provider may be as slow as its own limits allow.
type timedAnswer struct {
	io.ReadCloser
	call     *exchange.Call
	deadline *deadline // of the request to the provider
	timer    *writeTimer
	pending  int           // bytes that the last Read returned
	begun    time.Time     // of writing them
	waited   time.Duration // the part of the client's timeout that is used up
}

// A writeTimer ends the writing to a client that takes too long. They are pooled.
type writeTimer struct {
	timer    *time.Timer
	call     *exchange.Call
	deadline *deadline
}

var writeTimers = sync.Pool{New: func() any {
	w := new(writeTimer)
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	return w
}}

// expire ends a blocked write to the client. The provider is let go at once, because a write of HTTP/2 may stay blocked
// for as long as its connection is.
func (w *writeTimer) expire() {
	if w.call.Client.EndStalledAnswer() {
		w.deadline.end()
	}
}

// timeAnswer limits how long the client may stall. What fits into the buffers of a connection needs no limit.
func (rt *roundTrip) timeAnswer(res *http.Response) {
	small := res.ContentLength >= 0 && res.ContentLength <= minTimedAnswer
	if res.StatusCode == http.StatusSwitchingProtocols || res.Body == nil || res.Body == http.NoBody || small || rt.x.Client.StallTimeout() == 0 {
		return
	}
	rt.timed = timedAnswer{ReadCloser: res.Body, call: rt.call, deadline: rt.timing.deadline}
	res.Body = &rt.timed
}

// minTimedAnswer is the size in bytes up to which an answer needs no limit: net/http buffers as much.
const minTimedAnswer = 4 << 10

// Read returns what is for the client. That it is called again means that the client, or the buffers of its
// connection, have taken all of what it returned before.
func (t *timedAnswer) Read(p []byte) (int, error) {
	t.written()
	n, err := t.ReadCloser.Read(p)
	if n > 0 {
		t.start(n)
	}
	return n, err
}

// Close returns the timer to the pool.
func (t *timedAnswer) Close() error {
	if t.written(); t.timer != nil {
		t.timer.call, t.timer.deadline = nil, nil
		writeTimers.Put(t.timer)
		t.timer = nil
	}
	return t.ReadCloser.Close()
}

// start starts the time that the client has for n bytes.
func (t *timedAnswer) start(n int) {
	if t.call.Client.AnswerStalled() {
		return
	}
	if t.timer == nil {
		t.timer = writeTimers.Get().(*writeTimer)
		t.timer.call, t.timer.deadline = t.call, t.deadline
	}
	t.pending, t.begun = n, time.Now()
	t.timer.timer.Reset(max(0, t.call.Client.StallTimeout()-t.waited) + exchange.TransferTime(n))
}

// written stops the time: the client has read what was written.
func (t *timedAnswer) written() {
	if t.pending == 0 {
		return
	}
	if !t.timer.timer.Stop() {
		t.timer = nil // it may be about to expire
	}
	t.waited = max(0, t.waited+time.Since(t.begun)-exchange.TransferTime(t.pending))
	t.pending = 0
}
