package policies

import (
	"strings"
	"sync"
	"time"
)

// maxWaits bounds the counters of which memory knows how long their reservations are held.
const maxWaits = 20_000

// leastWait is what a caller is told if nothing else is known.
const leastWait = time.Second

// waits are how long reservations of budgets are held, on average, by counter: when what others
// have reserved may be free again. How long the calls of one counter take says nothing of another's,
// which may be another workspace's. It is safe for concurrent use.
type waits struct {
	mu sync.Mutex
	of map[string]time.Duration
}

// held notes that a reservation was held for so long.
func (w *waits) held(counter string, d time.Duration) {
	const weight = 16
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.of[counter]
	if !known {
		old = leastWait
		if w.of == nil {
			w.of = make(map[string]time.Duration)
		}
		for other := range w.of { // any other makes room: it starts over
			if len(w.of) < maxWaits {
				break
			}
			delete(w.of, other)
		}
		counter = strings.Clone(counter)
	}
	w.of[counter] = old + (max(d, 0)-old)/weight
}

// wait returns how long a caller should wait for a counter.
func (w *waits) wait(counter string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(leastWait, w.of[counter])
}

// forget forgets the counters whose names begin with prefix.
func (w *waits) forget(prefix string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for counter := range w.of {
		if strings.HasPrefix(counter, prefix) {
			delete(w.of, counter)
		}
	}
}
