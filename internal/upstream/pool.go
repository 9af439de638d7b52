// Package upstream is how the gateway reaches other services: guarded pools of
// connections, the tokens of logins, and the [Client] of the gateway's own calls. It
// knows nothing of the calls that callers make.
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
	pingAfter        = 15 * time.Second // of silence on an HTTP/2 connection
	pingTimeout      = 15 * time.Second
	// maxResponseHeader is more than any provider needs, and what clients still take.
	maxResponseHeader = 256 << 10
)

// Pools are two pools of connections that share none: one for hosts that the operator
// chose, and one for hosts that callers and tenants chose.
type Pools struct {
	Operator *Pool
	Public   *Pool
}

// NewPools makes the pools, with the options of Caddy's HTTP transport. guard checks the
// addresses of hosts that the operator did not choose.
func NewPools(ctx caddy.Context, t *reverseproxy.HTTPTransport, guard *credentials.HostGuard) (p Pools, err error) {
	if p.Operator, err = newPool(ctx, t, operatorGuard); err != nil {
		return Pools{}, err
	}
	if p.Public, err = newPool(ctx, t, guard); err != nil {
		return Pools{}, err
	}
	// Through a proxy the address check would see the proxy's address alone.
	p.Public.Proxy, p.Public.public = nil, true
	return p, nil
}

// Of is the pool whose connections a route may use.
func (p Pools) Of(route *credentials.Route) *Pool { return p.of(route.CustomHost) }

func (p Pools) of(public bool) *Pool {
	if public {
		return p.Public
	}
	return p.Operator
}

// Retire has no connection be kept any more; requests under way finish on theirs.
func (p Pools) Retire() {
	for _, pool := range []*Pool{p.Operator, p.Public} {
		if pool != nil {
			pool.retire()
		}
	}
}

// newPool makes one pool, whose addresses guard checks.
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

// A Pool is a pool of connections. Calls that outlive their configuration go on using it
// after it was retired.
type Pool struct {
	*http.Transport
	retired atomic.Bool
	public  bool // for hosts that the operator did not choose
}

// RoundTrip sends a request. Each one makes a transport keep connections again, so that
// in a retired pool each has to undo that when it is over: the last one leaves no
// connection behind.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.public {
		// Caddy's admin endpoint takes a request with this header, and without an
		// origin that it knows, for one that was forged, and refuses it: a host that
		// the operator trusts must not lead there, on whatever port it is, by a call
		// nor by a login.
		marked := *r
		marked.Header = r.Header.Clone()
		marked.Header["Sec-Fetch-Mode"] = []string{"no-cors"}
		r = &marked
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

// settle closes the connections of a retired pool that are idle, and has it close the others
// when they become so.
func (p *Pool) settle() {
	if p.retired.Load() {
		p.CloseIdleConnections()
	}
}

// retire has no connection of the pool be kept any more.
func (p *Pool) retire() {
	p.retired.Store(true)
	p.settle()
}

// A pooledBody is an answer over a connection of a pool.
type pooledBody struct {
	io.ReadCloser
	pool *Pool
}

func (b *pooledBody) Close() error {
	err := b.ReadCloser.Close()
	b.pool.settle()
	return err
}
