package exchange

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-gw/gateway/internal/forms"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// errNaming refuses a form that could name objects in ways that the gateway does not read.
var errNaming = errors.New("expected the fields of the form as plain text or JSON, of at most 64 KiB where they name objects, and no files in their place")

const maxFormField = 64 << 10 // bytes of a field that may name objects

// formNames collects the objects that a form names as it passes. Before it is forwarded, a check
// is set that they have to pass.
type formNames struct {
	field string // the part's name, "" of one that is not kept
	value []byte

	mu          sync.Mutex
	ids, params []string
	check       func(ids, params []string) *Error // nil: any may be named

	// lines of the form's files; nil: they are not read. A form whose lines are read passes as it is,
	// whatever it names.
	lines *fileLines
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

// Part implements [forms.Visitor].
func (f *formNames) Part(p *forms.Part, _ int64) error {
	if f.lines != nil {
		if !plainPart(p) {
			f.lines.giveUp()
		}
		return nil
	}
	f.value = f.value[:0]
	var readable bool
	if f.field, readable = fieldName(p); !readable {
		return errNaming
	}
	return nil
}

// Data implements [forms.Visitor].
func (f *formNames) Data(b []byte) error {
	switch {
	case f.lines != nil:
		f.lines.write(b, f.passes)
	case f.field == "":
	case len(f.value)+len(b) > maxFormField:
		return errNaming
	default:
		f.value = append(f.value, b...)
	}
	return nil
}

// End implements [forms.Visitor].
func (f *formNames) End(int64) error {
	switch {
	case f.lines != nil:
		f.lines.end(f.passes)
	case f.field != "":
		return f.named(f.field, f.value)
	}
	return nil
}

// Done implements [forms.Visitor].
func (f *formNames) Done() error {
	if f.lines != nil {
		f.lines.over.Store(true)
	}
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
func fieldName(p *forms.Part) (name string, readable bool) {
	name = strings.ToLower(p.Name)
	if p.File {
		_, how := namingOf(name)
		return "", how != byID && how != byModel // some servers treat it as a text field
	}
	return name, plainText(p) || jsonContent(p.ContentType, false)
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
