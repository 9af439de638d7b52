package fairshare

import (
	"context"
	"sync"
)

// A Semaphore lets a number of operations run at the same time, and of each holder no more than its
// share. Holders whose operations wait take turns. It is safe for concurrent use.
type Semaphore struct {
	mu      sync.Mutex
	free    int
	clock   uint64 // of turns
	holders map[string]*holder
}

// A holder is one that has operations running or waiting.
type holder struct {
	running int
	waiting []chan struct{} // in the order in which they came
	turn    uint64          // when it had its last one
}

// NewSemaphore returns a semaphore for so many operations at the same time, 1 at least.
func NewSemaphore(operations int) *Semaphore {
	return &Semaphore{free: max(operations, 1), holders: make(map[string]*holder)}
}

// Acquire waits until an operation of a holder may run, which is over when release is called, once.
// The error is that of the context.
func (s *Semaphore) Acquire(ctx context.Context, name string) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	h := s.holders[name]
	if h == nil {
		s.clock++
		h = &holder{turn: s.clock} // behind those that are there already
		s.holders[name] = h
	}
	ready := make(chan struct{})
	h.waiting = append(h.waiting, ready)
	s.start()
	s.mu.Unlock()
	select {
	case <-ready:
		return func() { s.end(name) }, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for i, other := range h.waiting {
		if other == ready {
			h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
			s.forget(name)
			s.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	s.mu.Unlock()
	s.end(name) // it got its turn in the meantime
	return nil, ctx.Err()
}

// end ends an operation.
func (s *Semaphore) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[name].running--
	s.free++
	s.start()
	s.forget(name)
}

// start starts what may run: first of those that have least running, then of those whose last turn
// was the longest ago.
func (s *Semaphore) start() {
	for s.free > 0 {
		var next *holder
		for _, h := range s.holders {
			if len(h.waiting) == 0 || h.running > 0 && Left(int64(h.running+1), int64(s.free-1)) < 0 {
				continue
			}
			if next == nil || h.running < next.running || h.running == next.running && h.turn < next.turn {
				next = h
			}
		}
		if next == nil {
			return
		}
		s.clock++
		s.free--
		next.running++
		next.turn = s.clock
		close(next.waiting[0])
		next.waiting = next.waiting[1:]
	}
}

func (s *Semaphore) forget(name string) {
	if h := s.holders[name]; h != nil && h.running == 0 && len(h.waiting) == 0 {
		delete(s.holders, name)
	}
}
