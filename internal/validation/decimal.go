package validation

import "bytes"

// A decimal is a JSON number as its text has it, so that it compares exactly: its
// value is 0.digits × 10^exp, negated if negative.
type decimal struct {
	negative bool
	digits   []byte // from the first to the last that is not 0, a point among them; none: zero
	exp      int
}

// parseDecimal reads a valid JSON number.
func parseDecimal(number []byte) (d decimal) {
	if number[0] == '-' {
		d.negative, number = true, number[1:]
	}
	if e := bytes.IndexAny(number, "eE"); e >= 0 {
		d.exp = parseExponent(number[e+1:])
		number = number[:e]
	}
	first, last := 0, len(number)-1
	for ; first <= last && (number[first] == '0' || number[first] == '.'); first++ {
	}
	for ; last > first && (number[last] == '0' || number[last] == '.'); last-- {
	}
	if first > last {
		return decimal{}
	}
	d.digits = number[first : last+1]
	point := bytes.IndexByte(number, '.')
	switch {
	case point < 0:
		d.exp += len(number) - first
	case point > first:
		d.exp += point - first
	default:
		d.exp += point - first + 1
	}
	return d
}

// parseExponent caps what it reads, far from any bound, so that it fits an int.
func parseExponent(text []byte) int {
	const limit = 1 << 40
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	n := 0
	for _, c := range text {
		if n = n*10 + int(c-'0'); n > limit {
			n = limit
		}
	}
	if negative {
		return -n
	}
	return n
}

func (d decimal) isInteger() bool {
	n := len(d.digits)
	if bytes.IndexByte(d.digits, '.') >= 0 {
		n--
	}
	return n == 0 || d.exp >= n
}

// compare returns -1, 0 or 1 as d is less than, equal to or greater than e.
func (d decimal) compare(e decimal) int {
	sign := 1
	switch {
	case len(d.digits) == 0 && len(e.digits) == 0:
		return 0
	case len(d.digits) == 0:
		return negate(e.negative, -1)
	case len(e.digits) == 0:
		return negate(d.negative, 1)
	case d.negative != e.negative:
		return negate(d.negative, 1)
	}
	sign = negate(d.negative, sign)
	if d.exp != e.exp {
		if d.exp < e.exp {
			return -sign
		}
		return sign
	}
	for i, k := 0, 0; ; i, k = i+1, k+1 {
		if i < len(d.digits) && d.digits[i] == '.' {
			i++
		}
		if k < len(e.digits) && e.digits[k] == '.' {
			k++
		}
		switch {
		case i == len(d.digits) && k == len(e.digits):
			return 0
		case i == len(d.digits):
			return -sign
		case k == len(e.digits) || d.digits[i] > e.digits[k]:
			return sign
		case d.digits[i] < e.digits[k]:
			return -sign
		}
	}
}

func negate(negative bool, n int) int {
	if negative {
		return -n
	}
	return n
}
