package admin

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/tidwall/gjson"
)

// A shape says which members of the body of an update may be null. Null clears a member whose type is an
// [Optional], or whose tag nullable is true. Any other would be taken for one that is left out, so null is
// refused there. What is replaced as a whole, such as the elements of an array, has no shape: a member that
// is null there is the same as one that is left out.
type shape struct {
	null    bool
	members map[string]*shape
}

func (Optional[T]) optional() {}

// shapeOf returns the shape of a type's values.
func shapeOf(t reflect.Type) *shape {
	s := new(shape)
	if t.Implements(typeOf[interface{ optional() }]()) {
		s.null = true
		return s
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(typeOf[json.Unmarshaler]()) {
		return s
	}
	s.members = make(map[string]*shape)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(s.members, shapeOf(f.Type).members)
		case f.IsExported() && name != "" && name != "-":
			m := shapeOf(f.Type)
			m.null = m.null || f.Tag.Get("nullable") == "true"
			s.members[name] = m
		}
	}
	return s
}

// check refuses null where it clears nothing. at is the path of the value.
func (s *shape) check(v gjson.Result, at string) (err error) {
	if v.Type == gjson.Null && !s.null {
		return invalid(cmp.Or(at, "body"), "expected a value: null clears nothing here; leave it out to keep what there is")
	}
	if v.IsObject() && s.members != nil {
		v.ForEach(func(key, value gjson.Result) bool {
			if m := s.members[key.Str]; m != nil {
				err = m.check(value, strings.TrimPrefix(at+"."+key.Str, "."))
			}
			return err == nil
		})
	}
	return err
}
