package jsonscan

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// A Key is the key of a member, as encoded in the body. Its methods use the decoded key, so
// that "mod\u0065l" equals model.
type Key struct {
	raw     []byte // without the quotes
	escaped bool
}

// Bytes returns the key, which must not be modified. It is part of the body unless the key
// has an escape.
func (k Key) Bytes() []byte {
	if !k.escaped {
		return k.raw
	}
	return unescape(k.raw)
}

// Is reports whether the key equals name.
func (k Key) Is(name string) bool {
	if k.escaped {
		return string(unescape(k.raw)) == name
	}
	return string(k.raw) == name
}

func (k Key) String() string { return string(k.Bytes()) }

// Unquote decodes a string that a Scanner has read, including its quotes. A lone surrogate
// becomes U+FFFD, as in encoding/json.
func Unquote(literal []byte) string { return string(UnquoteBytes(literal)) }

// UnquoteBytes is like Unquote. The result must not be modified: it is part of the literal
// unless that has an escape.
func UnquoteBytes(literal []byte) []byte {
	inside := literal[1 : len(literal)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	return unescape(inside)
}

func unescape(inside []byte) []byte {
	quoted := make([]byte, 0, len(inside)+2)
	quoted = append(append(append(quoted, '"'), inside...), '"')
	var decoded string
	if json.Unmarshal(quoted, &decoded) != nil { // it is valid, because String accepted it
		return inside
	}
	return []byte(decoded)
}

// Len returns the length of a string that a Scanner has read, including its quotes, in
// Unicode code points of the decoded string.
func Len(literal []byte) int {
	n := 0
	for b := literal[1 : len(literal)-1]; len(b) > 0; n++ {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return n + utf8.RuneCount(b)
		}
		n += utf8.RuneCount(b[:i])
		b = b[i:]
		switch {
		case b[1] != 'u':
			b = b[2:]
		case isSurrogate(b, '8', 'b') && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' && isSurrogate(b[6:], 'c', 'f'):
			b = b[12:]
		default:
			b = b[6:]
		}
	}
	return n
}

// isSurrogate reports whether the escape \uD?xx has its second digit from first to
// last.
func isSurrogate(escape []byte, first, last byte) bool {
	c := escape[3] | 0x20 // digits are not changed by this
	return escape[2]|0x20 == 'd' && c >= first && c <= last
}

// Mentions reports whether a string of body, which need not be valid, begins with one of
// the starts, none of which is empty; one that ends with a quote is a whole string. Strings with escapes in their
// beginning are not found.
//
// It looks at what follows each quote. bytes.Contains gives up that kind of search for one
// of every byte, ten times as slow, because a body begins with many quotes.
func Mentions(body []byte, starts ...string) bool {
	for {
		i := bytes.IndexByte(body, '"')
		if i < 0 {
			return false
		}
		body = body[i+1:]
		for _, start := range starts {
			if len(body) >= len(start) && body[0] == start[0] && string(body[:len(start)]) == start {
				return true
			}
		}
	}
}
