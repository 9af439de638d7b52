// Package inference is the data plane: it makes the attempts of a call, forwards
// them through Caddy's reverse proxy and watches the answers as they pass.
package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/caddy-gw/gateway/exchange"
	"github.com/caddy-gw/gateway/providers"
)

// An attempt is one try to get a call answered: an upstream request, and what came
// of it. It travels in the context of the request that reverse_proxy forwards.
type attempt struct {
	x        *exchange.Exchange
	provider *providers.Provider
	url      *url.URL
	header   http.Header // without the credential, which the transport adds
	body     *exchange.Buffer
}

type attemptKey struct{}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

var errNoAttempt = errors.New("no attempt in this request: the gw transport and upstreams work only below gw_inference")

func attemptOf(ctx context.Context) (*attempt, error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a, nil
	}
	return nil, errNoAttempt
}

// newAttempt shapes the upstream request of an exchange. The caller calls close
// when the attempt is over.
func newAttempt(x *exchange.Exchange) *attempt {
	p, ok := providers.Lookup(x.Route.Dialect)
	if !ok {
		panic("route to the unknown dialect " + x.Route.Dialect) // the router made it from the same table
	}
	return &attempt{
		x:        x,
		provider: p,
		url:      p.URL(x.Route.BaseURL, x.Endpoint.Upstream),
		header:   upstreamHeader(x),
		body:     x.Body(),
	}
}

func (a *attempt) close() { a.body.Release() }

// upstreamHeader builds the headers of an upstream request from an allow-list; it
// never filters the client's down.
func upstreamHeader(x *exchange.Exchange) http.Header {
	client := x.Header()
	h := make(http.Header, len(providers.Forwarded)+len(x.Route.Header)+2)
	h["User-Agent"] = []string{""} // none, rather than Go's
	for _, name := range providers.Forwarded {
		if v, ok := client[name]; ok {
			h[name] = v
		}
	}
	if x.Route.Inline {
		for _, name := range providers.ForwardedInline {
			if v, ok := client[name]; ok {
				h[name] = v
			}
		}
	}
	if h["Content-Type"] == nil {
		h["Content-Type"] = []string{"application/json"}
	}
	for name, v := range x.Route.Header {
		h[name] = v
	}
	return h
}

// request is the attempt as an HTTP request, credential included. It replaces the
// one that reverse_proxy made, of which only the context is used.
func (a *attempt) request(ctx context.Context) *http.Request {
	header := a.header.Clone()
	a.provider.Authenticate(header, a.x.Route.Key.Reveal())
	r := &http.Request{
		Method: a.x.Endpoint.Method, URL: a.url, Host: a.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: a.body.Reader(), ContentLength: int64(len(a.body.Bytes())),
		// With it, net/http sends the request again where a kept connection turns
		// out to be dead before anything was written to it.
		GetBody: func() (io.ReadCloser, error) { return a.body.Reader(), nil },
	}
	return r.WithContext(ctx)
}
