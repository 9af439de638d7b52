// Package storetest opens stores for tests.
package storetest

import (
	"testing"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// Open returns an empty store of the default driver, which is closed when the test ends.
func Open(t testing.TB) storage.Store {
	t.Helper()
	store := open(t)
	closed(t, store.Close)
	return store
}

// OpenDB returns a database over an empty store, which is closed when the test ends.
func OpenDB(t testing.TB) *storage.DB {
	t.Helper()
	db := storage.NewDB(open(t))
	closed(t, db.Close)
	return db
}

func open(t testing.TB) storage.Store {
	t.Helper()
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func closed(t testing.TB, how func() error) {
	t.Cleanup(func() {
		if err := how(); err != nil {
			t.Error(err)
		}
	})
}
