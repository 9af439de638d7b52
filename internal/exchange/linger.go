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
func (b *RequestBody) lingers(w http.ResponseWriter) bool {
	r := b.request
	switch {
	case r.ProtoMajor != 1: // HTTP/2 ends the stream without the connection
		return false
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || b.buffer != nil || b.committed:
		return false
	case b.Stalled() != nil, r.ContentLength > 0 && r.ContentLength <= ownDiscard:
		return false
	case r.Header.Get("Expect") != "" && b.timed.src == nil: // the client waits before it sends the body
		return false
	}
	w.Header()["Connection"] = []string{"close"}
	return true
}

// linger reads the rest of the body after the answer. known: the caller is.
func (b *RequestBody) linger(w http.ResponseWriter, known bool) {
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if b.spool != nil { // an attempt that was given up may still be reading it
		b.spool.reading.Lock()
		defer b.spool.reading.Unlock()
	}
	most := int64(lingerBytes)
	if !known {
		most = unknownBytes
	}
	_, _ = io.CopyN(io.Discard, b.request.Body, most) // an error does not matter
}
