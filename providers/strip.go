package providers

import (
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

// stripForeign returns the body of a conversation that is passed on, without what the
// gateway added to earlier answers of other providers, which this provider would refuse. It
// returns nil if there is nothing to remove.
func (p *Provider) stripForeign(c *Call) []byte {
	switch c.Endpoint {
	case ChatComplete:
		if c.MayHave != nil && !slices.ContainsFunc(chat.ForeignMembers, c.MayHave) {
			return nil
		}
		return chat.StripForeign(c.Body, chat.Foreign{
			// Google's OpenAI-compatible endpoint creates these signatures itself.
			Signatures:      c.Base == nil || !strings.HasSuffix(c.Base.Hostname(), ".googleapis.com"),
			Reasoning:       p.Closed,
			ReturnReasoning: p.ReturnReasoning,
			OfCalls:         p.Closed,
			OfMessages:      p.Closed || p.PlainMessages,
		})
	case CreateResponse:
		return responses.StripForeign(c.Body)
	}
	return nil
}
