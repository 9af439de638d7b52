package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/textproto"
	"strconv"
	"strings"
	"unicode"

	"github.com/caddy-gw/gateway/internal/validation"
)

// A form is the beginning of a multipart body (RFC 7578) that passes through, up to its model.
// Only the model of a form is read and changed, in place: mime/multipart returns no positions.
type form struct {
	delimiter []byte // between parts, with the CRLF before it

	at    int    // of the search
	begun bool   // the first delimiter was seen
	name  string // of the part that is searched for its end
	value int    // of its value

	model      string
	start, end int  // of the model's value
	found      bool // it has a model
	over       bool // it ended, and has none
	parts      int
}

const (
	maxPartHeader = 8 << 10 // bytes
	maxParts      = 1000    // of a form: each costs as much as a large text does
)

func newForm(boundary string) *form { return &form{delimiter: []byte("\r\n--" + boundary)} }

// scan looks at the bytes so far, and reports whether it needs no more.
func (f *form) scan(b []byte) bool {
	for {
		after := len(f.delimiter) - 2 // the first has no CRLF before it
		if f.begun {
			i := bytes.Index(b[f.at:], f.delimiter)
			if i < 0 {
				f.at = max(f.at, len(b)-len(f.delimiter)+1)
				return false
			}
			f.at += i
			if f.name == "model" {
				f.start, f.end, f.found = f.value, max(f.at, f.value), true
				f.model = string(b[f.start:f.end])
				return true
			}
			after = f.at + len(f.delimiter)
		} else if len(b) >= after && !bytes.Equal(b[:after], f.delimiter[2:]) {
			return true
		}
		if len(b) < after+2 {
			return false
		}
		header := b[after:]
		length := bytes.Index(header, []byte("\r\n\r\n"))
		switch {
		case header[0] == '-' && header[1] == '-':
			blank, whole := endOfLine(header[2:])
			f.over = f.begun && blank
			return whole || !f.over
		case length < 0 && len(header) > maxPartHeader:
			return true
		case length < 0:
			return false
		}
		f.begun = true
		if f.parts++; f.parts > maxParts {
			return true
		}
		var readable bool
		if f.name, readable = partName(header[:length+4]); !readable {
			return true
		}
		f.value = after + length + 4
		f.at = f.value - 2 // the next delimiter may follow at once
	}
}

// partName returns the name of the form field with this header; "" for files. The header begins
// with the rest of the delimiter's line. If it is not readable, providers may differ in what it
// means.
func partName(header []byte) (name string, readable bool) {
	line, header, _ := bytes.Cut(header, []byte("\r\n"))
	h, params, ok := partHeader(line, header)
	if !ok {
		return "", false
	}
	name = params["name"]
	_, file := params["filename"]
	switch {
	case likeModel(name) && (file || name != "model" || !plainText(h)), oddlyNamed(h["Content-Disposition"][0], name):
		return "", false
	case file:
		return "", true
	}
	return name, true
}

// partHeader reads the header of a part, which begins after the line of the delimiter.
func partHeader(line, header []byte) (h textproto.MIMEHeader, params map[string]string, ok bool) {
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(header))).ReadMIMEHeader()
	if err != nil || len(bytes.Trim(line, " \t")) > 0 || len(h["Content-Disposition"]) != 1 {
		return nil, nil, false
	}
	_, params, err = mime.ParseMediaType(h["Content-Disposition"][0])
	return h, params, err == nil
}

// likeModel reports whether a provider might take a field of this name for the model.
func likeModel(name string) bool {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	return letters == "model"
}

// oddlyNamed reports whether parsers differ in the name of a part, because of RFC 2231, RFC 2047
// or escapes.
func oddlyNamed(disposition, name string) bool {
	lower := strings.ReplaceAll(strings.ToLower(disposition), "filename*", "")
	return strings.Contains(lower, "name*") || strings.Contains(name, "=?") || strings.ContainsAny(name, "\\\"")
}

// plainText reports whether the value of a part is not encoded.
func plainText(h textproto.MIMEHeader) bool {
	switch strings.ToLower(h.Get("Content-Transfer-Encoding")) {
	case "", "7bit", "8bit", "binary":
	default:
		return false
	}
	contentType := h.Get("Content-Type")
	if contentType == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	// Java clients declare ASCII text as Latin-1.
	return err == nil && media == "text/plain" && (utf8Charset(params["charset"]) || strings.EqualFold(params["charset"], "iso-8859-1"))
}

// endOfLine looks at what follows the last delimiter, up to the end of the line. blank: it is
// only white space; whole: the line is complete.
func endOfLine(b []byte) (blank, whole bool) {
	line, _, whole := bytes.Cut(b, []byte("\r\n"))
	return len(bytes.Trim(line, " \t\r")) == 0, whole
}

// What follows a delimiter.
type delimited uint8

const (
	incomplete    delimited = iota // more bytes are needed
	aPart                          // the header of a part
	lastDelimiter                  // nothing: the form ends
	malformed                      // what providers may read in different ways
)

// afterDelimiter says what the bytes after a delimiter are, and the size of a part's header, with the
// rest of the delimiter's line and the empty line at its end.
func afterDelimiter(b []byte) (size int, next delimited) {
	if end, ok := bytes.CutPrefix(b, []byte("--")); ok {
		switch blank, whole := endOfLine(end); {
		case !blank, len(end) > maxPartHeader && !whole:
			return 0, malformed
		case whole:
			return 0, lastDelimiter
		}
		return 0, incomplete
	}
	switch length := bytes.Index(b, []byte("\r\n\r\n")); {
	case length >= 0:
		return length + 4, aPart
	case len(b) <= maxPartHeader:
		return 0, incomplete
	}
	return 0, malformed
}

// part returns a part of the form with the model.
func (f *form) part(model string) string {
	return string(f.delimiter[2:]) + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n"
}

// readForm reads a multipart body up to its model, as far as the spool keeps it.
func (p *preparation) readForm(boundary string) *Error {
	f := newForm(boundary)
	if refusal := p.Body.peek(f.scan); refusal != nil {
		return refusal
	}
	if f.parts > maxParts {
		return tooManyParts()
	}
	p.Body.form = f
	if len(f.model) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	p.Model = f.model
	if !f.found {
		return nil
	}
	rest := &restOfForm{src: p.Body.spool.src, delimiter: f.delimiter, parts: f.parts}
	if err := rest.look(p.Body.spool.kept[f.end:]); err != nil {
		return p.Body.Refusal(err)
	}
	p.Body.spool.src = rest
	return nil
}

// errModel refuses a form whose provider might read another model than the one that was
// routed and counted.
var errModel = errors.New("the form must have its field model once, and headers of its parts that can be read, of at most 8 KiB")

// errParts refuses a form of too many parts.
var errParts = errors.New("a form of more than " + strconv.Itoa(maxParts) + " parts")

func tooManyParts() *Error {
	e := badRequest("", "too_many_parts", "Invalid form passed: it has more than "+strconv.Itoa(maxParts)+" parts")
	e.Caller = true
	return e
}

// invalidForm refuses a form that turned out to be wrong while it passed.
func invalidForm() *Error {
	e := badRequest("model", "invalid_form", "Invalid form passed: "+errModel.Error())
	e.Caller = true
	return e
}

// restOfForm looks at what follows the model of a form as it passes, and fails if there is a
// second model. It holds no more than the header of a part.
type restOfForm struct {
	src       io.Reader
	delimiter []byte
	parts     int    // so far
	window    []byte // the end of what was read, which may be incomplete
	over      bool   // the form ended
	err       error
}

func (r *restOfForm) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.src.Read(p)
	if r.err = r.look(p[:n]); r.err != nil {
		return 0, r.err
	}
	return n, err
}

func (r *restOfForm) look(b []byte) error {
	if r.over {
		return nil
	}
	r.window = append(r.window, b...)
	rest := r.window
	for {
		i := bytes.Index(rest, r.delimiter)
		if i < 0 {
			rest = rest[max(0, len(rest)-len(r.delimiter)+1):]
			break
		}
		header := rest[i+len(r.delimiter):]
		size, next := afterDelimiter(header)
		switch next {
		case malformed:
			return errModel
		case lastDelimiter:
			r.over, r.window = true, nil
			return nil
		}
		if next == incomplete {
			rest = rest[i:]
			break
		}
		if r.parts++; r.parts > maxParts {
			return errParts
		}
		if name, readable := partName(header[:size]); !readable || name == "model" {
			return errModel
		}
		rest = header[size-2:] // the next delimiter may follow at once
	}
	r.window = r.window[:copy(r.window, rest)]
	return nil
}

// spliced is a body with a part replaced.
type spliced struct {
	io.Reader
	before, after *spoolReader
}

func (s *spliced) Close() error {
	_ = s.before.Close() // it returns nil
	return s.after.Close()
}
