package badger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

func TestAnOpenStoreStopsWhereATableIsDamaged(t *testing.T) {
	dir, _ := faultStore(t, false)
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.verifyTables(t.Context())
	if err := s.Update(t.Context(), set("a", "b")); err != nil {
		t.Fatalf("with sound tables: %v", err)
	}
	table := oneTable(t, dir)
	if err := flip(table, 100, 3); err != nil {
		t.Fatal(err)
	}
	s.verifyTables(t.Context())
	for name, err := range map[string]error{
		"View":   s.View(t.Context(), func(storage.Tx) error { return nil }),
		"Update": s.Update(t.Context(), set("a", "b")),
	} {
		if !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), ".sst") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("Close: %v", err)
	}
	// Simulates the end of the process. The table is repaired, since it may be merged.
	if err := errors.Join(flip(table, 100, 3), s.db.Close()); err != nil {
		t.Error(err)
	}
}

// A page that cannot be read results in a signal to the process.
func TestAReadThatTheDiskFailsIsAnError(t *testing.T) {
	dir, _ := faultStore(t, false)
	table := oneTable(t, dir)
	err := withFile(table, -1, func(data []byte) error {
		if err := os.Truncate(table, 0); err != nil {
			return err
		}
		return guardRead([]byte("key"), func() error { return fmt.Errorf("read %d", data[0]) })
	})
	if !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "operations.md") {
		t.Errorf("reading: %v", err)
	}
}

func TestLogsThatMustBeThere(t *testing.T) {
	s := state{ManifestEnd: 100, Logs: []stateLog{{3, 50}, {4, 60}}, Next: 5, Newest: 7}
	for flushed, want := range []string{"3 4 5 6 7", "4 5 6 7", "5 6 7", "6 7", "7", "", ""} {
		m := manifest{flushes: []int64{50, 100}} // before it was opened
		for n := range flushed {
			m.flushes = append(m.flushes, int64(101+n))
		}
		var got []string
		for _, l := range s.required(m) {
			got = append(got, fmt.Sprint(l.Number))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d flushed: %v, want %s", flushed, got, want)
		}
	}
}
