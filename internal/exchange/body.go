package exchange

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/caddy-gw/gateway/internal/coding"
	"github.com/caddy-gw/gateway/internal/validation"
)

// A RequestBody is the body of a call, as far as it was read. It is released once no attempt needs it any
// more.
type RequestBody struct {
	request *http.Request
	client  *Client
	memory  *Memory

	limit     int64 // of a body that is read whole, in bytes
	timed     timedBody
	buffer    *Buffer         // of a body that was read whole
	whole     int64           // bytes of that, also once it was released
	maxUpload int64           // bytes that a body may have that passes through
	codings   []string        // of the body as it was sent
	decoder   *coding.Reader  // nil: nothing is decoded
	spool     *Spool          // of a body that passes through
	form      *form           // what was read of a form that passes through
	formNames *formNames      // the objects that a form names; nil: they are not read
	opaque    bool            // buffer is not JSON
	binary    bool            // the body that passes through is media, and not text
	upload    bool            // the body that passes through is a form without parameters of a model
	model     validation.Span // of the model in buffer
	report    validation.Report
	committed bool // buffer was released
}

// PassesThrough reports whether the call has a body that [Payload.Upload] returns.
func (b *RequestBody) PassesThrough() bool { return b.spool != nil }

// JSON is the body of a call that has one in JSON, as the client sent it, or nil.
func (b *RequestBody) JSON() []byte {
	if b.buffer == nil {
		return nil
	}
	return b.buffer.b
}

// HasJSON reports whether the call has a JSON body.
func (b *RequestBody) HasJSON() bool { return b.buffer != nil }

// Replayable returns nil if the body can be sent once more, and otherwise why it
// cannot; see [Spool.Replayable].
func (b *RequestBody) Replayable() error {
	if b.spool == nil {
		return nil
	}
	return b.spool.Replayable()
}

// Params is the body of a call as JSON, or nil.
func (b *RequestBody) Params() []byte {
	if b.opaque {
		return nil
	}
	return b.JSON()
}

// ParamsUnread reports whether the call has parameters that were not read.
func (b *RequestBody) ParamsUnread() bool {
	return b.spool != nil || b.opaque || UpgradesToWebSocket(b.request.Header)
}

// member returns the body's value of a field of its table, or nil.
func (b *RequestBody) member(name string) json.RawMessage {
	if b.buffer == nil || !b.report.Has(name) {
		return nil
	}
	span := b.report.Span(name)
	return b.buffer.b[span.Start:span.End]
}

// peek reads ahead in a body that passes through, until enough returns true.
func (b *RequestBody) peek(enough func(head []byte) bool) *Error {
	if err := b.spool.Peek(enough); err != nil {
		return Overloaded(err)
	}
	return b.Refusal(b.spool.Replayable())
}

// incoming returns the request's body, decoded. As it was sent, it has at most limit bytes.
func (b *RequestBody) incoming(limit int64) io.Reader {
	if b.codings == nil {
		return b.inTime()
	}
	b.decoder = coding.NewReader(&limited{b.inTime(), limit}, b.codings, b.memory)
	return b.decoder
}

// inTime returns the request's body, which has to come in time.
func (b *RequestBody) inTime() *timedBody {
	b.timed.src, b.timed.to, b.timed.timeout = b.request.Body, b.client.writer, b.client.stallTimeout
	return &b.timed
}

// length is the length of the body that incoming returns; -1 if it is unknown.
func (b *RequestBody) length() int64 {
	if b.codings != nil {
		return -1
	}
	return b.request.ContentLength
}

// size is how many bytes the body has that is forwarded. If that is not known yet, it is the most that it may have.
func (b *RequestBody) size() int64 {
	if b.spool == nil {
		return b.whole
	}
	if n := b.length(); n >= 0 {
		return n
	}
	if n, ended := b.spool.size(); ended {
		return n
	}
	return b.maxUpload
}

// passed is how many bytes of the body were read to be forwarded, so far.
func (b *RequestBody) passed() int64 {
	if b.spool == nil {
		return b.whole
	}
	n, _ := b.spool.size()
	return n
}

// Stalled returns the error of a body that did not come in time, or nil. The server cancels the
// request's context of such a call.
func (b *RequestBody) Stalled() error {
	if b.timed.stalled.Load() {
		return errBodyStalled
	}
	return nil
}

// Refusal returns the refusal of a call whose body turned out to be wrong while it passed: too
// large, too slow, not what its coding says, or a form that parsers may read in different ways. It returns nil for other errors.
func (b *RequestBody) Refusal(err error) *Error {
	if refusal := undecoded(err); refusal != nil {
		return refusal
	}
	switch {
	case errors.Is(err, errBodyStalled):
		return bodyTooSlow(b.client.stallTimeout)
	case errors.Is(err, errBodyTooLarge):
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Type: typeInvalidRequest, Code: "payload_too_large", Caller: true,
			Message: "Payload size exceeds the limit for uploads",
		}
	}
	return formRefusal(err)
}
