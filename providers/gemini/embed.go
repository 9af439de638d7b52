package gemini

import (
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/embedding"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

const maxRepeated = 256 // bytes of what is sent with each text

// embed requests the embeddings of all inputs at once.
func embed(c *providers.Call) (*providers.Request, error) {
	path, err := modelPath(c)
	if err != nil {
		return nil, err
	}
	asked, err := embedding.Parse(c.Body)
	if err != nil {
		return nil, err
	}
	task, title := Either(asked.Lookup, "task_type", "taskType"), asked.Lookup("title")
	if len(asked.Input) > 1 && len(task)+len(title)+len(asked.Dimensions) > maxRepeated {
		return nil, &chat.Unsupported{Param: "title", Message: "'title', 'task_type' and 'dimensions' are sent with each text of 'input': expected at most " + strconv.Itoa(maxRepeated) + " bytes together"}
	}
	b := jsonscan.Builder(make([]byte, 0, len(c.Body)+128*len(asked.Input)))
	b.Open('{')
	b.Key("requests").Open('[')
	for _, input := range asked.Input {
		b.Open('{')
		b.Key("model").Text(path.resource())
		b.Key("content").Open('{')
		b.Key("parts").Open('[')
		b.Open('{')
		b.Key("text").Raw(input)
		b.Close('}')
		b.Close(']')
		b.Close('}')
		b.Member("taskType", task)
		b.Member("title", title)
		b.Member("outputDimensionality", asked.Dimensions)
		b.Close('}')
	}
	b.Close(']')
	b.Close('}')
	return &providers.Request{
		URL: providers.VersionedURL(c.Base, path.below()+":batchEmbedContents", ""), Body: b,
		Answer: &providers.Answer{
			Failure: Failure,
			Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
				vectors, tokens, err := embeddings(body)
				if err != nil {
					return dst, err
				}
				return asked.Append(dst, vectors, tokens, c.DisplayName())
			},
		},
	}, nil
}

func embeddings(body []byte) (vectors []chat.Raw, tokens int64, err error) {
	r := jsonscan.Bounded(body)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "embeddings":
			r.Array(func() {
				r.Object(func(key jsonscan.Key) {
					if key.Is("values") {
						vectors = append(vectors, r.Value())
					}
				})
			})
		case "usageMetadata":
			tokens = readUsage(r.Raw()).Prompt
		}
	})
	return vectors, tokens, r.Err()
}

// Either returns the first of several members that a request has.
func Either(lookup func(string) chat.Raw, names ...string) chat.Raw {
	for _, name := range names {
		if v := lookup(name); v != nil {
			return v
		}
	}
	return nil
}
