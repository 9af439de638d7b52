package inference

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// maxPeeked bounds how much of an answer is read before it is accepted.
const maxPeeked = 64 << 10

// A peeked body is an answer of which a part was read ahead. The call pays for the memory of that
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

func (p *peeked) Close() error { return p.src.Close() }

// drop frees the part that was read ahead.
func (p *peeked) drop() {
	if p.call != nil {
		p.call.Free(cap(p.seen))
	}
	p.seen, p.off = nil, 0
}

// begins looks at the beginning of an answer with status 200. It returns nil if real output
// follows, and otherwise why not. Until then another attempt may follow. What was read is put
// back.
func begins(c *exchange.Call, res *http.Response) (why error) {
	if res.Header.Get("Content-Encoding") != "" {
		return nil // no encoding was asked for, and it is not decoded
	}
	media := mediaType(res.Header)
	var seen []byte
	switch media {
	case "text/event-stream":
		seen, why = firstEvents(res.Body)
	case "application/json":
		seen, why = wholeJSON(res.Body, res.ContentLength)
	default:
		return nil
	}
	if err := c.Reserve(cap(seen)); err != nil {
		return err
	}
	res.Body = &peeked{call: c, seen: seen, src: res.Body}
	return why
}

// firstEvents reads events until one is output, or an error, or the end.
func firstEvents(r io.Reader) (seen []byte, why error) {
	seen = make([]byte, 0, 4<<10)
	for line := 0; len(seen) < maxPeeked; {
		if len(seen) == cap(seen) {
			seen = append(seen, 0)[:len(seen)]
		}
		n, err := r.Read(seen[len(seen):cap(seen)])
		seen = seen[:len(seen)+n]
		for {
			end := bytes.IndexByte(seen[line:], '\n')
			if end < 0 {
				break
			}
			data, ok := bytes.CutPrefix(seen[line:line+end], []byte("data:"))
			line += end + 1
			if !ok {
				continue // comments, pings, names of events
			}
			switch kind(bytes.TrimSpace(data)) {
			case output:
				return seen, nil
			case failure:
				return seen, errors.New("the provider's stream began with an error")
			}
		}
		switch {
		case err == io.EOF:
			return seen, brokenOff("the provider's stream ended before any output")
		case err != nil:
			return seen, brokenOff("the provider's stream broke off before any output: " + err.Error())
		}
	}
	return seen, nil
}

// A brokenOff error means that an answer began but did not get as far as its output.
type brokenOff string

func (e brokenOff) Error() string { return string(e) }

type eventKind uint8

const (
	preamble eventKind = iota // neither output nor an error: roles, pings, [DONE]
	output
	failure
)

// preambles are the types of events that come before output, in the APIs that name
// their events.
var preambles = map[string]bool{
	"response.created": true, "response.queued": true, "response.in_progress": true, "response.output_item.added": true,
	"response.content_part.added": true, "message_start": true, "content_block_start": true, "ping": true,
}

// kind classifies an event by its data. A line that is not JSON is not output.
func kind(data []byte) eventKind {
	if jsonscan.Members(data, nil) != nil {
		return preamble
	}
	event := gjson.ParseBytes(data)
	eventType := event.Get("type").Str
	switch {
	case isError(event), eventType == "error", eventType == "response.failed":
		return failure
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
func wholeJSON(r io.Reader, length int64) (seen []byte, why error) {
	if length >= 0 && length < maxPeeked {
		seen = make([]byte, 0, length+1) // the last byte lets the last Read see the end
	} else {
		seen = make([]byte, 0, 4<<10)
	}
	var err error
	for err == nil && len(seen) < maxPeeked {
		if len(seen) == cap(seen) {
			seen = append(make([]byte, 0, min(4*cap(seen), maxPeeked)), seen...)
		}
		var n int
		n, err = r.Read(seen[len(seen):cap(seen)])
		seen = seen[:len(seen)+n]
	}
	if err != nil && err != io.EOF {
		return seen, brokenOff("the provider's answer broke off: " + err.Error())
	}
	if answer := membersOf(seen); len(seen) < maxPeeked && answer.onlyError() {
		return seen, errors.New(failureIn200)
	}
	return seen, nil
}
