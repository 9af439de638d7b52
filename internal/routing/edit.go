package routing

import (
	"encoding/json"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
)

// An Edit describes the changes to a body on its way to a target: first defaults, then
// overrides, then drops (the config's default_params, override_params, drop_params).
type Edit struct {
	Default  []Param // set if the body has no value or null
	Override []Param // set regardless of the body
	Drop     []Path  // removed

	secrets []credentials.Secret
}

// Secrets are the credentials among the parameters.
func (e *Edit) Secrets() []credentials.Secret {
	if e == nil {
		return nil
	}
	return e.secrets
}

// findSecrets records which parameters are credentials, judging by their names.
func (e *Edit) findSecrets() {
	var w walker
	for _, list := range [][]Param{e.Default, e.Override} {
		for _, p := range list {
			w.texts("", p.Key, p.Value, 0, len(p.Value))
		}
	}
	for i := range w.found {
		if w.found[i].shown == "" { // a URL is no credential as a whole
			e.secrets = append(e.secrets, credentials.NewSecret(w.found[i].value))
		}
	}
}

// A Param is a value and its path. Missing objects on the path are created; [n] and [*]
// only match existing elements.
type Param struct {
	Key   string // the path as spelled in the config
	Path  Path
	Value json.RawMessage
}

// Empty reports whether the edit changes nothing.
func (e *Edit) Empty() bool {
	return e == nil || len(e.Default)+len(e.Override)+len(e.Drop) == 0
}

// Lookup returns the value of the override of key, or nil if there is none.
func (e *Edit) Lookup(key string) json.RawMessage {
	for _, p := range e.Override {
		if p.Key == key {
			return p.Value
		}
	}
	return nil
}

// OtherThan returns the first key that the edit changes other than the given top-level one, or
// "".
func (e *Edit) OtherThan(key string) string {
	return e.first(func(p Path) bool { return p.String() != key })
}

// Touches returns the first key that the edit changes within one of the given top-level
// members, or "".
func (e *Edit) Touches(members []string) string {
	return e.first(func(p Path) bool { return slices.Contains(members, p[0].Name) })
}

func (e *Edit) first(which func(Path) bool) string {
	if e == nil {
		return ""
	}
	for _, list := range [][]Param{e.Default, e.Override} {
		for _, p := range list {
			if which(p.Path) {
				return p.Key
			}
		}
	}
	for _, p := range e.Drop {
		if which(p) {
			return p.String()
		}
	}
	return ""
}

// With returns the edit with another value for the override of key, which is added if there
// is none, and not dropped.
func (e *Edit) With(key string, value json.RawMessage) *Edit {
	path, wrong := ParsePath(key)
	if wrong != "" {
		panic("routing: " + wrong)
	}
	var old Edit
	if e != nil {
		old = *e
	}
	return &Edit{
		Default:  old.Default,
		Override: merged(old.Override, []Param{{key, path, value}}),
		Drop:     slices.DeleteFunc(slices.Clone(old.Drop), func(p Path) bool { return p.String() == key }),
	}
}

// Apply returns body with the edit applied, or body itself if nothing changes. Body must be
// a valid JSON object. Members that the edit does not touch keep their bytes. If a member
// that it touches occurs more than once, only the last one is kept.
func Apply(body []byte, e *Edit) ([]byte, error) {
	if e.Empty() {
		return body, nil
	}
	return spliced(body, e.ops())
}

// Append appends the result of Apply to dst. If the edit changes nothing, body is copied.
// If there is an error, dst is returned unchanged.
func Append(dst, body []byte, e *Edit) ([]byte, error) {
	if e.Empty() {
		return append(dst, body...), nil
	}
	s, err := splice(body, e.ops())
	if err != nil {
		return dst, err
	}
	if !s.changed {
		return append(dst, body...), nil
	}
	return s.append(slices.Grow(dst, s.size)), nil
}

type kind uint8

const (
	setDefault kind = iota
	setOverride
	drop
)

// An op is one change at a path.
type op struct {
	kind  kind
	path  Path
	value []byte
}

func (e *Edit) ops() []op {
	ops := make([]op, 0, len(e.Default)+len(e.Override)+len(e.Drop))
	for _, p := range e.Default {
		ops = append(ops, op{setDefault, p.Path, p.Value})
	}
	for _, p := range e.Override {
		ops = append(ops, op{setOverride, p.Path, p.Value})
	}
	for _, p := range e.Drop {
		ops = append(ops, op{drop, p, nil})
	}
	return ops
}

// apply applies the op to the value v, or to a missing value if v is nil, at the rest of
// the op's path.
func (o op) apply(v []byte) ([]byte, error) {
	if len(o.path) == 0 {
		switch {
		case o.kind == drop:
			return nil, nil
		case o.kind == setDefault && !absent(v):
			return v, nil
		}
		return o.value, nil
	}
	if o.path[0].Index != Name {
		if at(v, 0) != '[' {
			return v, nil
		}
		return o.elements(v)
	}
	switch {
	case at(v, 0) == '{':
		return o.member(v)
	case o.kind == drop, o.kind == setDefault && !absent(v), o.elementNamed():
		return v, nil
	}
	return build(o.path, o.value)
}

func absent(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

// elementNamed reports whether the rest of the path names an element. Elements are never
// created.
func (o op) elementNamed() bool {
	return slices.ContainsFunc(o.path, func(s Step) bool { return s.Index != Name })
}

// elements applies the op to the elements of the array v that the path selects. Nothing is
// copied until one of them changes.
func (o op) elements(v []byte) ([]byte, error) {
	step, inner := o.path[0], o
	inner.path = o.path[1:]
	var (
		out     []byte
		failed  error
		from    int  // start of what is not yet written
		kept    int  // number of elements so far
		last    int  // end of the previous element
		leading bool // drop the separator before the next element
	)
	err := eachElement(v, func(n, start, end int) {
		if leading {
			from, leading = start, false
		}
		if step.Index == Every || step.Index == n {
			element := v[start:end]
			edited, err := inner.apply(element)
			switch {
			case err != nil:
				failed = err
			case same(edited, element):
			case edited != nil:
				out = append(append(grown(out, v), v[from:start]...), edited...)
				from = end
			case kept > 0:
				out = append(grown(out, v), v[from:last]...)
				from = end
				kept--
			default:
				out = append(grown(out, v), v[from:start]...)
				from, leading = end, true
				kept--
			}
		}
		kept++
		last = end
	})
	if err == nil {
		err = failed
	}
	if err != nil || out == nil {
		return v, err
	}
	return append(out, v[from:]...), nil
}

// grown returns out, or, if it is nil, a new buffer with capacity for a copy of v.
func grown(out, v []byte) []byte {
	if out == nil {
		return make([]byte, 0, len(v))
	}
	return out
}

// same reports whether a and b share the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Member returns the parameter that is a member of the body itself, whatever characters its name has.
func Member(name string, value json.RawMessage) Param {
	return Param{Key: name, Path: Path{{Name: name, Index: Name}}, Value: value}
}

// Members returns the paths of members of the body itself.
func Members(names ...string) []Path {
	paths := make([]Path, len(names))
	for i, name := range names {
		paths[i] = Path{{Name: name, Index: Name}}
	}
	return paths
}
