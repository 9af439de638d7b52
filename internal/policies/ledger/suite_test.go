package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/policies/ledger/ledgertest"
	"github.com/caddy-gw/gateway/internal/storetest"
)

func TestCounter(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) ledger.Counter {
		l, err := ledger.Open(t.Context(), storetest.Open(t), ledger.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return l
	})
}
