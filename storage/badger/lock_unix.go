//go:build linux || darwin || freebsd

package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/caddy-gw/gateway/storage"
)

// keepsLock says that a store that is open for writing holds the lock of lockDir itself,
// instead of the library. The library releases its lock before the state file says that
// the store was closed, so that another process would find logs missing.
const keepsLock = true

// writePID notes which process holds the lock, for the error of another.
func writePID(dir string) error {
	return os.WriteFile(filepath.Join(dir, pidFile), fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
}

// removePID removes what writePID wrote. It must be called before the lock is released.
func removePID(dir string) { _ = os.Remove(filepath.Join(dir, pidFile)) } // it is only a hint

// lockDir takes the same lock as the library, until unlock is called, which may be called
// again. It returns [storage.ErrLocked] if another process or this one has it.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, storage.ErrLocked
	}
	return nil, err
}
