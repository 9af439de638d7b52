package vertex

import (
	"errors"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/gemini"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// counted are the members of generateContent that countTokens has, too. It refuses others.
// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens
var counted = []string{"contents", "systemInstruction", "tools", "generationConfig"}

// countOfGemini counts the tokens of a call of Messages to Gemini.
func countOfGemini(c *providers.Call, m model, path string) (*providers.Request, error) {
	asked, err := messages.Parse(c.Body, c.Provider.Name)
	if unsupported := new(chat.Unsupported); errors.As(err, &unsupported) {
		return nil, unsupported
	}
	if err != nil {
		return nil, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	whole, err := gemini.Append(nil, asked, gemini.OptionsOf(m.name))
	if err != nil {
		return nil, err
	}
	b := jsonscan.Builder(make([]byte, 0, len(whole)))
	b.Open('{')
	err = jsonscan.Members(whole, func(member jsonscan.Member) error {
		for _, name := range counted {
			if member.Key.Is(name) {
				b.Key(name).Raw(whole[member.Start:member.End])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.Close('}')
	return &providers.Request{
		URL: providers.VersionedURL(base(c.Base), path+":countTokens", ""), Body: b,
		Answer: &providers.Answer{Failure: gemini.Failure, Body: gemini.AppendCount},
	}, nil
}
