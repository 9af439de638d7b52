package exchange

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// A Header is one of the gateway's headers.
type Header uint8

// The headers.
const (
	HeaderAPIKey Header = iota
	HeaderVirtualKey
	HeaderProvider
	HeaderConfig
	HeaderCustomHost
	HeaderTraceID
	HeaderMetadata
	HeaderException
	HeaderSpanID
	HeaderParentSpanID
	HeaderSpanName
	HeaderModelsEndpoint
	HeaderFetchIntegrated
	HeaderCache
	HeaderCacheRefresh
	HeaderCacheNamespace
	HeaderCacheTTL
	HeaderCacheStatus
	HeaderDebug
	HeaderStrict
	HeaderConfigVersion
	HeaderRequestTimeout
	HeaderRetries
	HeaderForwardHeaders
	HeaderLastUsed
	HeaderRetryCount
	HeaderAzureFoundryURL
	HeaderAzureResource
	HeaderAzureEndpoint
	HeaderHuggingfaceURL
	HeaderDatabricks
	HeaderSnowflake
	HeaderRefreshPrompt
	HeaderWarning
	HeaderTokenCount
)

// String is the header as clients write it.
func (h Header) String() string { return strings.ToLower(DefaultPrefix + headerNames[h]) }

// headerNames are their names after the prefix, in canonical form.
var headerNames = [...]string{
	HeaderAPIKey:          "Api-Key",
	HeaderVirtualKey:      "Virtual-Key",
	HeaderProvider:        "Provider",
	HeaderConfig:          "Config",
	HeaderCustomHost:      "Custom-Host",
	HeaderTraceID:         "Trace-Id",
	HeaderMetadata:        "Metadata",
	HeaderException:       "Gateway-Exception",
	HeaderSpanID:          "Span-Id",
	HeaderParentSpanID:    "Parent-Span-Id",
	HeaderSpanName:        "Span-Name",
	HeaderModelsEndpoint:  "Models-Endpoint",
	HeaderFetchIntegrated: "Fetch-Integrated-Models",
	HeaderCache:           "Cache",
	HeaderCacheRefresh:    "Cache-Force-Refresh",
	HeaderCacheNamespace:  "Cache-Namespace",
	HeaderCacheTTL:        "Cache-Ttl",
	HeaderCacheStatus:     "Cache-Status",
	HeaderDebug:           "Debug",
	HeaderStrict:          "Strict-Open-Ai-Compliance",
	HeaderConfigVersion:   "Config-Version",
	HeaderRequestTimeout:  "Request-Timeout",
	HeaderRetries:         "Retry-Count",
	HeaderForwardHeaders:  "Forward-Headers",
	HeaderLastUsed:        "Last-Used-Option-Index",
	HeaderRetryCount:      "Retry-Attempt-Count",
	HeaderAzureFoundryURL: "Azure-Foundry-Url",
	HeaderAzureResource:   "Azure-Resource-Name",
	HeaderAzureEndpoint:   "Azure-Endpoint-Name",
	HeaderHuggingfaceURL:  "Huggingface-Base-Url",
	HeaderDatabricks:      "Databricks-Workspace",
	HeaderSnowflake:       "Snowflake-Account",
	HeaderRefreshPrompt:   "Refresh-Prompt-Cache",
	HeaderWarning:         "Warning",
	HeaderTokenCount:      "Token-Count",
}

// suffixes are the names after the prefix of all headers that a call may have: those above, and
// the settings of providers.
var suffixes = func() []string {
	all := slices.Clone(headerNames[:])
	for _, name := range routing.VendorNames {
		all = append(all, textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")))
	}
	slices.Sort(all)
	return slices.Compact(all)
}()

// Mistyped returns a warning about a header that is spelt nearly as one of the gateway's; "" if
// there is none. Other headers with a prefix of the gateway's are nobody's concern: clients of
// other gateways send some.
func (h *Headers) Mistyped(header http.Header) string {
	var name, meant string
	for n := range header {
		suffix, ok := h.Suffix(n)
		if !ok || name != "" && n > name {
			continue
		}
		if _, known := slices.BinarySearch(suffixes, suffix); known {
			continue
		}
		if to := credentials.Nearest(suffix, suffixes); to != "" {
			name, meant = n, n[:len(n)-len(suffix)]+to
		}
	}
	if name == "" {
		return ""
	}
	return strings.ToLower(name) + " is not a header of the gateway; did you mean " + strings.ToLower(meant) + "?"
}

// DefaultPrefix starts every header of the gateway.
const DefaultPrefix = "X-Gw-"

// Headers reads and writes the gateway's headers under each of its prefixes.
type Headers struct {
	prefixes []string
	names    [len(headerNames)][]string // of each header, under each prefix
}

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
	for i, name := range headerNames {
		for _, p := range h.prefixes {
			h.names[i] = append(h.names[i], p+name)
		}
	}
	return h, nil
}

func notToken(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Get returns the value of one of the gateway's headers under any of the prefixes, and whether it
// is unambiguous: a header with two different values is not.
func (h *Headers) Get(header http.Header, which Header) (value string, ok bool) {
	return only(header, h.names[which])
}

// Named is like Get, for a header by its name after the prefix, in canonical form, such as a
// setting of a provider.
func (h *Headers) Named(header http.Header, name string) (value string, ok bool) {
	names := make([]string, len(h.prefixes))
	for i, p := range h.prefixes {
		names[i] = p + name
	}
	return only(header, names)
}

func only(header http.Header, names []string) (value string, ok bool) {
	found := false
	for _, name := range names {
		for _, v := range header[name] {
			if found && v != value {
				return value, false
			}
			value, found = v, true
		}
	}
	return value, true
}

// Set sets one of the gateway's headers under every prefix.
func (h *Headers) Set(header http.Header, which Header, value string) {
	h.set(header, which, []string{value})
}

func (h *Headers) set(header http.Header, which Header, values []string) {
	for _, name := range h.names[which] {
		header[name] = values
	}
}

// Strip removes all headers with one of the prefixes.
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

// HeaderNames are the gateway's headers as clients write them, without the settings of providers
// that are none of them.
func HeaderNames() []string {
	names := make([]string, len(headerNames))
	for i := range names {
		names[i] = Header(i).String()
	}
	return names
}
