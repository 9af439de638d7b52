package badger

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// Reserve is how much free space, in bytes, the file system of a store must have. With
// less, writes are refused, but reads still work.
//
// The library writes through memory maps of sparse files. If the file system has no
// block left for a page, the process ends with SIGBUS. Therefore, writing stops while
// there is still enough space for everything that the store may do afterwards on its
// own: flushing a memtable (whose log is then deleted), and merging the tables of level
// 0 into the next level (whose inputs are then deleted). If nothing compresses, this
// takes 16 MiB and a little more than four times that. After that, within seconds, a
// store that is not written to leaves the disk alone, and survives even if other
// programs use up all space.
const Reserve = 128 << 20

// closeReserve is the maximum amount of free space, in bytes, that closing needs: for a
// last flush, and for a merge in progress.
const closeReserve = 64 << 20

// Space is the free space of a file system.
type Space struct {
	Free     uint64 // available to this process
	ReadOnly bool
}

// spaceLasts is how long a measured space that is ample is not measured again: asking takes as long as writing a
// small row. Rows that are not small are measured for on their own.
const spaceLasts = 50 * time.Millisecond

// lately returns measure for one directory, which is not called again for a while if there was ample space.
func lately(measure func(dir string) (Space, error), now func() time.Time) func(dir string) (Space, error) {
	type measured struct {
		Space
		at time.Time
	}
	var last atomic.Pointer[measured]
	return func(dir string) (Space, error) {
		at := now()
		if m := last.Load(); m != nil && at.Sub(m.at) < spaceLasts {
			return m.Space, nil
		}
		space, err := measure(dir)
		if err == nil && !space.ReadOnly && space.Free >= 2*Reserve+maxTx {
			last.Store(&measured{space, at})
		}
		return space, err
	}
}

// check returns an error that wraps [storage.ErrUnwritable] if the file system of dir
// has less than need bytes free.
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

// diskErrors are the errors of a system whose disk cannot be written to.
var diskErrors = []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EDQUOT}

// isDiskError reports whether the library failed because of the disk. The library
// formats causes into its messages instead of wrapping them, so this compares text.
func isDiskError(err error) bool {
	for _, errno := range diskErrors {
		if strings.Contains(err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}
