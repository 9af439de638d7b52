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

// trim takes the pages of tables and of the value log out of the process until ctx ends.
// The library maps these files into memory, also to write them, and each page that was
// touched would count as the process's for as long as the file is there.
func (s *Store) trim(ctx context.Context) {
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	var maps bytes.Buffer // kept: a gateway at rest would make megabytes of garbage a minute
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

// readMaps reads the mappings of this process.
func readMaps(to *bytes.Buffer) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	to.Reset()
	_, err = to.ReadFrom(f)
	return errors.Join(err, f.Close())
}

// pageOut advises the system that the mapped tables and value logs of a directory are not
// needed for now, and returns how many there are. The advice changes no memory, so that it
// does no harm where a mapping has ended in the meantime, and another has its place.
func pageOut(maps []byte, dir string) (files int) {
	prefix := []byte(filepath.Clean(dir) + string(filepath.Separator))
	for line := range bytes.Lines(maps) {
		// proc_pid_maps(5): the addresses, four words, and the path to the end of the line.
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
		// A kernel without this advice says so, and nothing else happens.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_PAGEOUT)
		files++
	}
	return files
}
