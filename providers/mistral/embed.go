package mistral

import (
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/embedding"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// embed renames the members that Mistral calls differently, and removes those that it
// refuses. A body without any is unchanged.
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
		return nil, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	r := &providers.Request{Answer: &providers.Answer{Body: embedding.Pass}}
	if changed {
		b.Close('}')
		r.Body = b
	}
	return r, nil
}
