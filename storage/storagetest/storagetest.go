// Package storagetest is the suite that every driver of package storage passes.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// Run tests a driver. open returns an empty store, which it closes when the
// test ends; Run may have closed it before.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	tests := []struct {
		name string
		run  func(*testing.T, storage.Store)
	}{
		{"reads what it wrote", testReadYourWrites},
		{"refuses what the contract refuses", testErrors},
		{"keeps any bytes", testAnyBytes},
		{"keeps its own copies", testCopies},
		{"keeps big values", testBigValues},
		{"forgets what has expired", testTTL},
		{"scans", testScan},
		{"scans in a scan", testNestedScan},
		{"writes during a scan", testWriteDuringScan},
		{"gives a view a snapshot", testSnapshot},
		{"writes nothing when the function fails", testRollback},
		{"loses no increment", testIncrements},
		{"sees what a scan did not find", testPhantoms},
		{"lets a long scan commit", testStarvation},
		{"minds the context", testContext},
		{"answers when closed", testClosed},
		{"agrees with a sorted map", testModel},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// kv is an item in a readable form.
type kv struct{ key, value string }

func update(t *testing.T, s storage.Store, fn func(storage.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func view(t *testing.T, s storage.Store, fn func(storage.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// put stores items, in one transaction.
func put(t *testing.T, s storage.Store, items ...kv) {
	t.Helper()
	update(t, s, func(tx storage.Tx) error {
		for _, item := range items {
			if err := tx.Set([]byte(item.key), []byte(item.value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// get returns the value of key in a transaction of its own.
func get(t *testing.T, s storage.Store, key string) (string, error) {
	t.Helper()
	var value []byte
	err := s.View(t.Context(), func(tx storage.Tx) (err error) {
		value, err = tx.Get([]byte(key))
		return err
	})
	return string(value), err
}

// wantGet checks a value in tx; "-" stands for none.
func wantGet(tx storage.Tx, key, want string) error {
	value, err := tx.Get([]byte(key))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		value = []byte("-")
	case err != nil:
		return fmt.Errorf("Get(%q): %w", key, err)
	}
	if !bytes.Equal(value, []byte(want)) {
		return fmt.Errorf("Get(%q) = %q, want %q", key, value, want)
	}
	return nil
}

// scan collects the items of a scan; start "" is none.
func scan(tx storage.Tx, prefix, start string, reverse bool) ([]kv, error) {
	var from []byte
	if start != "" {
		from = []byte(start)
	}
	var items []kv
	for item, err := range tx.Scan([]byte(prefix), from, reverse) {
		if err != nil {
			return nil, err
		}
		items = append(items, kv{string(item.Key), string(item.Value)})
	}
	return items, nil
}

func keysOf(items []kv) []string {
	keys := make([]string, 0, len(items))
	for _, item := range items {
		keys = append(keys, item.key)
	}
	return keys
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
