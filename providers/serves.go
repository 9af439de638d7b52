package providers

import (
	"slices"
	"strconv"
	"strings"
)

// Translated lists the endpoints that are refused if a provider with OpenAI's API neither serves
// them nor translates them. Its other endpoints are passed on, and answered by the provider
// itself.
var Translated = []string{ChatComplete, Complete, Embed, Moderate, OCR, Rerank, Messages, CountTokens, CreateResponse}

// OpenAIServes lists the endpoints that a compatible provider is assumed to serve if its
// row does not say. If it does not, its own error answer is passed on.
var OpenAIServes = []string{Complete, Embed, Moderate, Rerank, OCR}

// NotSupported is the code of a [RequestError] about an endpoint that a provider does not have.
// Nothing is sent to it, and a fallback goes on with its next target.
const NotSupported = "endpoint_not_supported"

// A Support says how a provider serves an endpoint.
type Support int

// The ways in which endpoints are served.
const (
	Refused        Support = iota // by no means: a call is refused before anything is sent
	PassedOn                      // the provider has the path, in the form in which the client calls it
	TranslatedCall                // the provider's own API is called
	Estimated                     // the gateway answers itself
)

// Support returns how the provider serves an endpoint. A call may still be refused for what is
// in it.
func (p *Provider) Support(endpoint string) Support {
	_, conversation := clientDialects[endpoint]
	switch {
	case p.closed(endpoint):
		return Refused
	case endpoint == RetrieveModel && p.Endpoints[ListModels] != nil:
		return TranslatedCall
	case p.has(endpoint) && (p.Encoder == nil || endpoint != ChatComplete):
		return PassedOn
	case p.Endpoints[endpoint] != nil, conversation:
		return TranslatedCall
	case endpoint == CountTokens:
		return Estimated
	}
	return Refused
}

// closed reports whether the provider has no conversations, and nothing else in the place of an endpoint.
func (p *Provider) closed(endpoint string) bool {
	return p.PassOnly && endpoint != Proxy && p.Endpoints[endpoint] == nil
}

// has reports whether the provider serves an endpoint in the form in which clients call it.
func (p *Provider) has(endpoint string) bool {
	switch {
	case endpoint == Proxy:
		return true
	case p.PassOnly:
		return false
	case endpoint == ChatComplete:
		return p.Dialect == nil
	case p.Dialect != nil:
		return slices.Contains(p.Serves, endpoint)
	case !slices.Contains(Translated, endpoint):
		return true
	case p.Serves != nil:
		return slices.Contains(p.Serves, endpoint)
	}
	return slices.Contains(OpenAIServes, endpoint)
}

// Check returns an error of code [NotSupported] if the provider does not serve the endpoint of
// a call. It is cheap, and asks for no token.
func (p *Provider) Check(c *Call) error {
	if p.Support(c.Endpoint) == Refused {
		return p.NotServed(c)
	}
	return nil
}

// NotServed is the refusal of a call whose endpoint the provider does not serve.
func (p *Provider) NotServed(c *Call) *RequestError {
	name := p.Name
	if c.Name != "" && c.Name != name {
		name = c.Name + " (" + name + ")"
	}
	message := "Provider " + name + " does not serve " + c.Method + " /v1" + c.Path
	if others := whoServes(c.Endpoint); others != "" {
		message += "; it is served by " + others
	}
	return &RequestError{"x-gw-provider", NotSupported, message}
}

// maxServers is how many providers an error names.
const maxServers = 10

// whoServes says which providers serve an endpoint.
func whoServes(endpoint string) string {
	var served []string
	passes := !slices.Contains(Translated, endpoint)
	for _, name := range Names() {
		if p := byName[name]; p.Support(endpoint) != Refused && (!passes || p.Dialect != nil) {
			served = append(served, name)
		}
	}
	if more := len(served) - maxServers; more > 1 {
		served = append(served[:maxServers], strconv.Itoa(more)+" more")
	}
	if passes {
		served = append(served, "providers with OpenAI's API, such as openai and azure-openai, which get it unchanged")
	}
	if last := len(served) - 1; last > 0 {
		return strings.Join(served[:last], ", ") + " and " + served[last]
	}
	return strings.Join(served, "")
}
