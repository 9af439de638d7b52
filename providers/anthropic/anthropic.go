// Package anthropic is the provider Anthropic.
package anthropic

import (
	"net/http"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

func init() {
	providers.Register(providers.Provider{
		Name:    "anthropic",
		Limits:  &messages.Limits,
		BaseURL: "https://api.anthropic.com/v1",
		Auth:    auth,
		Headers: map[string]string{"anthropic_beta": "Anthropic-Beta"},
		Forward: []string{"Anthropic-Version", "Anthropic-Beta"},
		// Its models are in its own form for its own clients. Files and skills have the paths of
		// OpenAI's, and are Anthropic's.
		Serves: []string{
			providers.Messages, providers.CountTokens, providers.ListModels, providers.RetrieveModel,
			"uploadFile", "listFiles", "retrieveFile", "retrieveFileContent", "deleteFile", "skills",
		},
		Dialect: &providers.Dialect{
			Request: request,
			Decoder: func(*providers.Call) chat.Decoder { return new(messages.Decoder) },
			Tool:    func(c *providers.Call, tool chat.Raw) chat.Raw { return messages.Tool(c.Model, tool) },
		},
		Endpoints: map[string]providers.Endpoint{
			providers.Messages: passMessages, providers.CountTokens: passMessages, providers.ListModels: models,
		},
	})
}

// DefaultVersion is the API version that is sent if neither the client nor the
// configuration sets one.
const DefaultVersion = "2023-06-01"

func auth(c *providers.Call, h http.Header) error {
	if v := c.Setting("anthropic_version"); v != "" {
		h["Anthropic-Version"] = []string{v}
	} else if c.Header("Anthropic-Version") == "" {
		h["Anthropic-Version"] = []string{DefaultVersion}
	}
	return providers.KeyHeader("X-Api-Key")(c, h)
}

func request(c *providers.Call, r *chat.Request) (*providers.Request, error) {
	body, err := messages.Append(make([]byte, 0, r.SizeHint(len(c.Body))), r, messages.Options{})
	return &providers.Request{URL: providers.URL(c.Base, "/messages", c.Query), Body: body}, err
}

// passMessages sends a Messages request on as it is, except for what the API would refuse.
func passMessages(c *providers.Call) (*providers.Request, error) {
	body, names := messages.Pass(c.Body)
	if len(body) == len(c.Body) && &body[0] == &c.Body[0] {
		return nil, nil
	}
	return &providers.Request{Body: body, Answer: providers.WithNames(nil, names)}, nil
}
