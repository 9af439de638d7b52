package gemini

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// citations emits the web pages that an answer is grounded on, as annotations in the form
// of OpenAI's web search. Their positions are all 0, because the API counts bytes within a
// part, and OpenAI characters of the whole text.
func (d *Decoder) citations(grounding []byte, index int, to chat.Sink) {
	if grounding == nil {
		return
	}
	r := jsonscan.NewReader(grounding)
	r.Object(func(key jsonscan.Key) {
		if !key.Is("groundingChunks") {
			return
		}
		r.Array(func() {
			r.Object(func(key jsonscan.Key) {
				if !key.Is("web") {
					return
				}
				var uri, title chat.Literal
				r.Object(func(key jsonscan.Key) {
					switch {
					case key.Is("uri"):
						uri = r.String()
					case key.Is("title"):
						title = r.String()
					}
				})
				if uri.Empty() {
					return
				}
				d.emit(to, chat.Event{Kind: chat.Annotation, Choice: index, Raw: chat.URLCitation(uri, title, 0, 0)})
			})
		})
	})
}
