package textsearch

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var expressions = []string{
	`a`, `ab|b`, `a{1,3}b?`, `\ba`, `a\b`, `\Ba|ba`, `^a|ba`, `(?m)^a`, `(?m)a$`, `a$`, `$`, `\b`, `a*`, `a*?`, `(?i)[ak]1`, `é+`, `[^é]b`, `(a)|(b1)`, `(?:a[^b]*b)|a`,
	`(?s)a.*`, `1(?:a|ab)(?:c|bcd)?`, `(?P<x>b)(a)?`, ``, `[ab1]{2}`, `(?i)s`, `\x{e9}`, `.`, `b{0,2}1`,
}

// However a text is divided, all of its matches and their groups are found, and no others.
func TestPiecesFindWhatAWholeSearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Lazy(rapid.SampledFrom(expressions).Draw(t, "expression"))()
		text := rapid.StringMatching(`[ab1éKſ \n\x80]{0,120}`).Draw(t, "text")
		if cut := rapid.IntRange(0, len(text)).Draw(t, "cut"); rapid.Bool().Draw(t, "cuts") {
			text = text[:cut] + text[min(cut+1, len(text)):] // perhaps not UTF-8
		}
		r.piece = rapid.IntRange(2*max(r.longest, 0)+9, 60).Draw(t, "piece")
		n := rapid.SampledFrom([]int{-1, -1, 0, 1, 2, 5}).Draw(t, "n")
		whole := regexp.MustCompile(r.whole.String())
		want := whole.FindAllStringSubmatchIndex(text, n)
		got, err := r.FindAllSubmatch(t.Context(), text, n)
		if err != nil || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s in pieces of %d finds %v in %q, and %v as a whole; %v", whole, r.piece, got, text, want, err)
		}
		first, err := r.Find(t.Context(), text)
		if found := whole.FindStringSubmatchIndex(text); err != nil || !reflect.DeepEqual(first, found) {
			t.Fatalf("%s in pieces of %d finds %v first in %q, and %v as a whole; %v", whole, r.piece, first, text, found, err)
		}
		if found, err := r.Match(t.Context(), text); err != nil || found != whole.MatchString(text) {
			t.Fatalf("%s in pieces of %d: %v in %q; %v", whole, r.piece, found, text, err)
		}
	})
}

// What is found near what each match has is what is found in the whole text.
func TestNearFindsWhatAWholeSearchFinds(t *testing.T) {
	t.Parallel()
	for expression, has := range map[string]string{`a1b?`: "1", `\ba1|é1\b`: "1", `1{1,3}`: "1", `[ab]{0,3}1[ab]{0,3}`: "1", `(a)?1|b1(a)`: "1", `\B1`: "1", `(?i)k1`: "1", `a+1`: "1", `1.?1`: "1"} {
		r := Lazy(expression)()
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(`([ab1éK ]|[ab]{30}){0,15}`).Draw(t, "text")
			if cut := rapid.IntRange(0, len(text)).Draw(t, "cut"); rapid.Bool().Draw(t, "cuts") {
				text = text[:cut] + text[min(cut+1, len(text)):] // perhaps not UTF-8
			}
			next := func(s string) int { return strings.Index(s, has) }
			want := r.whole.FindAllStringSubmatchIndex(text, -1)
			got, err := r.FindAllSubmatchNear(t.Context(), text, next)
			if err != nil || len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s finds %v in %q, and %v as a whole; %v", expression, got, text, want, err)
			}
			plain, err := r.FindAllNear(t.Context(), text, next)
			if err != nil || len(plain) != len(want) {
				t.Fatalf("%s finds %v in %q; %v", expression, plain, text, err)
			}
		})
	}
}

func TestTheLongestMatchIsKnown(t *testing.T) {
	for expression, want := range map[string]int{
		`abc`: 3, `(?i)k`: 4, `[a-z]{2,5}`: 5, `é`: 2, `a|bcd`: 3, `a*`: unbounded, `a+b`: unbounded, `(?:ab?){3}`: 6, `a{2,}`: unbounded, `^\b$`: 0, `.`: 4, `(a(b))?`: 2,
		`(?:[a-z]{1000}){1000}|a`: 0, // too long to compile
	} {
		r, err := Compile(expression)
		switch {
		case want == 0 && err != nil:
		case err != nil:
			t.Errorf("%s: %v", expression, err)
		case r.longest != want:
			t.Errorf("%s: %d, want %d", expression, r.longest, want)
		}
	}
}

// A context that is over after it was looked at a number of times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A search does not outlast its context by more than a piece.
func TestSearchesEndWithTheirContext(t *testing.T) {
	text := strings.Repeat("a", 10*Piece)
	for _, expression := range []string{`x`, `x[^y]*y`, `a`, `\Aa*?x`, `^a|ba`, `(?:a[^b]*b)|a`} {
		for left := range 3 {
			ctx := &ending{t.Context(), left}
			if all, err := Lazy(expression)().FindAll(ctx, text, -1); !errors.Is(err, context.DeadlineExceeded) || ctx.left != -1 {
				t.Errorf("%s: %d matches, %v, looked at %d times more", expression, len(all), err, -1-ctx.left)
			}
		}
	}
	if all, err := Lazy(`a`)().FindAll(t.Context(), text, -1); err != nil || len(all) != len(text) {
		t.Errorf("%d matches, %v", len(all), err)
	}
}

// What begins at a place is found there, as in the whole text, whatever is before it.
func TestMatchesAtAPlace(t *testing.T) {
	for _, expression := range []string{`ab+`, `\bab{1,3}(c|$)`, `(?i)ab\b`, `a(?:b|é)*?c`} {
		r, err := Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(`[abcé .B]{0,20}`).Draw(t, "text")
			want := make(map[int]bool)
			for at := range text {
				for _, m := range r.whole.FindAllStringIndex(text[at:], 1) {
					if m[0] == 0 && (!strings.HasPrefix(expression, `\b`) || at == 0 || !strings.ContainsAny(text[at-1:at], "abcB")) {
						want[at] = true
					}
				}
			}
			for at := range text {
				if m := r.FindAt(text, at, len(text)); (m != nil) != want[at] || m != nil && m[0] != at {
					t.Fatalf("%s at %d of %q: %v", expression, at, text, m)
				}
			}
		})
	}
}

func TestWhetherMatchesBeginWithAWord(t *testing.T) {
	for _, c := range []struct {
		expression string
		begins     bool
	}{
		{`\b((?:abc|ABD)[0-9]+)`, true},
		{`(?i)abc`, true},
		{`(?i)xy[cd]`, true},
		{`a[bx]c`, false},
		{`(?:abc)?d`, false},
		{`.abc`, false},
		{`^abc`, false},
		{`[a-z]bc`, false},
	} {
		r, err := Compile(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.BeginsWith([]string{"abc", "abd", "xyc", "xyd"}); got != c.begins {
			t.Errorf("%s: %v", c.expression, got)
		}
	}
	if r, _ := Compile(`SK[0-9]`); r.Prefix() != "SK" {
		t.Error("expected the prefix")
	}
	if n, bounded := Lazy(`a{2,5}`)().Longest(); n != 5 || !bounded {
		t.Error(n, bounded)
	}
	if _, bounded := Lazy(`a+`)().Longest(); bounded {
		t.Error("expected no bound")
	}
}
