//go:build linux || darwin || freebsd

package badger

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caddy-gw/gateway/storage"
)

// lockDir takes the same lock as the library, until unlock is called. It returns
// [storage.ErrLocked] if another process or this one has it.
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
