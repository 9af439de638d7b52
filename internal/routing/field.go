package routing

import (
	"encoding/json"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// A field is something of a call that conditions and stickiness read: metadata.x,
// params.x, headers.x or url.pathname. One of a config is known by its index.
type field struct {
	kind fieldKind
	name string // of a header, canonical, or of a metadata entry; params.x as it was written
	path Path   // of a parameter in the body
}

type fieldKind uint8

const (
	fromMetadata fieldKind = iota
	fromParams
	fromHeaders
	fromPathname
)

// maxFields bounds the work that the conditions of one config make of one call:
// each field is looked up at most once.
const maxFields = 100

// field reads the name of a field and returns its index.
func (p *parser) field(path, name string, pathname bool) (int, bool) {
	if i, ok := p.fieldOf[name]; ok && (pathname || p.config.fields[i].kind != fromPathname) {
		return i, true
	}
	expected := "expected metadata.x, params.x or headers.x"
	if pathname {
		expected = "expected metadata.x, params.x, headers.x or url.pathname"
	}
	var f field
	kind, rest, _ := strings.Cut(name, ".")
	wrong := ""
	switch {
	case name == "":
		return 0, false // text said so
	case kind == "metadata" && rest != "" && len(rest) <= maxPath:
		f = field{kind: fromMetadata, name: rest}
	case kind == "params":
		f = field{kind: fromParams, name: name}
		if f.path, wrong = ParsePath(rest); wrong == "" && f.path.every() {
			wrong = "expected a path to one value"
		}
	case kind == "headers" && token(rest):
		f = field{kind: fromHeaders, name: textproto.CanonicalMIMEHeaderKey(rest)}
		if credential(strings.ToLower(rest)) {
			wrong = "a credential is not to be read"
		}
	case name == "url.pathname" && pathname:
		f = field{kind: fromPathname}
	default:
		wrong = expected
	}
	if wrong == "" && len(p.config.fields) == maxFields {
		wrong = "expected at most " + strconv.Itoa(maxFields) + " different fields in a config"
	}
	if wrong != "" {
		p.fault(path, "%s", wrong)
		return 0, false
	}
	i := len(p.config.fields)
	p.config.fields = append(p.config.fields, f)
	p.fieldOf[name] = i
	return i, true
}

// Facts are what a plan may know of a call.
type Facts struct {
	KeyID   string // of the caller's service key
	Version string // of the saved config; "" of an inline one
	Now     time.Time
	// Body is JSON that was checked, as the client sent it; nil where it is not JSON.
	Body []byte
	// Unread: it has a body, or messages, that was not read, so that nobody knows what
	// parameters it has but the model.
	Unread bool
	// Model is the JSON of the model that the call names, be it outside of the body; nil:
	// none.
	Model []byte
	// Metadata returns the JSON value of an entry of the call's metadata, nil where
	// there is none. nil: no metadata.
	Metadata func(name string) json.RawMessage
	Header   http.Header // of the client
	Path     string      // of the URL, as the client sent it
	// Circuit knows the breakers of the config; nil: there are none.
	Circuit Circuit
}

// A value is what a field is in a call.
type value struct {
	raw  []byte // JSON; nil: text
	text string // of a string, and of any other scalar its JSON
	kind valueKind
}

type valueKind uint8

const (
	unread valueKind = iota
	missing
	null
	stringValue
	numberValue
	boolValue
	compound // an object or an array
)

func valueOf(raw []byte) value {
	v := value{raw: raw, kind: missing}
	switch at(raw, 0) {
	case 0:
	case '"':
		v.kind, v.text = stringValue, text(raw)
	case 'n':
		v.kind = null
	case 't', 'f':
		v.kind, v.text = boolValue, string(raw)
	case '{', '[':
		v.kind = compound
	default:
		v.kind, v.text = numberValue, string(raw)
	}
	return v
}

// facts reads the fields of a call, each once.
type facts struct {
	Facts
	fields []field
	read   []value
	needed string // the parameter that was asked for, of a body that was not read
}

func (f *facts) value(i int) *value {
	if f.read == nil {
		f.read = make([]value, len(f.fields))
	}
	v := &f.read[i]
	if v.kind == unread {
		*v = f.fields[i].of(&f.Facts)
	}
	if f.Unread && v.kind == missing && f.fields[i].kind == fromParams {
		f.needed = f.fields[i].name
	}
	return v
}

func (f *field) of(call *Facts) value {
	switch f.kind {
	case fromMetadata:
		if call.Metadata == nil {
			break
		}
		if raw := call.Metadata(f.name); raw != nil {
			return valueOf(raw)
		}
	case fromParams:
		if raw, ok := lookup(call.Body, f.path); ok {
			return valueOf(raw)
		}
		if len(f.path) == 1 && f.path[0] == (Step{Name: "model", Index: Name}) {
			return valueOf(call.Model)
		}
	case fromHeaders:
		if values := call.Header[f.name]; len(values) > 0 {
			return value{kind: stringValue, text: values[0]}
		}
	case fromPathname:
		return value{kind: stringValue, text: call.Path}
	}
	return value{kind: missing}
}
