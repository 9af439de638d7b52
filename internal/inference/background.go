package inference

import (
	"sync"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// Conclude gives the record of a call that has ended to add, at once or when the work is done that
// stages have after it.
func (f *Forwarder) Conclude(x *exchange.Exchange, add func(*reqlog.Record) bool) {
	r := Record(x)
	var all []func(room bool)
	size := 0
	for n := range x.Notes.All() {
		if n, ok := n.(exchange.DeferredNote); ok {
			if bytes, work := n.Deferred(); work != nil {
				all, size = append(all, work), size+bytes
			}
		}
	}
	if all == nil {
		add(r)
		return
	}
	memory := new(inflight.Lease)
	x.Memory.Share(memory)
	room := memory.Grow(size) == nil
	release := x.Gateway.Acquire()
	end := func(room bool) {
		defer release()
		defer memory.Close()
		for _, work := range all {
			work(room)
		}
		for n := range x.Notes.All() {
			n.Record(r)
		}
		add(r)
	}
	if !room || !f.background.start(func() { end(true) }) {
		end(false)
	}
}

// Bounds of what runs after calls.
const (
	maxQueued     = 1000 // calls that wait
	maxBackground = 32
)

// A backgroundQueue runs functions in the background, in their order, some of them at the same time.
type backgroundQueue struct {
	mu      sync.Mutex
	running int
	waiting []func()
}

// start has a function run, and reports whether there is room for it.
func (q *backgroundQueue) start(run func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.running < maxBackground:
		q.running++
		go q.work(run)
	case len(q.waiting) < maxQueued:
		q.waiting = append(q.waiting, run)
	default:
		return false
	}
	return true
}

func (q *backgroundQueue) work(run func()) {
	for ; run != nil; run = q.next() {
		run()
	}
}

// next returns what waits, or nil: nothing does, and one function less is running.
func (q *backgroundQueue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return nil
	}
	run := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return run
}
