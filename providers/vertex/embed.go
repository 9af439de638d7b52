package vertex

import (
	"net/http"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/embedding"
	"github.com/caddy-gw/gateway/providers/gemini"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// embed requests the embeddings of all inputs at once.
func embed(c *providers.Call) (*providers.Request, error) {
	_, path, err := at(c)
	if err != nil {
		return nil, err
	}
	asked, err := embedding.Parse(c.Body)
	if err != nil {
		return nil, err
	}
	b := jsonscan.Builder(make([]byte, 0, len(c.Body)+64*len(asked.Input)))
	b.Open('{')
	b.Key("instances").Open('[')
	for _, input := range asked.Input {
		b.Open('{')
		b.Key("content").Raw(input)
		b.Member("task_type", gemini.Either(asked.Lookup, "task_type", "taskType"))
		b.Member("title", asked.Lookup("title"))
		b.Close('}')
	}
	b.Close(']')
	truncate := gemini.Either(asked.Lookup, "auto_truncate", "autoTruncate")
	if asked.Dimensions != nil || truncate != nil {
		b.Key("parameters").Open('{')
		b.Member("outputDimensionality", asked.Dimensions)
		b.Member("autoTruncate", truncate)
		b.Close('}')
	}
	b.Close('}')
	return &providers.Request{
		URL: providers.VersionedURL(base(c.Base), path+":predict", ""), Body: b,
		Answer: &providers.Answer{
			Failure: gemini.Failure,
			Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
				vectors, tokens, err := predictions(body)
				if err != nil {
					return dst, err
				}
				return asked.Append(dst, vectors, tokens, c.DisplayName())
			},
		},
	}, nil
}

// predictions reads the vectors of an answer, each of which has its number of tokens.
func predictions(body []byte) (vectors []chat.Raw, tokens int64, err error) {
	r := jsonscan.NewReader(body)
	embeddings := func(key jsonscan.Key) {
		switch {
		case key.Is("values"):
			vectors = append(vectors, r.Value())
		case key.Is("statistics"):
			r.Object(func(key jsonscan.Key) {
				if key.Is("token_count") {
					tokens += chat.Int(r.Value())
				}
			})
		}
	}
	r.Object(func(key jsonscan.Key) {
		if !key.Is("predictions") {
			return
		}
		r.Array(func() {
			r.Object(func(key jsonscan.Key) {
				if key.Is("embeddings") {
					r.Object(embeddings)
				}
			})
		})
	})
	return vectors, tokens, r.Err()
}
