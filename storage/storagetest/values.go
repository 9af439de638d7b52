package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

func testReadYourWrites(t *testing.T, s storage.Store) {
	put(t, s, kv{"a", "1"}, kv{"b", "2"})
	update(t, s, func(tx storage.Tx) error {
		return errors.Join(
			tx.Set([]byte("a"), []byte("3")),
			tx.Delete([]byte("b")),
			tx.Set([]byte("c"), []byte("4")),
			tx.Delete([]byte("was never there")),
			wantGet(tx, "a", "3"),
			wantGet(tx, "b", "-"),
			wantGet(tx, "c", "4"),
			tx.Set([]byte("b"), []byte("5")),
			wantGet(tx, "b", "5"),
			tx.SetTTL([]byte("d"), []byte("6"), time.Hour),
			wantGet(tx, "d", "6"),
		)
	})
	view(t, s, func(tx storage.Tx) error {
		return errors.Join(
			wantGet(tx, "a", "3"),
			wantGet(tx, "b", "5"),
			wantGet(tx, "c", "4"),
			wantGet(tx, "d", "6"),
			wantGet(tx, "e", "-"),
		)
	})
	if err := s.Write(t.Context(), func(tx storage.Tx) error {
		return errors.Join(tx.Set([]byte("w"), []byte("7")), wantGet(tx, "w", "7"))
	}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if got, err := get(t, s, "w"); got != "7" || err != nil {
		t.Errorf("after Write: %q, %v", got, err)
	}
}

func testErrors(t *testing.T, s storage.Store) {
	long, longest := []byte(strings.Repeat("k", 1025)), []byte(strings.Repeat("k", 1024))
	refused := []struct {
		name string
		op   func(storage.Tx) error
	}{
		{"Get of no key", func(tx storage.Tx) error { _, err := tx.Get(nil); return err }},
		{"Set of no key", func(tx storage.Tx) error { return tx.Set(nil, []byte("v")) }},
		{"Set of a long key", func(tx storage.Tx) error { return tx.Set(long, []byte("v")) }},
		{"Delete of a long key", func(tx storage.Tx) error { return tx.Delete(long) }},
		{"SetTTL of zero", func(tx storage.Tx) error { return tx.SetTTL([]byte("k"), nil, 0) }},
		{"SetTTL of less", func(tx storage.Tx) error { return tx.SetTTL([]byte("k"), nil, -1) }},
	}
	for _, test := range refused {
		err := s.Update(t.Context(), test.op)
		if err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: got %v, want another error", test.name, err)
		}
	}
	put(t, s, kv{string(longest), "v"})
	if got, err := get(t, s, string(longest)); got != "v" || err != nil {
		t.Errorf("a key of 1024 bytes: %q, %v", got, err)
	}
	if _, err := get(t, s, "none"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get of what is not there: %v", err)
	}
	for name, op := range map[string]func(storage.Tx) error{
		"Set":    func(tx storage.Tx) error { return tx.Set([]byte("k"), []byte("v")) },
		"SetTTL": func(tx storage.Tx) error { return tx.SetTTL([]byte("k"), []byte("v"), time.Hour) },
		"Delete": func(tx storage.Tx) error { return tx.Delete(longest) },
	} {
		if err := s.View(t.Context(), op); err == nil {
			t.Errorf("%s in a View returned no error", name)
		}
	}
	mine := errors.New("mine")
	if err := s.View(t.Context(), func(storage.Tx) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("View returned %v, want the function's error as it is", err)
	}
	var kept storage.Tx
	update(t, s, func(tx storage.Tx) error { kept = tx; return nil })
	if err := kept.Set([]byte("late"), []byte("v")); err == nil {
		t.Error("Set after the transaction returned no error")
	}
}

func testAnyBytes(t *testing.T, s storage.Store) {
	items := []kv{
		{"\x00", "zero"},
		{"\x00\x00", ""},
		{"!badger!key", "a name of the library"},
		{"a", "\x00\xff"},
		{"a\x00", "\x00"},
		{"\xff", "top"},
		{"\xff\xff", "topmost"},
		{"\xff\xfe\x80", "not UTF-8"},
	}
	put(t, s, items...)
	view(t, s, func(tx storage.Tx) error {
		for _, item := range items {
			if err := wantGet(tx, item.key, item.value); err != nil {
				return err
			}
		}
		all, err := scan(tx, "", "", false)
		if err == nil && len(all) != len(items) {
			err = fmt.Errorf("scan found %q", all)
		}
		return err
	})
}

func testCopies(t *testing.T, s storage.Store) {
	update(t, s, func(tx storage.Tx) error {
		key, value := []byte("key"), []byte("value")
		err := tx.Set(key, value)
		copy(key, "xxx")
		copy(value, "xxxxx")
		return err
	})
	var kept []byte
	var item storage.Item
	view(t, s, func(tx storage.Tx) (err error) {
		if kept, err = tx.Get([]byte("key")); err != nil {
			return err
		}
		for item, err = range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
		}
		return wantGet(tx, "key", "value")
	})
	put(t, s, kv{"key", "other"})
	if string(kept) != "value" || string(item.Key) != "key" || string(item.Value) != "value" {
		t.Errorf("kept %q, %q -> %q", kept, item.Key, item.Value)
	}
}

func testBigValues(t *testing.T, s storage.Store) {
	sizes := []int{0, 1, 64 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1}
	value := func(size int) []byte {
		return bytes.Repeat([]byte{byte(size), 7, 0xff}, size/3+1)[:size]
	}
	for _, size := range sizes {
		put(t, s, kv{fmt.Sprint("size ", size), string(value(size))})
	}
	view(t, s, func(tx storage.Tx) error {
		for _, size := range sizes {
			got, err := tx.Get(fmt.Append(nil, "size ", size))
			if err != nil {
				return err
			}
			if !bytes.Equal(got, value(size)) {
				return fmt.Errorf("a value of %d bytes came back as other %d", size, len(got))
			}
		}
		items, err := scan(tx, "size ", "", false)
		if err == nil && len(items) != len(sizes) {
			err = fmt.Errorf("scan found %d of %d", len(items), len(sizes))
		}
		return err
	})
}

func testTTL(t *testing.T, s storage.Store) {
	const ttl = time.Second
	stored := time.Now()
	update(t, s, func(tx storage.Tx) error {
		return errors.Join(
			tx.SetTTL([]byte("brief"), []byte("v"), ttl),
			tx.SetTTL([]byte("made to stay"), []byte("v"), ttl),
			tx.SetTTL([]byte("long"), []byte("v"), time.Hour),
			tx.Set([]byte("made to stay"), []byte("v")),
		)
	})
	there := func() bool {
		_, err := get(t, s, "brief")
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	for there() {
		if time.Since(stored) > 20*ttl {
			t.Fatal("an item with a time to live of a second is there after 20")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if lived := time.Since(stored); lived < ttl {
		t.Errorf("an item lived for %s of %s", lived, ttl)
	}
	view(t, s, func(tx storage.Tx) error {
		items, err := scan(tx, "", "", false)
		if err == nil && len(items) != 2 {
			err = fmt.Errorf("scan found %q", items)
		}
		return errors.Join(err, wantGet(tx, "long", "v"), wantGet(tx, "made to stay", "v"))
	})
}
