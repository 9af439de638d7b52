//go:build !linux && !darwin

package gatewaytest

import "syscall"

// sharePort is nil: the ports of Caddy's listeners are not shared here.
var sharePort func(network, address string, c syscall.RawConn) error
