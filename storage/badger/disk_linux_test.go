package badger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-gw/gateway/storage"
)

const diskValue = 256 << 10

func init() {
	children["fill the disk"] = fillDisk
	children["read a read-only fs"] = readReadOnly
}

// mountDisk mounts a file system of a fixed size until the test ends.
func mountDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk takes root")
	}
	if testing.Short() {
		t.Skip("takes some 256 MiB of memory")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, data); err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk fills a disk, first with the store until it refuses to write, and then
// with other data to the last byte. It runs in a child process, since it tests that the
// process survives.
func TestFullDisk(t *testing.T) {
	disk := mountDisk(t, "224m")
	dir := filepath.Join(disk, "gw")
	c := startChild(t, "fill the disk", dir)
	var stored int
	for c.out.Scan() {
		if _, err := fmt.Sscanf(c.out.Text(), "stored %d", &stored); err != nil {
			t.Fatalf("the child said %q", c.out.Text())
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("the child ended with %v", err)
	}
	t.Logf("%d values of %d KiB before the first refusal", stored, diskValue>>10)
	if stored == 0 {
		t.Fatal("the child could not write at all")
	}

	_, err := Open(dir, Options{})
	if !errors.Is(err, storage.ErrUnwritable) {
		t.Fatalf("Open on a full disk, without a proper close: %v", err)
	}

	remount(t, disk, 0, "size=512m")
	s := openTest(t, dir, Options{})
	if err := s.View(t.Context(), wantStored(stored)); err != nil {
		t.Error(err)
	}
	if err := s.Update(t.Context(), set("a", "new")); err != nil {
		t.Error(err)
	}
}

// settle waits until Badger has no reason to compact its levels any more. The reserve
// covers what it is writing at that moment, but not what other programs write to the
// disk in the meantime (see Reserve).
func settle(s *Store) {
	calm := func() bool {
		for _, level := range s.db.Levels() {
			if level.Score >= 1 {
				return false
			}
		}
		return true
	}
	for steady := 0; steady < 20; steady++ {
		if !calm() {
			steady = 0
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func fillDisk(dir string) error {
	ctx := context.Background()
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	value := make([]byte, diskValue)
	stored := 0
	for ; err == nil; stored++ {
		_, _ = rand.Read(value) // does not compress
		write := s.Write
		if stored%10 == 0 {
			write = s.Update
		}
		err = write(ctx, func(tx storage.Tx) error { return tx.Set([]byte(strconv.Itoa(stored)), value) })
	}
	stored-- // the last write failed
	settle(s)
	if !errors.Is(err, storage.ErrUnwritable) {
		return fmt.Errorf("the write after %d: %w", stored, err)
	}

	// The library completes what it has started within the reserve.
	for !settled(s) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := fill(filepath.Join(filepath.Dir(dir), "other")); err != nil {
		return err
	}
	if err := s.View(ctx, wantStored(stored)); err != nil {
		return err
	}
	if err := s.Update(ctx, set("a", "new")); !errors.Is(err, storage.ErrUnwritable) {
		return fmt.Errorf("Update on a full disk: %w", err)
	}
	if err := s.Close(); !errors.Is(err, storage.ErrUnwritable) {
		return fmt.Errorf("Close on a full disk: %w", err)
	}
	fmt.Println("stored", stored)
	return nil
}

// settled reports whether the library has nothing to flush or merge.
func settled(s *Store) bool {
	logs, err := filepath.Glob(filepath.Join(s.dir, "*.mem"))
	return err == nil && len(logs) <= 1 && s.db.Levels()[0].NumTables < 2
}

// fill writes until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err == nil {
			continue
		} else if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		size /= 2
	}
	return f.Close()
}

func wantStored(n int) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		for i := range n {
			value, err := tx.Get([]byte(strconv.Itoa(i)))
			if err != nil || len(value) != diskValue {
				return fmt.Errorf("value %d of %d has %d bytes: %w", i, n, len(value), err)
			}
		}
		return nil
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	disk := mountDisk(t, "300m")
	dir := filepath.Join(disk, "gw")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), set("a", "old")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	remount(t, disk, unix.MS_RDONLY, "")
	c := startChild(t, "read a read-only fs", dir)
	c.expect(t, "a is old")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

func readReadOnly(dir string) error {
	ctx := context.Background()
	for _, space := range []func(string) (Space, error){
		nil,
		newDisk().measure, // the operating system does not report it, so the library finds out
	} {
		s, err := Open(dir, Options{Space: space})
		if err != nil {
			return err
		}
		if err := s.Update(ctx, set("a", "new")); !errors.Is(err, storage.ErrUnwritable) {
			return fmt.Errorf("Update: %w", err)
		}
		err = s.View(ctx, func(tx storage.Tx) error {
			value, err := tx.Get([]byte("a"))
			fmt.Printf("a is %s\n", value)
			return err
		})
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	return nil
}
