// Package providers knows the model providers: where they are, how they
// authenticate, and how a call in the OpenAI shape becomes theirs. It does no
// HTTP of its own and has no clock.
package providers

import (
	"net/http"
	"net/url"
	"strings"
)

// A Provider is one model provider, or one dialect that a provider of the
// operator's file speaks.
type Provider struct {
	Name    string
	BaseURL string // ends where the endpoint's path begins; empty: the caller must say
}

// Lookup returns a provider by its name.
func Lookup(name string) (*Provider, bool) {
	p, ok := byName[name]
	return p, ok
}

// Names lists every provider, in the order of the table.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].Name
	}
	return names
}

// BaseURL returns where the provider called name is, nil where it has no address
// of its own, and whether there is such a provider.
func BaseURL(name string) (*url.URL, bool) {
	p, ok := byName[name]
	if !ok {
		return nil, false
	}
	return baseURLs[p.Name], true
}

// URL returns where a call goes: the base URL with path, such as
// "/chat/completions", added to it. The path is escaped, and stays as it is.
func (p *Provider) URL(base *url.URL, path, query string) *url.URL {
	u := *base
	u.RawQuery = query
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path
	}
	if u.RawPath != "" || plain != path {
		u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + path
	}
	u.Path = strings.TrimSuffix(base.Path, "/") + plain
	return &u
}

// Authenticate adds the provider's credential to the headers of a request, as a
// bearer token.
func (p *Provider) Authenticate(h http.Header, key string) {
	if key != "" {
		h["Authorization"] = []string{"Bearer " + key}
	}
}

// Forwarded lists the request headers of a client that go on to a provider, in
// canonical form. Everything else stays here: this list is all there is.
var Forwarded = []string{"Accept", "Content-Type", "Idempotency-Key", "Openai-Beta", "User-Agent", "X-Client-Request-Id"}

// Vendor are the settings of a provider that become headers: what a config calls them,
// and a call in x-gw-openai-organization and the like, by the provider's name.
var Vendor = map[string]map[string]string{
	"openai": {"openai_organization": "Openai-Organization", "openai_project": "Openai-Project", "openai_beta": "Openai-Beta"},
}

// ForwardedWebSocket lists what goes on beside it when a request is to become a
// WebSocket.
var ForwardedWebSocket = []string{
	"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions",
}

// ForwardedInline lists what goes on beside it when the credential is the caller's
// own: which of the credential's accounts pays is the caller's choice only then.
var ForwardedInline = []string{"Openai-Organization", "Openai-Project"}
