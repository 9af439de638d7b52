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

// leastRate is the least rate of a request body in the long run, in bytes a second.
const leastRate = 1 << 10

// errBodySlow means that a body did not come in time.
var errBodySlow = errors.New("the request body did not come in time")

// An arrival is a request body that has to come in time: the gateway waits for the client as long
// as patience, which is restored by a second for each leastRate bytes, but never exceeds its
// initial value: a client cannot save time for later. Only the time spent waiting for the client
// counts.
type arrival struct {
	src      io.Reader
	to       http.ResponseWriter
	patience time.Duration // 0: no limit
	watch    *watch        // nil before the first Read, and after the last
	waited   time.Duration // the part of patience that is used up
	late     atomic.Bool
}

// A watch ends a Read that takes too long. Watches are pooled with their timers: most bodies need
// one only for a moment.
type watch struct {
	timer  *time.Timer
	to     http.ResponseWriter
	rang   atomic.Bool
	pooled bool // it came from the pool
}

var watches = sync.Pool{New: func() any {
	w := &watch{pooled: true}
	w.timer = time.AfterFunc(time.Hour, w.ring)
	w.timer.Stop()
	return w
}}

// ring ends the blocked Read, and all that follow, with an error.
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
		a.watch = nil // its timer may be about to fire
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

// BodyError returns the refusal of a call whose body turned out to be wrong while it passed: too
// large, too slow, not what its coding says, or an unreadable form. It returns nil for other errors.
func (c *Call) BodyError(err error) *Error {
	if refusal := c.undecoded(err); refusal != nil {
		return refusal
	}
	switch {
	case errors.Is(err, errBodySlow):
		return bodyTooSlow(c.patience)
	case errors.Is(err, errBodyTooLarge):
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Type: typeInvalidRequest, Code: "payload_too_large", Caller: true,
			Message: "Payload size exceeds the limit for uploads",
		}
	case errors.Is(err, errParts):
		return tooManyParts()
	case errors.Is(err, errModel):
		return invalidForm()
	case errors.Is(err, errNaming):
		e := badRequest("", "invalid_form", "Invalid form passed: "+errNaming.Error())
		e.Caller = true
		return e
	}
	return nil
}

// ofTheClient reports whether a body ended with an error of the client's, which another attempt
// would see, too.
func ofTheClient(err error) bool {
	return errors.Is(err, errBodyTooLarge) || errors.Is(err, errBodySlow) || errors.As(err, new(*coding.Error))
}
