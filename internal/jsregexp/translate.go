package jsregexp

import "strings"

// What JavaScript's classes are in the words of Go's engine.
const (
	spaces  = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	newline = `\n\r\x{2028}\x{2029}`
)

// translate returns the pattern for Go's engine. ok is false if it might mean something else
// there. anchored reports that a match depends on where the text begins or ends.
func translate(pattern string, dotAll bool) (out string, anchored, ok bool) {
	var b strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\':
			if i++; i == len(pattern) {
				return "", false, false
			}
			n, ok := translateEscape(&b, pattern[i:], class)
			if !ok {
				return "", false, false
			}
			i += n - 1
		case class:
			switch {
			case c == ']':
				class = false
			case c == '[' && i+1 < len(pattern) && strings.IndexByte(":.=", pattern[i+1]) >= 0, c == '&', c == '~':
				return "", false, false
			case c == '[':
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
				b.WriteByte('^')
			}
			if i+1 < len(pattern) && pattern[i+1] == ']' { // nothing or everything in JavaScript, a bracket in Go
				return "", false, false
			}
		case c == '(' && i+1 < len(pattern) && pattern[i+1] == '?':
			rest := pattern[i+2:]
			named := strings.HasPrefix(rest, "<") && !strings.HasPrefix(rest, "<=") && !strings.HasPrefix(rest, "<!")
			if !named && !strings.HasPrefix(rest, ":") {
				return "", false, false
			}
			b.WriteByte(c)
		case c == '.' && !dotAll:
			b.WriteString(`[^` + newline + `]`)
		case c == '^' || c == '$':
			anchored = true
			b.WriteByte(c)
		case (c == '*' || c == '+' || c == '?' || c == '}') && i+1 < len(pattern) && pattern[i+1] == '+':
			return "", false, false // an error in JavaScript
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), anchored, !class
}

// translateEscape translates the escape whose letter s begins with, and returns how many bytes of
// s it has.
func translateEscape(b *strings.Builder, s string, class bool) (n int, ok bool) {
	switch c := s[0]; {
	case c == 's' && class:
		b.WriteString(spaces)
	case c == 's':
		b.WriteString(`[` + spaces + `]`)
	case c == 'S' && !class:
		b.WriteString(`[^` + spaces + `]`)
	case strings.IndexByte("dDwWtnrfv", c) >= 0, !class && (c == 'b' || c == 'B'):
		b.WriteByte('\\')
		b.WriteByte(c)
	case c == 'x' && len(s) >= 3 && hex(s[1:3]):
		b.WriteString(`\x{` + s[1:3] + `}`)
		return 3, true
	case c == 'u' && len(s) >= 5 && hex(s[1:5]) && s[1]|0x20 != 'd': // half of a surrogate pair is not a character
		b.WriteString(`\x{` + s[1:5] + `}`)
		return 5, true
	case c < 0x80 && c > ' ' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != 0x7f:
		b.WriteByte('\\')
		b.WriteByte(c)
	default:
		return 0, false
	}
	return 1, true
}

func hex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }
