package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/policies/ledger/ledgertest"
	"github.com/caddy-gw/gateway/storage/badger"
)

func TestCounter(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) ledger.Counter {
		store, err := badger.Open(t.TempDir(), badger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open(t.Context(), store, ledger.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(l.Close(context.Background()), store.Close()); err != nil {
				t.Error(err)
			}
		})
		return l
	})
}
