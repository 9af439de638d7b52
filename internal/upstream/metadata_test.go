package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-gw/gateway/credentials"
)

// The services that give a machine its identity are reached by what is for them, and by nothing else;
// and what is for them reaches nothing else.
func TestOnlyWhatIsForItReachesTheMetadataService(t *testing.T) {
	plain, err := credentials.NewHostGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	for address, service := range map[string]bool{
		"169.254.169.254:80": true, "169.254.170.2:80": true, "169.254.170.23:80": true, "[fd00:ec2::23]:80": true, "[::ffff:169.254.169.254]:80": true,
		"169.254.169.254:443": false, "169.254.169.253:80": false, "127.0.0.1:80": false, "10.0.0.1:80": false, "93.184.215.14:80": false, "[::1]:80": false, "[::]:80": false,
		"[64:ff9b::a9fe:a9fe]:80": false,
	} {
		to := netip.MustParseAddrPort(address)
		var host *credentials.HostError
		if err := metadataGuard().CheckDial("", to); (err == nil) != service || err != nil && !errors.As(err, &host) {
			t.Errorf("%s: %v", address, err)
		}
		if service && (operatorGuard.CheckDial("h.example.com", to) == nil || plain.CheckDial("h.example.com", to) == nil) {
			t.Errorf("%s is reached by others", address)
		}
	}
}

// The clients of secret managers have pools of their own kind, none of which follows redirects; that
// of the metadata service uses no proxy.
func TestTheClientOfTheMetadataServiceReachesNothingElse(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	pools, err := NewPools(ctx, &reverseproxy.HTTPTransport{DialTimeout: caddy.Duration(time.Second)}, new(credentials.HostGuard))
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Retire()
	if pools.Metadata.Proxy != nil {
		t.Error("a proxy is asked")
	}
	proxied, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	pools.Operator.Proxy = http.ProxyURL(proxied)
	c := NewClient(pools, Options{}).SecretClients(t.Context(), "aws_sm").Metadata
	var host *credentials.HostError
	for _, address := range []string{server.URL, "http://localhost:" + proxied.Port(), "http://" + net.JoinHostPort("0.0.0.0", proxied.Port())} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(r)
		if err == nil {
			res.Body.Close()
		}
		if !errors.As(err, &host) || reached {
			t.Errorf("%s: %v", address, err)
		}
	}
}
