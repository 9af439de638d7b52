package routing

import (
	"encoding/json"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// A field is a property of a call that conditions and sticky load balancing use:
// metadata.x, params.x, headers.x or url.pathname. The fields of a config are numbered.
type field struct {
	kind fieldKind
	name string // the canonical name of a header, or a metadata entry; params.x as it was written
	path Path   // of a parameter in the body
}

type fieldKind uint8

const (
	fromMetadata fieldKind = iota
	fromParams
	fromHeaders
	fromPathname
)

// maxFields bounds the work of evaluating the conditions of a config: each field is looked
// up at most once per call.
const maxFields = 100

// field parses the name of a field and returns its index.
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
		return 0, false // text has reported it
	case kind == "metadata" && rest != "" && len(rest) <= maxPath:
		f = field{kind: fromMetadata, name: rest}
	case kind == "params":
		f = field{kind: fromParams, name: name}
		if f.path, wrong = ParsePath(rest); wrong == "" && f.path.every() {
			wrong = "expected a path to one value"
		}
	case kind == "headers" && token(rest):
		f = field{kind: fromHeaders, name: textproto.CanonicalMIMEHeaderKey(rest)}
		if forbidden(strings.ToLower(rest)) == "a credential" {
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
		p.errorf(path, "%s", wrong)
		return 0, false
	}
	i := len(p.config.fields)
	p.config.fields = append(p.config.fields, f)
	p.fieldOf[name] = i
	return i, true
}

// An Input holds the properties of a call that a plan depends on.
type Input struct {
	KeyID   string // of the caller's service key
	Version string // of the saved config; "" of an inline one
	Now     time.Time
	// Body is valid JSON, as sent by the client; nil if it is not JSON.
	Body []byte
	// Unread is set if the call has a body or messages that were not read, so that none of
	// its parameters except the model are known.
	Unread bool
	// Model is the JSON value of the model that the call names, possibly outside of the
	// body; nil if there is none.
	Model []byte
	// Metadata returns the JSON value of an entry of the call's metadata, or nil. If the
	// function is nil, there is no metadata.
	Metadata func(name string) json.RawMessage
	Header   http.Header // of the client
	Path     string      // of the URL, as sent by the client
	// Circuit has the breakers of the config. It may be nil.
	Circuit Circuit
}

// A value is the value of a field in a call.
type value struct {
	raw  []byte // JSON; nil: text
	text string // a string, or any other scalar's JSON
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

// A fieldReader reads the fields of a call, each at most once.
type fieldReader struct {
	Input
	fields []field
	read   []value
	needed string // the parameter that was needed from a body that was not read
}

func (f *fieldReader) value(i int) *value {
	if f.read == nil {
		f.read = make([]value, len(f.fields))
	}
	v := &f.read[i]
	if v.kind == unread {
		*v = f.fields[i].of(&f.Input)
	}
	if f.Unread && v.kind == missing && f.fields[i].kind == fromParams {
		f.needed = f.fields[i].name
	}
	return v
}

func (f *field) of(call *Input) value {
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
