package badger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// Updates of any size are known to be on disk once they are confirmed.
func TestHowFarALogWasSyncedIsNoted(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	for _, values := range []int{1, 3, 28, 1, 0} {
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			for n := range values {
				if err := tx.Set(fmt.Append(nil, "key ", n), bytes.Repeat([]byte("v"), 10<<10)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ends, err := readSynced(dir)
		if err != nil {
			t.Fatal(err)
		}
		log := newestLog(t, dir)
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		n, err := number(filepath.Base(log))
		if err != nil {
			t.Fatal(err)
		}
		if end, _ := scanLog(data, func(row) {}); ends[n] != int64(end) {
			t.Errorf("after %d values: synced to %d, and the log ends at %d", values, ends[n], end)
		}
	}
}

func newestLog(t *testing.T, dir string) string {
	t.Helper()
	names, err := namesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, newest(names, ".mem"))
}

// If a crash corrupts one place, the other one is used, which requires less.
func TestASpoiltPlaceLeavesTheOther(t *testing.T) {
	dir := t.TempDir()
	s, err := openSynced(dir)
	if err != nil {
		t.Fatal(err)
	}
	for end := range int64(3) {
		if err := s.note([]stateLog{{Number: 7, End: 100 + end}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(end int64) {
		t.Helper()
		if ends, err := readSynced(dir); err != nil || ends[7] != end {
			t.Errorf("synced to %v, %v; want %d", ends, err, end)
		}
	}
	want(102)
	path := filepath.Join(dir, syncedFile)
	if err := flip(path, syncedPlace+20, 1); err != nil {
		t.Fatal(err)
	}
	want(101)
	if err := flip(path, 20, 1); err != nil {
		t.Fatal(err)
	}
	want(0)
	if err := s.close(); err != nil {
		t.Error(err)
	}
	want(0)
}

// The maximum number of logs with the longest numbers fits into a place.
func TestManyLogsFitAPlace(t *testing.T) {
	s, err := openSynced(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.last.Count = 1 << 62
	var logs []stateLog
	for n := range maxSynced {
		logs = append(logs, stateLog{Number: 1<<40 + uint64(n), End: 32 << 20})
	}
	if err := s.note(logs); err != nil {
		t.Error(err)
	}
}
