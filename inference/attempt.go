// Package inference is the data plane: it makes the attempts of a call, forwards
// them through Caddy's reverse proxy and watches the answers as they pass.
package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/exchange"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/routing"
)

// An attempt is one try to get a call answered: an upstream request, and what came
// of it. It travels in the context of the request that reverse_proxy forwards.
type attempt struct {
	x        *exchange.Exchange
	route    *credentials.Route
	provider *providers.Provider
	url      *url.URL
	header   http.Header // credential included
	body     *exchange.Buffer
	timeout  time.Duration // until the answer begins; 0: none
	idle     time.Duration // that a stream may be silent after that; 0: for ever
	// tentative: another attempt may follow, so a failure comes back instead of
	// going to the client.
	tentative bool

	// held is the answer of a tentative attempt that failed. It goes to the client
	// when nothing follows: the attempt is then run again, and answers with it.
	held *http.Response
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

// newAttempt shapes the upstream request of a call for one target. body, which may
// be nil, is the caller's reference. The caller calls close when the attempt is over.
func newAttempt(x *exchange.Exchange, route *credentials.Route, body *exchange.Buffer, t *routing.Target) *attempt {
	p, ok := providers.Lookup(route.Dialect)
	if !ok {
		panic("route to the unknown dialect " + route.Dialect) // the router made it from the same table
	}
	a := &attempt{x: x, route: route, provider: p, url: p.URL(route.BaseURL, x.Path, x.Query), body: body}
	a.header = upstreamHeader(x, route, slices.Concat(x.ForwardHeaders, t.ForwardHeaders))
	for setting, name := range providers.Vendor[p.Name] {
		if v := vendor(x, route, t, setting); v != "" {
			a.header[name] = []string{v}
		}
	}
	p.Authenticate(a.header, route.Key.Reveal())
	return a
}

// vendor is the value of a provider's setting: the config's, or where the credential
// is the caller's own, that of its header.
func vendor(x *exchange.Exchange, route *credentials.Route, t *routing.Target, setting string) string {
	for _, s := range t.Vendor {
		if s.Name == setting {
			return s.Value.Reveal()
		}
	}
	if !route.Inline {
		return ""
	}
	name := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(setting, "_", "-"))
	v, _ := x.Gateway.Headers.Get(x.Header(), name)
	return v
}

// close gives back what the attempt holds.
func (a *attempt) close() {
	if a.held != nil {
		// A little is read, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, a.held.Body, maxDrained)
		a.held.Body.Close()
		a.held = nil
	}
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
}

const maxDrained = 64 << 10

// upstreamHeader builds the headers of an upstream request from an allow-list; it
// never filters the client's down. forward names what a config adds to the list.
func upstreamHeader(x *exchange.Exchange, route *credentials.Route, forward []string) http.Header {
	client := x.Header()
	h := make(http.Header, len(providers.Forwarded)+len(route.Header)+2)
	h["User-Agent"] = []string{""} // none, rather than Go's
	lists := [...][]string{providers.Forwarded, forward, nil, nil}
	if route.Inline {
		lists[2] = providers.ForwardedInline
	}
	if websocket(client) {
		lists[3] = providers.ForwardedWebSocket
	}
	for _, list := range lists {
		for _, name := range list {
			if v := client[name]; len(v) == 1 && v[0] != "" || len(v) > 1 && name != "Content-Type" {
				h[name] = v
			}
		}
	}
	if h["Content-Type"] == nil && x.HasJSON() {
		h["Content-Type"] = []string{"application/json"}
	}
	if offered, ok := h["Sec-Websocket-Protocol"]; ok {
		h["Sec-Websocket-Protocol"] = []string{strings.Join(exchange.WithoutKeys(offered), ", ")}
	}
	for name, v := range route.Header {
		h[name] = v
	}
	if route.CallerHost {
		// Caddy's admin endpoint takes a request with this header, and without an
		// origin that it knows, for one that was forged, and refuses it: a caller's
		// host that the operator trusts must not lead there, on whatever port it is.
		h["Sec-Fetch-Mode"] = []string{"no-cors"}
	}
	return h
}

// websocket reports whether a request asks to become a WebSocket.
func websocket(h http.Header) bool {
	return strings.EqualFold(h.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade")
}

// request is the attempt as an HTTP request. It takes the place of the one that
// reverse_proxy made, of which only the context stays.
func (a *attempt) request(proxied *http.Request) *http.Request {
	r := *proxied
	r.Method, r.URL, r.Host, r.Header = a.x.Method(), a.url, a.url.Host, a.header
	r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	r.TransferEncoding, r.Trailer, r.Form, r.PostForm, r.MultipartForm = nil, nil, nil, nil, nil
	r.RequestURI, r.Close, r.Response = "", false, nil
	switch {
	case a.body != nil:
		r.Body, r.ContentLength = a.body.Reader(), int64(len(a.body.Bytes()))
		// With it, net/http sends the request again where a kept connection turns
		// out to be dead before anything was written to it.
		r.GetBody = func() (io.ReadCloser, error) { return a.body.Reader(), nil }
	case a.x.PassesThrough():
		r.Body, r.ContentLength = a.x.Upload()
	}
	return &r
}
