package routing

import (
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// What is inside a member of a body is changed by sjson, one name at a time. It is given
// nothing but objects, since a name that is a number would reach into an array. More of its
// ways are worked around here, and nowhere else:
//
//   - Of a name that is given twice it changes the first, where readers take the last.
//   - Dots, wildcards and modifiers in names are syntax to it, and so is a backslash.
//   - For a number it makes an array where nothing is.
//   - It takes another member out, or a part of one, where a key begins with an escaped
//     quote (as of v1.2.9). The splicer changes those.

// pathOf returns sjson's path of a member of an object. The colon marks names that are
// numbers.
func pathOf(name string) string { return ":" + gjson.Escape(name) }

// member applies the op to the object v, at the name that its path starts with.
func (o op) member(v []byte) ([]byte, error) {
	name, rest := o.path[0].Name, o
	rest.path = o.path[1:]
	if name[0] == '"' {
		return spliced(v, []op{o})
	}
	var old []byte
	count := 0
	_, err := eachMember(v, func(m member) {
		if m.is(name) {
			old = v[m.start:m.end]
			count++
		}
	})
	if err != nil {
		return nil, err
	}
	value, err := rest.apply(old)
	if err != nil {
		return nil, err
	}
	for ; count > 1; count-- {
		if v, err = sjson.DeleteBytes(v, pathOf(name)); err != nil {
			return nil, err
		}
	}
	switch {
	case same(value, old):
		return v, nil
	case value == nil:
		return sjson.DeleteBytes(v, pathOf(name))
	}
	return sjson.SetRawBytesOptions(v, pathOf(name), value, nil)
}

// build wraps value in objects for the names of path.
func build(path Path, value []byte) ([]byte, error) {
	names := make([]string, len(path))
	for i, step := range path {
		names[i] = pathOf(step.Name)
	}
	return sjson.SetRawBytesOptions([]byte("{}"), strings.Join(names, "."), value, nil)
}
