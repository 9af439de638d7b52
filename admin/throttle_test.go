package admin

import (
	"fmt"
	"testing"
	"time"
)

// Regardless of how many keys are refused, a throttled key stays throttled until its
// time is over, and a key of another workspace that was never refused is not throttled.
func TestAFloodOfRefusedKeysFreesNone(t *testing.T) {
	now := time.Unix(0, 0)
	s := newThrottle(func() time.Time { return now })
	s.maximum = 100
	lock := func(workspace, key string) {
		for range refusalsAtOnce {
			s.refused(workspace, key, true)
		}
	}
	lock("victim", "locked")
	for i := range 10 * s.maximum {
		s.refused("flood", fmt.Sprint(i), true)
	}
	for _, c := range []struct {
		workspace, key string
		want           bool
	}{
		{"victim", "locked", true},
		{"victim", "innocent", false},
		{"other", "innocent", false},
		{"flood", "0", false},
		{"flood", "9", false},
		{"flood", "one too many", true},
	} {
		if got := s.spent(c.workspace, c.key); got != c.want {
			t.Errorf("%s of %s: held back: %v", c.key, c.workspace, got)
		}
	}
	lock("other", "bad") // there is room for its own state
	if !s.spent("other", "bad") || s.spent("other", "innocent") {
		t.Error("keys of another workspace are not told apart")
	}
	if len(s.known) > s.maximum+1 || s.keys > s.maximum || s.idle.Len() != len(s.known) {
		t.Errorf("%d keys are known", len(s.known))
	}
	now = now.Add(time.Second)
	if s.spent("victim", "locked") {
		t.Error("it is held back though there is something left again")
	}
	lock("victim", "locked")
	now = now.Add(throttledFor)
	if s.spent("flood", "one too many") || len(s.known) != 0 || s.keys != 0 || len(s.keysOf) != 0 {
		t.Errorf("%d keys are known when all is over", len(s.known))
	}
}
