package echo

import (
	"iter"
	"math"
	"unicode"
	"unicode/utf8"
)

// unlimited is the limit of a completion without one.
const unlimited = math.MaxInt

type runeKind uint8

const (
	space runeKind = iota
	letter
	mark // a token of its own
	wide // a byte of a rune with several bytes
)

var byteKinds = func() (kinds [256]runeKind) {
	for b := range kinds {
		kinds[b] = wide
		if b < utf8.RuneSelf {
			kinds[b] = kindOf(rune(b))
		}
	}
	return kinds
}()

func kindOf(r rune) runeKind {
	switch {
	case unicode.IsSpace(r):
		return space
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		return letter
	}
	return mark
}

// clip returns the longest beginning of text with at most limit tokens, and the number
// of its tokens. A token is a run of letters and digits, or any other single rune that
// is not white space. A text within the limit is returned unchanged.
func clip(text string, limit int) (kept string, tokens int) {
	end, previous := 0, space // of the last token
	for i := 0; i < len(text); {
		kind, size := byteKinds[text[i]], 1
		if kind == wide {
			var r rune
			r, size = utf8.DecodeRuneInString(text[i:])
			kind = kindOf(r)
		}
		if kind == mark || kind == letter && previous != letter {
			if tokens == limit {
				return text[:end], tokens
			}
			tokens++
		}
		i += size
		if kind != space {
			end = i
		}
		previous = kind
	}
	return text, tokens
}

// counted is a text and the number of its tokens.
type counted struct {
	text   string
	tokens int
}

func count(text string) counted {
	text, tokens := clip(text, unlimited)
	return counted{text, tokens}
}

// words splits text before every word but the first. The pieces joined are the text.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, inWord, any := 0, false, false
		for i, r := range text {
			blank := unicode.IsSpace(r)
			if !blank && !inWord && any {
				if !yield(text[start:i]) {
					return
				}
				start = i
			}
			inWord = !blank
			any = any || inWord
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}
