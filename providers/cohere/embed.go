package cohere

import (
	"net/http"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/embedding"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// embed requests float embeddings. Cohere requires input_type; its default here is
// search_document.
func embed(c *providers.Call) (*providers.Request, error) {
	asked, err := embedding.Parse(c.Body)
	if err != nil {
		return nil, err
	}
	b := jsonscan.Builder(make([]byte, 0, len(c.Body)+128))
	b.Open('{')
	b.Member("model", asked.Model)
	chat.AppendTexts(b.Key("texts"), asked.Input)
	if v := asked.Lookup("input_type"); v != nil {
		b.Key("input_type").Raw(v)
	} else {
		b.Key("input_type").Text("search_document")
	}
	b.Key("embedding_types").Raw([]byte(`["float"]`))
	b.Member("output_dimension", asked.Dimensions)
	b.Member("truncate", asked.Lookup("truncate"))
	b.Close('}')
	return &providers.Request{
		URL: providers.VersionedURL(c.Base, "/v2/embed", c.Query), Body: b,
		Answer: &providers.Answer{Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
			vectors, tokens, err := embeddings(body)
			if err != nil {
				return dst, err
			}
			return asked.Append(dst, vectors, tokens, c.DisplayName())
		}},
	}, nil
}

func embeddings(body []byte) (vectors []chat.Raw, tokens int64, err error) {
	r := jsonscan.Bounded(body)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("embeddings"):
			r.Object(func(key jsonscan.Key) {
				if key.Is("float") {
					r.Array(func() { vectors = append(vectors, r.Raw()) })
				}
			})
		case key.Is("meta"):
			r.Object(func(key jsonscan.Key) {
				if key.Is("billed_units") {
					tokens = usage([]byte(`{"billed_units":` + string(r.Raw()) + `}`)).Prompt
				}
			})
		}
	})
	return vectors, tokens, r.Err()
}
