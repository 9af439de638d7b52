package badger

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/caddy-gw/gateway/storage"
)

// Reserve is the free space, in bytes, that the file system of a store keeps:
// with less, writes are refused and reads go on.
//
// The library writes through memory maps of sparse files, and a page that the
// file system has no block for ends the process with SIGBUS. So writing stops
// while there is room for all that a stopped store may still do on its own:
// flush a memtable (whose log is deleted afterwards), and merge the tables of
// level 0 into the next (whose inputs are deleted afterwards). When nothing
// compresses, these are 16 MiB and four times that with a few more. When it is
// done, within seconds, a store that is not written to touches the disk no
// more, and stays alive even if others take the last byte.
const Reserve = 128 << 20

// closeReserve is the free space, in bytes, that closing takes at most: a last
// flush, beside the merge that may be running.
const closeReserve = 64 << 20

// Space is what a file system has left.
type Space struct {
	Free     uint64 // bytes that this process may still use
	ReadOnly bool
}

// check returns an error that wraps [storage.ErrUnwritable] if the file system
// of dir does not have need bytes free.
func (o Options) check(dir string, need int) error {
	space, err := o.Space(dir)
	switch {
	case err != nil:
		return fmt.Errorf("%w: asking for the free space of %s: %w", storage.ErrUnwritable, dir, err)
	case space.ReadOnly:
		return fmt.Errorf("%w: the file system of %s is read-only; mount it for writing", storage.ErrUnwritable, dir)
	case space.Free < uint64(need):
		return fmt.Errorf("%w: the file system of %s has %d bytes free, and must have %d; delete something or enlarge it",
			storage.ErrUnwritable, dir, space.Free, need)
	}
	return nil
}

// diskErrors are what the system says when a disk takes nothing.
var diskErrors = []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EDQUOT}

// isDiskError reports whether the library failed for the disk. It formats the
// causes into its messages instead of wrapping them, so this is about text.
func isDiskError(err error) bool {
	for _, errno := range diskErrors {
		if strings.Contains(err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}
