package cache

import (
	"sync/atomic"
	"time"
)

// A Flight is a call in progress that other calls wait for. It does not use
// singleflight, because the leader streams the answer to its own client meanwhile, and
// another call may become the leader.
type Flight struct {
	c     *Cache
	key   Key
	done  chan struct{}
	held  atomic.Int64 // how long the answer has waited for the leader's client, in ns
	since atomic.Int64 // start of the current wait, in Unix ns; 0: not waiting

	entry  *Entry
	failed bool
}

// Join returns the flight of a key, and whether the caller leads it. The leader makes
// the call and ends the flight with Complete, Fail or Abandon.
func (c *Cache) Join(key Key) (f *Flight, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f = c.flights[key]; f != nil {
		return f, false
	}
	f = &Flight{c: c, key: key, done: make(chan struct{})}
	c.flights[key] = f
	return f, true
}

// Done returns a channel that is closed when the flight has ended.
func (f *Flight) Done() <-chan struct{} { return f.done }

// Result returns the result of a flight that has ended. Without an entry, failed means
// that each waiting call must be made separately; otherwise the leader disconnected,
// and another call may lead.
func (f *Flight) Result() (e *Entry, failed bool) { return f.entry, f.failed }

// Complete ends the flight with an answer for the waiting calls.
func (f *Flight) Complete(e *Entry) { f.end(e, false) }

// Fail ends the flight without an answer that can be shared.
func (f *Flight) Fail() { f.end(nil, true) }

// WriteStarted notes that a part of the answer is being written to the leader's client.
func (f *Flight) WriteStarted() { f.since.Store(time.Now().UnixNano()) }

// WriteDone notes that the leader's client has received all of the answer so far.
func (f *Flight) WriteDone() {
	if since := f.since.Swap(0); since != 0 {
		f.held.Add(time.Now().UnixNano() - since)
	}
}

// WriteTime returns how long the answer has waited for the leader's client in total.
func (f *Flight) WriteTime() time.Duration {
	held := f.held.Load()
	if since := f.since.Load(); since != 0 {
		held += time.Now().UnixNano() - since
	}
	return time.Duration(held)
}

// Abandon ends the flight of a leader whose client disconnected or stopped reading. It
// does nothing if the flight has ended.
func (f *Flight) Abandon() { f.end(nil, false) }

func (f *Flight) end(e *Entry, failed bool) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.c.flights[f.key] != f {
		return
	}
	delete(f.c.flights, f.key)
	f.entry, f.failed = e, failed
	close(f.done)
}
