package gemini

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// models lists the models in OpenAI's form. All fit on one page.
func models(c *providers.Call) (*providers.Request, error) {
	return &providers.Request{
		URL:    providers.VersionedURL(c.Base, "/v1beta/models", "pageSize=1000"),
		Answer: &providers.Answer{Failure: Failure, Body: appendModels},
	}, nil
}

func appendModels(dst, body []byte, _ http.Header) ([]byte, error) {
	return chat.AppendModels(dst, body, "models", func(r *jsonscan.Reader) chat.Model {
		m := chat.Model{Owner: "google"}
		r.Object(func(key jsonscan.Key) {
			if key.Is("name") {
				m.ID = strings.TrimPrefix(chat.Literal(r.String()).Text(), "models/")
			}
		})
		return m
	})
}

// countTokens counts the tokens of a Messages request, like Anthropic's endpoint.
func countTokens(c *providers.Call) (*providers.Request, error) {
	path, err := modelPath(c)
	if err != nil {
		return nil, err
	}
	asked, err := messages.Parse(c.Body, c.Provider.Name)
	if err != nil {
		return nil, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	inner, err := Append(nil, asked, OptionsOf(path.name))
	if err != nil {
		return nil, err
	}
	b := jsonscan.Builder(make([]byte, 0, len(inner)+128))
	b.Open('{')
	b.Key("generateContentRequest").Open('{')
	b.Key("model").Text(path.resource())
	if rest := inner[1:]; len(rest) > 1 { // its members, and the closing brace
		b = append(append(b, ','), rest...)
	} else {
		b.Close('}')
	}
	b.Close('}')
	return &providers.Request{
		URL: providers.VersionedURL(c.Base, path.below()+":countTokens", ""), Body: b,
		Answer: &providers.Answer{Failure: Failure, Body: AppendCount},
	}, nil
}

// AppendCount appends the answer of Messages to an answer of countTokens.
func AppendCount(dst, body []byte, _ http.Header) ([]byte, error) {
	var total chat.Raw
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		if key.Is("totalTokens") {
			total = r.Value()
		}
	})
	if err := r.Err(); err != nil {
		return dst, err
	}
	if total == nil {
		return dst, errors.New("no number of tokens")
	}
	return messages.AppendCount(dst, chat.Int(total)), nil
}
