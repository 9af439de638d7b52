package exchange

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// leastRate is the bytes a second that a request body has to come with, in the long run.
const leastRate = 1 << 10

// errBodySlow is that a body did not come in time.
var errBodySlow = errors.New("the request body did not come in time")

// An arrival is a request body that has to come in time: its client may make the gateway
// wait for patience, and has a second of that back for each leastRate bytes, but never more
// than patience: what came fast buys no time to hold it. Only the time in which the gateway
// waits for the client counts.
type arrival struct {
	src      io.Reader
	to       http.ResponseWriter
	patience time.Duration // 0: for ever
	watch    *watch        // nil before the first Read, and after the last
	waited   time.Duration // of patience, that was not made up for
	late     atomic.Bool
}

// A watch ends a Read that takes too long. Watches are pooled with their timers: all but
// the slowest bodies need one for a moment.
type watch struct {
	timer  *time.Timer
	to     http.ResponseWriter
	rang   atomic.Bool
	pooled bool // it is one of watches
}

var watches = sync.Pool{New: func() any {
	w := &watch{pooled: true}
	w.timer = time.AfterFunc(time.Hour, w.ring)
	w.timer.Stop()
	return w
}}

// ring has the Read that waits return with an error, and all that follow.
func (w *watch) ring() {
	w.rang.Store(true)
	// A writer without deadlines is not a server's, so no client can be slow.
	_ = http.NewResponseController(w.to).SetReadDeadline(time.Unix(1, 0))
}

func (a *arrival) Read(p []byte) (int, error) {
	switch {
	case a.late.Load():
		return 0, errBodySlow
	case a.patience == 0:
		return a.src.Read(p)
	case a.watch == nil:
		a.watch = watches.Get().(*watch)
		a.watch.to = a.to
	}
	begun := time.Now()
	a.watch.timer.Reset(a.patience - a.waited)
	n, err := a.src.Read(p)
	late := !a.watch.timer.Stop() || a.watch.rang.Load()
	a.waited = max(0, a.waited+time.Since(begun)-time.Duration(n)*time.Second/leastRate)
	switch {
	case late:
		a.late.Store(true)
		a.watch = nil // it may be ringing still
		return n, errBodySlow
	case err != nil:
		a.watch.to = nil
		if a.watch.pooled {
			watches.Put(a.watch)
		}
		a.watch, a.patience = nil, 0
	}
	return n, err
}

// bodyTooSlow is the answer to a call whose body does not come in time.
func bodyTooSlow(patience time.Duration) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: typeTimeout, Caller: true, Err: errBodySlow,
		Message: "The request body did not come in time: expected some of it every " + strconv.FormatInt(patience.Milliseconds(), 10) +
			"ms, and in the long run at least " + strconv.Itoa(leastRate) + " bytes a second",
	}
}

// BodyLate returns the error of a body that did not come in time, or nil. The server cancels the
// request's context of such a call.
func (c *Call) BodyLate() error {
	if c.arrival.late.Load() {
		return errBodySlow
	}
	return nil
}

// BodyError returns the refusal of a call whose body turned out to be wrong while it
// passed: too large, too slow, or a form that cannot be read; nil if err is about none of
// these.
func (c *Call) BodyError(err error) *Error {
	switch {
	case errors.Is(err, errBodySlow):
		return bodyTooSlow(c.patience)
	case errors.Is(err, errBodyTooLarge):
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Type: typeInvalidRequest, Code: "payload_too_large", Caller: true,
			Message: "Payload size exceeds the limit for uploads",
		}
	case errors.Is(err, errModel):
		return invalidForm()
	case errors.Is(err, errNaming):
		e := badRequest("", "invalid_form", "Invalid form passed: "+errNaming.Error())
		e.Caller = true
		return e
	}
	return nil
}

// ofTheClient reports whether err, with which a body ended, is the client's fault: no
// attempt would see another end of it.
func ofTheClient(err error) bool {
	return errors.Is(err, errBodyTooLarge) || errors.Is(err, errBodySlow)
}
