package exchange

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/internal/coding"
)

// minRate is the least rate of a request body in the long run, in bytes a second.
const minRate = 1 << 10

// errBodyStalled means that a body did not come in time.
var errBodyStalled = errors.New("the request body did not come in time")

// A timedBody is a request body that has to come in time: the gateway waits for the client as long
// as timeout says. Each minRate bytes add a second, up to the initial value: a client cannot save
// time for later. Only the time spent waiting for the client counts.
type timedBody struct {
	src     io.Reader
	to      http.ResponseWriter
	timeout time.Duration // 0: no limit
	timer   *readTimer    // nil before the first Read, and after the last
	waited  time.Duration // the part of timeout that is used up
	stalled atomic.Bool
}

// A readTimer ends a Read that takes too long. They are pooled, because most bodies need one only
// for a moment.
type readTimer struct {
	timer   *time.Timer
	to      http.ResponseWriter
	expired atomic.Bool
	pooled  bool // it came from the pool
}

var readTimers = sync.Pool{New: func() any {
	w := &readTimer{pooled: true}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	return w
}}

// expire ends the blocked Read, and all that follow, with an error.
func (w *readTimer) expire() {
	w.expired.Store(true)
	// A writer without deadlines is not a server's, so no client can be slow.
	_ = http.NewResponseController(w.to).SetReadDeadline(time.Unix(1, 0))
}

func (a *timedBody) Read(p []byte) (int, error) {
	switch {
	case a.stalled.Load():
		return 0, errBodyStalled
	case a.timeout == 0:
		return a.src.Read(p)
	case a.timer == nil:
		a.timer = readTimers.Get().(*readTimer)
		a.timer.to = a.to
	}
	begun := time.Now()
	a.timer.timer.Reset(a.timeout - a.waited)
	n, err := a.src.Read(p)
	stalled := !a.timer.timer.Stop() || a.timer.expired.Load()
	a.waited = max(0, a.waited+time.Since(begun)-time.Duration(n)*time.Second/minRate)
	switch {
	case stalled:
		a.stalled.Store(true)
		a.timer = nil // its timer may be about to fire
		return n, errBodyStalled
	case err != nil:
		a.timer.to = nil
		if a.timer.pooled {
			readTimers.Put(a.timer)
		}
		a.timer, a.timeout = nil, 0
	}
	return n, err
}

// bodyTooSlow is the answer to a call whose body does not come in time.
func bodyTooSlow(timeout time.Duration) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: typeTimeout, Caller: true, Err: errBodyStalled,
		Message: "The request body did not come in time: expected some of it every " + strconv.FormatInt(timeout.Milliseconds(), 10) +
			"ms, and in the long run at least " + strconv.Itoa(minRate) + " bytes a second",
	}
}

// ofTheClient reports whether a body ended with an error of the client's, which another attempt
// would see, too.
func ofTheClient(err error) bool {
	return errors.Is(err, errBodyTooLarge) || errors.Is(err, errBodyStalled) || errors.As(err, new(*coding.Error)) || ofTheForm(err)
}
