package reqlog

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// Refused calls of a workspace add what its quota allows, whatever is free; other calls, and other workspaces, are not counted.
func TestRefusedCallsOfAWorkspaceAddABoundedNumberOfRecords(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	l, _ := openLog(t, zap.New(core))
	now := time.Now()
	l.refused = fairshare.NewQuota(fairshare.Rate{PerSecond: 1, AtOnce: 5}, fairshare.Rate{PerSecond: 1, AtOnce: 100}, func() time.Time { return now })
	add := func(workspace string, status, attempts, body int) (kept, withBody bool) {
		r := record(0)
		r.WorkspaceID, r.Status, r.Attempts = workspace, status, attempts
		if body > 0 {
			r.Request = &Body{Size: int64(body), Bytes: make([]byte, body)}
		}
		kept = l.Add(r)
		return kept, kept && r.Request != nil
	}
	n := 0
	for i, c := range []struct {
		workspace              string
		status, attempts, body int
		kept, withBody         bool
	}{
		{"red", 429, 0, 60, true, true},
		{"red", 429, 0, 60, true, false}, // 40 bytes are left
		{"red", 429, 0, 40, true, true},
		{"red", 446, 0, 0, true, false},
		{"red", 429, 0, 0, true, false},
		{"red", 429, 0, 0, false, false},
		{"red", 429, 0, 60, false, false},
		{"red", 429, 1, 60, true, true}, // a provider said so
		{"red", 200, 0, 60, true, true}, // from the cache
		{"blue", 429, 0, 60, true, true},
	} {
		kept, withBody := add(c.workspace, c.status, c.attempts, c.body)
		if kept != c.kept || withBody != c.withBody {
			t.Errorf("%d: kept %v, with its body %v", i, kept, withBody)
		}
		if kept {
			n++
		}
	}
	if l.Lost() != 2 || l.LostBodies() != 2 || logs.Len() != 1 {
		t.Errorf("%d records and %d bodies are counted as lost, %d messages", l.Lost(), l.LostBodies(), logs.Len())
	}
	now = now.Add(time.Second)
	if kept, _ := add("red", 429, 0, 0); !kept {
		t.Error("a second later there is no room")
	}
	l.Close()
	mustHold(t, l, n+1)
}
