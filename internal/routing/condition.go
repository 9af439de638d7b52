package routing

import (
	"cmp"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// A Condition sends a call to a target when its query matches.
type Condition struct {
	Then  int // index of the target
	query query
}

// A query is a tree of comparisons.
type query interface{ match(f *fieldReader) bool }

// all matches if each of its queries does. An empty one always matches.
type all []query

func (q all) match(f *fieldReader) bool {
	for _, one := range q {
		if !one.match(f) {
			return false
		}
	}
	return true
}

// anyOf matches if one of its queries does.
type anyOf []query

func (q anyOf) match(f *fieldReader) bool {
	for _, one := range q {
		if one.match(f) {
			return true
		}
	}
	return false
}

// An operator compares the value of a field with the values of a query.
type operator string

const (
	opEq    operator = "$eq"
	opNe    operator = "$ne"
	opGt    operator = "$gt"
	opGte   operator = "$gte"
	opLt    operator = "$lt"
	opLte   operator = "$lte"
	opIn    operator = "$in"
	opNin   operator = "$nin"
	opRegex operator = "$regex"
)

// A comparison applies one operator to one field.
type comparison struct {
	field int
	op    operator
	with  []value // one, or those of $in and $nin
	regex *regexp.Regexp
}

// maxMatched bounds the text that regular expressions are matched against, in bytes. Longer
// text does not match.
const maxMatched = 4 << 10

// match compares. A missing field equals null, and is neither less nor greater than
// anything; $ne and $nin negate $eq and $in.
func (c *comparison) match(f *fieldReader) bool {
	v := f.value(c.field)
	switch c.op {
	case opEq, opIn:
		return c.equal(v)
	case opNe, opNin:
		return !c.equal(v)
	case opRegex:
		return (v.kind == stringValue || v.kind == numberValue || v.kind == boolValue) && len(v.text) <= maxMatched && c.regex.MatchString(v.text)
	}
	order, ok := v.compare(&c.with[0])
	switch {
	case !ok:
		return false
	case c.op == opGt:
		return order > 0
	case c.op == opGte:
		return order >= 0
	case c.op == opLt:
		return order < 0
	}
	return order <= 0
}

func (c *comparison) equal(v *value) bool {
	for i := range c.with {
		if v.equals(&c.with[i]) {
			return true
		}
	}
	return false
}

// equals compares scalars. Metadata and headers are strings, so that 5 equals "5" and true
// equals "true"; two strings must be identical.
func (v *value) equals(w *value) bool {
	switch {
	case v.kind == missing || v.kind == null || w.kind == null:
		return v.kind <= null && w.kind <= null
	case v.kind == compound:
		return false
	case v.text == w.text:
		return true
	case v.kind == numberValue || w.kind == numberValue:
		order, ok := v.compare(w)
		return ok && order == 0
	}
	return false
}

// compare orders numbers, and strings that are numbers.
func (v *value) compare(w *value) (int, bool) {
	for _, one := range []*value{v, w} {
		if one.kind != numberValue && one.kind != stringValue {
			return 0, false
		}
	}
	a, b := strings.TrimSpace(v.text), strings.TrimSpace(w.text)
	if len(a) <= maxInteger && len(b) <= maxInteger {
		m, okm := new(big.Int).SetString(a, 10)
		n, okn := new(big.Int).SetString(b, 10)
		if okm && okn { // a float64 is not precise enough for ids
			return m.Cmp(n), true
		}
	}
	x, okx := decimal(a)
	y, oky := decimal(b)
	return cmp.Compare(x, y), okx && oky
}

const maxInteger = 64 // digits of an integer that is compared exactly

// decimal parses a JSON number. It accepts no Inf, NaN, hexadecimal digits or underscores.
func decimal(s string) (float64, bool) {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && !strings.ContainsRune("+-.eE", r) }) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}
