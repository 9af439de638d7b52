package inference

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// A taken body is an answer that the client has to take as it comes, by the rule for request bodies: some of it
// every so often, and in the long run at least 1,024 bytes a second. Otherwise a client that reads nothing would hold
// the provider's connection, and the memory of its call, for as long as it likes. Only the time spent writing to the
// client counts, so that a provider may be as slow as its own limits allow.
type taken struct {
	io.ReadCloser
	call     *exchange.Call
	deadline *deadline // of the request to the provider
	watch    *takeWatch
	given    int           // bytes that the last Read returned
	begun    time.Time     // of writing them
	waited   time.Duration // the part of the client's patience that is used up
}

// A takeWatch ends the writing to a client that takes too long. Watches are pooled with their timers.
type takeWatch struct {
	timer    *time.Timer
	call     *exchange.Call
	deadline *deadline
}

var takeWatches = sync.Pool{New: func() any {
	w := new(takeWatch)
	w.timer = time.AfterFunc(time.Hour, w.ring)
	w.timer.Stop()
	return w
}}

// ring ends a blocked write to the client. The provider is let go at once, because a write of HTTP/2 may stay blocked
// for as long as its connection is.
func (w *takeWatch) ring() {
	if w.call.EndAnswer() {
		w.deadline.end()
	}
}

// mustBeTaken has the client take the answer in time. What fits into the buffers of a connection needs no limit.
func (rt *roundTrip) mustBeTaken(res *http.Response) {
	small := res.ContentLength >= 0 && res.ContentLength <= leastTaken
	if res.StatusCode == http.StatusSwitchingProtocols || res.Body == nil || res.Body == http.NoBody || small || rt.x.Patience() == 0 {
		return
	}
	rt.taken = taken{ReadCloser: res.Body, call: rt.call, deadline: rt.deadline}
	res.Body = &rt.taken
}

// leastTaken is how long an answer is at least for which a client may be waited for, in bytes. net/http buffers as much.
const leastTaken = 4 << 10

// Read returns what is for the client. That it is called again means that the client, or the buffers of its
// connection, have taken all of what it returned before.
func (t *taken) Read(p []byte) (int, error) {
	t.came()
	n, err := t.ReadCloser.Read(p)
	if n > 0 {
		t.wait(n)
	}
	return n, err
}

// Close gives the watch back.
func (t *taken) Close() error {
	if t.came(); t.watch != nil {
		t.watch.call, t.watch.deadline = nil, nil
		takeWatches.Put(t.watch)
		t.watch = nil
	}
	return t.ReadCloser.Close()
}

// wait starts the time that the client has for n bytes.
func (t *taken) wait(n int) {
	if t.call.AnswerNotTaken() {
		return
	}
	if t.watch == nil {
		t.watch = takeWatches.Get().(*takeWatch)
		t.watch.call, t.watch.deadline = t.call, t.deadline
	}
	t.given, t.begun = n, time.Now()
	t.watch.timer.Reset(max(0, t.call.Patience()-t.waited) + exchange.TimeOf(n))
}

// came stops the time: the client has taken what it was given.
func (t *taken) came() {
	if t.given == 0 {
		return
	}
	if !t.watch.timer.Stop() {
		t.watch = nil // it may be about to ring
	}
	t.waited = max(0, t.waited+time.Since(t.begun)-exchange.TimeOf(t.given))
	t.given = 0
}
