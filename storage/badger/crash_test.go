package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// crashValue returns a different value for each number. Most are large enough to fill
// memtables quickly, and some belong into the value log.
func crashValue(n int) []byte {
	size := 150 << 10
	if n%20 == 0 {
		size = valueThreshold + n
	}
	return bytes.Repeat(fmt.Append(nil, "value ", n, "."), size/8)[:size]
}

// writeUntilKilled prints the number of each write that has returned.
func writeUntilKilled(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		write := s.Write
		if n%4 == 0 {
			write = s.Update
		}
		err := write(context.Background(), func(tx storage.Tx) error {
			return errors.Join(
				tx.Set([]byte(strconv.Itoa(n)), crashValue(n)),
				tx.Set([]byte("last"), []byte(strconv.Itoa(n))),
			)
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
}

func TestWritesSurviveAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, "write until killed", dir)
	acknowledged := -1
	for c.out.Scan() {
		n, err := strconv.Atoi(c.out.Text())
		if err != nil {
			t.Fatalf("the child said %q", c.out.Text())
		}
		if n != acknowledged+1 {
			t.Fatalf("the child said %d after %d", n, acknowledged)
		}
		// By then, two memtables were full, and one may be partly flushed.
		if acknowledged = n; n == 250 {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended with %v", err)
	}

	s := openTest(t, dir, Options{})
	err := s.View(t.Context(), func(tx storage.Tx) error {
		for n := range acknowledged + 1 {
			value, err := tx.Get([]byte(strconv.Itoa(n)))
			if err != nil {
				return fmt.Errorf("%d of %d: %w", n, acknowledged, err)
			}
			if !bytes.Equal(value, crashValue(n)) {
				return fmt.Errorf("%d of %d is damaged", n, acknowledged)
			}
		}
		last, err := tx.Get([]byte("last"))
		if err != nil {
			return err
		}
		// The write after the last acknowledged one is complete or absent.
		next := strconv.Itoa(acknowledged + 1)
		switch _, err := tx.Get([]byte(next)); {
		case string(last) == strconv.Itoa(acknowledged) && errors.Is(err, storage.ErrNotFound):
			return nil
		case string(last) == next && err == nil:
			return nil
		}
		return fmt.Errorf("acknowledged %d, the last is %s", acknowledged, last)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holdLock keeps the store open until its standard input ends.
func holdLock(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return s.Close()
}

func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, "hold the lock", dir)
	c.expect(t, "open")

	_, err := Open(dir, Options{})
	if !errors.Is(err, storage.ErrLocked) {
		t.Fatalf("Open of a locked store: %v", err)
	}
	for _, want := range []string{dir, strconv.Itoa(c.Process.Pid), "stop it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}

	// It is not an error if the lock is released in time.
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir, Options{})
}

// Another process must not see the files while the library has removed its logs and the
// state file does not say yet that the store was closed.
func TestTheLockIsHeldUntilTheStateIsClosed(t *testing.T) {
	t.Parallel()
	if !keepsLock {
		t.Skip("the library holds the lock")
	}
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	<-s.gc.done
	s.trimmer.Wait()
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("the lock of a store that is closing: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := os.Stat(filepath.Join(dir, pidFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the process id is left: %v", err)
	}
}

func TestLockOfThisProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openTest(t, dir, Options{})
	_, err := Open(dir, Options{})
	if !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), "this very process") {
		t.Fatalf("Open of a store that is open here: %v", err)
	}
}
