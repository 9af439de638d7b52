package exchange

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// read reads the headers with credentials. The service key is x-gw-api-key, or else the bearer
// token or x-api-key; a bearer that repeats it is not a provider credential. The service key is
// never forwarded.
func (g *Gateway) read(h http.Header) (token string, s credentials.Selection, refusal *credentials.Error) {
	for _, f := range []struct {
		header Header
		to     *string
	}{
		{HeaderAPIKey, &token},
		{HeaderVirtualKey, &s.VirtualKey},
		{HeaderProvider, &s.Provider},
		{HeaderConfig, &s.Config},
		{HeaderCustomHost, &s.CustomHost},
	} {
		var ok bool
		if *f.to, ok = g.Headers.Get(h, f.header); !ok {
			field := f.header.String()
			return "", s, &credentials.Error{Reason: credentials.AmbiguousHeader, Field: field, Message: field + " is given twice with different values"}
		}
	}
	if g.Router.HostSetting != nil && s.CustomHost == "" {
		if setting := g.Router.HostSetting(s.Provider); setting != "" {
			s.CustomHost, _ = g.Headers.Named(h, textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(setting, "_", "-")))
		}
	}
	for _, name := range [...]string{"Authorization", apiKey} {
		if len(h[name]) > 1 {
			field := strings.ToLower(name)
			return "", s, &credentials.Error{Reason: credentials.AmbiguousHeader, Field: field, Message: field + " is given twice"}
		}
	}
	token, bearer := serviceKey(h, token, g.Authenticator)
	if token == "" {
		token = protocolKey(h)
	}
	if bearer != token {
		s.Bearer = credentials.NewSecret(bearer)
	}
	return token, s, nil
}

// Bearer returns the bearer token of a request, or "".
func Bearer(h http.Header) string {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// apiKey is the header by which Anthropic's clients send a key.
const apiKey = "X-Api-Key"

// serviceKey is the service key of a request whose x-gw-api-key is token, and the bearer that
// is left for a provider. Where there is no x-gw-api-key it is the bearer, or else x-api-key:
// also if there is a bearer that is not a service key.
func serviceKey(h http.Header, token string, a keyRecognizer) (key, bearer string) {
	bearer = Bearer(h)
	if token != "" {
		return token, bearer
	}
	switch other := h.Get(apiKey); {
	case other == "":
	case bearer == "", !a.Knows(bearer) && a.Knows(other):
		return other, bearer
	}
	return bearer, ""
}

// ServiceKey returns the service key of a request to the control plane, or "".
func (h *Headers) ServiceKey(header http.Header, a keyRecognizer) string {
	token, ok := h.Get(header, HeaderAPIKey)
	if !ok || len(header[apiKey]) > 1 {
		return ""
	}
	token, _ = serviceKey(header, token, a)
	return token
}
