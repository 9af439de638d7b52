package echo

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var texts = []string{
	"", " ", "a", "a b", " a  b ", "Hello, world!", "a1b2 c3", "été 日本 語", "😀😀", "a\u00a0b", "x-y_z",
	"tabs\tand\nlines\r\n", "\u2028", "e\u0301", "\xff", "a\xffb \xc3", "<&>\x00\x1f\x7f\"\\/",
}

// token defines a token. The scanner is compared with it.
var token = regexp.MustCompile(`[\p{L}\p{Nd}]+|[^\p{L}\p{Nd}\s\p{Z}\x{85}\v]`)

func TestClip(t *testing.T) {
	for _, text := range texts {
		checkClip(t, text)
	}
}

func checkClip(t *testing.T, text string) {
	t.Helper()
	ends := token.FindAllStringIndex(text, -1)
	for limit := range len(ends) + 2 {
		wantText, wantTokens := text, min(limit, len(ends))
		if limit < len(ends) {
			wantText = ""
			if limit > 0 {
				wantText = text[:ends[limit-1][1]]
			}
		}
		if kept, n := clip(text, limit); kept != wantText || n != wantTokens {
			t.Errorf("clip(%q, %d) = %q, %d; want %q, %d", text, limit, kept, n, wantText, wantTokens)
		}
	}
}

func TestWords(t *testing.T) {
	for _, text := range texts {
		checkWords(t, text)
	}
}

func checkWords(t *testing.T, text string) {
	t.Helper()
	pieces := slices.Collect(words(text))
	if strings.Join(pieces, "") != text {
		t.Errorf("words(%q) = %q", text, pieces)
	}
	want := max(len(strings.Fields(text)), min(len(text), 1)) // white space alone is one piece
	if len(pieces) != want {
		t.Errorf("words(%q) = %q, want %d", text, pieces, want)
	}
}

func TestAppendString(t *testing.T) {
	for _, text := range texts {
		checkString(t, text)
	}
}

func checkString(t *testing.T, text string) {
	t.Helper()
	var got string
	b := appendString(nil, text)
	want := string([]rune(text)) // each byte that is not UTF-8 replaced
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%q became %s: %v", text, b, err)
	}
}
