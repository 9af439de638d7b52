package exchange

import (
	"cmp"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

const (
	// minOwnerKey is how long the operator's own key is at least.
	minOwnerKey = 32
	// maxEscapes is how many layers of escapes are taken off a query to find a key.
	maxEscapes = 3
)

// KeyInQuery returns the name of the query parameter that holds a service key; "query" if it has
// no name, and "" if there is none. A parameter holds one if it is named like the header for
// service keys, or if one is part of its value. known recognizes the operator's own key, which
// has no particular form and has to be the whole value.
func (h *Headers) KeyInQuery(query string, known func(string) bool) string {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		name, value := parameter(part)
		switch {
		case isServiceKey(name, known):
			return "query"
		case value != "" && (h.isAPIKey(name) || isServiceKey(value, known)):
			return cmp.Or(credentials.Clip(name), "query")
		}
	}
	return ""
}

// RedactQuery returns a URI without the credentials in its query, and whether it had any:
// service keys, and what has the name of a credential of a provider.
func (h *Headers) RedactQuery(uri string, known func(string) bool) (string, bool) {
	path, query, ok := strings.Cut(uri, "?")
	if !ok {
		return uri, false
	}
	parts, found := strings.Split(query, "&"), false
	for i, part := range parts {
		name, value := parameter(part)
		raw, _, named := strings.Cut(part, "=")
		switch {
		case isServiceKey(name, known), !named && isServiceKey(value, known):
			parts[i], found = "REDACTED", true
		case value != "" && (h.isAPIKey(name) || isSecretParameter(name) || isServiceKey(value, known)):
			parts[i], found = raw+"=REDACTED", true
		}
	}
	return path + "?" + strings.Join(parts, "&"), found
}

// parameter is the name and the value of a part of a query. Of a part without a name, all
// is its value.
func parameter(part string) (name, value string) {
	name, value, named := strings.Cut(part, "=")
	if !named {
		name, value = "", name
	}
	for _, s := range []*string{&name, &value} {
		for range maxEscapes { // what is behind this may take off escapes, too
			plain, err := url.QueryUnescape(*s)
			if err != nil || plain == *s {
				break
			}
			*s = plain
		}
	}
	return name, value
}

func (h *Headers) isAPIKey(name string) bool {
	suffix, ok := h.Suffix(textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")))
	return ok && suffix == headerNames[HeaderAPIKey]
}

func isServiceKey(value string, known func(string) bool) bool {
	if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		value = strings.TrimSpace(token)
	}
	return len(value) >= minOwnerKey && (credentials.HoldsToken(value) || known != nil && known(value))
}

// secretParameters are the parameters by which providers take credentials.
var secretParameters = func() map[string]bool {
	names := map[string]bool{"key": true, "apikey": true, "token": true, "access_token": true, "authorization": true, "sig": true, "x_amz_security_token": true, "x_amz_credential": true, "x_amz_signature": true}
	for name := range CredentialHeaders {
		names[strings.ToLower(strings.ReplaceAll(name, "-", "_"))] = true
	}
	for _, name := range routing.SecretKeys {
		names[name] = true
	}
	return names
}()

// CredentialHeaders are the headers by which providers, and other gateways, take keys.
var CredentialHeaders = map[string]bool{
	"Api-Key": true, "X-Api-Key": true, "X-Goog-Api-Key": true, "X-Amz-Security-Token": true, "X-Auth-Token": true, "X-Access-Token": true,
}

func isSecretParameter(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	return secretParameters[name] || secretParameters[strings.TrimPrefix(name, "x_gw_")]
}
