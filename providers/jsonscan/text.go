package jsonscan

import (
	"bytes"
	"unicode/utf16"
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

// Raw returns the key as it is in the body, without its quotes.
func (k Key) Raw() []byte { return k.raw }

// Is reports whether the key equals name.
func (k Key) Is(name string) bool {
	if k.escaped {
		return string(unescape(k.raw)) == name
	}
	return string(k.raw) == name
}

func (k Key) String() string { return string(k.Bytes()) }

// Unquote decodes a string that a Scanner has read, including its quotes. A lone surrogate
// becomes U+FFFD, as in encoding/json; bytes that are not UTF-8 stay as they are.
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

// AppendUnquoted appends what Unquote returns.
func AppendUnquoted(dst, literal []byte) []byte {
	return AppendUnescaped(dst, literal[1:len(literal)-1])
}

func unescape(inside []byte) []byte {
	return AppendUnescaped(make([]byte, 0, len(inside)), inside) // no escape is shorter than what it stands for
}

// AppendUnescaped appends the decoded inside of a string, or more of a body, which is valid because a Scanner accepted it.
func AppendUnescaped(dst, inside []byte) []byte {
	for {
		i := bytes.IndexByte(inside, '\\')
		if i < 0 {
			return append(dst, inside...)
		}
		dst = append(dst, inside[:i]...)
		inside = inside[i:]
		switch c := inside[1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := unit(inside)
			if low := inside[6:]; utf16.IsSurrogate(r) {
				if len(low) >= 6 && low[0] == '\\' && low[1] == 'u' {
					r = utf16.DecodeRune(r, unit(low))
				} else {
					r = utf8.RuneError
				}
				if r != utf8.RuneError {
					inside = low
				}
			}
			dst = utf8.AppendRune(dst, r)
			inside = inside[6:]
			continue
		default: // a quote, a backslash or a slash
			dst = append(dst, c)
		}
		inside = inside[2:]
	}
}

// unit is the UTF-16 code unit of an escape \uXXXX.
func unit(escape []byte) rune {
	var r rune
	for _, c := range escape[2:6] {
		d := rune(c | 0x20)
		if d -= '0'; d > 9 {
			d -= 'a' - '0' - 10
		}
		r = r<<4 | d
	}
	return r
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
