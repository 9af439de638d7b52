package anthropic

import (
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

// models lists the models in OpenAI's form, all on one page. Clients of Anthropic get its own.
func models(c *providers.Call) (*providers.Request, error) {
	if c.Header("Anthropic-Version") != "" {
		return nil, nil
	}
	return &providers.Request{
		URL:    providers.URL(c.Base, "/models", "limit=1000"),
		Answer: &providers.Answer{Body: appendModels},
	}, nil
}

func appendModels(dst, body []byte, _ http.Header) ([]byte, error) {
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		if !key.Is("data") {
			return
		}
		r.Array(func() {
			var id, created chat.Literal
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("id"):
					id = r.String()
				case key.Is("created_at"):
					created = r.String()
				}
			})
			if id.Empty() {
				return
			}
			b.Open('{')
			b.Key("id").Raw(id)
			b.Key("object").Text("model")
			b.Key("created").Int(unix(created.Text()))
			b.Key("owned_by").Text("anthropic")
			b.Close('}')
		})
	})
	b.Close(']')
	b.Close('}')
	return b, r.Err()
}

// unix returns a time in Unix seconds, or 0 if it is none.
func unix(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Unix() < 0 {
		return 0
	}
	return t.Unix()
}
