package badger

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/storagetest"
)

func TestStore(t *testing.T) {
	defer goleak.VerifyNone(t)
	storagetest.Run(t, func(t *testing.T) storage.Store { return openTest(t, t.TempDir(), Options{}) })
}

func openTest(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestFeed(t *testing.T) {
	storagetest.RunFeed(t, func(t *testing.T) (one, two storagetest.Instance) {
		s := openTest(t, t.TempDir(), Options{})
		return s, s
	})
}
