package exchange

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A StallTimer limits how long one side of a WebSocket may stall, by the rule for request bodies: some bytes have
// to pass every so often, and in the long run at least minRate of them a second. Only the time spent waiting for
// that side counts. It is safe for concurrent use.
type StallTimer struct {
	timeout time.Duration // 0: no limit
	onStall func()

	mu     sync.Mutex
	timer  *time.Timer // nil: nothing was waited for yet
	begun  time.Time   // of waiting; zero: not waiting
	waited time.Duration
}

// NewStallTimer returns a timer that calls onStall once the limit is exceeded.
func NewStallTimer(timeout time.Duration, onStall func()) *StallTimer {
	return &StallTimer{timeout: timeout, onStall: onStall}
}

// Transferred stops the timer, because n bytes were read or written.
func (t *StallTimer) Transferred(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun.IsZero() {
		return
	}
	t.timer.Stop()
	t.waited = max(0, t.waited+time.Since(t.begun)-time.Duration(n)*time.Second/minRate)
	t.begun = time.Time{}
}

// Start starts the timer before a read or write. Between two messages (inMessage is false) there is no limit.
func (t *StallTimer) Start(inMessage bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch left := t.timeout - t.waited; {
	case t.timeout == 0:
	case !inMessage:
		t.waited = 0
	case t.timer == nil:
		t.begun, t.timer = time.Now(), time.AfterFunc(max(left, 0), t.onStall)
	default:
		t.begun = time.Now()
		t.timer.Reset(max(left, 0))
	}
}

// Stop ends the waiting.
func (t *StallTimer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timeout = 0; t.timer != nil {
		t.timer.Stop()
	}
}

// MessageTooSlow is the refusal of a message that does not come in time.
func MessageTooSlow(timeout time.Duration) *Error {
	return &Error{
		Status: http.StatusRequestTimeout, Type: typeTimeout,
		Message: "A message of the WebSocket did not come in time: expected some of it every " + strconv.FormatInt(timeout.Milliseconds(), 10) +
			"ms, and in the long run at least " + strconv.Itoa(minRate) + " bytes a second",
	}
}

// WriteTimeout is how long writing a message of size bytes to a client may take: the timeout for stalls, and the
// time that a slow connection needs. Both are 0 if there is no limit.
func WriteTimeout(stallTimeout time.Duration, size int) time.Duration {
	if stallTimeout == 0 {
		return 0
	}
	return stallTimeout + TransferTime(size)
}

// TransferTime is how long size bytes take at the least rate that is allowed.
func TransferTime(size int) time.Duration { return time.Duration(size) * time.Second / minRate }
