package badger

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// trimInterval is how long pages that were written or read stay in memory.
const trimInterval = 2 * time.Second

// trim removes the pages of tables and of the value log from the memory of the process
// until ctx ends. The library maps these files into memory for reading and writing, so
// every page that was touched would count as memory of the process as long as the file
// exists.
func (s *Store) trim(ctx context.Context) {
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	var maps bytes.Buffer // reused, to avoid megabytes of garbage per minute in an idle gateway
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if readMaps(&maps) == nil {
				pageOut(maps.Bytes(), s.dir)
			}
		}
	}
}

// readMaps reads the memory mappings of this process.
func readMaps(to *bytes.Buffer) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	to.Reset()
	_, err = to.ReadFrom(f)
	return errors.Join(err, f.Close())
}

// pageOut advises the system that the mapped tables and value logs of a directory are
// not needed at the moment, and returns their number. The advice does not change
// memory, so it is harmless if a mapping has been replaced in the meantime.
func pageOut(maps []byte, dir string) (files int) {
	prefix := []byte(filepath.Clean(dir) + string(filepath.Separator))
	for line := range bytes.Lines(maps) {
		// See proc_pid_maps(5): the addresses, four words, and the path up to the end
		// of the line.
		i := bytes.Index(line, prefix)
		if i < 0 || !bytes.HasSuffix(line, []byte(".sst\n")) && !bytes.HasSuffix(line, []byte(".vlog\n")) || bytes.IndexByte(line[i+len(prefix):], filepath.Separator) >= 0 {
			continue
		}
		addresses, _, _ := bytes.Cut(line, []byte(" "))
		low, high, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(low), 16, 64)
		to, err2 := strconv.ParseUint(string(high), 16, 64)
		if err != nil || err2 != nil || to <= from {
			continue
		}
		// Kernels without this advice return an error, which can be ignored.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_PAGEOUT)
		files++
	}
	return files
}
