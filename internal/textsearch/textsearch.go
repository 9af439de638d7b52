// Package textsearch searches long texts with Go's regular expressions, piece by piece, so that a
// search ends soon after its context. It finds exactly what a search of the whole text finds.
//
// Where the matches of an expression have at most a number of bytes, pieces overlap by that many,
// and a match counts in the piece in which it has them all ahead of it. Where they may have any
// length, the text is read one character after another instead, which takes longer.
package textsearch

import (
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"sync"
	"unicode/utf8"
)

const (
	// Piece is how much of a text is searched before the context is looked at, in bytes; less with
	// long expressions.
	Piece = 64 << 10

	maxSteps = 64 << 20 // of the engine in a piece, at most: one for each byte and instruction
	minPiece = 256
	short    = 2 << 10 // bytes in which all matches are found soon, whatever the expression

	unbounded = -1
)

// A Regexp is a regular expression. It may be used by several goroutines.
type Regexp struct {
	whole   *regexp.Regexp
	longest int // bytes of a match, or unbounded
	piece   int // bytes
	// rest finds the first match after the first character of what it is given, which it only
	// looks at. Its groups follow that of the match.
	rest func() *regexp.Regexp
	// at matches at the second character of what it is given.
	at func() *regexp.Regexp
}

// Compile compiles an expression.
func Compile(expression string) (*Regexp, error) {
	whole, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	// A bit deeper than the expression, and otherwise as valid.
	following := `\A(?s:.)(?s:.*?)(` + expression + `)`
	tree, err := syntax.Parse(following, syntax.Perl)
	if err != nil {
		return nil, err
	}
	tree = tree.Simplify()
	program, err := syntax.Compile(tree)
	if err != nil {
		return nil, err
	}
	r := &Regexp{whole: whole, longest: longest(tree.Sub[len(tree.Sub)-1])}
	r.piece = max(min(Piece, maxSteps/len(program.Inst)), minPiece)
	r.rest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(following) })
	r.at = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(?s:.)(?:` + expression + `)`) })
	return r, nil
}

// Lazy returns an expression of the program's own, which is compiled when it is first asked for: it
// takes time at a start, and memory, only of those that use it.
func Lazy(expression string) func() *Regexp {
	return sync.OnceValue(func() *Regexp {
		r, err := Compile(expression)
		if err != nil {
			panic(err)
		}
		return r
	})
}

// longest is how many bytes a match has at most, or unbounded.
func longest(re *syntax.Regexp) (n int) {
	const most = 1 << 20
	switch re.Op {
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 { // other cases may have other lengths
				n += utf8.UTFMax
			} else {
				n += size(c)
			}
		}
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			n = size(re.Rune[len(re.Rune)-1])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = utf8.UTFMax
	case syntax.OpStar, syntax.OpPlus:
		return unbounded
	case syntax.OpRepeat:
		one := longest(re.Sub[0])
		if re.Max < 0 || one < 0 {
			return unbounded
		}
		n = re.Max * one
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			one := longest(sub)
			if one < 0 {
				return unbounded
			}
			n = max(n, one)
		}
	default: // concatenations, groups, what is optional, and what matches nothing
		for _, sub := range re.Sub {
			one := longest(sub)
			if one < 0 {
				return unbounded
			}
			n += one
		}
	}
	if n > most {
		return unbounded
	}
	return n
}

func size(c rune) int {
	if n := utf8.RuneLen(c); n > 0 {
		return n
	}
	return utf8.UTFMax
}

// SubexpNames returns the names of the groups, see [regexp.Regexp.SubexpNames].
func (r *Regexp) SubexpNames() []string { return r.whole.SubexpNames() }

// Find returns where the first match and its groups are, as
// [regexp.Regexp.FindStringSubmatchIndex] does. The error is that of the context.
func (r *Regexp) Find(ctx context.Context, text string) ([]int, error) {
	if len(text) <= r.piece {
		return r.whole.FindStringSubmatchIndex(text), nil
	}
	all, err := r.search(ctx, text, 1, r.whole.FindAllStringSubmatchIndex)
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// Match reports whether there is a match. The error is that of the context.
func (r *Regexp) Match(ctx context.Context, text string) (bool, error) {
	if len(text) <= r.piece {
		return r.whole.MatchString(text), nil
	}
	all, err := r.search(ctx, text, 1, r.whole.FindAllStringIndex)
	return len(all) > 0, err
}

// FindAll returns where matches are, at most n or, if n is negative, all, as
// [regexp.Regexp.FindAllStringIndex] does. The error is that of the context.
func (r *Regexp) FindAll(ctx context.Context, text string, n int) ([][]int, error) {
	return r.search(ctx, text, n, r.whole.FindAllStringIndex)
}

// FindAllSubmatch is FindAll with the groups.
func (r *Regexp) FindAllSubmatch(ctx context.Context, text string, n int) ([][]int, error) {
	return r.search(ctx, text, n, r.whole.FindAllStringSubmatchIndex)
}

// FindAllNear is FindAll of an expression each of whose matches has something that is quickly found, such as
// a digit: next returns where a text has that first, or -1; it has at most [MaxNear] bytes. Only what is around
// such places is searched. Where matches may have any length, that is all of the text.
func (r *Regexp) FindAllNear(ctx context.Context, text string, next func(text string) int) ([][]int, error) {
	return r.near(ctx, text, 0, seeker(ctx, text, next), r.FindAll)
}

// FindAllSubmatchNear is FindAllNear with the groups.
func (r *Regexp) FindAllSubmatchNear(ctx context.Context, text string, next func(text string) int) ([][]int, error) {
	return r.near(ctx, text, 0, seeker(ctx, text, next), r.FindAllSubmatch)
}

// FindAllSubmatchAround is FindAllSubmatchNear with the places, in order, of what each match has, or is at most some bytes
// away from.
func (r *Regexp) FindAllSubmatchAround(ctx context.Context, text string, places []int, away int) ([][]int, error) {
	return r.near(ctx, text, away, func(at int) (int, error) {
		for ; len(places) > 0; places = places[1:] {
			if places[0] >= at {
				return places[0], nil
			}
		}
		return -1, nil
	}, r.FindAllSubmatch)
}

// MaxNear is how many bytes what each match has may have, see [Regexp.FindAllNear].
const MaxNear = 32

// near searches the parts of a text that are around what each match has. A part begins and ends so far from
// there that a match and the characters next to it are within it.
func (r *Regexp) near(ctx context.Context, text string, away int, next func(at int) (int, error), find func(ctx context.Context, part string, n int) ([][]int, error)) (all [][]int, err error) {
	at, err := next(0)
	switch {
	case err != nil || at < 0:
		return nil, err
	case r.longest < 0:
		return find(ctx, text, -1)
	}
	reach := r.longest + 2*utf8.UTFMax + away
	s := searching{text: text}
	for at >= 0 {
		from, last := s.boundary(max(at-reach, 0)), at
		for at >= 0 && at <= last+2*reach { // the parts of both would touch
			last = at
			if at, err = next(at + 1); err != nil {
				return nil, err
			}
		}
		to := len(text)
		if last+reach < to {
			to = s.boundary(last + reach)
		}
		found, err := find(ctx, text[from:to], -1)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			shift(m, from)
		}
		all = append(all, found...)
	}
	return all, nil
}

// seeker returns a function that finds what next does in text[at:], or -1. It looks at the context before each piece.
func seeker(ctx context.Context, text string, next func(string) int) func(at int) (int, error) {
	return func(at int) (int, error) {
		for ; at < len(text); at += Piece {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if n := next(text[at:min(at+Piece+MaxNear, len(text))]); n >= 0 {
				return at + n, nil
			}
		}
		return -1, nil
	}
}

// A finder finds matches in a text at once.
type finder func(text string, n int) [][]int

// search finds n matches.
func (r *Regexp) search(ctx context.Context, text string, n int, find finder) ([][]int, error) {
	bounded := r.longest >= 0 && r.longest <= r.piece/2
	switch {
	case n == 0:
		return nil, nil
	case len(text) <= short && len(text) <= r.piece, len(text) <= r.piece && (bounded || n == 1):
		return find(text, n), nil
	case len(text) <= r.piece: // each of the matches may take the time of a search of the whole text
		for most := 8; ; most *= 2 {
			if n > 0 {
				most = min(most, n)
			}
			all := find(text, most)
			if len(all) < most || most == n {
				return all, nil
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	s := &searching{Regexp: r, ctx: ctx, text: text, n: n, end: -1}
	if bounded {
		return s.pieces(find)
	}
	return s.read()
}

// A searching is a search under way.
type searching struct {
	*Regexp
	ctx  context.Context //nolint:containedctx // it lives as long as the search
	text string
	n    int

	all [][]int
	at  int // where the next match may begin
	end int // of the last match; -1: there was none
}

// add adds a match, and reports whether it is the last that is wanted. One that is empty and next to
// the match before it does not count.
func (s *searching) add(m []int) (last bool) {
	if m[0] < m[1] || m[0] != s.end {
		s.all = append(s.all, m)
	}
	s.end = m[1]
	return len(s.all) == s.n
}

// boundary is where the character begins that a position is in.
func (s *searching) boundary(at int) int {
	for i := at; i > max(at-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(s.text[i]) {
			return i
		}
	}
	return at // no character begins there
}

// pieces searches pieces that overlap.
func (s *searching) pieces(find finder) ([][]int, error) {
	for {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		end, sure := len(s.text), len(s.text)+1 // a match that begins before sure does not depend on what is after end
		if e := s.at + s.piece; e < end {
			end = s.boundary(e)
			sure = s.boundary(end - s.longest - utf8.UTFMax)
		}
		from := s.before()
		found := find(s.text[from:end], s.n)
		if s.at > 0 && len(found) > 0 && found[0][0] == 0 { // in what is only looked at, where no text begins
			last, err := s.step(end, sure)
			if err != nil || last {
				return s.all, err
			}
		} else {
			for _, m := range found {
				if shift(m, from); m[0] >= sure {
					break
				}
				if s.add(m) {
					return s.all, nil
				}
			}
		}
		if end == len(s.text) {
			return s.all, nil
		}
		s.at = max(sure, s.end)
	}
}

// before is where the character is that ends where the search goes on.
func (s *searching) before() int {
	_, n := utf8.DecodeLastRuneInString(s.text[:s.at])
	return s.at - n
}

// shift adds an offset to the places of a match and its groups.
func shift(m []int, by int) {
	for i := range m {
		if m[i] >= 0 {
			m[i] += by
		}
	}
}

// step searches text[at:end] for one match after another that begins before sure.
func (s *searching) step(end, sure int) (last bool, err error) {
	return s.each(func() ([]int, error) {
		from := s.before()
		m := s.rest().FindStringSubmatchIndex(s.text[from:end])
		if m == nil || m[2]+from >= sure {
			return nil, s.ctx.Err()
		}
		shift(m[2:], from)
		return m[2:], s.ctx.Err()
	})
}

// read searches the text by reading it.
func (s *searching) read() ([][]int, error) {
	first := true
	_, err := s.each(func() ([]int, error) {
		if first {
			first = false
			in := &reader{ctx: s.ctx, text: s.text, piece: s.piece}
			m := s.whole.FindReaderSubmatchIndex(in)
			return m, in.err
		}
		from := s.before()
		in := &reader{ctx: s.ctx, text: s.text[from:], piece: s.piece}
		m := s.rest().FindReaderSubmatchIndex(in)
		if m == nil || in.err != nil {
			return nil, in.err
		}
		shift(m[2:], from)
		return m[2:], nil
	})
	if err != nil {
		return nil, err
	}
	return s.all, nil
}

// each adds one match after another, as long as next has any.
func (s *searching) each(next func() ([]int, error)) (last bool, err error) {
	for s.at <= len(s.text) {
		m, err := next()
		if err != nil || m == nil {
			return false, err
		}
		if s.add(m) {
			return true, nil
		}
		if m[1] > s.at {
			s.at = m[1]
			continue
		}
		_, n := utf8.DecodeRuneInString(s.text[s.at:]) // it was empty
		s.at += max(n, 1)
		if s.at > len(s.text) {
			break
		}
	}
	return false, nil
}

// A reader reads a text, and ends it with the context.
type reader struct {
	ctx   context.Context //nolint:containedctx // it lives as long as the search
	text  string
	piece int

	at, looked int
	err        error // of the context
}

// ReadRune implements [io.RuneReader].
func (r *reader) ReadRune() (rune, int, error) {
	if r.at == len(r.text) {
		return 0, 0, io.EOF
	}
	if r.at >= r.looked {
		if r.err = r.ctx.Err(); r.err != nil {
			return 0, 0, io.EOF
		}
		r.looked = r.at + r.piece
	}
	c, n := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += n
	return c, n, nil
}
