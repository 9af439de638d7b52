package validation

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Table is the request table of an endpoint.
type Table struct {
	Name   string
	Fields *Fields

	stream    int // the row of the stream field
	hasStream bool
}

func newTable(name string, rows ...Field) *Table {
	// Some providers take other models there, of which one may answer.
	rows = append(slices.Clip(rows), Field{Name: "models", Value: anything})
	t := &Table{Name: name, Fields: fields(rows...)}
	for _, row := range rows {
		mustFit(&row.Value, 1)
	}
	if f := t.Fields.find([]byte("stream")); f >= 0 {
		t.stream, t.hasStream = f, true
	}
	return t
}

// Need says whether a field must be given.
type Need uint8

// Optional is the zero Need. AfterMerge fields must be present after the config was merged
// into the body. Table.Missing checks this, because Check does not see the config.
const (
	Optional Need = iota
	Required
	AfterMerge
)

// A Field is a row of a table: a member of an object, and its rules about siblings, which
// are named. Siblings that are null count as absent.
type Field struct {
	Name  string
	Need  Need
	Value Value

	OnlyWith     string // may only be given if this one is true
	NotWith      string // may not be given if this one is true
	Above        string // must be greater than this one, if both are given
	Unless       string // is not required if this one is given
	RequiredWith Is     // is required if this condition holds
}

// Is is the condition that a field is a string with a certain value.
type Is struct{ Field, Value string }

// Kinds is a set of kinds of values.
type Kinds uint8

// The kinds of values. An Integer is a number without a fraction, in any form: 1.0 and 1e2
// are integers. Rules do not name null: see the package.
const (
	String Kinds = 1 << iota
	Number
	Integer
	Boolean
	Array
	Object
)

// kindsOf maps the kind of a value to the kinds in rules that it satisfies.
var kindsOf = [...]Kinds{
	jsonscan.Null:    0,
	jsonscan.Boolean: Boolean,
	jsonscan.Number:  Number | Integer,
	jsonscan.String:  String,
	jsonscan.Array:   Array,
	jsonscan.Object:  Object,
}

// A Value has the rules for a value. Rules for a kind apply if the value is of it.
type Value struct {
	Kinds Kinds // 0: anything

	Range *Range // of a number

	OneOf     []string // of a string: the allowed values
	Letters   string   // of a string: the allowed bytes
	MaxLength int      // of a string, in characters; 0: any
	Document  bool     // of a string: an HTTPS URL, or a base64 data URI

	MinItems int    // of an array
	MaxItems int    // of an array; 0: any
	Items    *Value // of an array: each element
	Uniform  bool   // of an array: all elements have the kind of the first one

	Fields    *Fields // of an object with known keys
	Each      *Value  // of an object with free keys: each value
	MaxPairs  int     // of an object with free keys; 0: any
	MaxKeyLen int     // of an object with free keys: in characters; 0: any
}

// A Range is inclusive. An infinite end is open.
type Range struct {
	Min, Max float64

	min, max decimal
}

var (
	anything = Value{}
	text     = Value{Kinds: String}
	boolean  = Value{Kinds: Boolean}
	number   = Value{Kinds: Number}
	integer  = Value{Kinds: Integer}
	object   = Value{Kinds: Object}
)

func (v Value) between(least, most float64) Value {
	r := &Range{Min: least, Max: most}
	// As short as a float is written, 2^63 is the 9223372036854776000 of the
	// specification.
	if !math.IsInf(least, 0) {
		r.min = parseDecimal(strconv.AppendFloat(nil, least, 'f', -1, 64))
	}
	if !math.IsInf(most, 0) {
		r.max = parseDecimal(strconv.AppendFloat(nil, most, 'f', -1, 64))
	}
	v.Range = r
	return v
}

func (v Value) atLeast(least float64) Value { return v.between(least, math.Inf(1)) }

// or returns the same rules for a value that may also be of other kinds.
func (v Value) or(kinds Kinds) Value {
	v.Kinds |= kinds
	return v
}

func oneOf(values ...string) Value { return Value{Kinds: String, OneOf: values} }

// arrayOf returns the rules for an array of least to most elements; most 0: any number.
func arrayOf(items Value, least, most int) Value {
	return Value{Kinds: Array, Items: &items, MinItems: least, MaxItems: most}
}

func objectWith(rows ...Field) Value { return Value{Kinds: Object, Fields: fields(rows...)} }

func mapOf(each Value) Value { return Value{Kinds: Object, Each: &each} }

// metadata: "Up to 16 key-value pairs. Keys up to 64 characters, values up to 512
// characters" (Batch; Limits).
var metadata = Value{Kinds: Object, Each: &Value{Kinds: String, MaxLength: 512}, MaxPairs: 16, MaxKeyLen: 64}

const (
	maxFields = 32 // of a table
	maxNested = 8  // of an object inside one
	maxName   = 32 // bytes of a field's name
)

// Fields are the fields of an object, indexed for lookups.
type Fields struct {
	rows     []Field
	byLength [maxName + 1][]uint8 // rows by the length of their names
	checked  []uint8              // rows with rules besides those of their values
}

// mustFit panics if a value at the given depth exceeds the bounds of a checker.
func mustFit(v *Value, steps int) {
	switch {
	case v == nil:
		return
	case steps > maxSteps:
		panic("validation: a table is too deep")
	case v.Fields != nil:
		if len(v.Fields.rows) > maxNested {
			panic("validation: too many fields in " + v.Fields.rows[0].Name + "'s object")
		}
		for i := range v.Fields.rows {
			mustFit(&v.Fields.rows[i].Value, steps+1)
		}
	}
	mustFit(v.Items, steps+1)
	mustFit(v.Each, steps+1)
}

func fields(rows ...Field) *Fields {
	f := &Fields{rows: rows}
	if len(rows) > maxFields {
		panic(fmt.Sprintf("validation: %d fields", len(rows)))
	}
	for i, row := range rows {
		if f.find([]byte(row.Name)) >= 0 {
			panic("validation: field " + row.Name + " twice")
		}
		f.byLength[len(row.Name)] = append(f.byLength[len(row.Name)], uint8(i))
	}
	for i, row := range rows {
		for _, sibling := range []string{row.OnlyWith, row.NotWith, row.Above, row.Unless, row.RequiredWith.Field} {
			if sibling != "" && f.find([]byte(sibling)) < 0 {
				panic("validation: " + row.Name + " is tied to " + sibling + ", which is not in the table")
			}
		}
		if row.Need == Required || row.OnlyWith != "" || row.NotWith != "" || row.Above != "" || row.RequiredWith.Field != "" {
			f.checked = append(f.checked, uint8(i))
		}
	}
	return f
}

// find returns the index of the row with a name, or -1.
func (f *Fields) find(name []byte) int {
	if len(name) > maxName {
		return -1
	}
	for _, i := range f.byLength[len(name)] {
		if f.rows[i].Name == string(name) {
			return int(i)
		}
	}
	return -1
}

// findFolded returns the row whose name is, under strings.EqualFold, a key that find
// does not know, or -1. Names are of ASCII, whose small letters fold with their
// capitals, and k and s with the Kelvin sign and the long s too.
func (f *Fields) findFolded(key []byte) int {
	var folded [maxName]byte
	n, changed := 0, false
	for i := 0; i < len(key); i++ {
		if n == maxName {
			return -1
		}
		c := key[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c, changed = c|0x20, true
		case c < 0x80:
		case c == 0xc5 && i+1 < len(key) && key[i+1] == 0xbf: // ſ
			c, changed, i = 's', true, i+1
		case c == 0xe2 && i+2 < len(key) && key[i+1] == 0x84 && key[i+2] == 0xaa: // K
			c, changed, i = 'k', true, i+2
		default:
			return -1
		}
		folded[n] = c
		n++
	}
	if !changed {
		return -1
	}
	return f.find(folded[:n])
}
