package badger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-gw/gateway/storage"
)

// The log of a killed process with larger memtables is read completely.
func TestLogsOfLargerMemtablesAreRead(t *testing.T) {
	const rows, size = 150, 100 << 10 // more than fits into one of our memtables
	value := func(n int) []byte { return bytes.Repeat(fmt.Append(nil, n, "."), size/8) }
	live, dir := t.TempDir(), t.TempDir()
	db, err := badgerdb.Open(badgerdb.DefaultOptions(live).WithLogger(nil).WithMemTableSize(earlierMemtable).WithValueThreshold(valueThreshold).WithValueLogFileSize(1 << 20))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for n := range rows {
		err := db.Update(func(txn *badgerdb.Txn) error { return txn.Set(keyOf([]byte(strconv.Itoa(n))), value(n)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(live)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // the files of a killed process
		if f.Name() == "LOCK" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(live, f.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f.Name()), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	if err := (&state{Next: 1, LogSize: 2 * earlierMemtable}).write(dir); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) == 0 {
		t.Fatal("the store has no log", err)
	}
	s := openTest(t, dir, Options{})
	err = s.View(t.Context(), func(tx storage.Tx) error {
		for n := range rows {
			got, err := tx.Get([]byte(strconv.Itoa(n)))
			if err != nil || !bytes.Equal(got, value(n)) {
				return fmt.Errorf("row %d: %d bytes, %w", n, len(got), err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
