package exchange

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// errNaming refuses a form that could name objects in ways that the gateway does not read.
var errNaming = errors.New("the headers of the form's parts must be readable, of at most 8 KiB, and its fields plain text, of at most 64 KiB where they name objects")

const maxFormField = 64 << 10 // bytes of a field that may name objects

// formNames collects the objects that a form names as it passes. Before it is forwarded, a check
// is set that they have to pass.
type formNames struct {
	src       io.Reader
	delimiter []byte
	window    []byte // the end of what was read, which may be incomplete
	inValue   bool   // the window begins in the value of a part
	field     string // the part's name, "" of one that is not kept
	parts     int
	over      bool
	err       error

	mu          sync.Mutex
	ids, params []string
	check       func(ids, params []string) *Error // nil: any may be named

	// lines of the form's files; nil: they are not read. A form whose lines are read passes as it is,
	// whatever it names.
	lines *fileLines
}

func newFormNames(src io.Reader, boundary string) *formNames {
	return &formNames{src: src, delimiter: []byte("\r\n--" + boundary), window: []byte("\r\n")}
}

// must sets the check, and applies it to the objects that were named so far.
func (f *formNames) must(check func(ids, params []string) *Error) *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.check = check; check == nil {
		return nil
	}
	return check(f.ids, f.params)
}

func (f *formNames) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.src.Read(p)
	if n > 0 {
		switch why := f.look(p[:n]); {
		case why == nil:
		case f.lines != nil && !errors.Is(why, errParts):
			f.over, f.window = true, nil
			f.lines.giveUp()
		default:
			f.err = why
			return 0, why
		}
	}
	return n, err
}

func (f *formNames) look(b []byte) error {
	if f.over {
		return nil
	}
	f.window = append(f.window, b...)
	rest := f.window
	for {
		i := bytes.Index(rest, f.delimiter)
		if i < 0 {
			switch {
			case f.field == "":
				whole := max(0, len(rest)-len(f.delimiter)+1)
				if f.lines != nil && f.inValue {
					f.lines.write(rest[:whole], f.passes)
				}
				rest = rest[whole:]
			case len(rest) > maxFormField+len(f.delimiter):
				return errNaming
			}
			break
		}
		header := rest[i+len(f.delimiter):]
		if f.lines != nil && f.inValue {
			f.lines.write(rest[:i], f.passes)
			f.lines.end(f.passes)
		} else if f.inValue && f.field != "" {
			if err := f.named(f.field, rest[:i]); err != nil {
				return err
			}
		}
		f.field, f.inValue = "", false
		size, next := afterDelimiter(header)
		switch next {
		case malformed:
			return errNaming
		case lastDelimiter:
			f.over, f.window = true, nil
			if f.lines != nil {
				f.lines.over.Store(true)
			}
			return nil
		}
		if next == incomplete {
			rest = rest[i:]
			break
		}
		if f.parts++; f.parts > maxParts {
			return errParts
		}
		var name string
		var readable bool
		if f.lines != nil {
			readable = plainPart(header[:size])
		} else {
			name, readable = fieldName(header[:size])
		}
		if !readable {
			return errNaming
		}
		f.field, f.inValue = name, true
		rest = header[size:]
		if bytes.HasPrefix(rest, f.delimiter[2:]) { // the next delimiter may follow at once
			rest = header[size-2:]
		}
	}
	f.window = f.window[:copy(f.window, rest)]
	return nil
}

// linesRead reports whether the lines of the form's files were read, and name only what they may.
func (f *formNames) linesRead() bool {
	return f.lines != nil && f.lines.read()
}

// passes reports whether a line of a file names only what the check lets pass.
func (f *formNames) passes(line []byte) bool {
	n := namedIn(line, &batchLine, false, nil)
	if n.over {
		return false
	}
	f.mu.Lock()
	check := f.check
	f.mu.Unlock()
	return check == nil || len(n.ids) == 0 || check(n.ids, n.params) == nil
}

// fieldName returns the name of a field that may name objects; "" for other parts.
func fieldName(header []byte) (name string, readable bool) {
	line, header, _ := bytes.Cut(header, []byte("\r\n"))
	h, params, ok := partHeader(line, header)
	if !ok || oddlyNamed(h["Content-Disposition"][0], params["name"]) {
		return "", false
	}
	name = strings.ToLower(params["name"])
	if _, file := params["filename"]; file {
		_, how := namingOf(name)
		return "", how != byID && how != byModel // some servers treat it as a text field
	}
	return name, plainText(h) || jsonPart(h)
}

// namingOf returns the part of a field's name that says that it names an object, and how: byID,
// bySkill, byModel, or 0 if it does not. Fields of objects are written as image[file_id],
// images[0][file_id] or image.file_id.
func namingOf(field string) (part string, how naming) {
	if plain, err := url.PathUnescape(field); err == nil {
		field = plain
	}
	parts := strings.FieldsFunc(strings.ToLower(field), func(r rune) bool { return r == '[' || r == ']' || r == '.' })
	if len(parts) > 1 && inert[parts[0]] {
		return parts[0], 0
	}
	for i, part := range parts {
		id := slices.Contains(parts[i:], "id")
		switch how := namings[part]; {
		case how == byID, how == byObject && (id || i == len(parts)-1), how == byMember && id:
			return part, byID
		case how == bySkill, how == byModel:
			return part, how
		}
	}
	if len(parts) == 0 {
		return field, 0
	}
	return parts[0], 0
}

// jsonPart reports whether a part is JSON that is not encoded.
func jsonPart(h map[string][]string) bool {
	return len(h["Content-Type"]) == 1 && jsonContent(h["Content-Type"][0], false) && h["Content-Transfer-Encoding"] == nil
}

// named notes what the value of a field names.
func (f *formNames) named(field string, value []byte) error {
	base, how := namingOf(field)
	n := &names{}
	switch trimmed := bytes.TrimSpace(value); {
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '['):
		n = namedIn([]byte(`{`+string(jsonscan.AppendQuoted(nil, base))+`:`+string(trimmed)+`}`), &passThrough, false, nil)
	case how == byID, how == bySkill && bytes.HasPrefix(trimmed, []byte("skill_")):
		n.add(string(value), base)
	case how == byModel:
		n.model(string(trimmed))
	}
	if n.over {
		return errNaming
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids, f.params = append(f.ids, n.ids...), append(f.params, n.params...); len(f.ids) > maxNamed {
		return errNaming
	}
	if f.check == nil || len(n.ids) == 0 {
		return nil
	}
	if err := f.check(n.ids, n.params); err != nil {
		return err
	}
	return nil
}
