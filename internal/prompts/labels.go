package prompts

import "strings"

// LabelNames says what the names of labels are.
const LabelNames = "expected letters, digits, _ and -, and neither latest, default nor a number"

// ValidLabel reports whether a name can follow @ in a reference to a prompt without
// being ambiguous.
func ValidLabel(name string) bool {
	if name == "" || name == "latest" || name == "default" || strings.Trim(name, "0123456789") == "" {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	})
}
