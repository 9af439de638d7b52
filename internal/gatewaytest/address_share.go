//go:build linux || darwin

package gatewaytest

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets a socket share its port with Caddy's listeners, which set the same option.
var sharePort = func(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, set)
}
