package textsearch

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Longest returns how many bytes a match has at most, if that is bounded.
func (r *Regexp) Longest() (n int, bounded bool) { return r.longest, r.longest >= 0 }

// Prefix returns what each match begins with; "": it is not always the same.
func (r *Regexp) Prefix() string {
	prefix, _ := r.whole.LiteralPrefix()
	return prefix
}

// FindAt returns where a match that begins at a place and its groups are, of text[:at+most] at most; nil: none does. It
// knows only the character before the place, so that the expression must not have ^ or \A.
func (r *Regexp) FindAt(text string, at, most int) []int {
	to := len(text)
	if end := at + most + utf8.UTFMax; end < to { // what comes after a match may count
		to = end
	}
	var m []int
	from := -1
	if at > 0 {
		_, n := utf8.DecodeLastRuneInString(text[:at])
		from = at - n
		m = r.at().FindStringSubmatchIndex(text[from:to])
	} else {
		m = r.at().FindStringSubmatchIndex(" " + text[:to])
	}
	if m == nil {
		return nil
	}
	shift(m, from)
	m[0] = at
	return m
}

// BeginsWith reports whether each match begins with one of some words, which are in lower case; the case of
// the match does not count, and letters that are not ASCII and become ones that are do not either.
func (r *Regexp) BeginsWith(words []string) bool {
	tree, err := syntax.Parse(r.whole.String(), syntax.Perl)
	if err != nil {
		return false
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return false
	}
	type state struct {
		pc    uint32
		begun string
	}
	seen := make(map[state]bool)
	var begins func(pc uint32, begun string) bool
	begins = func(pc uint32, begun string) bool {
		if at := (state{pc, begun}); seen[at] {
			return true
		} else {
			seen[at] = true
		}
		switch i := &program.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			return begins(i.Out, begun) && begins(i.Arg, begun)
		case syntax.InstCapture, syntax.InstNop:
			return begins(i.Out, begun)
		case syntax.InstEmptyWidth:
			return syntax.EmptyOp(i.Arg)&(syntax.EmptyBeginText|syntax.EmptyBeginLine) == 0 && begins(i.Out, begun)
		case syntax.InstFail:
			return true
		case syntax.InstMatch, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			return false
		case syntax.InstRune, syntax.InstRune1:
			for c := rune(0); c <= unicode.MaxASCII; c++ {
				if !i.MatchRune(c) {
					continue
				}
				more, whole := begun+string(unicode.ToLower(c)), false
				some := false
				for _, w := range words {
					whole = whole || w == more
					some = some || strings.HasPrefix(w, more)
				}
				if !whole && (!some || !begins(i.Out, more)) {
					return false
				}
			}
			return true
		}
		return false
	}
	return begins(uint32(program.Start), "")
}

// String returns the expression.
func (r *Regexp) String() string { return r.whole.String() }
