package cache

import (
	"sync/atomic"
	"time"
)

// A Flight is a call under way whose answer other calls wait for. It does not use singleflight,
// because the leader streams the answer to its own client meanwhile, and may hand over to another
// leader.
type Flight struct {
	c     *Cache
	key   Key
	done  chan struct{}
	held  atomic.Int64 // how long pieces of the answer waited for the leader's client, in ns
	since atomic.Int64 // since when another does, in Unix ns; 0: none does

	entry  *Entry
	failed bool
}

// Join returns the flight of a key, and whether the caller leads it. The leader makes the call,
// and ends the flight with Land, Fail or Leave.
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

// Done is closed when the flight has ended.
func (f *Flight) Done() <-chan struct{} { return f.done }

// Result is the result of a flight that has ended. Without an entry, failed means that the calls
// that waited have to be made one by one; otherwise the leader left, and another may lead.
func (f *Flight) Result() (e *Entry, failed bool) { return f.entry, f.failed }

// Complete ends the flight with an answer for the calls that wait.
func (f *Flight) Complete(e *Entry) { f.end(e, false) }

// Fail ends the flight without an answer that could be shared.
func (f *Flight) Fail() { f.end(nil, true) }

// WriteStarted notes that a part of the answer is being sent to the leader's client, and Flow that the
// client has read it.
func (f *Flight) WriteStarted() { f.since.Store(time.Now().UnixNano()) }

// WriteDone notes that the leader's client has all that came of the answer.
func (f *Flight) WriteDone() {
	if since := f.since.Swap(0); since != 0 {
		f.held.Add(time.Now().UnixNano() - since)
	}
}

// WriteTime is how long the answer has waited for the leader's client, altogether.
func (f *Flight) WriteTime() time.Duration {
	held := f.held.Load()
	if since := f.since.Load(); since != 0 {
		held += time.Now().UnixNano() - since
	}
	return time.Duration(held)
}

// Abandon ends the flight of a leader whose own client left, or does not read on. It does nothing
// if the flight has ended.
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
