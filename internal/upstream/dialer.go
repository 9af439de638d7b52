package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

// An addressCheck decides whether an address may be dialed for host.
type addressCheck interface {
	CheckDial(host string, to netip.AddrPort) error
}

// operatorGuard allows hosts chosen by the operator to have any address but that of a cloud
// metadata service, which never serves models.
var operatorGuard addressCheck = anywhere{}

type anywhere struct{}

func (anywhere) CheckDial(host string, to netip.AddrPort) error {
	guard, err := credentials.NewHostGuard([]string{host})
	if err != nil {
		return &credentials.HostError{Why: err.Error()}
	}
	return guard.CheckDial(host, to)
}

// metadataGuard allows only the services that give a machine or a container its own credentials:
// those of AWS and Azure, of ECS, and of EKS; and that of App Service, where the environment names it.
func metadataGuard() addressCheck {
	services := identityServices{
		netip.MustParseAddrPort("169.254.169.254:80"), netip.MustParseAddrPort("169.254.170.2:80"),
		netip.MustParseAddrPort("169.254.170.23:80"), netip.MustParseAddrPort("[fd00:ec2::23]:80"),
	}
	u, err := secrets.IdentityEndpoint()
	if err != nil {
		return services
	}
	hosts := []string{u.Hostname()}
	if hosts[0] == "localhost" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		if addr, err := netip.ParseAddrPort(net.JoinHostPort(host, cmp.Or(u.Port(), "80"))); err == nil {
			services = append(services, addr)
		}
	}
	return services
}

type identityServices []netip.AddrPort

func (s identityServices) CheckDial(_ string, to netip.AddrPort) error {
	if !slices.Contains(s, netip.AddrPortFrom(to.Addr().Unmap(), to.Port())) {
		return &credentials.HostError{Why: "it is no service that gives a machine its identity"}
	}
	return nil
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// A DialError is a failure to connect: nothing was sent. Unlike Caddy's own, it can be
// unwrapped.
type DialError struct{ Err error }

func (e *DialError) Error() string { return e.Err.Error() }

func (e *DialError) Unwrap() error { return e.Err }

// newDialer returns the function that opens all connections, according to the options of
// Caddy's HTTP transport. Every address is checked after DNS, right before connecting,
// which prevents DNS rebinding.
func newDialer(t *reverseproxy.HTTPTransport, guard addressCheck) (dialFunc, error) {
	options := net.Dialer{
		Timeout:       time.Duration(t.DialTimeout),
		FallbackDelay: time.Duration(t.FallbackDelay),
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   t.KeepAlive.ProbeInterval > 0,
			Interval: time.Duration(t.KeepAlive.ProbeInterval),
		},
	}
	if t.LocalAddress != "" {
		addr, err := caddy.ParseNetworkAddressWithDefaults(t.LocalAddress, "tcp", 0)
		if err == nil {
			options.LocalAddr, err = net.ResolveTCPAddr(addr.Network, addr.JoinHostPort(0))
		}
		if err != nil {
			return nil, fmt.Errorf("transport: local_address: %w", err)
		}
	}
	if t.Resolver != nil {
		resolver, err := newResolver(t.Resolver, options.Timeout)
		if err != nil {
			return nil, err
		}
		options.Resolver = resolver
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, &DialError{err}
		}
		d := options
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return &credentials.HostError{Why: err.Error()}
			}
			return guard.CheckDial(host, to)
		}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, &DialError{err}
		}
		if t.ReadTimeout > 0 || t.WriteTimeout > 0 {
			conn = &idleConn{conn, time.Duration(t.ReadTimeout), time.Duration(t.WriteTimeout)}
		}
		return conn, nil
	}, nil
}

func newResolver(r *reverseproxy.UpstreamResolver, timeout time.Duration) (*net.Resolver, error) {
	if len(r.Addresses) == 0 {
		return nil, errors.New("transport: resolvers: no address given")
	}
	servers := make([]caddy.NetworkAddress, len(r.Addresses))
	for i, address := range r.Addresses {
		var err error
		if servers[i], err = caddy.ParseNetworkAddressWithDefaults(address, "udp", 53); err != nil {
			return nil, fmt.Errorf("transport: resolvers: %w", err)
		}
	}
	d := net.Dialer{Timeout: timeout}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		server := servers[rand.IntN(len(servers))]
		return d.DialContext(ctx, server.Network, server.JoinHostPort(0))
	}}, nil
}

// An idleConn applies a timeout to each read and write.
type idleConn struct {
	net.Conn
	read, write time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	if c.read > 0 {
		if err := c.SetReadDeadline(time.Now().Add(c.read)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

func (c *idleConn) Write(p []byte) (int, error) {
	if c.write > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}
