package storagetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

var errAbort = errors.New("abort")

// testModel runs random transactions on the store and on a map, which must
// agree on every answer.
func testModel(t *testing.T, s storage.Store) {
	// Few and adversarial bytes make many collisions and boundaries.
	bytesOf := func(t *rapid.T, label string, least int) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 'a', 0xff}), least, 3).Draw(t, label))
	}
	rapid.Check(t, func(t *rapid.T) {
		model := map[string]string{}
		err := s.Write(t.Context(), clearAll)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "transactions") {
			var ops []func(storage.Tx, map[string]string) error
			for range rapid.IntRange(1, 8).Draw(t, "operations") {
				switch rapid.SampledFrom([]string{"set", "set", "delete", "get", "scan", "scan"}).Draw(t, "operation") {
				case "set":
					k, v := bytesOf(t, "key", 1), bytesOf(t, "value", 0)
					ops = append(ops, func(tx storage.Tx, m map[string]string) error {
						m[k] = v
						return tx.Set([]byte(k), []byte(v))
					})
				case "delete":
					k := bytesOf(t, "key", 1)
					ops = append(ops, func(tx storage.Tx, m map[string]string) error {
						delete(m, k)
						return tx.Delete([]byte(k))
					})
				case "get":
					k := bytesOf(t, "key", 1)
					ops = append(ops, func(tx storage.Tx, m map[string]string) error { return compareGet(tx, m, k) })
				case "scan":
					prefix, start := bytesOf(t, "prefix", 0), bytesOf(t, "start", 0)
					reverse := rapid.Bool().Draw(t, "reverse")
					limit := rapid.IntRange(1, 10).Draw(t, "limit")
					ops = append(ops, func(tx storage.Tx, m map[string]string) error {
						return compareScan(tx, m, prefix, start, reverse, limit)
					})
				}
			}
			abort := rapid.IntRange(0, 3).Draw(t, "abort") == 0
			next := maps.Clone(model)
			err := s.Write(t.Context(), func(tx storage.Tx) error {
				next = maps.Clone(model)
				for _, op := range ops {
					if err := op(tx, next); err != nil {
						return err
					}
				}
				if abort {
					return errAbort
				}
				return nil
			})
			switch {
			case err == nil:
				model = next
			case !errors.Is(err, errAbort):
				t.Fatal(err)
			}
			err = s.View(t.Context(), func(tx storage.Tx) error {
				return errors.Join(
					compareScan(tx, model, "", "", false, 1000),
					compareScan(tx, model, "", "", true, 1000),
				)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func clearAll(tx storage.Tx) error {
	for item, err := range tx.Scan(nil, nil, false) {
		if err != nil {
			return err
		}
		if err := tx.Delete(item.Key); err != nil {
			return err
		}
	}
	return nil
}

func compareGet(tx storage.Tx, model map[string]string, key string) error {
	want, ok := model[key]
	got, err := tx.Get([]byte(key))
	switch {
	case !ok && errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil || !ok || string(got) != want:
		return fmt.Errorf("Get(%q) = %q, %w; want %q, %t", key, got, err, want, ok)
	}
	return nil
}

// compareScan compares the first limit items of a scan; start "" is none.
func compareScan(tx storage.Tx, model map[string]string, prefix, start string, reverse bool, limit int) error {
	var want []kv
	for _, key := range slices.Sorted(maps.Keys(model)) {
		if strings.HasPrefix(key, prefix) && (start == "" || !reverse && key >= start || reverse && key <= start) {
			want = append(want, kv{key, model[key]})
		}
	}
	if reverse {
		slices.Reverse(want)
	}
	want = want[:min(limit, len(want))]

	var from []byte
	if start != "" {
		from = []byte(start)
	}
	var got []kv
	for item, err := range tx.Scan([]byte(prefix), from, reverse) {
		if err != nil {
			return err
		}
		got = append(got, kv{string(item.Key), string(item.Value)})
		if len(got) == limit {
			break
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("Scan(%q, %q, %t) = %q, want %q", prefix, start, reverse, got, want)
	}
	return nil
}
