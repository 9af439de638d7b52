package template

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Bounds of a rendering.
const (
	MaxPartials  = 10      // nested in each other
	MaxVariables = 1_000   // of a call
	maxWork      = 1 << 20 // steps, and blocks of 64 bytes of variables that are looked at
	maxNamed     = 20      // partials that are listed in an error
)

// A Renderer renders templates for a call. Reset prepares it for the next one. It is
// not safe for concurrent use.
type Renderer struct {
	// Partial returns the partial with a name, which may end with @version, or nil if
	// it does not exist.
	Partial func(name string) *Partial
	// Limit is the maximum size of the result, in bytes.
	Limit int

	dst     []byte
	start   int // of the result in dst
	stack   []frame
	within  []string // partials that are being rendered
	work    int
	raw     bool
	quoted  bool // raw: dst ends within a string
	escape  bool // raw: dst ends with the backslash of an escape
	missing []string
	unnamed []string
	err     error
}

// A frame is a value in which names are looked up.
type frame struct {
	raw    []byte // JSON
	fields *Variables
}

// Variables are the members of an object by name.
type Variables struct {
	keys   []jsonscan.Key
	values [][]byte
	size   int // of the keys, in bytes
}

// ReadVariables reads an object, and keeps references to it.
func ReadVariables(object []byte) (Variables, error) {
	var v Variables
	return v, v.Read(object)
}

// Read replaces the variables by those of an object.
func (v *Variables) Read(object []byte) error {
	v.keys, v.values, v.size = v.keys[:0], v.values[:0], 0
	if jsonscan.Scanner(object).Kind(0) != jsonscan.Object {
		return &Error{"invalid_type", "expected an object"}
	}
	last := 0
	if _, err := jsonscan.Scanner(object).Object(0, 0, func(key jsonscan.Key, at int) (int, error) {
		end, err := jsonscan.Scanner(object).Value(at, 1)
		if err != nil {
			return 0, err
		}
		v.size += at - last
		last = end
		if len(v.keys) >= MaxVariables {
			return 0, &Error{"too_many", "expected at most " + strconv.Itoa(MaxVariables) + " members"}
		}
		v.keys, v.values = append(v.keys, key), append(v.values, object[at:end])
		return end, nil
	}); err != nil {
		return err
	}
	return nil
}

// get returns a member. Of several with the same name it returns the last, as
// JavaScript does.
func (v *Variables) get(name string) []byte {
	for i := len(v.keys) - 1; i >= 0; i-- {
		if v.keys[i].Is(name) {
			return v.values[i]
		}
	}
	return nil
}

// Reset prepares for another rendering. Names are looked up in the last of the
// variables first. Nil variables are ignored.
func (r *Renderer) Reset(variables ...*Variables) {
	*r = Renderer{Partial: r.Partial, Limit: r.Limit, stack: r.stack[:0], within: r.within[:0]}
	for _, v := range variables {
		if v != nil {
			r.stack = append(r.stack, frame{fields: v})
		}
	}
}

// Append appends the rendered template. The error is an *[Error].
func (r *Renderer) Append(dst []byte, t *Template) ([]byte, error) {
	r.dst, r.start = dst, len(dst)
	r.quoted, r.escape = false, false
	r.template(t)
	switch {
	case r.err != nil:
	case len(r.missing) > 0:
		r.err = &Error{"missing_partials", "Missing prompt partials: " + strings.Join(r.missing, ", ")}
	case len(r.unnamed) > 0:
		r.err = &Error{"missing_partials", "Missing variable partials: " + strings.Join(r.unnamed, ", ")}
	}
	dst, r.dst = r.dst, nil
	return dst, r.err
}

func (r *Renderer) template(t *Template) {
	raw := r.raw
	r.raw = t.raw
	r.run(t, 0, len(t.ops))
	r.raw = raw
}

func (r *Renderer) fail(code, message string) {
	if r.err == nil {
		r.err = &Error{code, message}
	}
}

func (r *Renderer) spend(work int) {
	if r.work += work; r.work > maxWork {
		r.fail("prompt_too_large", "The prompt takes too many steps to render")
	}
}

func (r *Renderer) run(t *Template, i, end int) {
	for i < end && r.err == nil {
		o := &t.ops[i]
		i++
		r.spend(1)
		if o.kind != literal {
			r.unescape()
		}
		switch o.kind {
		case literal:
			text := t.text[o.start:o.end]
			r.dst = append(r.dst, text...)
			if r.raw {
				r.follow(text)
			}
		case variable:
			r.insert(r.lookup(t.path(o)))
		case section:
			r.section(t, i, o)
			i = o.after
		case inverted:
			if !r.truthy(r.lookup(t.path(o))) {
				r.run(t, i, o.after)
			}
			i = o.after
		case partial:
			r.partial(t.names[o.start])
		case variablePartial:
			r.variablePartial(t.path(o))
		}
		if len(r.dst)-r.start > r.Limit {
			r.fail("prompt_too_large", "The rendered prompt is larger than "+strconv.Itoa(r.Limit)+" bytes")
		}
	}
	r.unescape()
}

func (r *Renderer) section(t *Template, i int, o *op) {
	v := r.lookup(t.path(o))
	if !r.truthy(v) {
		return
	}
	switch v[0] {
	case '[':
		_, _ = jsonscan.Scanner(v).Array(0, 0, func(_, at int) (int, error) {
			end, err := jsonscan.Scanner(v).Value(at, 1)
			if err != nil {
				return 0, err
			}
			r.push(t, i, o.after, v[at:end])
			return end, r.err
		})
	case 't':
		r.run(t, i, o.after)
	default:
		r.push(t, i, o.after, v)
	}
}

// push renders ops with a value as the innermost frame.
func (r *Renderer) push(t *Template, i, end int, v []byte) {
	r.spend(1 + len(v)/64)
	r.stack = append(r.stack, frame{raw: v})
	r.run(t, i, end)
	r.stack = r.stack[:len(r.stack)-1]
}

func (r *Renderer) variablePartial(path []string) {
	v := r.lookup(path)
	if len(v) < 2 || v[0] != '"' {
		if name := strings.Join(path, "."); len(r.unnamed) < maxNamed {
			r.unnamed = appendUnique(r.unnamed, name)
		}
		return
	}
	r.spend(len(v) / 64)
	r.partial(jsonscan.Unquote(v))
}

func (r *Renderer) partial(name string) {
	var p *Partial
	if name != "" && r.Partial != nil {
		p = r.Partial(name)
	}
	switch {
	case p == nil:
		if len(r.missing) < maxNamed {
			r.missing = appendUnique(r.missing, clip(name))
		}
		return
	case slices.Contains(r.within, name):
		r.fail("partial_cycle", "The partial "+name+" contains itself: "+strings.Join(append(r.within, name), " → "))
		return
	case len(r.within) >= MaxPartials:
		r.fail("partials_too_deep", "Expected at most "+strconv.Itoa(MaxPartials)+" partials within each other: "+strings.Join(append(r.within, name), " → "))
		return
	}
	r.within = append(r.within, name)
	if r.raw && !r.quoted {
		r.template(p.raw)
	} else {
		r.template(p.text)
	}
	r.within = r.within[:len(r.within)-1]
}

// clip shortens text from a request for an error message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// lookup returns the value at a path, or nil if there is none.
func (r *Renderer) lookup(path []string) []byte {
	if len(path) == 0 && len(r.stack) > 0 {
		if top := r.stack[len(r.stack)-1]; top.fields == nil {
			return top.raw
		}
		return nil
	}
	for i := len(r.stack) - 1; i >= 0; i-- {
		f := r.stack[i]
		var v []byte
		if f.fields != nil {
			r.spend(len(f.fields.keys)/16 + f.fields.size/64)
			v = f.fields.get(path[0])
		} else {
			v = r.member(f.raw, path[0])
		}
		for _, name := range path[1:] {
			if v == nil {
				break
			}
			v = r.member(v, name)
		}
		if v != nil {
			return v
		}
	}
	return nil
}

// member returns a member of an object or an element of an array, or nil if there is
// none.
func (r *Renderer) member(v []byte, name string) (found []byte) {
	s := jsonscan.Scanner(v)
	switch s.Kind(0) {
	case jsonscan.Object:
		r.spend(len(v) / 64)
		_, _ = s.Object(0, 0, func(key jsonscan.Key, at int) (int, error) {
			end, err := s.Value(at, 1)
			if err == nil && key.Is(name) {
				found = v[at:end]
			}
			return end, err
		})
	case jsonscan.Array:
		wanted, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return nil
		}
		r.spend(len(v) / 64)
		_, _ = s.Array(0, 0, func(i, at int) (int, error) {
			end, err := s.Value(at, 1)
			if err == nil && uint64(i) == wanted {
				found = v[at:end]
			}
			return end, err
		})
	}
	return found
}

// truthy reports whether a section is rendered for a value.
func (r *Renderer) truthy(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	r.spend(len(v) / 64)
	switch v[0] {
	case 'f', 'n':
		return false
	case '"':
		return len(v) > 2
	case '[':
		return len(bytes.TrimSpace(v[1:])) > 1
	case '{', 't':
		return true
	}
	n, err := strconv.ParseFloat(string(v), 64)
	return err != nil || n != 0 // a number out of range is not 0
}

// insert appends a value: as text or, outside of strings of a raw template, as JSON.
func (r *Renderer) insert(v []byte) {
	if len(v) == 0 || v[0] == 'n' {
		return
	}
	r.spend(len(v) / 64) // also where nothing of it is appended
	outside := r.raw && !r.quoted
	switch {
	case v[0] == '"' && !outside:
		r.dst = append(r.dst, jsonscan.Inside(v)...)
	case v[0] == '"':
		if scalar := bytes.TrimSpace(jsonscan.Inside(v)); isScalar(scalar) {
			v = scalar
		}
		r.dst = append(r.dst, v...)
	case v[0] == '[':
		// Only the elements, without the brackets.
		r.compact(v[1:len(v)-1], !outside)
	default:
		r.compact(v, !outside)
	}
}

// isScalar reports whether s is a number, true, false or null.
func isScalar(s []byte) bool {
	switch jsonscan.Scanner(s).Kind(0) {
	case jsonscan.Number, jsonscan.Boolean, jsonscan.Null:
		end, err := jsonscan.Scanner(s).Value(0, 0)
		return err == nil && end == len(s)
	}
	return false
}

// compact appends JSON without white space between tokens. It is escaped if it is
// inserted into a string.
func (r *Renderer) compact(v []byte, escaped bool) {
	quoted := false
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '"':
			quoted = !quoted
			if escaped {
				r.dst = append(r.dst, '\\')
			}
			r.dst = append(r.dst, c)
		case c == '\\': // within a string, followed by the escaped character
			i++
			if escaped {
				r.dst = append(r.dst, '\\', '\\')
				if v[i] == '"' || v[i] == '\\' {
					r.dst = append(r.dst, '\\')
				}
				r.dst = append(r.dst, v[i])
			} else {
				r.dst = append(r.dst, c, v[i])
			}
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
		default:
			r.dst = append(r.dst, c)
		}
	}
}

// follow records whether a literal of a raw template ends within a string.
func (r *Renderer) follow(text []byte) {
	for _, c := range text {
		switch {
		case r.escape:
			r.escape = false
		case r.quoted && c == '\\':
			r.escape = true
		case c == '"':
			r.quoted = !r.quoted
		}
	}
}

// unescape escapes a backslash that is right before a tag or the end of a section.
// Otherwise, it would escape the beginning of the value or, if the value is empty, the
// character after the tag.
func (r *Renderer) unescape() {
	if r.raw && r.escape {
		r.dst = append(r.dst, '\\')
		r.escape = false
	}
}
