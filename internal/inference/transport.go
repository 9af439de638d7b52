package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/upstream"
)

func init() {
	caddy.RegisterModule(Transport{})
	caddy.RegisterModule(Upstreams{})
}

// Transport sends the attempts of gw_inference upstream. It takes the options of
// Caddy's HTTP transport, with other defaults where models need them: no
// compression (answers are read as they pass) and 256 idle connections a host.
//
// It keeps two pools of connections: one for hosts that the operator chose, and one
// for hosts that callers and tenants chose, so that no request of theirs is ever
// sent over a connection to a host that they may not reach. Addresses are checked
// when they are dialed, after DNS. Options that would bypass the check (proxy
// protocol, HTTP/3) are refused; a proxy is used for the operator's hosts only.
type Transport struct {
	reverseproxy.HTTPTransport

	guard *credentials.HostGuard
	pools upstream.Pools
}

// CaddyModule returns the Caddy module information.
func (Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.gw",
		New: func() caddy.Module { return new(Transport) },
	}
}

// Pools returns the connection pools, once they are built.
func (t *Transport) Pools() upstream.Pools { return t.pools }

// Guarded sets the guard of custom hosts; call it before Provision.
func (t *Transport) Guarded(g *credentials.HostGuard) { t.guard = g }

const (
	idleConnsPerHost = 256
	idleConnTimeout  = 90 * time.Second
)

// Provision builds the connection pools.
func (t *Transport) Provision(ctx caddy.Context) error {
	if t.ProxyProtocol != "" {
		return errors.New("transport: proxy_protocol is of no use toward a model provider and not supported")
	}
	for _, v := range t.Versions {
		switch v {
		case "1.1", "2", "h2c":
		case "3":
			return errors.New("transport: HTTP/3 is not supported; its connections would not pass the address guard")
		default:
			return fmt.Errorf("transport: versions: expected 1.1, 2 or h2c, got %q", v)
		}
	}
	if len(t.Versions) == 0 {
		t.Versions = []string{"1.1", "2"} // the default of Caddy's own transport
	}
	if t.KeepAlive == nil {
		t.KeepAlive = new(reverseproxy.KeepAlive)
	}
	if t.KeepAlive.MaxIdleConnsPerHost == 0 {
		t.KeepAlive.MaxIdleConnsPerHost = idleConnsPerHost
	}
	if t.KeepAlive.IdleConnTimeout == 0 {
		t.KeepAlive.IdleConnTimeout = caddy.Duration(idleConnTimeout)
	}
	if t.Compression == nil {
		off := false
		t.Compression = &off
	}
	var err error
	t.pools, err = upstream.NewPools(ctx, &t.HTTPTransport, t.guard)
	return err
}

// Cleanup retires the pools; requests under way finish on their connections.
func (t *Transport) Cleanup() error {
	t.pools.Retire()
	return nil
}

// RoundTrip makes the round trip in the context of req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	rt, err := roundTripOf(req.Context())
	if err != nil {
		return nil, err
	}
	if res := rt.held; res != nil { // it has failed before, and nothing follows
		rt.held = nil
		if err := rt.storeWithheld(); err != nil {
			res.Body.Close()
			return nil, rt.attemptFailed(err)
		}
		rt.answered(res)
		return res, nil
	}
	if rt.estimate != nil {
		res := rt.estimated()
		rt.answered(res)
		return res, nil
	}
	pool := t.pools.Of(rt.target.Route)
	rt.maxHeader = pool.MaxResponseHeaderBytes
	ctx := rt.timing.limit(req.Context())
	rt.untraced.Context = ctx
	out := rt.http(&rt.untraced)
	pool.Mark(out.Header)
	if rt.body == nil && rt.x.Body.PassesThrough() {
		out.Body = &uploading{out.Body, rt.timing.headerDeadline()}
	}
	res, err := rt.send(pool, out)
	if err == nil {
		res, err = rt.follow(pool, out, res, rt.timing.headerDeadline())
	}
	if err == nil {
		res = rt.withoutTrailers(res)
		rt.attempt.ProviderStatus = res.StatusCode
		rt.timing.limitReads(res, rt.readsAhead())
		rt.timing.guardStalls(res, rt.x.Body.PassesThrough())
		if rt.timing.limits.answer == 0 { // the body may take its time
			rt.timing.deadline.lift()
		}
		if why := refuseStatus(res, req); why != "" {
			res.Body.Close()
			err = answerError(why)
		} else if rt.timing.limits.answer > 0 && res.StatusCode != http.StatusSwitchingProtocols {
			res.Body = &bodyWithDeadline{res.Body, rt.timing.deadline}
		}
		if err == nil {
			err = rt.translate(res)
		}
		if err == nil {
			err = rt.inspect(req.Context(), res)
		}
		if err == nil && rt.timing.passed() != nil {
			res.Body.Close()
			err = rt.timing.passed()
		}
	}
	if err != nil {
		tooSlow := rt.timing.passed()
		rt.attempt.Abandoned = rt.abandoned(err, tooSlow != nil || req.Context().Err() != nil)
		if tooSlow != nil && rt.held != nil { // an answer that broke off cannot be held
			rt.held.Body.Close()
			rt.held = nil
		}
		rt.timing.deadline.lift()
		if rt.held == nil {
			rt.timing.deadline.end()
		}
		switch {
		case rt.x.Body.Stalled() != nil:
			err = rt.x.Body.Stalled()
		case tooSlow != nil:
			err = tooSlow
		case req.Context().Err() != nil:
			return nil, req.Context().Err()
		}
		return nil, rt.attemptFailed(err)
	}
	rt.timing.deadline.lift()
	rt.answered(res)
	return res, nil
}

// abandoned reports whether a provider may have worked on a request that failed: it was given up, or
// its answer began well and did not go on.
func (rt *roundTrip) abandoned(err error, givenUp bool) bool {
	if errors.As(err, new(*upstream.DialError)) {
		return false
	}
	succeeded := rt.attempt.ProviderStatus >= 200 && rt.attempt.ProviderStatus < 300
	return givenUp || succeeded && (errors.As(err, new(incompleteError)) || errors.As(err, new(answerError)))
}

// estimated is an answer that the gateway gives itself.
func (rt *roundTrip) estimated() *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(rt.estimate)), ContentLength: int64(len(rt.estimate)),
	}
}

// An untraced context hides the hooks by which reverse_proxy passes informational answers on.
// These are not for clients, and could forge the gateway's headers.
type untraced struct{ context.Context }

func (u *untraced) Value(key any) any {
	v := u.Context.Value(key)
	if _, hooks := v.(*httptrace.ClientTrace); hooks {
		return nil
	}
	return v
}

// withoutTrailers returns an answer without its trailers, which would bypass all checks. They are
// set on the original at the end of the body.
func (rt *roundTrip) withoutTrailers(res *http.Response) *http.Response {
	rt.passes = *res
	rt.passes.Trailer = nil
	delete(rt.passes.Header, "Trailer")
	return &rt.passes
}

// refuseStatus returns why an answer cannot be passed on. A client would follow a redirect with its
// service key to wherever the provider, or a tenant's own host, points.
func refuseStatus(res *http.Response, req *http.Request) string {
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols && !exchange.UpgradesToWebSocket(req.Header):
		return "the provider switched protocols unasked"
	case res.StatusCode >= 300 && res.StatusCode < 400 && res.StatusCode != http.StatusNotModified:
		return "the provider answered with a redirect, " + statusOf(res.StatusCode) + ", which is not followed"
	}
	return ""
}

// An answerError is why a provider's answer cannot be passed on.
type answerError string

func (e answerError) Error() string { return string(e) }

// An attemptError is a failure of an attempt before its commit point. It hides its cause from
// errors.Is(err, context.Canceled), by which reverse_proxy recognizes a client that left.
type attemptError struct {
	cause error
	text  string // without credentials
}

func (rt *roundTrip) attemptFailed(cause error) *attemptError {
	return &attemptError{cause, rt.mask(true).Text(cause.Error())}
}

func (e *attemptError) Error() string { return e.text }

func (e *attemptError) Timeout() bool {
	var timeout net.Error
	return errors.As(e.cause, &timeout) && timeout.Timeout()
}

func (e *attemptError) Temporary() bool { return false }

func (e *attemptError) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.cause, target)
}

func (e *attemptError) As(target any) bool {
	if _, ok := target.(**attemptError); ok {
		return false // found already
	}
	return errors.As(e.cause, target)
}

// Upstreams names the upstream of the attempt in a request's context. The gw
// transport dials by the attempt itself; this is what Caddy's logs and placeholders
// show, so callers' hosts, which could be any number, share one name.
type Upstreams struct{}

// CaddyModule returns the Caddy module information.
func (Upstreams) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.upstreams.gw",
		New: func() caddy.Module { return new(Upstreams) },
	}
}

// GetUpstreams returns a fresh value each time: reverse_proxy writes to it.
func (Upstreams) GetUpstreams(r *http.Request) ([]*reverseproxy.Upstream, error) {
	rt, err := roundTripOf(r.Context())
	if err != nil {
		return nil, err
	}
	if rt.target.Route.CustomHost {
		return upstreamAt("custom-host:443"), nil
	}
	port := rt.url.Port()
	switch {
	case port != "":
	case rt.url.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return upstreamAt(net.JoinHostPort(rt.url.Hostname(), port)), nil
}

func upstreamAt(address string) []*reverseproxy.Upstream {
	one := &struct { // one allocation for both
		upstream reverseproxy.Upstream
		list     [1]*reverseproxy.Upstream
	}{upstream: reverseproxy.Upstream{Dial: address}}
	one.list[0] = &one.upstream
	return one.list[:]
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	dynamic gw
func (*Upstreams) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(0) {
		return d.Errf("unrecognized subdirective %q", d.Val())
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Transport)(nil)
	_ caddy.CleanerUpper          = (*Transport)(nil)
	_ http.RoundTripper           = (*Transport)(nil)
	_ caddyfile.Unmarshaler       = (*Transport)(nil)
	_ net.Error                   = (*attemptError)(nil)
	_ reverseproxy.UpstreamSource = (*Upstreams)(nil)
	_ caddyfile.Unmarshaler       = (*Upstreams)(nil)
)
