package jsonscan

import (
	"strconv"
	"unicode/utf8"
)

// A Builder appends JSON to bytes. It sets the commas: a value or a key that follows
// a value gets one.
//
//	b := jsonscan.Builder(dst)
//	b.Open('{')
//	b.Key("role").Text("user")
//	b.Member("content", content) // nothing where content is nil
//	b.Close('}')
//	dst = b
type Builder []byte

func (b *Builder) comma() {
	if n := len(*b); n > 0 {
		switch c := (*b)[n-1]; {
		case c == '"', c == '}', c == ']', c >= '0' && c <= '9', c >= 'a' && c <= 'z':
			*b = append(*b, ',')
		}
	}
}

// Open begins an object or an array.
func (b *Builder) Open(bracket byte) {
	b.comma()
	*b = append(*b, bracket)
}

// Close ends an object or an array.
func (b *Builder) Close(bracket byte) { *b = append(*b, bracket) }

// Key starts a member.
func (b *Builder) Key(name string) *Builder {
	b.comma()
	*b = append(AppendQuoted(*b, name), ':')
	return b
}

// Raw adds an encoded value.
func (b *Builder) Raw(value []byte) {
	b.comma()
	*b = append(*b, value...)
}

// Text adds a string.
func (b *Builder) Text(s string) {
	b.comma()
	*b = AppendQuoted(*b, s)
}

// Quoted adds a string, given its encoding without the quotes.
func (b *Builder) Quoted(inside []byte) {
	b.comma()
	*b = append(append(append(*b, '"'), inside...), '"')
}

// Int adds a number.
func (b *Builder) Int(n int64) {
	b.comma()
	*b = strconv.AppendInt(*b, n, 10)
}

// Bool adds a boolean.
func (b *Builder) Bool(v bool) {
	b.comma()
	*b = strconv.AppendBool(*b, v)
}

// Member adds a member, or nothing if its value is nil.
func (b *Builder) Member(name string, value []byte) {
	if value != nil {
		b.Key(name).Raw(value)
	}
}

// AppendQuoted appends s as a JSON string. Invalid UTF-8 is replaced by U+FFFD.
func AppendQuoted[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	dst = AppendEscaped(dst, s)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// AppendEscaped appends the encoding of s as a JSON string, without the quotes.
func AppendEscaped[T ~string | ~[]byte](dst []byte, s T) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			i++
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

// Inside returns an encoded string without its quotes.
func Inside(literal []byte) []byte {
	if len(literal) < 2 {
		return nil
	}
	return literal[1 : len(literal)-1]
}
