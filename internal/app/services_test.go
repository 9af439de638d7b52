package app

import (
	"errors"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/storage/badger"
)

func TestServicesAreClosedInTheReverseOrderWhateverFails(t *testing.T) {
	s := new(Services)
	var closed []string
	failed := errors.New("failed")
	for _, name := range []string{"store", "ledger", "records"} {
		s.onClose(func() error { closed = append(closed, name); return failed })
	}
	if err := s.Close(); !errors.Is(err, failed) {
		t.Errorf("Close returned %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close returned %v", err)
	}
	if want := []string{"records", "ledger", "store"}; !slices.Equal(closed, want) {
		t.Errorf("closed %q, want %q", closed, want)
	}
}

// A service that cannot be opened leaves nothing open.
func TestTheStoreIsClosedWhereAServiceCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	for n, key := range []string{"0123456789abcdef0123456789abcdef", "another6789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"} {
		store, err := badger.Open(dir, badger.Options{})
		if err != nil {
			t.Fatalf("start %d: %v", n, err)
		}
		s, err := openServices(t.Context(), store, credentials.NewSecret(key), zap.NewNop())
		if wrong := n == 1; wrong != errors.Is(err, credentials.ErrWrongKey) {
			t.Fatalf("start %d: %v", n, err)
		}
		if err == nil {
			err = s.Close()
			if err != nil {
				t.Fatalf("start %d: %v", n, err)
			}
		}
	}
}
