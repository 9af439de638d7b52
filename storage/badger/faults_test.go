package badger

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/race"
	"github.com/caddy-gw/gateway/storage"
)

// faultRows fills a store of the test: small values, values for the value log, changes
// and deletions. Each change is a separate update.
func faultRows(t *testing.T, s *Store, rows map[string]uint32, generation int) {
	t.Helper()
	change := func(key string, value []byte) {
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if value == nil {
				return tx.Delete([]byte(key))
			}
			return tx.Set([]byte(key), value)
		})
		if err != nil {
			t.Fatal(err)
		}
		delete(rows, key)
		if value != nil {
			rows[key] = crc32.ChecksumIEEE(value)
		}
	}
	for n := range 120 {
		change(fmt.Sprintf("row %03d", n*(generation+1)), bytes.Repeat(fmt.Appendf(nil, "value %d of %d.", n, generation), 100)) // several blocks, regardless of how tables are merged
	}
	for n := range 2 {
		change(fmt.Sprintf("big %d", n+generation), bytes.Repeat(fmt.Appendf(nil, "big %d of %d.", n, generation), valueThreshold/10))
	}
	for n := range 20 {
		change(fmt.Sprintf("row %03d", 3*n), nil)
	}
}

// faultStore creates a store that was closed, or one that was closed, reopened, written
// to, and not closed because the process crashed.
func faultStore(t *testing.T, crashed bool) (dir string, rows map[string]uint32) {
	t.Helper()
	dir, rows = t.TempDir(), map[string]uint32{}
	for generation := range 2 {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		faultRows(t, s, rows, generation)
		if generation == 1 && crashed {
			// The files contain everything that the process has written through memory
			// maps.
			copied := t.TempDir()
			copyStore(t, dir, copied, nil)
			dir = copied
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, rows
}

// copyStore copies files without allocating blocks for the zeros at their ends, and
// without reading those again if the length before them is known.
func copyStore(t *testing.T, from, to string, known map[string]int64) {
	t.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		length, ok := known[f.Name()]
		if !ok {
			if length, _, err = used(filepath.Join(from, f.Name())); err != nil {
				t.Fatal(err)
			}
			if known != nil {
				known[f.Name()] = length
			}
		}
		source, err := os.Open(filepath.Join(from, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		target, err := os.Create(filepath.Join(to, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.CopyN(target, source, length)
		if err := errors.Join(err, target.Truncate(info.Size()), target.Close(), source.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// openDamagedStores reads directories from its standard input, opens the store in each
// of them, and prints whether it was refused, or else the number and a checksum of its
// rows.
func openDamagedStores(string) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(strings.ReplaceAll(openDamagedStore(lines.Text()), "\n", " "))
	}
	return nil
}

func openDamagedStore(dir string) string {
	s, err := Open(dir, Options{})
	if err != nil {
		return "refused: " + err.Error()
	}
	rows := map[string]uint32{}
	err = s.View(context.Background(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			if value, err := tx.Get(item.Key); err != nil || !bytes.Equal(value, item.Value) {
				return fmt.Errorf("getting %q: %w", item.Key, cmp.Or(err, errors.New("not what the scan had")))
			}
			rows[string(item.Key)] = crc32.ChecksumIEEE(item.Value)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("refused: %w", err)
	}
	if err := cmp.Or(err, s.Close()); err != nil {
		return err.Error()
	}
	return sumRows(rows)
}

func sumRows(rows map[string]uint32) string {
	sum := crc32.NewIEEE()
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintln(sum, key, rows[key])
	}
	return fmt.Sprintf("%d rows: %x", len(rows), sum.Sum32())
}

// If a file of a store is missing, truncated or damaged, the store has all its rows, or
// is refused with an error that names the file.
func TestAFaultIsNeverSilentlyLess(t *testing.T) {
	flips := 10
	if testing.Short() || race.Enabled {
		flips = 2
	}
	for _, crashed := range []bool{false, true} {
		name := "closed"
		if crashed {
			name = "crashed"
		}
		t.Run(name, func(t *testing.T) {
			// The race detector makes the matrix, of which each case opens a store in another process, several times as slow
			// and finds nothing in it.
			if crashed && race.Enabled {
				t.Skip("hundreds of processes that each open a store, which is one goroutine's work")
			}
			t.Parallel()
			dir, rows := faultStore(t, crashed)
			known := map[string]int64{}
			c := startChild(t, "open damaged stores", dir)
			try := func(fault, file string, damage func(path string) error, right bool) {
				t.Helper()
				damaged, err := os.MkdirTemp(t.TempDir(), "")
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(damaged)
				copyStore(t, dir, damaged, known)
				if err := damage(filepath.Join(damaged, file)); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(c.in, damaged)
				if !c.out.Scan() {
					t.Errorf("%s %s: the process ended", file, fault)
					c = startChild(t, "open damaged stores", dir)
					return
				}
				output := c.out.Text()
				switch {
				case output == sumRows(rows):
				case right:
					t.Errorf("%s %s: %s, want %s", file, fault, output, sumRows(rows))
				case strings.HasPrefix(output, "refused: ") && strings.Contains(output, "operations.md") &&
					(strings.Contains(output, file) || filepath.Ext(file) == ".vlog" && strings.Contains(output, "a *.vlog file")):
				default:
					t.Errorf("%s %s: %s, want %s or words", file, fault, output, sumRows(rows))
				}
			}
			try("as it is", "MANIFEST", func(string) error { return nil }, true)

			files, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]bool{}
			random := rand.New(rand.NewPCG(1, 2))
			for _, f := range files {
				file := f.Name()
				kinds[cmp.Or(filepath.Ext(file), file)] = true
				used, size, err := used(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				// These files contain no rows. They are recreated or not needed.
				right := file == "LOCK" || file == "DISCARD" || file == syncedFile
				try("missing", file, os.Remove, right || file == "KEYREGISTRY")
				lengths := []int64{0, used / 2, used - 1, size - 1}
				slices.Sort(lengths)
				for _, length := range slices.Compact(lengths) {
					if length < 0 {
						continue
					}
					try(fmt.Sprint("truncated to ", length), file, func(path string) error { return os.Truncate(path, length) }, right)
				}
				for range flips / 2 {
					if used == 0 {
						break
					}
					// Simulates a disk that lost data after confirming it.
					at := random.Int64N(used)
					page := at / pageSize * pageSize
					try(fmt.Sprint("zeros from ", at), file, func(path string) error { return zero(path, at, used) }, right)
					try(fmt.Sprint("a page of zeros at ", page), file, func(path string) error { return zero(path, page, min(page+pageSize, used)) }, right)
				}
				for range flips {
					if used == 0 {
						break
					}
					at, bit := random.Int64N(used), random.IntN(8)
					try(fmt.Sprint("flipped at ", at, ".", bit), file, func(path string) error { return flip(path, at, bit) }, right)
				}
			}
			try("missing with all logs", stateFile, func(path string) error {
				logs, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.mem"))
				for _, log := range logs {
					err = errors.Join(err, os.Remove(log))
				}
				return errors.Join(err, os.Remove(path))
			}, false)
			want := []string{"MANIFEST", "KEYREGISTRY", "DISCARD", "LOCK", stateFile, syncedFile, ".sst", ".vlog"}
			if crashed {
				want = append(want, ".mem")
			}
			for _, kind := range want {
				if !kinds[kind] && kind != "LOCK" {
					t.Errorf("there is no file %s", kind)
				}
			}
		})
	}
}

// zero overwrites a part of a file with zeros.
func zero(path string, from, to int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, to-from), from)
	return errors.Join(err, f.Close())
}

// flip inverts one bit of a file.
func flip(path string, at int64, bit int) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	b[0] ^= 1 << bit
	if err == nil {
		_, err = f.WriteAt(b[:], at)
	}
	return errors.Join(err, f.Close())
}
