package reqlog_test

import (
	"crypto/rand"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/reqlog/reqlogtest"
	"github.com/caddy-gw/gateway/internal/storetest"
)

func TestStore(t *testing.T) {
	reqlogtest.Run(t, func(t *testing.T) (reqlog.Store, time.Time) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		l, err := reqlog.Open(t.Context(), storetest.OpenDB(t), reqlog.Options{Now: func() time.Time { return now }, Random: rand.Reader, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		return l, now
	})
}
