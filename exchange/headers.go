package exchange

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
)

// Names of the gateway's headers, after the prefix, in canonical form.
const (
	HeaderAPIKey     = "Api-Key"
	HeaderVirtualKey = "Virtual-Key"
	HeaderProvider   = "Provider"
	HeaderConfig     = "Config"
	HeaderCustomHost = "Custom-Host"
	HeaderTraceID    = "Trace-Id"
	HeaderMetadata   = "Metadata"
	HeaderException  = "Gateway-Exception"

	HeaderSpanID       = "Span-Id"
	HeaderParentSpanID = "Parent-Span-Id"
	HeaderSpanName     = "Span-Name"

	HeaderModelsEndpoint  = "Models-Endpoint"
	HeaderFetchIntegrated = "Fetch-Integrated-Models"

	HeaderCache          = "Cache"
	HeaderCacheRefresh   = "Cache-Force-Refresh"
	HeaderCacheNamespace = "Cache-Namespace"
	HeaderCacheTTL       = "Cache-Ttl"
	HeaderCacheStatus    = "Cache-Status"
	HeaderDebug          = "Debug"
	HeaderStrict         = "Strict-Open-Ai-Compliance"
	HeaderConfigVersion  = "Config-Version"
	HeaderRequestTimeout = "Request-Timeout"
	HeaderForwardHeaders = "Forward-Headers"
	HeaderLastUsed       = "Last-Used-Option-Index"
	HeaderRetryCount     = "Retry-Attempt-Count"
)

// DefaultPrefix starts every header of the gateway.
const DefaultPrefix = "X-Gw-"

// Headers reads and writes the gateway's headers under each of its prefixes.
type Headers struct{ prefixes []string }

// NewHeaders returns the headers with the default prefix and the given aliases,
// such as "x-acme-"; the last hyphen may be left out.
func NewHeaders(aliases []string) (*Headers, error) {
	h := &Headers{prefixes: []string{DefaultPrefix}}
	for _, alias := range aliases {
		p := textproto.CanonicalMIMEHeaderKey(strings.TrimSuffix(alias, "-") + "-")
		if !strings.HasPrefix(p, "X-") || len(p) < 4 || len(p) > 64 || strings.ContainsFunc(p, notToken) {
			return nil, fmt.Errorf("header prefix %q: expected the form x-name-", alias)
		}
		if p != DefaultPrefix {
			h.prefixes = append(h.prefixes, p)
		}
	}
	return h, nil
}

func notToken(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Get returns the value of the gateway's header name under any of the prefixes,
// and whether it is the only one: a header that says two things is ambiguous.
func (h *Headers) Get(header http.Header, name string) (value string, ok bool) {
	found := false
	for _, p := range h.prefixes {
		for _, v := range header[p+name] {
			if found && v != value {
				return value, false
			}
			value, found = v, true
		}
	}
	return value, true
}

// Set sets the gateway's header name under every prefix.
func (h *Headers) Set(header http.Header, name, value string) {
	values := []string{value}
	for _, p := range h.prefixes {
		header[p+name] = values
	}
}

// Strip removes every header of the gateway, whatever its name.
func (h *Headers) Strip(header http.Header) {
	for name := range header {
		if _, ok := h.Suffix(name); ok {
			delete(header, name)
		}
	}
}

// Suffix returns what follows the prefix in a header's canonical name, and whether
// the header is one of the gateway's.
func (h *Headers) Suffix(name string) (string, bool) {
	for _, p := range h.prefixes {
		if rest, ok := strings.CutPrefix(name, p); ok {
			return rest, true
		}
	}
	return "", false
}
