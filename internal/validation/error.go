package validation

import (
	"fmt"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// An Error is the violation of a rule by a request, which is answered with 400.
type Error struct {
	Param   string // the field, such as messages[2].role
	Code    string // one of the codes below
	Message string // what was expected, and what was found
}

func (f *Error) Error() string { return f.Message }

// The error codes. They are OpenAI's where it has one.
const (
	InvalidType      = "invalid_type"
	InvalidValue     = "invalid_value"
	MissingParameter = "missing_required_parameter"
	DuplicateField   = "duplicate_field"
	IntegerBelowMin  = "integer_below_min_value"
	IntegerAboveMax  = "integer_above_max_value"
	DecimalBelowMin  = "decimal_below_min_value"
	DecimalAboveMax  = "decimal_above_max_value"
	ArrayBelowMin    = "array_below_min_length"
	ArrayAboveMax    = "array_above_max_length"
	ObjectAboveMax   = "object_above_max_properties"
	StringAboveMax   = "string_above_max_length"
)

func missing(param string) *Error {
	return &Error{param, MissingParameter, fmt.Sprintf("Missing required parameter: '%s'.", param)}
}

// clip shortens a caller's input for a message.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// A step is one element of a path: a field's name, a free key, or an index.
type step struct {
	name  string
	key   jsonscan.Key
	free  bool
	index int
}

// param returns the path of the current value in the form of error.param.
func (c *checker) param() string {
	var b strings.Builder
	for _, s := range c.path[:c.steps] {
		switch {
		case s.name != "":
			dot(&b, s.name)
		case s.free:
			dot(&b, clip(s.key.String()))
		default:
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	return b.String()
}

func dot(b *strings.Builder, name string) {
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(name)
}

// fail records an error for the current value, if it is the first one. The message is
// appended to the name of the field.
func (c *checker) fail(code, format string, args ...any) {
	if c.err == nil {
		param := c.param()
		c.err = &Error{param, code, fmt.Sprintf("Invalid '%s': ", param) + fmt.Sprintf(format, args...)}
	}
}

func (c *checker) wrongType(expected Kinds, got string) {
	if c.err == nil {
		param := c.param()
		c.err = &Error{param, InvalidType, fmt.Sprintf("Invalid type for '%s': expected %s, but got %s instead.", param, expected, got)}
	}
}

var kindNames = []struct {
	kind Kinds
	name string
}{
	{String, "a string"},
	{Number, "a number"},
	{Integer, "an integer"},
	{Boolean, "true or false"},
	{Array, "an array"},
	{Object, "an object"},
}

// String returns the kinds in words: "a string or an array".
func (k Kinds) String() string {
	var names []string
	for _, n := range kindNames {
		if k&n.kind != 0 {
			names = append(names, n.name)
		}
	}
	switch last := len(names) - 1; {
	case last < 0:
		return "anything"
	case last == 0:
		return names[0]
	default:
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
}

var gotNames = [...]string{
	jsonscan.None:    "nothing",
	jsonscan.Null:    "null",
	jsonscan.Boolean: "a boolean",
	jsonscan.Number:  "a number",
	jsonscan.String:  "a string",
	jsonscan.Array:   "an array",
	jsonscan.Object:  "an object",
}

func quoted(values []string) string {
	return "'" + strings.Join(values, "', '") + "'"
}
