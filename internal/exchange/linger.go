package exchange

import (
	"io"
	"net/http"
	"time"
)

// Bounds of what is read of a request body after the answer. Many clients send all of it before
// they read the answer, which they would not get if the connection were closed earlier.
const (
	lingerBytes  = 256 << 20
	unknownBytes = 64 << 20 // of a caller whose key is not known
	lingerTime   = 10 * time.Second
	// ownDiscard is how much of such a body net/http reads itself.
	ownDiscard = 256 << 10
)

// lingers reports whether more of the body may arrive after the answer that is about to be
// written. If so, it sets the headers for that.
func (c *Call) lingers(w http.ResponseWriter) bool {
	r := c.request
	switch {
	case r.ProtoMajor != 1: // HTTP/2 ends the stream without the connection
		return false
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || c.buffer != nil || c.committed:
		return false
	case c.BodyStalled() != nil, r.ContentLength > 0 && r.ContentLength <= ownDiscard:
		return false
	case r.Header.Get("Expect") != "" && c.timed.src == nil: // the client waits before it sends the body
		return false
	}
	w.Header()["Connection"] = []string{"close"}
	return true
}

// linger reads the rest of the body after the answer.
func (c *Call) linger(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if c.spool != nil { // an attempt that was given up may still be reading it
		c.spool.reading.Lock()
		defer c.spool.reading.Unlock()
	}
	most := int64(lingerBytes)
	if c.Caller == nil {
		most = unknownBytes
	}
	_, _ = io.CopyN(io.Discard, c.request.Body, most) // an error does not matter
}
