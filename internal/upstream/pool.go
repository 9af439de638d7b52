// Package upstream connects the gateway to other services: guarded pools of connections,
// tokens of logins, and the [Client] for the gateway's own calls. It does not depend on the
// calls of clients.
package upstream

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-gw/gateway/credentials"
)

const (
	handshakeTimeout = 10 * time.Second // of TLS
	pingAfter        = 15 * time.Second // without data on an HTTP/2 connection
	pingTimeout      = 15 * time.Second
	// maxResponseHeader is more than any provider needs, and less than clients accept.
	maxResponseHeader = 256 << 10
)

// Pools are separate pools of connections: one for hosts that the operator chose, one for hosts
// that callers and tenants chose, and one for the services that give the machine its identity,
// which the others never reach.
type Pools struct {
	Operator *Pool
	Public   *Pool
	Metadata *Pool
}

// NewPools creates the pools with the options of Caddy's HTTP transport. guard checks the
// addresses of hosts that the operator did not choose.
func NewPools(ctx caddy.Context, t *reverseproxy.HTTPTransport, guard *credentials.HostGuard) (p Pools, err error) {
	if p.Operator, err = newPool(ctx, t, operatorGuard); err != nil {
		return Pools{}, err
	}
	if p.Public, err = newPool(ctx, t, guard); err != nil {
		return Pools{}, err
	}
	// With a proxy, only the proxy's address would be checked.
	p.Public.Proxy, p.Public.public = nil, true
	if p.Metadata, err = newPool(ctx, t, metadataGuard()); err != nil {
		return Pools{}, err
	}
	p.Metadata.Proxy, p.Metadata.DisableKeepAlives = nil, true
	return p, nil
}

// Of returns the pool for a route.
func (p Pools) Of(route *credentials.Route) *Pool { return p.of(route.CustomHost) }

func (p Pools) of(public bool) *Pool {
	if public {
		return p.Public
	}
	return p.Operator
}

// Retire stops keeping idle connections. Requests that are under way finish.
func (p Pools) Retire() {
	for _, pool := range []*Pool{p.Operator, p.Public, p.Metadata} {
		if pool != nil {
			pool.retire()
		}
	}
}

// newPool creates a pool whose addresses are checked by guard.
func newPool(ctx caddy.Context, t *reverseproxy.HTTPTransport, guard addressCheck) (*Pool, error) {
	transport, err := t.NewTransport(ctx)
	if err != nil {
		return nil, err
	}
	dial, err := newDialer(t, guard)
	if err != nil {
		return nil, err
	}
	transport.DialContext = dial
	if transport.TLSHandshakeTimeout == 0 {
		transport.TLSHandshakeTimeout = handshakeTimeout
	}
	if transport.MaxResponseHeaderBytes == 0 {
		transport.MaxResponseHeaderBytes = maxResponseHeader
	}
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return &Pool{Transport: transport}, nil
}

// A Pool is a pool of connections. Calls that outlive their configuration keep using it
// after it was retired.
type Pool struct {
	*http.Transport
	retired atomic.Bool
	public  bool // for hosts that the operator did not choose
}

// RoundTrip sends a request. Each request makes the transport keep connections again, so
// that in a retired pool each has to undo that at its end. The last one leaves no
// connection behind.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.public && !marked(r.Header) {
		own := *r
		own.Header = r.Header.Clone()
		p.Mark(own.Header)
		r = &own
	}
	res, err := p.Transport.RoundTrip(r)
	switch {
	case err != nil:
		p.settle()
	case res.StatusCode == http.StatusSwitchingProtocols: // the connection is its body
	case res.Body == http.NoBody:
		p.settle()
	default:
		res.Body = &pooledBody{res.Body, p}
	}
	return res, err
}

// Mark marks the header of a request as one that Caddy's admin endpoint refuses, if the pool is for
// hosts that the operator did not choose. RoundTrip marks a copy otherwise.
//
// The endpoint regards a request with this header, and without a known origin, as forged. So neither
// a call nor a login can reach it, on any port, through a host that the operator trusts.
func (p *Pool) Mark(h http.Header) {
	if p.public {
		h[markName] = mark
	}
}

const markName = "Sec-Fetch-Mode"

var mark = []string{"no-cors"}

func marked(h http.Header) bool {
	values := h[markName]
	return len(values) == 1 && values[0] == mark[0]
}

// settle closes the idle connections of a retired pool; the others are closed when they
// become idle.
func (p *Pool) settle() {
	if p.retired.Load() {
		p.CloseIdleConnections()
	}
}

// retire stops keeping idle connections.
func (p *Pool) retire() {
	p.retired.Store(true)
	p.settle()
}

// A pooledBody is the body of an answer on a connection of a pool.
type pooledBody struct {
	io.ReadCloser
	pool *Pool
}

func (b *pooledBody) Close() error {
	err := b.ReadCloser.Close()
	b.pool.settle()
	return err
}
