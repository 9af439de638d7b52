package exchange

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

const (
	maxRequestTimeout = 24 * time.Hour
	maxForwarded      = 50
)

// urlHeaders are the headers that give the address of a provider.
var urlHeaders = []Header{HeaderAzureFoundryURL, HeaderAzureResource, HeaderAzureEndpoint, HeaderHuggingfaceURL, HeaderDatabricks, HeaderSnowflake}

// Options are what the headers of a call set that a config could also set. What is not given is zero.
type Options struct {
	RequestTimeout time.Duration  // x-gw-request-timeout, which wins over a config's
	Retry          *routing.Retry // x-gw-retry-count, for targets whose config does not say it; nil: not given
	ForwardHeaders []string       // x-gw-forward-headers, canonical
	Caching        Caching
}

// readOptions reads the headers for what a config could also set.
func (p *preparation) readOptions(h http.Header) *Error {
	if raw, _ := p.Gateway.Headers.Get(h, HeaderRequestTimeout); raw != "" {
		ms, err := strconv.ParseInt(raw, 10, 64)
		if err != nil || ms < 1 || ms > maxRequestTimeout.Milliseconds() {
			return badRequest("x-gw-request-timeout", "invalid_value", "Invalid request timeout passed: expected milliseconds, a whole number from 1 to "+
				strconv.FormatInt(maxRequestTimeout.Milliseconds(), 10))
		}
		p.Options.RequestTimeout = time.Duration(ms) * time.Millisecond
	}
	if raw, _ := p.Gateway.Headers.Get(h, HeaderRetries); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 0 || n > routing.MaxRetries {
			return badRequest("x-gw-retry-count", "invalid_value", "Invalid retry count passed: expected a whole number from 0 to "+strconv.Itoa(routing.MaxRetries))
		}
		p.Options.Retry = routing.Retries(n)
	}
	if err := p.readCaching(h); err != nil {
		return err
	}
	blocked := p.Gateway.Router.Blocks(p.Caller.WorkspaceID)
	for _, header := range urlHeaders {
		if v, _ := p.Gateway.Headers.Get(h, header); v != "" && blocked {
			field := header.String()
			return CredentialError(&credentials.Error{
				Reason: credentials.InlineURLBlocked, Field: field,
				Message: "Inline provider URLs are blocked; the organisation accepts only saved resources (block_inline_config)",
			})
		}
	}
	raw, _ := p.Gateway.Headers.Get(h, HeaderForwardHeaders)
	if raw == "" {
		return nil
	}
	if blocked {
		return CredentialError(&credentials.Error{
			Reason: credentials.InlineHeadersBlocked, Field: "x-gw-forward-headers",
			Message: "Inline forward headers are blocked; the organisation accepts only saved resources (block_inline_config)",
		})
	}
	for _, name := range strings.Split(raw, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if why := routing.CheckForward(name, p.Gateway.Configs.Options.HeaderPrefixes); why != "" || len(p.Options.ForwardHeaders) == maxForwarded {
			return badRequest("x-gw-forward-headers", "invalid_value", "Invalid forward header passed: "+credentials.Clip(name)+": "+why)
		}
		p.Options.ForwardHeaders = append(p.Options.ForwardHeaders, textproto.CanonicalMIMEHeaderKey(name))
	}
	return nil
}
