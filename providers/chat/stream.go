package chat

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// A StreamWriter writes events in the shape of a caller's dialect. Between Begin and
// Take it appends to what Begin was given.
type StreamWriter interface {
	Sink
	Begin(dst []byte)
	Take() []byte
	// End writes what follows the last event.
	End()
}

// A Framer cuts a provider's stream into messages. Push takes the next bytes, cut
// anywhere, and calls yield for each message that is complete.
type Framer interface {
	Push(src []byte, yield func(name string, data []byte) error) error
	// Rest calls yield for a message that only the end of the stream completes.
	Rest(yield func(name string, data []byte) error) error
	// Held is how many bytes of memory wait for the rest of a message.
	Held() int
}

// A Stream translates one stream of a provider's for a caller. It is a function on
// bytes: wherever they are cut, the answer is the same.
type Stream struct {
	Framer  Framer
	Decoder Decoder
	Writer  StreamWriter

	skipped int
	usage   Usage
	used    bool

	name   string // of the message at hand
	data   []byte
	failed []byte // the message that was an error, and its name
	cause  string
}

// Translate appends to dst what the caller gets for the next bytes of the provider. An
// error means that the stream cannot be read any further.
func (s *Stream) Translate(dst, src []byte) ([]byte, error) {
	s.Writer.Begin(dst)
	err := s.Framer.Push(src, s.message)
	return s.Writer.Take(), err
}

// Held is how many bytes of memory wait for the rest of a message.
func (s *Stream) Held() int { return s.Framer.Held() }

// ErrCut is that a stream stopped before its end.
var ErrCut = errors.New("the stream stopped before its end")

// End appends what follows when the provider's stream has ended, or returns ErrCut.
func (s *Stream) End(dst []byte) ([]byte, error) {
	s.Writer.Begin(dst)
	if err := s.Framer.Rest(s.message); err != nil {
		return s.Writer.Take(), err
	}
	if !s.Decoder.End(s) {
		return s.Writer.Take(), ErrCut
	}
	s.Writer.End()
	return s.Writer.Take(), nil
}

func (s *Stream) message(name string, data []byte) error {
	s.name, s.data = name, data
	err := s.Decoder.Message(name, data, s)
	s.data = nil
	var syntax *jsonscan.SyntaxError
	if errors.As(err, &syntax) {
		s.skipped++
		return nil
	}
	return err
}

// maxMessage bounds one message of a stream: an image may come in one.
const maxMessage = 16 << 20

// SSE frames server-sent events, whose lines end with LF, CRLF or CR. Comments and
// events without data are left out, and so is [DONE].
type SSE struct {
	buf   []byte // what is not a whole line yet
	seen  int    // of it, without an end of line
	name  string
	known string // the latest name, which the next is nearly always
	data  []byte
	begun bool // data came
	cr    bool // the last line ended with CR, to which an LF would belong
	read  bool // the first line was
}

// Push takes the next bytes.
func (f *SSE) Push(src []byte, yield func(name string, data []byte) error) error {
	if f.cr && len(src) > 0 {
		f.cr = false
		if src[0] == '\n' {
			src = src[1:]
		}
	}
	f.buf = append(f.buf, src...)
	at, lf := 0, -1 // where a line begins, and the next LF; its CR may come before
	for {
		from := at + f.seen
		if lf < from {
			if lf = bytes.IndexByte(f.buf[from:], '\n'); lf < 0 {
				lf = len(f.buf)
			} else {
				lf += from
			}
		}
		end := lf
		if cr := bytes.IndexByte(f.buf[from:lf], '\r'); cr >= 0 {
			end = from + cr
		}
		if end == len(f.buf) {
			f.seen = len(f.buf) - at
			break
		}
		line := f.buf[at:end]
		next := end + 1
		if f.buf[end] == '\r' {
			switch {
			case next == len(f.buf):
				f.cr = true
			case f.buf[next] == '\n':
				next++
			}
		}
		at, f.seen = next, 0
		if err := f.line(line, yield); err != nil {
			return err
		}
	}
	f.buf = f.buf[:copy(f.buf, f.buf[at:])]
	if len(f.buf)+len(f.data) > maxMessage {
		return fmt.Errorf("a message of more than %d bytes", maxMessage)
	}
	return nil
}

// Held is how many bytes of memory wait for the rest of an event.
func (f *SSE) Held() int { return cap(f.buf) + cap(f.data) }

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
	if len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	return yield(name, data)
}

// Rest takes a last event after which the provider forgot the empty line.
func (f *SSE) Rest(yield func(name string, data []byte) error) error {
	if len(f.buf) > 0 {
		if err := f.line(f.buf, yield); err != nil {
			return err
		}
		f.buf, f.seen = f.buf[:0], 0
	}
	return f.event(yield)
}

// Interface guards
var _ Framer = (*SSE)(nil)

// Event passes an event on to the writer, and keeps the usage: of a stream that is cut, the
// writer never says it.
func (s *Stream) Event(e *Event) {
	switch {
	case e.Kind == UsageEvent:
		s.usage, s.used = e.Usage, true
	case e.Kind == Failure && s.failed == nil && s.data != nil:
		s.failed, s.cause = bytes.Clone(s.data), s.name
	}
	s.Writer.Event(e)
}

// Failed is the provider's message that was an error, and its name; nil: none was.
func (s *Stream) Failed() (name string, data []byte) { return s.cause, s.failed }

// Used is the usage that the provider has told so far, and whether it has.
func (s *Stream) Used() (Usage, bool) { return s.usage, s.used }

// Skips is the number of messages that were not JSON and say nothing.
func (s *Stream) Skips() int { return s.skipped }
