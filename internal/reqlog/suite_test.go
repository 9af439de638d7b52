package reqlog_test

import (
	"crypto/rand"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/reqlog/reqlogtest"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

func TestStore(t *testing.T) {
	reqlogtest.Run(t, func(t *testing.T) (reqlog.Store, time.Time) {
		b, err := badger.Open(t.TempDir(), badger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		l, err := reqlog.Open(t.Context(), storage.NewDB(b), reqlog.Options{Now: func() time.Time { return now }, Random: rand.Reader, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			l.Close()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		return l, now
	})
}
