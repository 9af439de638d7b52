package validation

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// bounds checks a number against its range.
func (c *checker) bounds(v *Value, literal []byte) {
	n := parseDecimal(literal)
	below, above, noun := DecimalBelowMin, DecimalAboveMax, "decimal"
	if v.Kinds&Number == 0 {
		below, above, noun = IntegerBelowMin, IntegerAboveMax, "integer"
	}
	r := v.Range
	switch {
	case !math.IsInf(r.Min, 0) && n.compare(r.min) < 0:
		c.fail(below, "%s below minimum value. Expected a value >= %s, but got %s instead.", noun, format(r.Min), clip(string(literal)))
	case !math.IsInf(r.Max, 0) && n.compare(r.max) > 0:
		c.fail(above, "%s above maximum value. Expected a value <= %s, but got %s instead.", noun, format(r.Max), clip(string(literal)))
	}
}

func format(bound float64) string { return strconv.FormatFloat(bound, 'f', -1, 64) }

// runes counts the characters of a key, if there can be more than limit.
func runes(key []byte, limit int) int {
	if len(key) <= limit {
		return len(key)
	}
	return utf8.RuneCount(key)
}
