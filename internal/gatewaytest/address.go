package gatewaytest

import (
	"net"
	"syscall"
	"testing"
)

// FreeAddress returns a loopback address for a Caddy to come, in this process or another
// one of the same user. Its port is taken until the test is over, where the system lets
// Caddy listen on it all the same, so that no other test gets it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, release := takePort(t, sharePort)
	if sharePort == nil {
		release()
	} else {
		t.Cleanup(release)
	}
	return address
}

// RefusingAddress returns a loopback address that refuses connections until the test is
// over.
func RefusingAddress(t testing.TB) string {
	t.Helper()
	address, release := takePort(t, nil)
	t.Cleanup(release)
	return address
}

// takePort returns the near end of a connection: its port is taken, and nothing listens
// on it.
func takePort(t testing.TB, control func(network, address string, c syscall.RawConn) error) (address string, release func()) {
	t.Helper()
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Control: control}
	near, err := dialer.DialContext(t.Context(), "tcp", far.Addr().String())
	if err != nil {
		_ = far.Close()
		t.Fatal(err)
	}
	return near.LocalAddr().String(), func() {
		_ = near.Close()
		_ = far.Close()
	}
}
