package providers

import (
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

// unmarked is the body of a conversation that passes, without what the gateway itself put
// into earlier answers of other providers: whoever did not make it would refuse it. nil: the
// body has none of it.
func (p *Provider) unmarked(c *Call) []byte {
	switch c.Endpoint {
	case ChatComplete:
		return chat.Unmarked(c.Body, chat.Foreign{
			// Google's own endpoint in OpenAI's shape made the signatures.
			Signatures:   c.Base == nil || !strings.HasSuffix(c.Base.Hostname(), ".googleapis.com"),
			Reasoning:    p.Closed,
			ThoughtsBack: p.ThoughtsBack,
		})
	case CreateResponse:
		return responses.Unmarked(c.Body)
	}
	return nil
}
