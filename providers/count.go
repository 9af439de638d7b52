package providers

import (
	"errors"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

// What a prompt is taken to have, in tokens. No vocabulary is built in: each model has its own,
// those of OpenAI alone take megabytes of the binary and tens of them in memory, and an estimate
// is all that would come of the wrong one.
const (
	tokensOfMessage = 4    // for its role and its end
	tokensOfTool    = 8    // besides its name, description and schema
	tokensOfImage   = 1600 // the most of Claude's, and in the range of others
	bytesOfMedia    = 64   // of base64 for each token of a document or of audio
)

// estimate answers how many tokens a call of Messages has, where the provider does not count them.
// Nothing is sent.
func estimate(c *Call) (*Request, error) {
	asked, err := messages.Parse(c.Body, c.Provider.Name)
	if err != nil {
		var unsupported *RequestError
		if err = requestError(err); errors.As(err, &unsupported) {
			return nil, unsupported
		}
		return nil, &RequestError{"", "invalid_json", "Invalid request body: " + err.Error()}
	}
	n := int64(3) // for the beginning of the answer
	for i := range asked.Messages {
		m := &asked.Messages[i]
		n += tokensOfMessage
		for j := range m.Parts {
			n += partTokens(&m.Parts[j])
		}
		for _, call := range m.Calls {
			n += tokensOfTool + textTokens(call.Name) + textTokens(call.Arguments)
		}
	}
	for i := range asked.Tools {
		t := &asked.Tools[i]
		n += tokensOfTool + textTokens(t.Name) + textTokens(t.Description) + textTokens(t.Parameters) + textTokens(t.Other)
	}
	n += textTokens(asked.Format.Schema)
	return &Request{Estimate: messages.AppendCount(nil, n)}, nil
}

func partTokens(p *chat.Part) int64 {
	switch p.Kind {
	case chat.Image:
		return tokensOfImage
	case chat.File, chat.Audio:
		return int64(len(p.Data)+bytesOfMedia-1)/bytesOfMedia + textTokens(p.Text)
	case chat.Redacted: // which providers do not count again
		return 0
	}
	return textTokens(p.Text) + textTokens(p.Other)
}

// textTokens estimates the tokens of a text or of a JSON value, as it stands in a body: four
// characters of ASCII each, two of other alphabets, and one for each character of those that have
// thousands.
func textTokens(b []byte) int64 {
	if len(b) >= 2 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	quarters := int64(0)
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			switch {
			case b[i] != '\\' || i+1 == len(b):
				quarters++
				i++
			case b[i+1] == 'u': // a character, or half of one
				quarters += 2
				i += 6
			default:
				quarters++
				i += 2
			}
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if i += size; r >= 0x2e80 { // from CJK on
			quarters += 4
		} else {
			quarters += 2
		}
	}
	return (quarters + 3) / 4
}
