package mistral

import (
	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/embedding"
)

// embed renames what Mistral calls differently, and leaves out what it refuses. A body
// without either stays as it is.
func embed(c *providers.Call) (*providers.Request, error) {
	b := jsonscan.Builder(make([]byte, 0, len(c.Body)+16))
	b.Open('{')
	changed := false
	err := jsonscan.Members(c.Body, func(m jsonscan.Member) error {
		value := c.Body[m.Start:m.End]
		switch name := m.Key.String(); name {
		case "user":
			changed = true
		case "dimensions":
			changed = true
			if string(value) != "null" {
				b.Key("output_dimension").Raw(value)
			}
		default:
			b.Raw(jsonscan.AppendQuoted(nil, name))
			b = append(append(b, ':'), value...)
		}
		return nil
	})
	if err != nil {
		return nil, &providers.Refusal{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	r := &providers.Request{Answer: &providers.Answer{Whole: embedding.Pass}}
	if changed {
		b.Close('}')
		r.Body = b
	}
	return r, nil
}
