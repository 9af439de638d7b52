package app

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestCallsWithoutAPriceAreLoggedOnceAMinute(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	says := saysUnpriced(zap.New(core), func() time.Time { return now })
	for range 10 {
		says("local", "llama")
		now = now.Add(20 * time.Second)
	}
	if logs.Len() != 4 {
		t.Errorf("%d lines in three minutes, want 4", logs.Len())
	}
	if fields := logs.All()[0].ContextMap(); fields["provider"] != "local" || fields["model"] != "llama" {
		t.Errorf("%v", fields)
	}
}
