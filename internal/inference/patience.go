package inference

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// preambleWait is how long a stream that has begun, and said nothing yet, is kept from the client:
// until then, an error is an HTTP error. Output ends the wait, so that no token comes later.
const preambleWait = 250 * time.Millisecond

// errNotYet is returned by a Read that would take longer than was allowed. Nothing is lost: a later
// Read returns what came.
var errNotYet = errors.New("no more of the answer has come yet")

// A patientBody is the body of a provider's stream, whose reads can be limited for some time.
type patientBody struct {
	io.ReadCloser
	timer *time.Timer // nil: reads take as long as they take
	under *latentRead // a read that is under way, or was not returned completely
}

// patient makes the body of a stream one whose reads can be limited.
func (rt *roundTrip) patient(res *http.Response) {
	rt.patience = nil
	if rt.ahead() || res.StatusCode != http.StatusOK || res.Body == nil || res.Body == http.NoBody || !isStream(mediaType(res.Header)) {
		return
	}
	rt.patientRoom.ReadCloser = res.Body
	rt.patience, res.Body = &rt.patientRoom, &rt.patientRoom
}

// ahead reports whether answers are read up to their output before they go to the client.
func (rt *roundTrip) ahead() bool { return rt.tentative || rt.timeouts.answer > 0 }

// isStream reports whether a provider answers with a stream of events.
func isStream(media string) bool {
	return media == "text/event-stream" || media == "application/vnd.amazon.eventstream"
}

// limit makes reads return errNotYet after a time that begins with the first call.
func (b *patientBody) limit(d time.Duration) {
	if b.timer == nil {
		b.timer = time.NewTimer(d)
	}
}

// lift ends the limit.
func (b *patientBody) lift() {
	if b != nil && b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

func (b *patientBody) Read(p []byte) (int, error) {
	if b.timer == nil && b.under == nil {
		return b.ReadCloser.Read(p)
	}
	r := b.under
	if r == nil {
		r = &latentRead{room: firstReads.Get().(*[4 << 10]byte), done: make(chan struct{})}
		b.under = r
		go r.read(b.ReadCloser)
	}
	if !r.returned {
		var late <-chan time.Time
		if b.timer != nil {
			late = b.timer.C
		}
		select {
		case <-r.done:
			r.returned = true
		case <-late:
			return 0, errNotYet
		}
	}
	n := copy(p, r.room[r.from:r.to])
	if r.from += n; r.from < r.to {
		return n, nil
	}
	firstReads.Put(r.room)
	b.under = nil
	return n, r.err
}

// A latentRead is a read in a goroutine of its own. One whose body is closed meanwhile ends by that.
type latentRead struct {
	room     *[4 << 10]byte
	done     chan struct{}
	from, to int
	err      error
	returned bool
}

func (r *latentRead) read(src io.Reader) {
	r.to, r.err = src.Read(r.room[:])
	close(r.done)
}
