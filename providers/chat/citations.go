package chat

import (
	"bytes"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// URLCitation returns the annotation for a web page, in the form of OpenAI's web search. start and
// end are positions in the text of the answer, in characters; both are 0 if they are not known.
func URLCitation(url, title Literal, start, end int) Raw {
	if title.Empty() {
		title = url
	}
	var b jsonscan.Builder
	b.Open('{')
	b.Key("type").Text("url_citation")
	b.Key("url_citation").Open('{')
	b.Key("start_index").Int(int64(start))
	b.Key("end_index").Int(int64(end))
	b.Key("title").Raw(title)
	b.Key("url").Raw(url)
	b.Close('}')
	b.Close('}')
	return Raw(b)
}

// maxSources bounds the sources of an answer, and the places that refer to them.
const maxSources = 1000

// sources are the web pages that an answer lists next to its choices, and the places in its text
// that refer to them by number, as in "[1]". The numbers start at 1.
type sources struct {
	pages  []webPage
	places []place
	read   int // characters of the text so far
	begun  int // 1 + the position of the bracket that may begin a place; 0: there is none
	number int // that follows the bracket
}

type webPage struct{ url, title Literal }

type place struct{ number, start, end int }

// list reads the URLs of what is cited, and results, the pages that were searched, which have
// titles. If there are no URLs, the results are what is cited. Chunks repeat both.
func (s *sources) list(urls, results Raw) {
	var cited, searched []webPage
	r := jsonscan.NewReader(results)
	r.Array(func() {
		var p webPage
		r.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("url"):
				p.url = bytes.Clone(r.String())
			case key.Is("title"):
				p.title = bytes.Clone(r.String())
			}
		})
		if len(searched) < maxSources {
			searched = append(searched, p)
		}
	})
	r = jsonscan.NewReader(urls)
	r.Array(func() {
		p := webPage{url: bytes.Clone(r.String())}
		for i := range searched {
			if bytes.Equal(searched[i].url, p.url) {
				p.title = searched[i].title
				break
			}
		}
		if len(cited) < maxSources {
			cited = append(cited, p)
		}
	})
	if cited == nil {
		cited = searched
	}
	if cited != nil {
		s.pages = cited
	}
}

// text looks for places in the next piece of the text.
func (s *sources) text(piece Literal) {
	for _, c := range piece.Text() {
		s.read++
		switch {
		case c == '[':
			s.begun, s.number = s.read, 0
		case s.begun == 0:
		case c >= '0' && c <= '9' && s.number < maxSources:
			s.number = 10*s.number + int(c-'0')
		default:
			if c == ']' && s.number > 0 && len(s.places) < maxSources {
				s.places = append(s.places, place{s.number, s.begun - 1, s.read})
			}
			s.begun = 0
		}
	}
}

// annotate passes on a citation for each place, or, if there is none, for each page.
func (s *sources) annotate(yield func(Raw)) {
	found := false
	for _, p := range s.places {
		if p.number <= len(s.pages) && !s.pages[p.number-1].url.Empty() {
			yield(URLCitation(s.pages[p.number-1].url, s.pages[p.number-1].title, p.start, p.end))
			found = true
		}
	}
	if !found {
		for _, p := range s.pages {
			if !p.url.Empty() {
				yield(URLCitation(p.url, p.title, 0, 0))
			}
		}
	}
	s.pages, s.places = nil, nil
}
