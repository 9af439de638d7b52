package echo

import (
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const hex = "0123456789abcdef"

// plain are the bytes that need no escape in a JSON string.
var plain = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// appendString appends s as a JSON string. A byte that is not UTF-8 becomes
// U+FFFD, as in encoding/json.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0 // of the part that has not been appended yet
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// eachMember calls set for every member of an object that is not null, in order, and
// stops at the first error.
func eachMember(object gjson.Result, set func(name string, v gjson.Result) error) error {
	var err error
	object.ForEach(func(key, v gjson.Result) bool {
		if v.Type != gjson.Null {
			err = set(key.Str, v)
		}
		return err == nil
	})
	return err
}

func setString(to *string, name string, v gjson.Result) error {
	if v.Type != gjson.String {
		return badRequest("%s must be a string", name)
	}
	*to = v.Str
	return nil
}

func setBool(to *bool, name string, v gjson.Result) error {
	if !v.IsBool() {
		return badRequest("%s must be true or false", name)
	}
	*to = v.Bool()
	return nil
}

func setInt(to *int, name string, v gjson.Result, low, high int) error {
	// The range comes first: converting a larger float is undefined.
	if v.Type != gjson.Number || !(v.Num >= float64(low) && v.Num <= float64(high)) || v.Num != float64(int(v.Num)) {
		return badRequest("%s must be an integer from %d to %d", name, low, high)
	}
	*to = int(v.Num)
	return nil
}
