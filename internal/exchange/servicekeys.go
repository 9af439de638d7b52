package exchange

import (
	"cmp"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// minOperatorKey is how long the operator's own keys are at least.
const minOperatorKey = 32

// OperatorKeys recognizes the operator's own service keys, which have no particular form; nil
// recognizes none.
type OperatorKeys interface{ IsOperatorKey(text string) bool }

// KeyInQuery returns the name of the query parameter that holds a service key; "query" if it has
// no name, and "" if there is none. A parameter holds one if it is named like the header for
// service keys, or if one is part of its value. One of the operator's own
// has to be a whole word.
func (h *Headers) KeyInQuery(query string, own OperatorKeys) string {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		name, value := parameter(part)
		switch {
		case holdsKey(name, own):
			return "query"
		case value != "" && (h.isAPIKey(name) || holdsKey(value, own)):
			return cmp.Or(credentials.Clip(name), "query")
		}
	}
	return ""
}

// KeyInPath reports whether a path, which may be escaped, holds a service key.
func KeyInPath(path string, own OperatorKeys) bool {
	if len(path) < minOperatorKey {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if holdsKey(unescape(segment, false), own) {
			return true
		}
	}
	return false
}

// RefuseKeyInPath is the answer to a request whose path holds a service key.
func RefuseKeyInPath() *Error {
	return badRequest("path", "key_in_path", "path: it holds a service key, which URLs give away; send it as the header x-gw-api-key, and replace the key")
}

// RedactURI returns a URI without the credentials in it, and whether it had any: service keys, and
// what has the name of a credential of a provider in the query.
func (h *Headers) RedactURI(uri string, own OperatorKeys) (string, bool) {
	path, query, ok := strings.Cut(uri, "?")
	path, found := RedactPath(path, own)
	if !ok {
		return path, found
	}
	inPath := found
	found = false
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value := parameter(part)
		raw, _, named := strings.Cut(part, "=")
		switch {
		case holdsKey(name, own), !named && holdsKey(value, own):
			parts[i], found = "REDACTED", true
		case value != "" && (h.isAPIKey(name) || isSecretParameter(name) || holdsKey(value, own)):
			parts[i], found = raw+"=REDACTED", true
		}
	}
	return path + "?" + strings.Join(parts, "&"), found || inPath
}

// RedactPath returns a path, which may be escaped, without its segments that hold a service key,
// and whether it had any.
func RedactPath(path string, own OperatorKeys) (string, bool) {
	if !KeyInPath(path, own) {
		return path, false
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if holdsKey(unescape(segment, false), own) {
			segments[i] = "REDACTED"
		}
	}
	return strings.Join(segments, "/"), true
}

// KeyInHeader reports whether the values of a header hold a service key.
func KeyInHeader(values []string, own OperatorKeys) bool {
	for _, v := range values {
		if holdsKey(v, own) {
			return true
		}
	}
	return false
}

// RefuseKey returns an error if the values of a header that goes to a provider hold a service key
// of this gateway. Keys of other gateways, which may be providers, do go there.
func (g *Gateway) RefuseKey(name string, values []string) *Error {
	for _, v := range values {
		if HoldsKey(v, g.Authenticator) {
			return keyInHeader(name, "it goes to the provider, and holds a service key: leave it out, and replace the key")
		}
	}
	return nil
}

// RefuseKeyAsCredential is like [Gateway.RefuseKey], for the headers that carry the call's own
// credential.
func (g *Gateway) RefuseKeyAsCredential(header http.Header) *Error {
	for name, values := range header {
		for _, v := range values {
			if HoldsKey(v, g.Authenticator) {
				return keyInHeader(name, "the credential for the provider is a service key of this gateway: send the provider's own, and replace the key")
			}
		}
	}
	return nil
}

func keyInHeader(name, why string) *Error {
	name = strings.ToLower(name)
	e := badRequest(name, "key_in_header", name+": "+why)
	e.Caller = true // another target would get it, too
	return e
}

// HoldsKey reports whether a text holds a service key that the gateway knows.
func HoldsKey(text string, known Authenticator) bool {
	for rest := text; len(rest) >= minOperatorKey; {
		var token string
		if token, rest = credentials.NextToken(rest); token != "" && known.Knows(token) {
			return true
		}
	}
	return hasWord(text, known)
}

// parameter is the name and the value of a part of a query. Of a part without a name, all
// is its value.
func parameter(part string) (name, value string) {
	name, value, named := strings.Cut(part, "=")
	if !named {
		name, value = "", name
	}
	return unescape(name, true), unescape(value, true)
}

// unescape removes all layers of escapes, since what is behind this gateway may remove some, too.
// What is not an escape stays as it is. If plus is true, "+" is a space.
func unescape(s string, plus bool) string {
	if strings.IndexByte(s, '%') < 0 && (!plus || strings.IndexByte(s, '+') < 0) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		if plus && c == '+' {
			c = ' '
		}
		b = append(b, c)
		for n := len(b) - 3; n >= 0 && b[n] == '%'; n = len(b) - 3 {
			high, low := hexValue(b[n+1]), hexValue(b[n+2])
			if high < 0 || low < 0 {
				break
			}
			b = append(b[:n], byte(high<<4|low))
		}
	}
	return string(b)
}

// hexValue is the value of a hexadecimal digit; -1: it is none.
func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

func (h *Headers) isAPIKey(name string) bool {
	suffix, ok := h.Suffix(textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")))
	return ok && suffix == headerNames[HeaderAPIKey]
}

// holdsKey reports whether a text holds a service key: one that is recognised by its checksum, or
// one of the operator's own.
func holdsKey(text string, own OperatorKeys) bool {
	return len(text) >= minOperatorKey && (credentials.HoldsToken(text) || hasWord(text, own))
}

// hasWord reports whether a text, or a word of it, is one of the operator's own keys.
func hasWord(text string, own OperatorKeys) bool {
	if own == nil || len(text) < minOperatorKey {
		return false
	}
	if strings.IndexByte(text, ' ') < 0 && own.IsOperatorKey(text) {
		return true
	}
	whole := len(text)
	for text != "" {
		word := text
		if end := strings.IndexAny(text, separators); end >= 0 {
			word, text = text[:end], text[end+1:]
		} else {
			text = ""
		}
		if len(word) >= minOperatorKey && len(word) < whole && own.IsOperatorKey(word) {
			return true
		}
	}
	return false
}

// separators are what words of headers and URLs end at.
const separators = " \t,;=&?/\"'()<>"

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

// credentialWords are words of the names of headers that hold credentials, wherever they are for.
var credentialWords = setOf("Key", "Apikey", "Token", "Secret", "Auth", "Authentication", "Authorization", "Password", "Credential", "Credentials", "Signature", "Jwt")

// HoldsCredential reports whether a header, by its canonical name, may hold a credential of any service: it has a word that
// says so, or is the address of a page, with its query.
func HoldsCredential(name string, values []string) bool {
	switch name {
	case "Idempotency-Key", "Sec-Websocket-Key": // nobody can use them
		return false
	case "Referer":
		return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, "?") })
	}
	for word := range strings.SplitSeq(name, "-") {
		if credentialWords[word] {
			return true
		}
	}
	return CredentialHeaders[name]
}
