package routing

import (
	"encoding/json"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
)

// An Edit says what becomes of a body on its way to a target: defaults first, then
// overrides, then drops (the config's default_params, override_params, drop_params).
type Edit struct {
	Default  []Param // set where the body has nothing or null
	Override []Param // set whatever the body has
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

// findSecrets notes which parameters are credentials. Nothing but their names tells.
func (e *Edit) findSecrets() {
	var w walker
	for _, list := range [][]Param{e.Default, e.Override} {
		for _, p := range list {
			w.texts("", p.Key, p.Value, 0, len(p.Value))
		}
	}
	for i := range w.found {
		e.secrets = append(e.secrets, credentials.NewSecret(w.found[i].value))
	}
}

// A Param is a value and where it goes. Of a path, names that are missing are
// made; [n] and [*] reach only elements that exist.
type Param struct {
	Key   string // the path as the config spells it
	Path  Path
	Value json.RawMessage
}

// Empty reports whether the edit leaves every body as it is.
func (e *Edit) Empty() bool {
	return e == nil || len(e.Default)+len(e.Override)+len(e.Drop) == 0
}

// Lookup is the value that the override of key sets, nil where there is none.
func (e *Edit) Lookup(key string) json.RawMessage {
	for _, p := range e.Override {
		if p.Key == key {
			return p.Value
		}
	}
	return nil
}

// Beside is the first key that the edit changes beside a top-level one, "" if there is
// none.
func (e *Edit) Beside(key string) string {
	return e.first(func(p Path) bool { return p.String() != key })
}

// Touches is the first key that the edit changes in one of these top-level members, or
// whole, "" if there is none.
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

// With is the edit with another value for the override of key, added where there
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

// Apply returns body with the edit made, or body itself where that changes
// nothing. Body must be a JSON object that was checked before. Members that the
// edit does not touch keep their bytes; of a member that it touches and that is
// given twice, the last counts and is the only one kept.
func Apply(body []byte, e *Edit) ([]byte, error) {
	if e.Empty() {
		return body, nil
	}
	return spliced(body, e.ops())
}

// Append is Apply into dst, which it returns extended; body is copied where the
// edit changes nothing. On an error dst is returned as it was.
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

// apply returns what becomes of the value v, nil being no value, at the rest of
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

// elementNamed reports whether the rest of the path names an element, which nothing makes.
func (o op) elementNamed() bool {
	return slices.ContainsFunc(o.path, func(s Step) bool { return s.Index != Name })
}

// elements makes the change in the elements of the array v that the path names.
// Nothing is copied before the first of them changes.
func (o op) elements(v []byte) ([]byte, error) {
	step, inner := o.path[0], o
	inner.path = o.path[1:]
	var (
		out     []byte
		failed  error
		from    int  // what is not yet written starts here
		kept    int  // elements so far
		last    int  // where the element before ends
		leading bool // what stands before the next element goes
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

// grown is out with room for a copy of v, if it was nil.
func grown(out, v []byte) []byte {
	if out == nil {
		return make([]byte, 0, len(v))
	}
	return out
}

// same reports whether a and b are the same bytes in memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
