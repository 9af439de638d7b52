package forms

import (
	"bytes"
	"errors"
	"io"
)

// A Visitor is told what a Reader finds, in the order of the form. What it returns as an error ends the reading.
type Visitor interface {
	// Part begins a part, whose value begins at this position of the body.
	Part(p *Part, at int64) error
	// Data is some of the part's value, which is valid until it returns.
	Data(b []byte) error
	// End ends the part's value, which ends before this position of the body.
	End(at int64) error
	// Done ends the form.
	Done() error
}

// A Reader passes a form on, byte for byte, and checks it on the way. It holds no more than the header of a part and what
// was read at once. A Read that finds a fault returns none of what it has read; its error is an *Error, ErrParts, or that of a
// visitor.
type Reader struct {
	src      io.Reader
	dash     []byte // the delimiter, without the line break before it
	length   int64  // of the form; negative: unknown
	visitors []Visitor

	read    int64
	window  []byte // the end of what was read, which may be incomplete
	at      int64  // of the window in the form
	state   state
	parts   int
	value   int64 // where the value of the part begins
	claimed int64 // what the part says of its length
	err     error
}

// What the window begins with.
type state uint8

const (
	atStart   state = iota // the first delimiter
	delimited              // the rest of the line of a delimiter
	inHeader               // the header of a part
	inValue                // the value of a part
	closed                 // what is behind the closing delimiter
)

var crlf = []byte("\r\n")

// NewReader returns a Reader of the form that src has, of length bytes (negative: that is unknown), for visitors.
func NewReader(src io.Reader, boundary string, length int64, visitors ...Visitor) *Reader {
	return &Reader{src: src, dash: []byte("--" + boundary), length: length, visitors: visitors}
}

func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	r.read += int64(n)
	r.err = r.look(p[:n])
	// Who sends a body of a known length does not wait for its end.
	if r.err == nil && (errors.Is(err, io.EOF) || r.read == r.length) && !r.complete() {
		r.err = errEnd
	}
	if r.err != nil {
		return 0, r.err
	}
	return n, err
}

// complete reports whether the form may end here.
func (r *Reader) complete() bool {
	return r.state == closed && (len(r.window) == 0 || len(r.window) == len(crlf))
}

func (r *Reader) look(b []byte) error {
	r.window = append(r.window, b...)
	rest := r.window
	for again := true; again; {
		var n int
		var err error
		if n, again, err = r.step(rest); err != nil {
			return err
		}
		rest, r.at = rest[n:], r.at+int64(n)
	}
	r.window = r.window[:copy(r.window, rest)]
	return nil
}

// step reads what w begins with, and returns how much of it is done; again: there may be more in the rest.
func (r *Reader) step(w []byte) (n int, again bool, err error) {
	switch r.state {
	case atStart:
		switch known := min(len(w), len(r.dash)); {
		case !bytes.Equal(w[:known], r.dash[:known]):
			return 0, false, errStart
		case known < len(r.dash):
			return 0, false, nil
		}
		r.state = delimited
		return len(r.dash), true, nil
	case delimited:
		return r.afterDelimiter(w)
	case inHeader:
		return r.header(w)
	case inValue:
		return r.inPart(w)
	}
	if !bytes.HasPrefix(crlf, w) {
		return 0, false, errEnd
	}
	return 0, false, nil
}

func (r *Reader) afterDelimiter(w []byte) (n int, again bool, err error) {
	switch {
	case bytes.HasPrefix(w, crlf):
		if r.parts++; r.parts > MaxParts {
			return 0, false, ErrParts
		}
		r.state = inHeader
		return 2, true, nil
	case bytes.HasPrefix(w, []byte("--")):
		r.state = closed
		for _, v := range r.visitors {
			if err := v.Done(); err != nil {
				return 0, false, err
			}
		}
		return 2, true, nil
	case len(w) >= 2, len(w) == 1 && w[0] != '\r' && w[0] != '-':
		return 0, false, errDelimiter
	}
	return 0, false, nil
}

func (r *Reader) header(w []byte) (n int, again bool, err error) {
	end := bytes.Index(w, []byte("\r\n\r\n"))
	switch {
	case end < 0 && len(w) <= MaxHeader:
		return 0, false, nil
	case end < 0, end > MaxHeader:
		return 0, false, errLong
	case bytes.Contains(w[:end], r.dash):
		return 0, false, errDelimiter
	}
	p, claimed, err := partOf(string(w[:end]))
	if err != nil {
		return 0, false, err
	}
	n = end + len("\r\n\r\n")
	r.state, r.value, r.claimed = inValue, r.at+int64(n), claimed
	for _, v := range r.visitors {
		if err := v.Part(&p, r.value); err != nil {
			return 0, false, err
		}
	}
	return n, true, nil
}

func (r *Reader) inPart(w []byte) (n int, again bool, err error) {
	i := bytes.Index(w, r.dash)
	if i < 0 { // its beginning may be there, with a line break before it
		n = max(0, len(w)-len(r.dash)-1)
		return n, false, r.data(w[:n])
	}
	n = i - 2
	if n < 0 || !bytes.Equal(w[n:i], crlf) {
		return 0, false, errDelimiter
	}
	if err := r.data(w[:n]); err != nil {
		return 0, false, err
	}
	end := r.at + int64(n)
	if r.claimed >= 0 && r.claimed != end-r.value {
		return 0, false, errPartLength
	}
	for _, v := range r.visitors {
		if err := v.End(end); err != nil {
			return 0, false, err
		}
	}
	r.state = delimited
	return i + len(r.dash), true, nil
}

func (r *Reader) data(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	for _, v := range r.visitors {
		if err := v.Data(b); err != nil {
			return err
		}
	}
	return nil
}
