package directory

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IconOf returns the emoji that a name begins with, or "". More text must follow it.
func IconOf(name string) string {
	end := 0
	for i, r := range name {
		if !isEmoji(r, i == 0) {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	if end > MaxIcon || strings.TrimSpace(name[end:]) == "" {
		return ""
	}
	return name[:end]
}

// PlainName returns a name without the emoji that it begins with.
func PlainName(name string) string {
	return strings.TrimLeftFunc(strings.TrimPrefix(name, IconOf(name)), unicode.IsSpace)
}

// isEmoji reports whether a character is an emoji, or, unless it is the first one, what joins
// and changes emojis: joiners, variation selectors, skin tones and tags.
func isEmoji(r rune, first bool) bool {
	switch {
	case unicode.Is(unicode.So, r):
		return true
	case first:
		return false
	}
	return r == 0x200d || r == 0xfe0f || r == 0x20e3 || r >= 0x1f3fb && r <= 0x1f3ff || r >= 0xe0020 && r <= 0xe007f
}
