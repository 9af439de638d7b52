//go:build !linux && !darwin && !freebsd

package badger

// keepsLock: the library holds its own lock.
const keepsLock = false

func writePID(string) error { return nil }

func removePID(string) {}

// lockDir does nothing, because the library uses another kind of lock on this system.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }
