package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// While others write, a backup has the rows of one moment: two rows that are always written
// together are the same in it.
func TestABackupIsOfOneMoment(t *testing.T) {
	s := openTemp(t)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 64 {
		one, two := []byte(fmt.Sprintf("a%02d", w)), []byte(fmt.Sprintf("z%02d", w))
		put := func(n int) error {
			return s.Write(t.Context(), func(tx storage.Tx) error {
				value := fmt.Append(nil, n)
				return errors.Join(tx.Set(one, value), tx.Set(two, value))
			})
		}
		if err := put(0); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := put(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		var out bytes.Buffer
		if n, err := s.Backup(t.Context(), &out); err != nil || n != 128 {
			t.Fatalf("%d, %v", n, err)
		}
		rows := make(map[string]string)
		if _, err := readBackup(&out, func(r backedUp) error { rows[string(r.key)] = string(r.value); return nil }); err != nil {
			t.Fatal(err)
		}
		for w := range 64 {
			if one, two := rows[fmt.Sprintf("a%02d", w)], rows[fmt.Sprintf("z%02d", w)]; one != two || one == "" {
				t.Errorf("writer %d: %q and %q", w, one, two)
			}
		}
	}
	close(stop)
	writers.Wait()
}

func openTemp(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A watchedReader says when it is read.
type watchedReader struct {
	io.ReadSeeker
	read func()
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.read()
	return r.ReadSeeker.Read(p)
}

func TestARestoredStoreIsTheSame(t *testing.T) {
	s := openTemp(t)
	large := bytes.Repeat([]byte("x"), 300<<10) // in the value log
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		for i := range 1200 {
			if err := tx.Set(fmt.Appendf(nil, "row %d", i), fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return errors.Join(tx.Set([]byte{0, 0xff}, nil), tx.SetTTL([]byte("passing"), []byte("p"), time.Hour))
	})
	if err == nil {
		err = s.Update(t.Context(), func(tx storage.Tx) error { return tx.Set([]byte("large"), large) })
	}
	if err == nil {
		err = s.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte("row 7")) })
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	n, err := s.Backup(t.Context(), &out)
	if err != nil || n != 1202 {
		t.Fatalf("%d, %v", n, err)
	}
	to := filepath.Join(t.TempDir(), "new")
	if n, err := Restore(t.Context(), bytes.NewReader(out.Bytes()), to, zap.NewNop()); err != nil || n != 1202 {
		t.Fatalf("%d, %v", n, err)
	}
	mark := filepath.Join(to, unfinishedFile)
	restored, err := Open(to, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	var again bytes.Buffer
	if _, err := restored.Backup(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	rows := func(backup []byte) (all []string) {
		_, err := readBackup(bytes.NewReader(backup), func(r backedUp) error {
			if (string(r.key) == "passing") != (r.expiresAt > 0) {
				t.Errorf("%q expires at %d", r.key, r.expiresAt)
			}
			all = append(all, string(r.key)+"="+string(r.value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if one, two := rows(out.Bytes()), rows(again.Bytes()); fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("%d rows are not the %d of the backup", len(two), len(one))
	}

	// One that is killed before its end leaves nothing that opens.
	if err := restored.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(to, Options{})
	if verified := Verify(to, zap.NewNop()); !errors.Is(err, ErrUnfinished) || !errors.Is(verified, ErrUnfinished) {
		t.Errorf("it opens: %v, %v", err, verified)
	}
	marked := 0
	other := filepath.Join(t.TempDir(), "other")
	watched := &watchedReader{ReadSeeker: bytes.NewReader(out.Bytes()), read: func() {
		if _, err := os.Stat(filepath.Join(other, unfinishedFile)); err == nil {
			marked++
		}
	}}
	if _, err := Restore(t.Context(), watched, other, zap.NewNop()); err != nil || marked == 0 {
		t.Errorf("it is not marked while it is written: %v", err)
	}

	// Every change of the file is found before anything is written.
	for i := 0; i < out.Len(); i += 1 + out.Len()/200 {
		bad := bytes.Clone(out.Bytes())
		bad[i] ^= 1
		if _, err := VerifyBackup(bytes.NewReader(bad)); !errors.Is(err, ErrBadBackup) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for _, bad := range [][]byte{nil, out.Bytes()[:out.Len()-1], append(bytes.Clone(out.Bytes()), 0)} {
		to := filepath.Join(t.TempDir(), "bad")
		if _, err := Restore(t.Context(), bytes.NewReader(bad), to, zap.NewNop()); !errors.Is(err, ErrBadBackup) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Error("there is a store of a bad backup")
		}
	}
}

func FuzzReadBackup(f *testing.F) {
	f.Add([]byte(backupMagic + "\x01\x01\x00kv\x00\x01"))
	f.Add([]byte(backupMagic + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		rows, err := readBackup(bytes.NewReader(data), func(r backedUp) error {
			if n++; len(r.key) == 0 || len(r.key) > maxKey || len(r.value) > maxBackupValue {
				t.Errorf("a row of %d and %d bytes", len(r.key), len(r.value))
			}
			return nil
		})
		if rows != n || err == nil && rows > len(data) {
			t.Errorf("%d rows, %d visited", rows, n)
		}
	})
}
