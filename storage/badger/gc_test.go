package badger

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/race"
	"github.com/caddy-gw/gateway/storage"
)

func valueLogs(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// waitForLogs waits until there are at most this many files of the value log.
func waitForLogs(t *testing.T, dir string, most int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); valueLogs(t, dir) > most; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are left, want at most %d", valueLogs(t, dir), most)
		}
	}
}

// setLarge writes a value that fills a file of a value log whose files are of this size.
func setLarge(t *testing.T, s *Store, key string) {
	t.Helper()
	if err := s.Write(t.Context(), func(tx storage.Tx) error { return tx.Set([]byte(key), make([]byte, s.opts.valueLogSize)) }); err != nil {
		t.Fatal(err)
	}
}

// skipCollection skips a test that collects garbage while values are written, under the race detector. The
// library's collection reads a memtable's highest version without synchronization (MaxVersion in v4.9.6): an older
// one makes it keep more.
func skipCollection(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("the library's collection races with writing, harmlessly")
	}
}

// What large values take on the disk is bounded by what is still stored of them, however often they are
// replaced, without waiting for an interval.
func TestReplacedValuesLeaveTheDisk(t *testing.T) {
	skipCollection(t)
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, Options{valueLogSize: 1 << 20})
	const rows = 24
	for i := range rows {
		setLarge(t, s, fmt.Sprint("row ", i%2))
	}
	waitForLogs(t, dir, 10)
}

// A disk that garbage has filled is written to again once the garbage is removed.
func TestGarbageIsRemovedFromAFullDisk(t *testing.T) {
	skipCollection(t)
	t.Parallel()
	dir := t.TempDir()
	d := newDisk()
	s := openTest(t, dir, Options{valueLogSize: 1 << 20, Space: d.measure})
	s.gc.volume = 1 << 40 // it is not collected before
	for range 20 {
		setLarge(t, s, "row")
	}
	if n := valueLogs(t, dir); n < 20 {
		t.Fatalf("%d files", n)
	}
	d.set(Space{Free: closeReserve})
	if err := s.Writable(); err == nil {
		t.Fatal("the disk is not full")
	}
	waitForLogs(t, dir, 4)
}
