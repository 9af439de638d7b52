package exchange

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
)

// maxDepth bounds how deep a body may nest.
const maxDepth = 256

// A SyntaxError says where a body stops being JSON.
type SyntaxError struct {
	Offset int // bytes before the fault
	What   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.Offset) }

// A Member is one member of a JSON object.
type Member struct {
	Key        string // decoded
	Start, End int    // the value, as body[Start:End]
}

// ScanObject checks, in one pass and without decoding it, that body is one JSON
// object (RFC 8259, whole, nested at most 256 deep), and calls visit for each of
// its own members in order. An error of visit ends the scan and is returned as it
// is; every other error is a *SyntaxError. A key comes decoded, so that
// "mod\u0065l" is seen as the model that the provider will read.
func ScanObject(body []byte, visit func(Member) error) error {
	s := scanner(body)
	i := s.space(0)
	if s.at(i) != '{' {
		return s.fault(i, "expected a JSON object")
	}
	end, err := s.object(i, 1, visit)
	if err != nil {
		return err
	}
	if end = s.space(end); end != len(body) {
		return s.fault(end, "unexpected data after the JSON object")
	}
	return nil
}

// A scanner reads JSON at positions it is given; its methods return the position
// after what they read.
type scanner []byte

func (s scanner) fault(i int, what string) error { return &SyntaxError{i, what} }

// at returns the byte at i, or 0, which is nowhere allowed, past the end.
func (s scanner) at(i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (s scanner) space(i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// object reads the object that opens at i; visit may be nil.
func (s scanner) object(i, depth int, visit func(Member) error) (int, error) {
	if i = s.space(i + 1); s.at(i) == '}' {
		return i + 1, nil
	}
	for {
		if s.at(i) != '"' {
			return 0, s.fault(i, "expected a key in double quotes")
		}
		keyEnd, escaped, err := s.str(i)
		if err != nil {
			return 0, err
		}
		key := s[i+1 : keyEnd-1]
		if i = s.space(keyEnd); s.at(i) != ':' {
			return 0, s.fault(i, "expected a colon after a key")
		}
		start := s.space(i + 1)
		end, err := s.value(start, depth)
		if err != nil {
			return 0, err
		}
		if visit != nil {
			if err := visit(Member{decodeKey(key, escaped), start, end}); err != nil {
				return 0, err
			}
		}
		switch i = s.space(end); s.at(i) {
		case '}':
			return i + 1, nil
		case ',':
			i = s.space(i + 1)
		default:
			return 0, s.fault(i, "expected a comma or the end of an object")
		}
	}
}

func (s scanner) array(i, depth int) (int, error) {
	if i = s.space(i + 1); s.at(i) == ']' {
		return i + 1, nil
	}
	for {
		end, err := s.value(i, depth)
		if err != nil {
			return 0, err
		}
		switch i = s.space(end); s.at(i) {
		case ']':
			return i + 1, nil
		case ',':
			i = s.space(i + 1)
		default:
			return 0, s.fault(i, "expected a comma or the end of an array")
		}
	}
}

// value reads the value at i, which is inside depth objects and arrays.
func (s scanner) value(i, depth int) (int, error) {
	switch c := s.at(i); {
	case c == '"':
		end, _, err := s.str(i)
		return end, err
	case c == '{' || c == '[':
		if depth++; depth > maxDepth {
			return 0, s.fault(i, fmt.Sprintf("nested more than %d deep", maxDepth))
		}
		if c == '{' {
			return s.object(i, depth, nil)
		}
		return s.array(i, depth)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	}
	return 0, s.fault(i, "expected a value")
}

func (s scanner) literal(i int, word string) (int, error) {
	if len(s)-i < len(word) || string(s[i:i+len(word)]) != word {
		return 0, s.fault(i, "expected a value")
	}
	return i + len(word), nil
}

func (s scanner) number(i int) (int, error) {
	if s.at(i) == '-' {
		i++
	}
	start := i
	if i = s.digits(i); i == start || s[start] == '0' && i > start+1 {
		return 0, s.fault(start, "bad number")
	}
	if s.at(i) == '.' {
		start = i + 1
		if i = s.digits(start); i == start {
			return 0, s.fault(i, "bad number")
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		if i++; s.at(i) == '+' || s.at(i) == '-' {
			i++
		}
		start = i
		if i = s.digits(start); i == start {
			return 0, s.fault(i, "bad number")
		}
	}
	return i, nil
}

func (s scanner) digits(i int) int {
	for c := s.at(i); c >= '0' && c <= '9'; c = s.at(i) {
		i++
	}
	return i
}

// str reads the string that opens at i and reports whether it holds an escape.
// Prompts are nearly all string, so it looks at eight bytes at a time.
func (s scanner) str(i int) (end int, escaped bool, err error) {
	for i++; ; {
		i = s.plain(i)
		switch c := s.at(i); {
		case c == '"':
			return i + 1, escaped, nil
		case c != '\\':
			return 0, false, s.fault(i, "unfinished string or bare control character")
		}
		escaped = true
		switch s.at(i + 1) {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for k := i + 2; k < i+6; k++ {
				if !isHex(s.at(k)) {
					return 0, false, s.fault(i, "bad escape")
				}
			}
			i += 6
		default:
			return 0, false, s.fault(i, "bad escape")
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

// plain returns the position of the first quote, backslash or control character
// at or after i, or the end.
func (s scanner) plain(i int) int {
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		// The lowest byte of which the subtraction borrows is the first match;
		// bytes above it may be false ones, which does not matter.
		if m := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= 0x20 {
		i++
	}
	return i
}

func decodeKey(key []byte, escaped bool) string {
	if !escaped {
		return string(key)
	}
	var decoded string
	quoted := append(append([]byte{'"'}, key...), '"')
	if json.Unmarshal(quoted, &decoded) != nil { // str accepted it, so it decodes
		return string(key)
	}
	return decoded
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always encode
	}
	return append(b, quoted...)
}
