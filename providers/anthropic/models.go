package anthropic

import (
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
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
	return chat.AppendModels(dst, body, "data", func(r *jsonscan.Reader) chat.Model {
		m := chat.Model{Owner: "anthropic"}
		r.Object(func(key jsonscan.Key) {
			switch string(key.Bytes()) {
			case "id":
				m.ID = chat.Literal(r.String()).Text()
			case "created_at":
				m.Created = unix(chat.Literal(r.String()).Text())
			}
		})
		return m
	})
}

// unix returns a time in Unix seconds, or 0 if it is none.
func unix(s string) int64 {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Unix() < 0 {
		return 0
	}
	return t.Unix()
}
