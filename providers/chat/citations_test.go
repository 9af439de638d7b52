package chat

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Whatever the pieces of a text are, its places are those that a regular expression finds.
func TestPlacesOfCitationsDoNotDependOnThePieces(t *testing.T) {
	pattern := regexp.MustCompile(`\[([0-9]+)\]`)
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.StringOf(rapid.SampledFrom([]rune(`[[[]]]0123ü☀"x `)))).Draw(t, "pieces")
		s := sources{pages: []webPage{{url: Literal(`"u1"`)}, {url: Literal(`"u2"`)}, {}}}
		whole := ""
		for _, text := range texts {
			whole += text
			s.text(Quote(text))
		}
		var want, got []string
		for _, m := range pattern.FindAllStringSubmatchIndex(whole, -1) {
			if n, err := strconv.Atoi(whole[m[2]:m[3]]); err == nil && (n == 1 || n == 2) {
				url := Literal(fmt.Sprintf(`"u%d"`, n))
				want = append(want, string(URLCitation(url, nil, utf8.RuneCountInString(whole[:m[0]]), utf8.RuneCountInString(whole[:m[1]]))))
			}
		}
		if want == nil {
			want = []string{string(URLCitation(Literal(`"u1"`), nil, 0, 0)), string(URLCitation(Literal(`"u2"`), nil, 0, 0))}
		}
		s.annotate(func(a Raw) { got = append(got, string(a)) })
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q: got %s, want %s", texts, got, want)
		}
	})
}

func TestSourcesAreBounded(t *testing.T) {
	var urls, text []byte
	for range 2 * maxSources {
		urls, text = append(urls, `,"u"`...), append(text, "[1]"...)
	}
	var s sources
	s.list(append(append(Raw("["), urls[1:]...), ']'), nil)
	s.text(Quote(string(text)))
	if len(s.pages) != maxSources || len(s.places) != maxSources {
		t.Errorf("kept %d pages and %d places", len(s.pages), len(s.places))
	}
}
