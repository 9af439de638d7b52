package policies

import (
	"fmt"
	"testing"
	"time"
)

// How long the calls of one counter take is not shown to the callers of another.
func TestWhenToRetryIsOfTheCounterAlone(t *testing.T) {
	w := newWorld(t)
	slow := budgetOf(Tokens, 1000)
	slow.AllWorkspaces, slow.GroupBy = true, []string{KeyAPIKey}
	w.budget(slow)
	retry := func(workspace, key string) time.Duration {
		t.Helper()
		v := w.admit(workspace, call{KeyAPIKey: {key}, "demand": {"500 500"}}) // what is used of it stays
		defer w.Release(v)
		refused := w.refused(workspace, call{KeyAPIKey: {key}, "demand": {"500 500"}}, "b")
		defer w.Release(refused)
		if refused.Denied.Spent {
			t.Errorf("%+v", refused.Denied)
		}
		return refused.Denied.RetryAfter
	}
	for range 100 {
		v := w.admit("ws-1", call{KeyAPIKey: {"slow"}, "demand": {"10 10"}})
		w.pass(10 * time.Minute)
		w.settle(v, Used{})
	}
	if got := retry("ws-1", "slow"); got < 9*time.Minute || got > 10*time.Minute {
		t.Errorf("a caller of the slow calls waits for %s", got)
	}
	if got := retry("ws-2", "quick"); got != time.Second {
		t.Errorf("another caller waits for %s", got)
	}
	if err := w.Forget(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if len(w.waits.of) > 0 {
		t.Errorf("a policy that is gone has left %v", w.waits.of)
	}
}

func TestWaitsAreBounded(t *testing.T) {
	var w waits
	for i := range maxWaits + 100 {
		w.held(fmt.Sprint(i), time.Hour)
	}
	if len(w.of) != maxWaits {
		t.Errorf("%d counters, at most %d are wanted", len(w.of), maxWaits)
	}
}
