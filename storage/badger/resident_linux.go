package badger

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	trimInterval = 2 * time.Second       // how long pages that were written or read stay in memory
	trimLook     = 50 * time.Millisecond // how often their number is looked at
	trimGrowth   = 4 << 20               // bytes of pages more than after the last trim that are not left until its interval ends
)

// trim removes the pages of tables and of the value log from the memory of the process
// until ctx ends. The library maps these files into memory for reading and writing, so
// every page that was touched would count as memory of the process as long as the file
// exists. A compaction may read and write all tables within a second, which is why the
// pages are not only removed after an interval but also when there are more of them.
func (s *Store) trim(ctx context.Context) {
	// Reading it again does not need to open it, so that looking costs a few microseconds.
	statm, err := os.Open("/proc/self/statm")
	if err != nil {
		s.opts.Logger.Warn("the memory of mapped tables cannot be observed, so they stay in memory", zap.Error(err))
		return
	}
	defer statm.Close()
	tick := time.NewTicker(trimLook)
	defer tick.Stop()
	var maps bytes.Buffer // reused, to avoid megabytes of garbage per minute in an idle gateway
	last := trimmed{at: time.Now(), left: math.MaxInt64}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		mapped, err := fileMemory(statm)
		if err == nil && !last.due(time.Now(), mapped) {
			continue
		}
		if readMaps(&maps) == nil {
			pageOut(maps.Bytes(), s.dir)
		}
		if mapped, err = fileMemory(statm); err != nil {
			mapped = math.MaxInt64
		}
		last = trimmed{at: time.Now(), left: mapped}
	}
}

// trimmed is when pages were last removed, and how many bytes of mapped files were left.
type trimmed struct {
	at   time.Time
	left int64
}

// due reports whether pages are to be removed again when mapped bytes are in memory.
func (t *trimmed) due(now time.Time, mapped int64) bool {
	t.left = min(t.left, mapped) // others give memory back, too
	return mapped-t.left >= trimGrowth || now.Sub(t.at) >= trimInterval
}

// fileMemory returns how many bytes of mapped files are in the memory of this process. The
// format is that of /proc/<pid>/statm (see proc_pid_statm(5)).
func fileMemory(statm *os.File) (int64, error) {
	var b [128]byte
	n, err := statm.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	fields := bytes.Fields(b[:n])
	if len(fields) < 3 {
		return 0, io.ErrUnexpectedEOF
	}
	pages, err := strconv.ParseInt(string(fields[2]), 10, 64)
	return pages * int64(os.Getpagesize()), err
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
