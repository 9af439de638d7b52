package bedrock

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/embedding"
)

// embed asks a model of Amazon's or Cohere's for embeddings, each in its own words.
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
		return nil, &providers.Refusal{
			Param: "model", Code: "unsupported_model",
			Message: "Provider " + c.Provider.Name + " serves embeddings of amazon.titan-embed-… and cohere.embed-…",
		}
	}
	r, err := call(c, c.Model, "invoke", mediaJSON, body)
	if err != nil {
		return nil, err
	}
	name := c.ShownAs()
	r.Answer = &providers.Answer{
		Whole: func(dst, body []byte, h http.Header) ([]byte, error) {
			vectors, tokens, err := embeddings(body)
			if err != nil {
				return dst, err
			}
			if tokens == 0 { // of Cohere's models a header says
				tokens = chat.Int([]byte(h.Get("X-Amzn-Bedrock-Input-Token-Count")))
			}
			return asked.Append(dst, vectors, tokens, name)
		},
		Failure: readFailure,
	}
	return r, nil
}

// titan asks Titan, or the one of its models that embeds images too.
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

// cohere asks Cohere's models. They want to know what embeddings are for; where the caller
// does not say in input_type, they are of documents.
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

// embeddings reads an answer: Titan's one embedding, or Cohere's, by type or not.
func embeddings(body []byte) (vectors []chat.Raw, tokens int64, err error) {
	r := jsonscan.NewReader(body)
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
