package inference

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxPeeked bounds how much of an answer is read before it is accepted.
const maxPeeked = 64 << 10

// A peeked body is an answer that was read ahead in part. The call pays for the memory of that
// part until it is read again.
type peeked struct {
	call *exchange.Call // nil: no memory is reserved
	seen []byte
	off  int
	src  io.ReadCloser

	joined bool // what was seen is read together with what follows
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.off == len(p.seen) {
		p.drop()
		return p.src.Read(b)
	}
	n := copy(b, p.seen[p.off:])
	p.off += n
	if p.joined && n < len(b) {
		more, err := p.src.Read(b[n:])
		return n + more, err
	}
	return n, nil
}

// rest is what was seen and not read again.
func (p *peeked) rest() []byte { return p.seen[p.off:] }

func (p *peeked) Close() error { return p.src.Close() }

// drop frees the part that was read ahead.
func (p *peeked) drop() {
	if p.call != nil {
		p.call.Memory.Free(cap(p.seen))
	}
	p.seen, p.off = nil, 0
}

// checkBeginning looks at the beginning of an answer with status 200. It returns nil if it may go to the
// client, and otherwise why not, which is an error of the call's memory if that has no room. With ahead, real output has to follow: until then another attempt
// may. Without, a stream has to begin with an event that is not an error, and if that has no output,
// no error may follow it soon: body, whose reads can be limited, is what the stream is read from (nil:
// the first event decides). What was read is put back.
func checkBeginning(c *exchange.Call, res *http.Response, ahead bool, body *timeoutBody) (why error) {
	media := mediaType(res.Header)
	var seen []byte
	switch {
	case media == "text/event-stream":
		seen, why = firstEvents(c, res.Body, ahead, body)
	case media == "application/json" && ahead:
		seen, why = wholeJSON(c, res.Body, res.ContentLength)
	default:
		return nil
	}
	res.Body = &peeked{call: c, seen: seen, src: res.Body}
	return why
}

// maxQuiet is how long a stream may consist of comments and pings before it goes to the client,
// whom they are to keep waiting.
const maxQuiet = 15 * time.Second

// firstReads are buffers for the beginnings of streams. They have room for what net/http reads at
// once, so that a burst is not divided.
var firstReads = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// firstEvents reads events until one is output, or an error, or the end; unless ahead, until any, and
// from a timeoutBody those of the next moment. The memory is the caller's, and no more than what was read;
// the call pays for it, and while the stream is waited for, for the buffers.
func firstEvents(c *exchange.Call, r io.Reader, ahead bool, body *timeoutBody) (seen []byte, why error) {
	room := firstReads.Get().(*[4 << 10]byte)
	defer firstReads.Put(room)
	if err := c.Memory.Reserve(len(room)); err != nil {
		return nil, err
	}
	read, why := firstEventsIn(c, room[:0], r, ahead, body)
	seen = bytes.Clone(read)
	c.Memory.Free(cap(read) - cap(seen))
	return seen, why
}

// firstEventsIn is firstEvents with a buffer that the call pays for, as it does for the larger one that it
// may become.
func firstEventsIn(c *exchange.Call, seen []byte, r io.Reader, ahead bool, body *timeoutBody) ([]byte, error) {
	defer body.clearTimeout()
	look := startScanner{}
	var deadline time.Time
	for len(seen) < maxPeeked {
		larger, err := withRoom(c, seen)
		if err != nil {
			return seen, err
		}
		from := len(seen)
		n, err := r.Read(larger[from:cap(larger)])
		seen = larger[:from+n]
		switch wrong := look.at(seen[from:], errors.Is(err, io.EOF)); {
		case look.failed != nil:
			return seen, look.failed
		case look.output, look.begun && !ahead && body == nil, errors.Is(err, errReadTimeout):
			return seen, nil
		case wrong != nil:
			return seen, incompleteError{"the provider's stream cannot be read", wrong}
		case errors.Is(err, io.EOF):
			return seen, incompleteError{"the provider's stream ended before any output", nil}
		case err != nil:
			return seen, incompleteError{"the provider's stream broke off before any output", err}
		}
		if !ahead {
			if look.begun {
				body.setTimeout(preambleWait)
			}
			if now := time.Now(); deadline.IsZero() {
				deadline = now.Add(maxQuiet)
			} else if now.After(deadline) {
				return seen, nil
			}
		}
	}
	return seen, nil
}

// withRoom returns what was read in a larger buffer if its own is full. The call pays for it.
func withRoom(c *exchange.Call, seen []byte) ([]byte, error) {
	if len(seen) < cap(seen) {
		return seen, nil
	}
	size := min(4*cap(seen), maxPeeked)
	if err := c.Memory.Reserve(size); err != nil {
		return seen, err
	}
	larger := append(make([]byte, 0, size), seen...)
	c.Memory.Free(cap(seen))
	return larger, nil
}

// A startScanner looks at the first events of a stream.
type startScanner struct {
	frames chat.SSE
	begun  bool // an event came that is more than a ping
	output bool
	failed *failedEvent // came before output
}

// at looks at the next bytes, which may be the last, until it is decided what the stream begins
// with. It does so in small portions: as a rule, the first event decides.
func (l *startScanner) at(b []byte, last bool) error {
	for len(b) > 0 && !l.decided() {
		n := min(len(b), smallSize)
		if err := l.frames.Push(b[:n], l.event); err != nil {
			return err
		}
		b = b[n:]
	}
	if !last || l.decided() {
		return nil
	}
	return l.frames.Rest(l.event)
}

func (l *startScanner) decided() bool { return l.output || l.failed != nil }

func (l *startScanner) event(_ string, data []byte) error {
	if l.decided() {
		return nil
	}
	switch kind(data) {
	case output:
		l.output = true
	case failure:
		l.failed = &failedEvent{bytes.Clone(data)}
	case preamble:
		l.begun = true
	}
	return nil
}

// A failedEvent is an error by which a stream began.
type failedEvent struct{ data []byte }

func (e *failedEvent) Error() string { return "the provider's stream began with an error" }

// A incompleteError error means that an answer began but did not get as far as its output.
type incompleteError struct {
	what  string
	cause error // nil: it ended
}

func (e incompleteError) Error() string {
	if e.cause == nil {
		return e.what
	}
	return e.what + ": " + e.cause.Error()
}

func (e incompleteError) Unwrap() error { return e.cause }

type eventKind uint8

const (
	noise    eventKind = iota // pings, and what is not JSON
	preamble                  // neither output nor an error, such as roles
	output
	failure
)

// preambles are the types of events that come before output, in the APIs that name
// their events.
var preambles = map[string]bool{
	"response.created": true, "response.queued": true, "response.in_progress": true, "response.output_item.added": true,
	"response.content_part.added": true, "message_start": true, "content_block_start": true,
}

// kind classifies an event by its data.
func kind(data []byte) eventKind {
	if jsonscan.Members(data, nil) != nil {
		if wellFormed(data) {
			return preamble
		}
		return noise
	}
	event := gjson.ParseBytes(data)
	eventType := event.Get("type").Str
	switch {
	case isError(event), eventType == "error", eventType == "response.failed":
		return failure
	case eventType == "ping":
		return noise
	case preambles[eventType]:
		return preamble
	}
	choices := event.Get("choices")
	if !choices.IsArray() {
		return output
	}
	found := preamble
	choices.ForEach(func(_, choice gjson.Result) bool {
		if choice.Get("finish_reason").Type == gjson.String || choice.Get("text").Str != "" {
			found = output
		}
		choice.Get("delta").ForEach(func(key, value gjson.Result) bool {
			if key.Str != "role" && !empty(value) {
				found = output
			}
			return found != output
		})
		return found != output
	})
	return found
}

// isError reports whether an answer or an event holds an error: an object, or a text.
func isError(v gjson.Result) bool { return !empty(v.Get("error")) }

func empty(v gjson.Result) bool {
	switch {
	case v.Type == gjson.Null, v.Type == gjson.False: // null counts as absent
		return true
	case v.IsArray():
		return len(v.Array()) == 0
	}
	return v.Raw == `""`
}

// wholeJSON reads a short answer and finds the error that some providers send with
// status 200. length is what its header says of it, -1 where it says nothing.
// The call pays for its memory.
func wholeJSON(c *exchange.Call, r io.Reader, length int64) (seen []byte, why error) {
	size := 4 << 10
	if length >= 0 && length < maxPeeked {
		size = int(length) + 1 // the last byte lets the last Read see the end
	}
	if err := c.Memory.Reserve(size); err != nil {
		return nil, err
	}
	seen = make([]byte, 0, size)
	var err error
	for err == nil && len(seen) < maxPeeked {
		if seen, err = withRoom(c, seen); err != nil {
			return seen, err
		}
		var n int
		n, err = r.Read(seen[len(seen):cap(seen)])
		seen = seen[:len(seen)+n]
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return seen, incompleteError{"the provider's answer broke off", err}
	}
	if answer := membersOf(seen); len(seen) < maxPeeked && answer.onlyError() {
		return seen, errors.New(failureIn200)
	}
	return seen, nil
}
