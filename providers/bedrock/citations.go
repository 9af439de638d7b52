package bedrock

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// citations collects the web pages that a text cites. They come in the block of the text, or in a
// block of their own after it, whose text is then that of the block before.
type citations struct {
	start, end int // position of the latest text, in characters
	found      []page
}

type page struct{ url, title chat.Literal }

// text notes a piece of the text. begins is set if it is the first one of its block.
func (c *citations) text(piece chat.Literal, begins bool) {
	if begins {
		c.start = c.end
	}
	c.end += utf8.RuneCountInString(piece.Text())
}

// one reads a citation. Pages of the web grounding have a URL, and search results of the caller may
// have one as their source. Citations of documents are dropped.
func (c *citations) one(r *jsonscan.Reader) {
	var p page
	var source, domain chat.Literal
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "title":
			p.title = r.String()
		case "source":
			source = r.String()
		case "location":
			r.Object(func(key jsonscan.Key) {
				if !key.Is("web") {
					return
				}
				r.Object(func(key jsonscan.Key) {
					switch {
					case key.Is("url"):
						p.url = r.String()
					case key.Is("domain"):
						domain = r.String()
					}
				})
			})
		}
	})
	if p.url.Empty() && (strings.HasPrefix(source.Text(), "https://") || strings.HasPrefix(source.Text(), "http://")) {
		p.url = source
	}
	if p.title.Empty() {
		p.title = domain
	}
	if !p.url.Empty() {
		c.found = append(c.found, page{bytes.Clone(p.url), bytes.Clone(p.title)})
	}
}

// annotate emits the citations so far, at the end of a block.
func (d *Decoder) annotate(to chat.Sink) {
	for _, p := range d.cited.found {
		d.emit(to, chat.Event{Kind: chat.Annotation, Raw: chat.URLCitation(p.url, p.title, d.cited.start, d.cited.end)})
	}
	d.cited.found = nil
}
