package prompts

import (
	"strings"
	"unicode"
)

// LabelNames says what the names of labels are.
const LabelNames = "expected letters, digits, _ and -, with at most one other character between them that is neither @ nor white space, and neither latest, default nor a number"

// ValidLabel reports whether a name can follow @ in a reference to a prompt without
// being ambiguous.
func ValidLabel(name string) bool {
	if name == "" || name == "latest" || name == "default" || strings.Trim(name, "0123456789") == "" {
		return false
	}
	others := 0 // such as the point in v1.2
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		case c == '@' || unicode.IsSpace(c) || unicode.IsControl(c):
			return false
		default:
			others++
		}
	}
	return others <= 1
}
