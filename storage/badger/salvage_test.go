package badger

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

func readRows(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	err = s.View(t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			rows[string(item.Key)] = string(item.Value)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return rows
}

// oneTable returns the newest table of a store.
func oneTable(t *testing.T, dir string) string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%v, %v", tables, err)
	}
	return tables[len(tables)-1]
}

func TestSalvageWritesWhatCanBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		crashed bool
		damage  func(t *testing.T, dir string) error
		most    int // maximum number of lost rows
		lost    string
	}{
		"a missing MANIFEST": {false, func(t *testing.T, dir string) error {
			return os.Remove(filepath.Join(dir, "MANIFEST"))
		}, 0, "MANIFEST"},
		"a damaged block": {false, func(t *testing.T, dir string) error {
			return flip(oneTable(t, dir), 100, 3)
		}, 64, ".sst"},
		"a damaged last block": {false, func(t *testing.T, dir string) error {
			index, table := 0, oneTable(t, dir)
			err := withFile(table, -1, func(data []byte) error {
				found, err := tableIndex(data)
				index = bytes.Index(data, found)
				return err
			})
			if err != nil {
				return err
			}
			return flip(table, int64(index)-20, 3)
		}, 64, ".sst"},
		"a damaged value": {false, func(t *testing.T, dir string) error {
			return flip(filepath.Join(dir, "000001.vlog"), 1000, 3)
		}, 1, "000001.vlog"},
		"a damaged log": {true, func(t *testing.T, dir string) error {
			return flip(filepath.Join(dir, "00001.mem"), 5000, 3)
		}, 1, "00001.mem"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !test.crashed {
				t.Skip("it differs only in what is damaged")
			}
			dir, sums := faultStore(t, test.crashed)
			if err := test.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			if err := Verify(dir, zap.NewNop()); err == nil || !strings.Contains(err.Error(), test.lost) {
				t.Errorf("Verify: %v, want %s", err, test.lost)
			}
			to := filepath.Join(t.TempDir(), "new")
			result, err := Salvage(t.Context(), dir, to, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Lost) == 0 || !strings.Contains(result.Lost[0].Error(), test.lost) {
				t.Errorf("lost %v, want %s", result.Lost, test.lost)
			}
			if err := Verify(to, zap.NewNop()); err != nil {
				t.Errorf("Verify of the new store: %v", err)
			}
			rows := readRows(t, to)
			if len(rows) != result.Rows {
				t.Errorf("it has %d rows and should have %d", len(rows), result.Rows)
			}
			missing := 0
			for key := range sums {
				if _, ok := rows[key]; !ok {
					missing++
				}
			}
			if missing > test.most {
				t.Errorf("%d of %d rows are missing", missing, len(sums))
			}
			if _, err := Salvage(t.Context(), dir, to, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "is not empty") {
				t.Errorf("Salvage into the same: %v", err)
			}
		})
	}
}

func TestVerifyOfASoundStore(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		dir, _ := faultStore(t, crashed)
		if err := Verify(dir, zap.NewNop()); err != nil {
			t.Errorf("crashed %v: %v", crashed, err)
		}
	}
	if err := Verify(t.TempDir(), zap.NewNop()); err == nil || !strings.Contains(err.Error(), "holds no store") {
		t.Errorf("Verify of nothing: %v", err)
	}
}
