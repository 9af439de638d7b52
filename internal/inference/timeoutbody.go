package inference

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// preambleWait is how long a stream that has begun without output is kept from the client:
// until then, an error is an HTTP error, and OpenAI's clients try again by the status only.
// Output ends the wait, so that no token comes later: only the headers and events that say
// nothing do. It covers refusals of providers that come after they have begun, as when they are
// overloaded. More is not waited, because clients with a timeout for the headers expect them
// long before a model that reasons says something; those of proxies are 30 s and more.
const preambleWait = 2 * time.Second

// errReadTimeout is returned by a Read that would take longer than was allowed. Nothing is lost: a later
// Read returns what came.
var errReadTimeout = errors.New("no more of the answer has come yet")

// A timeoutBody is the body of a provider's stream, whose reads can be given a timeout.
type timeoutBody struct {
	io.ReadCloser
	timer   *time.Timer  // nil: reads take as long as they take
	pending *pendingRead // a read that is under way, or was not returned completely
}

// limitReads makes the reads of a stream's body such that they can time out, unless it is read ahead.
func (t *timing) limitReads(res *http.Response, readsAhead bool) {
	t.timeoutBody = nil
	if readsAhead || res.StatusCode != http.StatusOK || res.Body == nil || res.Body == http.NoBody || !isStream(mediaType(res.Header)) {
		return
	}
	t.timeoutRoom.ReadCloser = res.Body
	t.timeoutBody, res.Body = &t.timeoutRoom, &t.timeoutRoom
}

// readsAhead reports whether answers are read up to their output before they go to the client.
func (rt *roundTrip) readsAhead() bool { return rt.tentative || rt.timing.limits.answer > 0 }

// isStream reports whether a provider answers with a stream of events.
func isStream(media string) bool {
	return media == "text/event-stream" || media == "application/vnd.amazon.eventstream"
}

// setTimeout makes reads return errReadTimeout after a time that begins with the first call.
func (b *timeoutBody) setTimeout(d time.Duration) {
	if b.timer == nil {
		b.timer = time.NewTimer(d)
	}
}

// clearTimeout removes the timeout.
func (b *timeoutBody) clearTimeout() {
	if b != nil && b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

func (b *timeoutBody) Read(p []byte) (int, error) {
	if b.timer == nil && b.pending == nil {
		return b.ReadCloser.Read(p)
	}
	r := b.pending
	if r == nil {
		r = &pendingRead{room: firstReads.Get().(*[4 << 10]byte), done: make(chan struct{})}
		b.pending = r
		go r.read(b.ReadCloser)
	}
	if !r.returned {
		var expired <-chan time.Time
		if b.timer != nil {
			expired = b.timer.C
		}
		select {
		case <-r.done:
			r.returned = true
		case <-expired:
			return 0, errReadTimeout
		}
	}
	n := copy(p, r.room[r.from:r.to])
	if r.from += n; r.from < r.to {
		return n, nil
	}
	firstReads.Put(r.room)
	b.pending = nil
	return n, r.err
}

// A pendingRead is a read in a goroutine of its own. One whose body is closed meanwhile ends by that.
type pendingRead struct {
	room     *[4 << 10]byte
	done     chan struct{}
	from, to int
	err      error
	returned bool
}

func (r *pendingRead) read(src io.Reader) {
	r.to, r.err = src.Read(r.room[:])
	close(r.done)
}
