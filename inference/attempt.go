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
	header   http.Header // credential included
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
	a := &attempt{
		x:        x,
		provider: p,
		url:      p.URL(x.Route.BaseURL, x.Endpoint.Upstream),
		header:   upstreamHeader(x),
		body:     x.Body(),
	}
	p.Authenticate(a.header, x.Route.Key.Reveal())
	return a
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

// request is the attempt as an HTTP request. It takes the place of the one that
// reverse_proxy made, of which only the context stays.
func (a *attempt) request(proxied *http.Request) *http.Request {
	r := *proxied
	r.Method, r.URL, r.Host, r.Header = a.x.Endpoint.Method, a.url, a.url.Host, a.header
	r.Body, r.ContentLength = a.body.Reader(), int64(len(a.body.Bytes()))
	// With it, net/http sends the request again where a kept connection turns out to
	// be dead before anything was written to it.
	r.GetBody = func() (io.ReadCloser, error) { return a.body.Reader(), nil }
	r.TransferEncoding, r.Trailer, r.Form, r.PostForm, r.MultipartForm = nil, nil, nil, nil, nil
	r.RequestURI, r.Close, r.Response = "", false, nil
	return &r
}
