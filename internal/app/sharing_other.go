//go:build !linux

package app

// sharedWith reports whether another process listens on a TCP port, which the system refuses
// here, or does not report it.
func sharedWith(uint16) bool { return false }
