package chat

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A StreamWriter writes events in a client's dialect. Between Begin and Take it appends to
// the buffer that was passed to Begin.
type StreamWriter interface {
	Sink
	Begin(dst []byte)
	Take() []byte
	// End writes what follows the last event.
	End()
}

// A Framer splits a provider's stream into messages. Push takes the next bytes, which may
// be cut anywhere, and calls yield for each message that is complete.
type Framer interface {
	Push(src []byte, yield func(name string, data []byte) error) error
	// Rest calls yield for a final message that is ended only by the end of the stream.
	Rest(yield func(name string, data []byte) error) error
	// Buffered returns the size in bytes of the buffer for incomplete messages.
	Buffered() int
}

// A Stream translates a provider's stream for a client. Its output does not depend on how
// the input is cut.
type Stream struct {
	Framer  Framer
	Decoder Decoder
	Writer  StreamWriter

	begun   bool   // the answer has
	start   *Event // its beginning, until more of it comes
	skipped int
	usage   Usage
	used    bool

	name   string // of the current message
	data   []byte
	failed []byte // the message that was an error
	cause  string
}

// Translate appends to dst what the client gets for the next bytes of the provider's
// stream. After an error, the stream cannot be read any further.
func (s *Stream) Translate(dst, src []byte) ([]byte, error) {
	s.Writer.Begin(dst)
	err := s.Framer.Push(src, s.message)
	return s.Writer.Take(), err
}

// Buffered returns the size in bytes of the buffers for incomplete messages.
func (s *Stream) Buffered() int { return s.Framer.Buffered() }

// ErrCut means that a stream stopped before its end.
var ErrCut = errors.New("the stream stopped before its end")

// End appends what follows the end of the provider's stream, or returns ErrCut.
func (s *Stream) End(dst []byte) ([]byte, error) {
	s.Writer.Begin(dst)
	if err := s.Framer.Rest(s.message); err != nil {
		return s.Writer.Take(), err
	}
	if !s.Decoder.End(s) {
		return s.Writer.Take(), ErrCut
	}
	s.begin()
	s.Writer.End()
	return s.Writer.Take(), nil
}

func (s *Stream) message(name string, data []byte) error {
	s.name, s.data = name, data
	err := s.Decoder.Message(name, data, s)
	s.data = nil
	if err == nil {
		return nil
	}
	var syntax *jsonscan.SyntaxError
	if errors.As(err, &syntax) {
		s.skipped++
		return nil
	}
	return err
}

// maxMessage bounds one message of a stream, which may hold an image.
const maxMessage = 16 << 20

// SSE splits server-sent events, whose lines end with LF, CRLF or CR. Comments, events
// without data and [DONE] are dropped.
type SSE struct {
	buf   []byte // an incomplete line
	name  string
	known string // the latest name, which most events repeat
	data  []byte
	begun bool // the event has data
	cr    bool // the last line ended with CR, so that an LF would belong to it
	read  bool // the first line was read
	done  bool // [DONE] came
}

// Push takes the next bytes of the stream.
func (f *SSE) Push(src []byte, yield func(name string, data []byte) error) error {
	if f.cr && len(src) > 0 {
		f.cr = false
		if src[0] == '\n' {
			src = src[1:]
		}
	}
	at, lf := 0, -1 // start of the line, and the next LF, which a CR may precede
	for {
		if lf < at {
			if lf = bytes.IndexByte(src[at:], '\n'); lf < 0 {
				lf = len(src)
			} else {
				lf += at
			}
		}
		end := lf
		if cr := bytes.IndexByte(src[at:lf], '\r'); cr >= 0 {
			end = at + cr
		}
		if end == len(src) {
			break
		}
		line := src[at:end]
		if len(f.buf) > 0 {
			f.buf = append(f.buf, line...)
			line, f.buf = f.buf, f.buf[:0]
		}
		at = end + 1
		if src[end] == '\r' {
			switch {
			case at == len(src):
				f.cr = true
			case src[at] == '\n':
				at++
			}
		}
		if err := f.line(line, yield); err != nil {
			return err
		}
	}
	f.buf = append(f.buf, src[at:]...)
	if len(f.buf)+len(f.data) > maxMessage {
		return fmt.Errorf("a message of more than %d bytes", maxMessage)
	}
	return nil
}

// Buffered returns the size in bytes of the buffers for incomplete events.
func (f *SSE) Buffered() int { return cap(f.buf) + cap(f.data) }

var byteOrderMark = []byte("\ufeff")

func (f *SSE) line(line []byte, yield func(name string, data []byte) error) error {
	if !f.read {
		line, f.read = bytes.TrimPrefix(line, byteOrderMark), true
	}
	if len(line) == 0 {
		return f.event(yield)
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		if string(value) != f.known {
			f.known = string(value)
		}
		f.name = f.known
	case "data":
		if f.begun {
			f.data = append(f.data, '\n')
		}
		f.data, f.begun = append(f.data, value...), true
	}
	return nil
}

func (f *SSE) event(yield func(name string, data []byte) error) error {
	name, data := f.name, bytes.TrimSpace(f.data)
	f.name, f.data, f.begun = "", f.data[:0], false
	if string(data) == "[DONE]" {
		f.done = true
		return nil
	}
	if len(data) == 0 {
		return nil
	}
	return yield(name, data)
}

// Done reports whether [DONE] came. An event that is yielded then came after it.
func (f *SSE) Done() bool { return f.done }

// Rest yields a last event that is not followed by an empty line.
func (f *SSE) Rest(yield func(name string, data []byte) error) error {
	if len(f.buf) > 0 {
		if err := f.line(f.buf, yield); err != nil {
			return err
		}
		f.buf = f.buf[:0]
	}
	return f.event(yield)
}

// Interface guards
var _ Framer = (*SSE)(nil)

// Event passes an event on to the writer. It remembers the usage, which the writer does not
// report if the stream is cut. The beginning of an answer is held back until more of it comes:
// if that is an error, nothing was sent yet, and clients get a status that they act on.
func (s *Stream) Event(e *Event) {
	switch {
	case e.Kind == UsageEvent:
		if s.usage, s.used = e.Usage, true; s.start != nil {
			return
		}
	case e.Kind == Start && !s.begun:
		s.begun, s.start = true, &Event{Kind: Start, Choice: e.Choice, ID: clone(e.ID), Model: clone(e.Model), Created: e.Created}
		return
	case e.Kind == Failure && s.failed == nil && s.data != nil:
		s.failed, s.cause = bytes.Clone(s.data), s.name
	}
	s.begin()
	s.Writer.Event(e)
}

// begin passes on the beginning of the answer, and the usage that came with it.
func (s *Stream) begin() {
	if s.start == nil {
		return
	}
	s.Writer.Event(s.start)
	s.start = nil
	if s.used {
		s.Writer.Event(&Event{Kind: UsageEvent, Usage: s.usage})
	}
}

// Failed returns the provider's message that was an error, and its name; nil if there was
// none.
func (s *Stream) Failed() (name string, data []byte) { return s.cause, s.failed }

// Used returns the usage reported so far, and whether there is any.
func (s *Stream) Used() (Usage, bool) { return s.usage, s.used }

// Skips returns the number of messages that were not JSON and were dropped.
func (s *Stream) Skips() int { return s.skipped }
