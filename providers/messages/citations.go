package messages

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// citations collects the web pages that a text block cites.
type citations struct {
	start, end int // position of the block in the text, in characters
	found      []page
}

type page struct{ url, title chat.Literal }

// begin starts a block.
func (c *citations) begin() { c.start, c.found = c.end, nil }

// take reads a list of citations.
func (c *citations) take(list chat.Raw) {
	r := jsonscan.NewReader(list)
	r.Array(func() { c.one(r.Raw()) })
}

// one reads a citation. Citations of documents have no URL, and are dropped.
func (c *citations) one(citation chat.Raw) {
	var kind chat.Literal
	var p page
	r := jsonscan.NewReader(citation)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			kind = r.String()
		case "url":
			p.url = r.String()
		case "title":
			p.title = r.String()
		}
	})
	if kind.Is("web_search_result_location") && !p.url.Empty() {
		c.found = append(c.found, page{clone(p.url), clone(p.title)})
	}
}

// annotate emits the citations of the block that ends, in the form of OpenAI's web search.
func (d *Decoder) annotate(to chat.Sink) {
	c := &d.cited
	for _, p := range c.found {
		d.emit(to, chat.Event{Kind: chat.Annotation, Raw: chat.URLCitation(p.url, p.title, c.start, c.end)})
	}
	c.found = nil
}
