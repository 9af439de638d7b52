package badger

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// A disk implements Options.Space.
type disk struct {
	space atomic.Pointer[Space]
	err   atomic.Pointer[error]
}

func newDisk() *disk {
	d := new(disk)
	d.set(Space{Free: 1 << 40})
	return d
}

func (d *disk) set(s Space) { d.space.Store(&s) }

func (d *disk) measure(string) (Space, error) {
	if err := d.err.Load(); err != nil {
		return Space{}, *err
	}
	return *d.space.Load(), nil
}

func set(key, value string) func(storage.Tx) error {
	return func(tx storage.Tx) error { return tx.Set([]byte(key), []byte(value)) }
}

func wantValue(t *testing.T, s *Store, key, want string) {
	t.Helper()
	err := s.View(t.Context(), func(tx storage.Tx) error {
		value, err := tx.Get([]byte(key))
		if err == nil && string(value) != want {
			t.Errorf("%s is %q, want %q", key, value, want)
		}
		return err
	})
	if err != nil {
		t.Errorf("reading %s: %v", key, err)
	}
}

// wantRefused checks that writes are refused, with an error that contains the reasons.
func wantRefused(t *testing.T, s *Store, why ...string) {
	t.Helper()
	for name, write := range map[string]func() error{
		"Writable": s.Writable,
		"Update":   func() error { return s.Update(t.Context(), set("a", "new")) },
		"Write":    func() error { return s.Write(t.Context(), set("a", "new")) },
	} {
		err := write()
		if !errors.Is(err, storage.ErrUnwritable) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range append(why, s.dir) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
	}
}

func TestRefusesWritesWithoutSpace(t *testing.T) {
	d := newDisk()
	s := openTest(t, t.TempDir(), Options{Space: d.measure})
	if err := s.Update(t.Context(), set("a", "old")); err != nil {
		t.Fatal(err)
	}

	d.set(Space{Free: Reserve - 1})
	wantRefused(t, s, "134217727 bytes free", "delete something")
	wantValue(t, s, "a", "old")

	d.set(Space{Free: 1 << 40, ReadOnly: true})
	wantRefused(t, s, "read-only", "mount it")

	mine := errors.New("no idea")
	d.err.Store(&mine)
	wantRefused(t, s, "no idea")
	d.err.Store(nil)

	// The size of a transaction is added.
	d.set(Space{Free: Reserve + valueThreshold})
	if err := s.Update(t.Context(), set("big", strings.Repeat("x", 2<<20))); !errors.Is(err, storage.ErrUnwritable) {
		t.Errorf("Update of more than is free: %v", err)
	}
	if err := s.Update(t.Context(), set("a", "new")); err != nil {
		t.Errorf("Update with room again: %v", err)
	}
	wantValue(t, s, "a", "new")
}

func TestOpensForReadingWithoutSpace(t *testing.T) {
	d, dir := newDisk(), t.TempDir()
	s := openTest(t, dir, Options{Space: d.measure})
	if err := s.Update(t.Context(), set("a", "old")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	d.set(Space{Free: Reserve - 1})
	s = openTest(t, dir, Options{Space: d.measure})
	wantRefused(t, s, "bytes free")
	wantValue(t, s, "a", "old")
	// Free space does not help a database that was opened read-only.
	d.set(Space{Free: 1 << 40})
	wantRefused(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openTest(t, dir, Options{Space: d.measure})
	if err := s.Update(t.Context(), set("a", "new")); err != nil {
		t.Error(err)
	}
}

func TestOpenNeedsSpaceForAnEmptyDirectory(t *testing.T) {
	d, dir := newDisk(), t.TempDir()
	d.set(Space{Free: 1})
	_, err := Open(dir, Options{Space: d.measure})
	if !errors.Is(err, storage.ErrUnwritable) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("Open: %v", err)
	}
}

func TestCloseDoesNotFlushWithoutSpace(t *testing.T) {
	d, dir := newDisk(), t.TempDir()
	s, err := Open(dir, Options{Space: d.measure})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), set("a", "old")); err != nil {
		t.Fatal(err)
	}
	d.set(Space{Free: closeReserve - 1})
	for range 2 {
		if err := s.Close(); !errors.Is(err, storage.ErrUnwritable) {
			t.Errorf("Close: %v", err)
		}
	}
	if err := s.View(t.Context(), nil); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("View of a closed store: %v", err)
	}
	// Simulates the end of the process.
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.release()
	wantValue(t, openTest(t, dir, Options{}), "a", "old")
}

func TestStopsWritingAfterAFailure(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.db.Close() }()
	if err := s.Update(t.Context(), set("a", "old")); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("input/output error")
	if err := s.fail("syncing", mine); !errors.Is(err, mine) || !errors.Is(err, storage.ErrUnwritable) {
		t.Errorf("the failure: %v", err)
	}
	wantRefused(t, s, "syncing", "input/output error", "restart")
	wantValue(t, s, "a", "old")
	if err := s.Close(); !errors.Is(err, storage.ErrUnwritable) {
		t.Errorf("Close: %v", err)
	}
}
