package tokens

import (
	"unicode"
	"unicode/utf8"
)

const (
	// MaxCounted bounds the text of which [Bound] counts the tokens, which takes some 0.2 s.
	MaxCounted = 1 << 20

	usualPart   = 1 << 10 // bytes that are counted together
	longestPart = 4 << 10
)

// Bound returns how many tokens a text has at most. They are counted up to [MaxCounted] bytes, part by part, at places where
// the encodings always begin a new token, so that no text takes more than a few times as long as English. A byte of the rest, of a run of
// letters without such a place, and of a part of blanks is a token: it is no more than that. Of an unknown encoding, the bound is twice what
// [O200k] has, and 512 more, which is for what a provider adds to a prompt.
func Bound(e Encoding, text []byte) (n int64) {
	const times, more = 2, 512
	known := e != Unknown
	if !known {
		e = O200k
	}
	rest := text
	for len(text)-len(rest) < MaxCounted && len(rest) > 0 {
		end, counted := nextPart(rest)
		if counted {
			if in, ok := Count(e, string(rest[:end])); ok {
				if !known {
					in *= times
				}
				n += min(in, int64(end))
				rest = rest[end:]
				continue
			}
		}
		n += int64(end)
		rest = rest[end:]
	}
	if n += int64(len(rest)); !known {
		n = min(n+more, int64(len(text)))
	}
	return n
}

// nextPart returns where the part ends that a text begins with, and whether its tokens are worth counting.
func nextPart(text []byte) (end int, counted bool) {
	if len(text) <= usualPart {
		return len(text), !blank(text)
	}
	for end = usualPart; end > 0; end-- {
		if beginsToken(text, end) {
			return end, !blank(text[:end])
		}
	}
	for end = usualPart + 1; end < len(text); end++ {
		if beginsToken(text, end) {
			return end, end <= longestPart && !blank(text[:end])
		}
	}
	return len(text), len(text) <= longestPart && !blank(text)
}

// beginsToken reports whether a token begins at a place, whatever is around it: a word ends before what is no letter, mark or apostrophe.
func beginsToken(text []byte, at int) bool {
	last, _ := utf8.DecodeLastRune(text[:at])
	next, _ := utf8.DecodeRune(text[at:])
	switch {
	case last == utf8.RuneError, next == utf8.RuneError, next == '\'', next == '’':
		return false
	}
	return unicode.IsLetter(last) && !unicode.IsLetter(next) && !unicode.IsMark(next)
}

// blank reports whether more than half of a text are blanks and line ends, whose counting can take a hundred times as long.
func blank(text []byte) bool {
	n := 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		if unicode.IsSpace(r) {
			n += size
		}
		i += size
	}
	return n > len(text)/2
}
