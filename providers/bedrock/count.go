package bedrock

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// countTokens counts the tokens of a Messages request: unchanged for Anthropic's models,
// and as a conversation for others.
func countTokens(c *providers.Call) (*providers.Request, error) {
	w := newWriter(c, new(chat.Request), len(c.Body)+len(c.Body)/2+256)
	w.Open('{')
	w.Key("input").Open('{')
	if isAnthropic(foundation(c)) {
		asked, _ := messages.Pass(c.Body)
		body, _, err := invokeBody(c, asked, true)
		if err != nil {
			return nil, err
		}
		w.Key("invokeModel").Open('{')
		w.Key("body").Quoted(base64.StdEncoding.AppendEncode(nil, body))
	} else {
		asked, err := messages.Parse(c.Body, c.Provider.Name)
		if err != nil {
			return nil, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
		}
		asked.Model = chat.Quote(c.Model)
		w.Key("converse").Open('{')
		if err := w.conversation(c, asked); err != nil {
			return nil, err
		}
	}
	for range 3 {
		w.Close('}')
	}
	r, err := call(c, baseModel(foundation(c)), "count-tokens", mediaJSON, w.Builder)
	if err != nil {
		return nil, err
	}
	r.Answer = &providers.Answer{Body: count, Failure: readFailure}
	return r, nil
}

// regions lists the prefixes of the inference profiles of groups of regions.
var regions = []string{"us.", "us-gov.", "eu.", "apac.", "jp.", "au.", "ca.", "sa.", "global."}

// baseModel returns the model of an inference profile, because tokens are counted for
// models only.
func baseModel(model string) string {
	for _, r := range regions {
		if base, ok := strings.CutPrefix(model, r); ok {
			return base
		}
	}
	return model
}

func count(dst, body []byte, _ http.Header) ([]byte, error) {
	r := jsonscan.NewReader(body)
	n := member(r, "inputTokens")
	if err := r.Err(); err != nil {
		return dst, err
	}
	if n == nil {
		return dst, errors.New("no number of tokens")
	}
	return messages.AppendCount(dst, chat.Int(n)), nil
}
