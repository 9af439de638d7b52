package exchange

import (
	"io"
	"net/http"
	"time"
)

// Bounds of what is read of a body that nobody needs, so that its client comes to read the
// answer: many send all of it first, and a connection that is closed before that takes the
// answer with it.
const (
	lingerBytes  = 256 << 20
	unknownBytes = 64 << 20 // of a caller whose key is not known
	lingerTime   = 10 * time.Second
	// ownDiscard is what net/http itself reads of such a body.
	ownDiscard = 256 << 10
)

// lingers reports whether a part of the body may still come after the answer that is about
// to be written, and readies the answer for that.
func (x *Exchange) lingers(w http.ResponseWriter) bool {
	r := x.request
	switch {
	case r.ProtoMajor != 1: // a stream of HTTP/2 is ended without the connection
		return false
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || x.buffer != nil || x.committed:
		return false
	case x.BodyLate() != nil, r.ContentLength > 0 && r.ContentLength <= ownDiscard:
		return false
	case r.Header.Get("Expect") != "" && x.arrival.src == nil: // it waits for leave to send
		return false
	}
	w.Header()["Connection"] = []string{"close"}
	return true
}

// linger reads on after an answer was written.
func (x *Exchange) linger(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if x.spool != nil { // an attempt that was given up may still be reading it
		x.spool.reading.Lock()
		defer x.spool.reading.Unlock()
	}
	most := int64(lingerBytes)
	if x.Caller == nil {
		most = unknownBytes
	}
	_, _ = io.CopyN(io.Discard, x.request.Body, most) // what ends it matters to nobody
}
