package bedrock

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/embedding"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// embed requests embeddings from a model of Amazon's or Cohere's.
func embed(c *providers.Call) (*providers.Request, error) {
	asked, err := embedding.Parse(c.Body)
	if err != nil {
		return nil, err
	}
	asked.Model = chat.Quote(c.Model)
	model := foundation(c)
	var body []byte
	switch {
	case strings.Contains(model, "amazon.titan-embed"):
		if n := len(asked.Input); n > 1 {
			return nil, &chat.Unsupported{Param: "input", Message: "Titan embeds one text a call: send 'input' as one text, and " + strconv.Itoa(n) + " texts as so many calls"}
		}
		body = titan(asked, strings.Contains(model, "titan-embed-image"))
	case strings.Contains(model, "cohere.embed"):
		body = cohere(asked)
	default:
		return nil, &providers.RequestError{
			Param: "model", Code: "unsupported_model",
			Message: "Provider " + c.Provider.Name + " serves embeddings of amazon.titan-embed-… and cohere.embed-…",
		}
	}
	r, err := call(c, c.Model, "invoke", mediaJSON, body)
	if err != nil {
		return nil, err
	}
	name := c.DisplayName()
	r.Answer = &providers.Answer{
		Body: func(dst, body []byte, h http.Header) ([]byte, error) {
			vectors, tokens, err := embeddings(body)
			if err != nil {
				return dst, err
			}
			if tokens == 0 { // Cohere's models report it in a header
				tokens = chat.Int([]byte(h.Get("X-Amzn-Bedrock-Input-Token-Count")))
			}
			return asked.Append(dst, vectors, tokens, name)
		},
		Failure: readFailure,
	}
	return r, nil
}

// titan writes a request for Titan, or for its multimodal variant.
func titan(asked *embedding.Request, images bool) []byte {
	var b jsonscan.Builder
	b.Open('{')
	b.Key("inputText").Raw(asked.Input[0])
	switch {
	case !images:
		b.Member("dimensions", asked.Dimensions)
		b.Member("normalize", asked.Lookup("normalize"))
	case asked.Dimensions != nil:
		b.Key("embeddingConfig").Open('{')
		b.Key("outputEmbeddingLength").Raw(asked.Dimensions)
		b.Close('}')
	}
	b.Close('}')
	return b
}

// cohere writes a request for Cohere's models. They require input_type; its default here is
// search_document.
func cohere(asked *embedding.Request) []byte {
	var b jsonscan.Builder
	b.Open('{')
	chat.AppendTexts(b.Key("texts"), asked.Input)
	if v := asked.Lookup("input_type"); v != nil {
		b.Key("input_type").Raw(v)
	} else {
		b.Key("input_type").Text("search_document")
	}
	b.Key("embedding_types").Raw([]byte(`["float"]`))
	b.Member("truncate", asked.Lookup("truncate"))
	b.Member("output_dimension", asked.Dimensions)
	b.Close('}')
	return b
}

// embeddings reads an answer: a single embedding from Titan, or Cohere's embeddings, by
// type or not.
func embeddings(body []byte) (vectors []chat.Raw, tokens int64, err error) {
	r := jsonscan.Bounded(body)
	list := func() { r.Array(func() { vectors = append(vectors, r.Raw()) }) }
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "embedding":
			if v := r.Value(); v != nil {
				vectors = append(vectors, v)
			}
		case "inputTextTokenCount":
			tokens = chat.Int(r.Value())
		case "embeddings":
			if r.Kind() == jsonscan.Array {
				list()
				return
			}
			r.Object(func(key jsonscan.Key) {
				if key.Is("float") {
					list()
				}
			})
		}
	})
	return vectors, tokens, r.Err()
}
