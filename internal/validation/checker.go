package validation

import (
	"bytes"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxSteps bounds the length of a path that a rule reads: integrations[0].tracker.tags[1]
// has 5 steps.
const maxSteps = 8

// tag is in every text of a template that is not rendered as it is.
var tag = []byte("{{")

// A checker is one pass over one body. After the first error it continues to check the
// syntax only, so that invalid JSON is reported as such. Its methods return the same as
// those of a jsonscan.Scanner.
type checker struct {
	scan  jsonscan.Scanner
	err   *Error
	path  [maxSteps]step // the path of the current value
	steps int
	names names // so far
	draft bool  // see [CheckTemplate]
}

func (c *checker) push(s step) {
	c.path[c.steps] = s
	c.steps++
}

func (c *checker) pop() { c.steps-- }

// object reads the object at i, or the whole body at depth 0, by the rules of f. It records
// the positions of values in given, which has an element for each row.
func (c *checker) object(f *Fields, given []Span, i, depth int) (end int, err error) {
	visit := func(key jsonscan.Key, at int) (int, error) {
		if c.err != nil {
			return c.scan.Value(at, depth+1)
		}
		name := key.Bytes()
		c.names |= rare(name)
		row := f.find(name)
		if row < 0 {
			if row = f.findFolded(name); row >= 0 {
				c.push(step{key: key, free: true})
				c.fail(DuplicateField, "it differs from '%s' in letter case only. Use '%[1]s' instead.", f.rows[row].Name)
				c.pop()
			}
			return c.skip(at, depth+1)
		}
		c.push(step{name: f.rows[row].Name})
		if given[row].End != 0 {
			c.fail(DuplicateField, "the field is given more than once.")
		}
		end, err := c.field(&f.rows[row].Value, at, depth+1)
		given[row] = Span{at, end}
		c.pop()
		return end, err
	}
	if depth == 0 {
		err = c.scan.Document(visit)
	} else {
		end, err = c.scan.Object(i, depth, visit)
	}
	if err == nil && c.err == nil {
		c.siblings(f, given)
	}
	return end, err
}

// field reads the value of a field. Null means absent.
func (c *checker) field(v *Value, i, depth int) (end int, err error) {
	if c.scan.Kind(i) == jsonscan.Null {
		return c.skip(i, depth)
	}
	return c.value(v, i, depth)
}

// value reads the value at i by the rules of v.
func (c *checker) value(v *Value, i, depth int) (end int, err error) {
	kind := c.scan.Kind(i)
	if c.err != nil || v.Kinds == 0 || kind == jsonscan.None {
		return c.skip(i, depth)
	}
	if v.Kinds&kindsOf[kind] == 0 {
		c.wrongType(v.Kinds, gotNames[kind])
		return c.skip(i, depth)
	}
	switch {
	case kind == jsonscan.Object && v.Fields != nil:
		var given [maxNested]Span
		return c.object(v.Fields, given[:], i, depth)
	case kind == jsonscan.Object && v.Each != nil:
		return c.pairs(v, i, depth)
	case kind == jsonscan.Array && (v.Items != nil || v.MinItems > 0 || v.MaxItems > 0):
		return c.array(v, i, depth)
	}
	if end, err = c.skip(i, depth); err != nil {
		return 0, err
	}
	switch kind {
	case jsonscan.String:
		c.text(v, c.scan[i:end])
	case jsonscan.Number:
		c.number(v, c.scan[i:end])
	}
	return end, nil
}

// pairs reads the object with free keys at i.
func (c *checker) pairs(v *Value, i, depth int) (end int, err error) {
	n := 0
	end, err = c.scan.Object(i, depth, func(key jsonscan.Key, at int) (int, error) {
		if n++; c.err != nil {
			return c.scan.Value(at, depth+1)
		}
		c.names |= rare(key.Bytes())
		if length := runes(key.Bytes(), v.MaxKeyLen); v.MaxKeyLen > 0 && length > v.MaxKeyLen {
			c.fail(StringAboveMax, "key too long. Expected keys with maximum length %d, but got a key with length %d instead: '%s'.", v.MaxKeyLen, length, clip(key.String()))
		}
		c.push(step{key: key, free: true})
		end, err := c.value(v.Each, at, depth+1)
		c.pop()
		return end, err
	})
	if err == nil && v.MaxPairs > 0 && n > v.MaxPairs {
		c.fail(ObjectAboveMax, "too many properties. Expected an object with at most %d properties, but got an object with %d properties instead.", v.MaxPairs, n)
	}
	return end, err
}

func (c *checker) array(v *Value, i, depth int) (end int, err error) {
	n, first := 0, jsonscan.None
	end, err = c.scan.Array(i, depth, func(index, at int) (end int, err error) {
		n++
		if v.Items == nil || c.err != nil {
			return c.skip(at, depth+1)
		}
		c.push(step{index: index})
		if kind := c.scan.Kind(at); index == 0 {
			first = kind
		} else if v.Uniform && kind != first && kind != jsonscan.None {
			c.wrongType(v.Items.Kinds&kindsOf[first], gotNames[kind])
		}
		end, err = c.value(v.Items, at, depth+1)
		c.pop()
		return end, err
	})
	switch {
	case err != nil:
	case n < v.MinItems:
		c.fail(ArrayBelowMin, "array too short. Expected an array with minimum length %d, but got an array with length %d instead.", v.MinItems, n)
	case v.MaxItems > 0 && n > v.MaxItems:
		c.fail(ArrayAboveMax, "array too long. Expected an array with maximum length %d, but got an array with length %d instead.", v.MaxItems, n)
	}
	return end, err
}

// text checks a string, given its encoding including the quotes.
func (c *checker) text(v *Value, literal []byte) {
	if c.draft && bytes.Contains(literal, tag) {
		return
	}
	// A character takes at least one byte, so that few strings have to be counted.
	if v.MaxLength > 0 && len(literal)-2 > v.MaxLength {
		if n := jsonscan.Len(literal); n > v.MaxLength {
			c.fail(StringAboveMax, "string too long. Expected a string with maximum length %d, but got a string with length %d instead.", v.MaxLength, n)
		}
	}
	if v.OneOf != nil && !slices.Contains(v.OneOf, string(literal[1:len(literal)-1])) {
		if got := jsonscan.Unquote(literal); !slices.Contains(v.OneOf, got) {
			c.fail(InvalidValue, "'%s' is not supported. Supported values are: %s.", clip(got), quoted(v.OneOf))
		}
	}
	if v.Document && !isDocument(literal) {
		c.fail(InvalidValue, "expected an HTTPS URL or a base64 data URI.")
	}
	if v.Letters != "" && (len(literal) == 2 || len(bytes.Trim(literal[1:len(literal)-1], v.Letters)) > 0) {
		c.fail(InvalidValue, "'%s' is not supported. Expected only these characters: %s.", clip(jsonscan.Unquote(literal)), strings.TrimSpace(v.Letters))
	}
}

func (c *checker) number(v *Value, literal []byte) {
	if v.Kinds&Number == 0 && !isInteger(literal) {
		c.wrongType(v.Kinds, "a decimal number")
		return
	}
	if v.Range != nil {
		c.bounds(v, literal)
	}
}

// isInteger is optimised for numbers that consist of digits, since arrays of tokens have
// many of them.
func isInteger(literal []byte) bool {
	for i, d := range literal {
		if (d < '0' || d > '9') && (i > 0 || d != '-') {
			return parseDecimal(literal).isInteger()
		}
	}
	return true
}
