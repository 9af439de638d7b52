package gatewaytest

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// refused fails the test unless nothing answers at an address.
func refused(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing %s: %v", address, err)
	}
}

// taken fails the test if somebody else can listen on an address.
func taken(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err == nil {
		l.Close()
		t.Errorf("%s is not taken", address)
	}
}

func TestARefusingAddressStaysRefusing(t *testing.T) {
	address := RefusingAddress(t)
	refused(t, address)
	taken(t, address)
}

func TestAFreeAddressIsCaddysAlone(t *testing.T) {
	address := FreeAddress(t)
	refused(t, address)
	if sharePort != nil {
		taken(t, address)
	}
	at, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := at.Listen(t.Context(), 0, net.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return l.(net.Listener)
	}
	// A configuration, and the one that replaces it.
	first, second := listen(), listen()
	defer second.Close()
	first.Close()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
