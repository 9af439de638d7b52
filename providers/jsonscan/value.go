package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Value reads the value at i, whatever it is, which is inside depth objects and
// arrays.
func (s Scanner) Value(i, depth int) (end int, err error) {
	switch s.Kind(i) {
	case String:
		end, _, err = s.String(i)
		return end, err
	case Object:
		return s.Object(i, depth, nil)
	case Array:
		return s.Array(i, depth, nil)
	case Number:
		return s.Number(i)
	case Boolean:
		if s[i] == 't' {
			return s.literal(i, "true")
		}
		return s.literal(i, "false")
	case Null:
		return s.literal(i, "null")
	}
	return 0, s.errorAt(i, "expected a value")
}

// Object reads the object that opens at i, which is inside depth others. visit may
// be nil.
func (s Scanner) Object(i, depth int, visit func(key Key, at int) (end int, err error)) (int, error) {
	if depth++; depth > MaxDepth {
		return 0, s.tooDeep(i)
	}
	if i = s.space(i + 1); s.at(i) == '}' {
		return i + 1, nil
	}
	for {
		if s.at(i) != '"' {
			return 0, s.errorAt(i, "expected a key in double quotes")
		}
		keyEnd, escaped, err := s.String(i)
		if err != nil {
			return 0, err
		}
		key := Key{s[i+1 : keyEnd-1], escaped}
		if i = s.space(keyEnd); s.at(i) != ':' {
			return 0, s.errorAt(i, "expected a colon after a key")
		}
		i = s.space(i + 1)
		if visit != nil {
			i, err = visit(key, i)
		} else {
			i, err = s.Value(i, depth)
		}
		if err != nil {
			return 0, err
		}
		switch i = s.space(i); s.at(i) {
		case '}':
			return i + 1, nil
		case ',':
			i = s.space(i + 1)
		default:
			return 0, s.errorAt(i, "expected a comma or the end of an object")
		}
	}
}

// Array reads the array that opens at i, which is inside depth others. visit, which
// may be nil, is called with the place of each element in the array and in the body.
func (s Scanner) Array(i, depth int, visit func(index, at int) (end int, err error)) (int, error) {
	if depth++; depth > MaxDepth {
		return 0, s.tooDeep(i)
	}
	if i = s.space(i + 1); s.at(i) == ']' {
		return i + 1, nil
	}
	for index := 0; ; index++ {
		var err error
		if visit != nil {
			i, err = visit(index, i)
		} else {
			i, err = s.Value(i, depth)
		}
		if err != nil {
			return 0, err
		}
		switch i = s.space(i); s.at(i) {
		case ']':
			return i + 1, nil
		case ',':
			i = s.space(i + 1)
		default:
			return 0, s.errorAt(i, "expected a comma or the end of an array")
		}
	}
}

func (s Scanner) tooDeep(i int) error {
	return &SyntaxError{Offset: i, What: fmt.Sprintf("nested more than %d deep", MaxDepth), TooDeep: true}
}

func (s Scanner) literal(i int, word string) (int, error) {
	if len(s)-i < len(word) || string(s[i:i+len(word)]) != word {
		return 0, s.errorAt(i, "expected a value")
	}
	return i + len(word), nil
}

// Number reads the number at i.
func (s Scanner) Number(i int) (int, error) {
	if s.at(i) == '-' {
		i++
	}
	start := i
	if i = s.digits(i); i == start || s[start] == '0' && i > start+1 {
		return 0, s.errorAt(start, "bad number")
	}
	if s.at(i) == '.' {
		start = i + 1
		if i = s.digits(start); i == start {
			return 0, s.errorAt(i, "bad number")
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		if i++; s.at(i) == '+' || s.at(i) == '-' {
			i++
		}
		start = i
		if i = s.digits(start); i == start {
			return 0, s.errorAt(i, "bad number")
		}
	}
	return i, nil
}

func (s Scanner) digits(i int) int {
	for c := s.at(i); c >= '0' && c <= '9'; c = s.at(i) {
		i++
	}
	return i
}

// String reads the string that opens at i and reports whether it holds an escape.
// Prompts are nearly all string, so it looks at eight bytes at a time.
func (s Scanner) String(i int) (end int, escaped bool, err error) {
	for i++; ; {
		i = s.plain(i)
		switch c := s.at(i); {
		case c == '"':
			return i + 1, escaped, nil
		case c != '\\':
			return 0, false, s.errorAt(i, "unfinished string or bare control character")
		}
		escaped = true
		switch s.at(i + 1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for k := i + 2; k < i+6; k++ {
				if !isHex(s.at(k)) {
					return 0, false, s.errorAt(i, "bad escape")
				}
			}
			i += 6
		default:
			return 0, false, s.errorAt(i, "bad escape")
		}
	}
}

// closing returns the end of the string that opens at i, of which only that is looked for, or 0 if
// there is none.
func (s Scanner) closing(i int) int {
	if s.at(i) != '"' {
		return 0
	}
	for at := i + 1; ; {
		quote := bytes.IndexByte(s[at:], '"')
		if quote < 0 {
			return 0
		}
		at += quote
		escapes := at
		for s[escapes-1] == '\\' { // ends at the opening quote
			escapes--
		}
		if at++; (at-1-escapes)%2 == 0 {
			return at
		}
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has the high bit of the lowest byte of w that is a quote, a backslash or a control
// character, if there is one. The bits of bytes above it do not matter: the subtraction of
// the lowest match borrows from them.
func special(w uint64) uint64 {
	return ((w - ones*0x20) | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) &^ w & highs
}

// plain returns the position of the first quote, backslash or control character
// at or after i, or the end.
func (s Scanner) plain(i int) int {
	// In code, the next is near. In prose it is far, and four words are looked at together.
	for near := min(i+16, len(s)); i+8 <= near; i += 8 {
		if m := special(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i+32 <= len(s); i += 32 {
		b := s[i : i+32 : i+32]
		if special(binary.LittleEndian.Uint64(b))|special(binary.LittleEndian.Uint64(b[8:]))|
			special(binary.LittleEndian.Uint64(b[16:]))|special(binary.LittleEndian.Uint64(b[24:])) != 0 {
			break
		}
	}
	for ; i+8 <= len(s); i += 8 {
		if m := special(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= 0x20 {
		i++
	}
	return i
}
