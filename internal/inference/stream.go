package inference

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A stream passes a provider's server-sent events on as they come, line by line and byte for
// byte, and watches them for usage, the finish reason and the end. If the provider breaks off,
// the client gets an error event instead of half a line, and no [DONE]; if the provider merely
// forgot [DONE], the client gets one.
type stream struct {
	src io.ReadCloser
	to  *watcher

	idle    time.Duration
	silence *time.Timer // runs while the provider is silent; nil: there is no limit
	silent  atomic.Bool // the provider was silent for too long

	full        bool             // the last Read filled buf
	buf         []byte           // what was read; it is passed on up to passed
	pooled      *[startSize]byte // what buf is a part of; nil: it is not pooled
	passed, end int              // buf[passed:end] is whole lines
	err         error            // returned once they are passed on

	read    bool // the first line was
	returns bool // lines end with CR alone
	halved  bool // the last byte was such a CR: an LF after it belongs to it
	waiting int  // bytes of the lines behind end that wait for the data of their event
	skips   bool // the rest of the event is removed
	events  int64

	open       bool // the last line that was passed on did not end its event
	data       bool // that event has data already
	done       bool // [DONE] came
	finished   bool // a choice finished
	errored    bool // the provider sent an error event of its own; no [DONE] follows it
	closed     bool // the last event of the answer came, in the APIs that name their events
	hooks      []EventHook
	refused    error // why a hook ends it
	addedUsage bool  // the client does not ask for usage: a chunk that has nothing else is removed

	frame frame     // the last event that is like many
	texts textCount // that came

	sampled *exchange.Attempt // what the texts are kept for; nil: they are not

	// Of the current event.
	scan            jsonscan.Scanner
	visit           func(jsonscan.Key, int) (int, error)
	usage, response []byte
	failed, ends    bool
	empty           bool // it has an empty list of choices
	begins          bool // it begins a message, whose usage says nothing of the answer
	copies          textCopy
	spare           bool // it has only usage, which the client does not ask for
}

const (
	smallSize = 512     // of a buffer at first: most events are shorter, and most streams slow
	startSize = 8 << 10 // of a buffer once a Read has filled it
	leastRead = 512
	maxLine   = 16 << 20 // a line may hold an image
)

// streamBuffers are those of streams that come fast. They are in use until the stream is closed.
var streamBuffers = sync.Pool{New: func() any { return new([startSize]byte) }}

// newStream watches src, which may be silent for idle (0: for ever).
func newStream(src io.ReadCloser, to *watcher, idle time.Duration) *stream {
	s := &stream{src: src, to: to, idle: idle}
	s.visit = s.member
	if ahead, ok := src.(*peeked); ok { // it takes one Read, and one write to the client
		s.full = len(ahead.rest()) > smallSize
	}
	if idle > 0 {
		s.silence = time.AfterFunc(idle, func() {
			s.silent.Store(true)
			src.Close() // ends the blocked Read
		})
	}
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	for s.passed == s.end {
		if s.err != nil {
			return 0, s.err
		}
		s.fill()
	}
	n := copy(p, s.buf[s.passed:s.end])
	s.to.x.Excerpts.Sent(p[:n])
	s.passed += n
	return n, nil
}

func (s *stream) Close() error {
	if s.silence != nil {
		s.silence.Stop()
	}
	s.release(nil)
	s.passed, s.end = 0, 0
	if s.err == nil {
		s.err = errStreamClosed
	}
	return s.src.Close()
}

var errStreamClosed = errors.New("read of a closed stream")

// fill reads from the provider once, and marks the whole lines.
func (s *stream) fill() {
	if s.passed > 0 { // a copy onto itself takes no time, but for the race detector
		s.buf = s.buf[:copy(s.buf, s.buf[s.passed:])]
	}
	s.passed, s.end = 0, 0
	if size := larger(len(s.buf), cap(s.buf), s.full); size > cap(s.buf) {
		if err := s.to.x.Memory.Reserve(size - max(cap(s.buf), smallSize)); err != nil {
			s.finish(outOfMemory(err))
			return
		}
		s.grow(size)
	}
	from := len(s.buf)
	n, err := s.src.Read(s.buf[from:cap(s.buf)])
	switch {
	case s.silent.Load():
		err = &cut{kind: "stream_idle_timeout", why: fmt.Sprintf("was silent for %v, longer than stream_idle_timeout allows", s.idle)}
	case s.silence != nil:
		s.silence.Reset(s.idle)
	}
	s.full = from+n == cap(s.buf)
	s.buf = s.buf[:from+n]
	if n > 0 {
		s.to.noteFirstByte()
	}
	from = s.unify(from)
	if last := bytes.LastIndexByte(s.buf[from:], '\n'); last >= 0 {
		s.end = s.watch(0, s.waiting, from+last+1)
		switch {
		case s.refused != nil:
			if err = s.refused; !errors.As(err, new(*cut)) {
				err = &cut{kind: "answer_refused", why: "was refused: " + err.Error()}
			}
		case s.waiting > maxLine:
			err = &cut{kind: "stream_malformed", why: fmt.Sprintf("has an event of more than %d bytes before its data", maxLine)}
		}
	} else if len(s.buf) > maxLine {
		err = &cut{kind: "stream_malformed", why: fmt.Sprintf("has a line of more than %d bytes", maxLine)}
	}
	if err != nil {
		s.finish(err)
	}
}

// grow moves what is in the buffer to one of the given size.
func (s *stream) grow(size int) {
	if size != startSize {
		s.release(append(make([]byte, 0, size), s.buf...))
		return
	}
	pooled := streamBuffers.Get().(*[startSize]byte)
	s.release(append(pooled[:0], s.buf...))
	s.pooled = pooled
}

// release gives the buffer back, and takes another.
func (s *stream) release(other []byte) {
	if s.pooled != nil {
		streamBuffers.Put(s.pooled)
	}
	s.buf, s.pooled = other, nil
}

// larger returns the size of buffer for more, after length bytes; full: the last Read filled it,
// or the next one is known to take more than a small buffer.
func larger(length, size int, full bool) int {
	switch {
	case size == 0 && !full:
		return smallSize
	case full && size < startSize && length+leastRead <= startSize:
		return startSize
	case size-length < leastRead:
		return max(2*size, 2*leastRead)
	}
	return size
}

// watch looks at the whole lines in buf[start:end] and removes malformed events (their data is not
// JSON and is all of it), what follows the end of a stream, and usage that the client did not ask
// for. It returns the end of what can be passed on: what an event says before its data waits for
// that, and data that depends on the next line for this. The first waiting bytes are lines that did so before.
func (s *stream) watch(start, waiting, end int) int {
	kept, begin, at := start, start, start+waiting // buf[begin:at] waits
	s.waiting = 0
	for at < end {
		next := at + bytes.IndexByte(s.buf[at:end], '\n') + 1
		line := bytes.TrimRight(s.buf[at:next], "\r\n")
		if !s.read {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		data, isData := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case s.skips: // the rest of an event that is removed
			s.skips = len(line) > 0
			at, begin = next, next
			continue
		case isData && (s.done || s.errored && isDone(data)): // nothing follows [DONE], nor it an error
			s.done, s.skips = true, !s.data
			at, begin = next, next
			continue
		case isData && !s.event(data) && !s.data:
			if next == end {
				return s.keep(kept, begin)
			}
			if s.buf[next] == '\n' || s.buf[next] == '\r' {
				if !s.spare {
					s.to.out.Malformed++
				}
				s.skips, s.read = true, true
				at, begin = next, next
				continue
			}
		case !isData && !s.data && len(line) > 0 && line[0] != ':':
			at = next
			continue
		}
		if s.refused != nil { // nothing is passed on any more
			s.buf = s.buf[:kept]
			return kept
		}
		if isData && !s.data {
			s.events++
		}
		s.read = true
		s.open, s.data = len(line) > 0, isData || s.data && len(line) > 0
		if kept != begin {
			copy(s.buf[kept:], s.buf[begin:next])
		}
		kept += next - begin
		at, begin = next, next
	}
	s.waiting = at - begin
	return s.keep(kept, begin)
}

// keep moves what is behind the lines that are passed on up to them, and returns their end.
func (s *stream) keep(kept, begin int) int {
	if kept != begin {
		s.buf = s.buf[:kept+copy(s.buf[kept:], s.buf[begin:])]
	}
	return kept
}

// unify makes LF of each CR in buf[from:] that ends a line alone, and returns from where on there
// may be new ends of lines. A CR at the end may be half of a CRLF, unless the stream has shown that
// it ends its lines with CR.
func (s *stream) unify(from int) int {
	if s.halved && len(s.buf) > from {
		s.halved = false
		if s.buf[from] == '\n' {
			s.buf = append(s.buf[:from], s.buf[from+1:]...)
		}
	}
	if from > 0 && s.buf[from-1] == '\r' {
		from--
	}
	for at := from; ; {
		i := bytes.IndexByte(s.buf[at:], '\r')
		if i < 0 {
			return from
		}
		i += at
		switch last := i+1 == len(s.buf); {
		case last && s.returns:
			s.buf[i], s.halved = '\n', true
			return from
		case last:
			return from
		case s.buf[i+1] != '\n':
			s.buf[i], s.returns = '\n', true
		}
		at = i + 1
	}
}

var byteOrderMark = []byte("\ufeff")

// event looks at the data of an event, and reports whether it is passed on. Every chunk of every
// stream takes this way: one scan.
func (s *stream) event(data []byte) bool {
	data, s.spare = bytes.TrimSpace(data), false
	switch {
	case string(data) == "[DONE]":
		s.done = true
		return true
	case len(data) == 0 || data[0] != '{':
		return wellFormed(data)
	}
	s.usage, s.response, s.failed, s.ends, s.empty, s.begins, s.copies = nil, nil, false, s.finished, false, false, inPortions
	if s.frame.fits(data) {
		text := s.frame.text(data)
		if s.sampled != nil && s.frame.copies == inPortions {
			s.sampled.Sample(text)
		}
		s.text(data, s.frame.copies, len(text))
	} else {
		finished, closed := s.finished, s.closed
		s.scan = jsonscan.Scanner(data)
		if s.scan.Document(s.visit) != nil {
			return false
		}
		s.finished = s.ends
		if s.usage == nil && s.response == nil && !s.failed && !s.empty && s.finished == finished && s.closed == closed {
			s.frame.take(data, s.copies)
		}
		sampled := s.sampled
		if s.copies != inPortions { // it came before
			sampled = nil
		}
		s.text(data, s.copies, textIn(data, sampled))
	}
	for _, hook := range s.hooks {
		if s.refused = hook.Event(data); s.refused != nil {
			break
		}
	}
	s.to.describe(data)
	if s.response != nil {
		response := membersOf(s.response)
		s.to.remember(response)
		s.to.book(response)
		s.to.attempt.Usage.Partial = s.begins
	}
	if s.usage != nil {
		s.to.book(membersOf(data))
		s.to.attempt.Usage.Partial = false
	}
	if s.failed && !s.errored {
		s.errored = true
		s.to.erred()
		if s.to.out.Failure == "" { // if the gateway itself has failed it, the reason is known
			s.to.out.Failure = failureInStream
		}
	}
	s.spare = s.addedUsage && s.empty && s.usage != nil
	return !s.spare
}

// text notes how long the texts of an event are. One that has a picture or sound instead counts as an
// answer in one piece does in which there is no text.
func (s *stream) text(data []byte, of textCopy, n int) {
	if s.to.addText(s.texts.add(of, n)); n == 0 && jsonscan.Mentions(data, `data:`, `b64_json"`, `partial_image_b64"`, `audio"`, `image_generation_call"`, `response.audio.delta"`, `response.output_audio.delta"`) {
		s.to.addBody(len(data), 0)
	}
}

// member looks at a member of an event. newStream makes a function of it once, to save an
// allocation for each event.
func (s *stream) member(key jsonscan.Key, at int) (int, error) {
	end, err := s.scan.Value(at, 1)
	if err != nil {
		return end, err
	}
	switch value := s.scan[at:end]; {
	case key.Is("choices"):
		s.ends = s.ends || finishes(value)
		s.empty = len(value) == 2
	case key.Is("type"):
		s.closed = s.closed || lastEvents[string(value)]
		s.failed = s.failed || string(value) == `"response.failed"`
		s.begins = string(value) == `"message_start"`
		s.copies = copyOf(value)
	case key.Is("model") && s.sampled != nil:
		s.sampled.NameModel(value)
	case value[0] != '{':
	case key.Is("usage"):
		s.usage = value
	case key.Is("error"):
		s.failed = true
	case key.Is("response"), key.Is("message"): // of Responses, and of Messages
		s.response = value
	}
	return end, nil
}

// lastEvents are the types of final events, in the APIs that name their events.
var lastEvents = map[string]bool{
	`"response.completed"`: true, `"response.incomplete"`: true, `"response.failed"`: true, `"message_stop"`: true, `"error"`: true,
}

// closes reports whether the streams of the call's endpoint end with such an event.
func (s *stream) closes() bool {
	name := s.to.x.Endpoint.Name
	return name == exchange.CreateResponse || name == providers.Messages
}

// wellFormed reports whether data is nothing, or one JSON value.
func wellFormed(data []byte) bool {
	if len(data) == 0 {
		return true
	}
	end, err := jsonscan.Scanner(data).Value(0, 0)
	return err == nil && end == len(data)
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

// finishKey is the end of a key. Searching without the first quote is faster, as a
// search does not stop at every quote.
var finishKey = []byte(`finish_reason"`)

// finishes reports whether a choice finishes: some finish_reason is a text. Inside a
// string, the quotes of a key would be escaped, and its end would not be found.
func finishes(choices []byte) bool {
	for {
		i := bytes.Index(choices, finishKey)
		if i < 0 {
			return false
		}
		whole := i > 0 && choices[i-1] == '"'
		choices = bytes.TrimLeft(choices[i+len(finishKey):], " \t")
		if value, ok := bytes.CutPrefix(choices, []byte(":")); ok && whole {
			if value = bytes.TrimLeft(value, " \t"); len(value) > 0 && value[0] == '"' {
				return true
			}
		}
	}
}

// Interface guards
var _ io.ReadCloser = (*stream)(nil)
