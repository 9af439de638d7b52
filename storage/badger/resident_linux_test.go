package badger

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-gw/gateway/storage"
)

// resident returns how much of a directory's mapped tables and value logs is in memory,
// in KiB.
func resident(t *testing.T, dir string) (kib int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	counted := false
	for line := range strings.Lines(string(smaps)) {
		switch fields := strings.Fields(line); {
		case len(fields) > 4 && !strings.HasSuffix(fields[0], ":"):
			counted = strings.Contains(line, dir+"/") && (strings.HasSuffix(line, ".sst\n") || strings.HasSuffix(line, ".vlog\n"))
		case counted && fields[0] == "Rss:":
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

func TestTablesLeaveMemory(t *testing.T) { leavesMemory(t, 80<<10) }

func TestValueLogLeavesMemory(t *testing.T) { leavesMemory(t, 200<<10) }

// leavesMemory reads 24 MB that were written in rows of the given size.
func leavesMemory(t *testing.T, size int) {
	t.Helper()
	rows := 24 << 20 / size
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skip("the files are in memory anyway")
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	row := make([]byte, size)
	_, _ = rand.Read(row)
	for i := range rows {
		if err := s.Write(context.Background(), func(tx storage.Tx) error { return tx.Set(fmt.Appendf(nil, "r/%04d", i), row) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.stop() // else the store's own trimming may be first
	s.trimmer.Wait()
	read := func() {
		t.Helper()
		if err := s.View(context.Background(), func(tx storage.Tx) error {
			for i := range rows {
				if got, err := tx.Get(fmt.Appendf(nil, "r/%04d", i)); err != nil || !bytes.Equal(got, row) {
					return fmt.Errorf("row %d is not what was written: %w", i, err)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	before := resident(t, dir)
	if before < 10<<10 {
		t.Fatalf("%d KiB are in memory after reading 24 MB", before)
	}
	unix.Sync() // unwritten pages stay in memory
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if n := pageOut(maps, dir); n == 0 {
		t.Fatal("no files are found")
	}
	if after := resident(t, dir); after > before/4 {
		t.Errorf("%d of %d KiB stay in memory", after, before)
	}
	read()
	if n := pageOut(maps, filepath.Dir(dir)); n != 0 {
		t.Errorf("%d files of another directory", n)
	}
}

func TestPagesAreRemovedWhenThereAreMore(t *testing.T) {
	start := time.Unix(1000, 0)
	last := trimmed{at: start, left: 60 << 20}
	for _, step := range []struct {
		after  time.Duration
		mapped int64
		due    bool
	}{
		{50 * time.Millisecond, 60 << 20, false},
		{100 * time.Millisecond, 60<<20 + trimGrowth - 1, false},
		{150 * time.Millisecond, 60<<20 + trimGrowth, true},
		{200 * time.Millisecond, 30 << 20, false}, // the program's own pages were removed
		{250 * time.Millisecond, 30<<20 + trimGrowth, true},
		{trimInterval - 1, 30 << 20, false},
		{trimInterval, 30 << 20, true},
	} {
		if due := last.due(start.Add(step.after), step.mapped); due != step.due {
			t.Errorf("after %v with %d bytes: %v, want %v", step.after, step.mapped, due, step.due)
		}
	}
}

func TestFileMemoryIsThatOfTheProcess(t *testing.T) {
	statm, err := os.Open("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	defer statm.Close()
	before, err := fileMemory(statm)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "file")
	const size = 64 << 20
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pages, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(pages) }()
	if after, err := fileMemory(statm); err != nil || after-before < size/2 {
		t.Errorf("%d bytes more after %d were mapped: %v", after-before, size, err)
	}
}
