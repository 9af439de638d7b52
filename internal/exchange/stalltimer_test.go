package exchange

import (
	"testing"
	"testing/synctest"
	"time"
)

// A message that has begun has to go on, and at least at the least rate; what has not begun may take its time.
func TestMessagesHaveToArriveInTime(t *testing.T) {
	for name, c := range map[string]struct {
		every   time.Duration // portions
		bytes   int
		begun   bool
		stalled bool
	}{
		"between messages":      {every: time.Hour, bytes: 10},
		"a message at once":     {every: time.Second, bytes: 1 << 20, begun: true},
		"slow, but fast enough": {every: 30 * time.Second, bytes: 30 << 10, begun: true},
		"a stalled message":     {every: 61 * time.Second, bytes: 1 << 20, begun: true, stalled: true},
		"a byte a second":       {every: time.Second, bytes: 1, begun: true, stalled: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stalled := false
				a := NewStallTimer(time.Minute, func() { stalled = true })
				defer a.Stop()
				for range 200 {
					a.Start(c.begun)
					time.Sleep(c.every)
					synctest.Wait()
					a.Transferred(c.bytes)
				}
				if stalled != c.stalled {
					t.Errorf("stalled: %v", stalled)
				}
			})
		})
	}
}
