package tokens

import (
	"sync"
	"sync/atomic"
)

// maxWaiting bounds the bytes of the texts that wait. They are counted within a second or two, and within a quarter of a minute at worst.
const maxWaiting = 1 << 20

// A Queue does work that counts texts, in its order and one at a time, in the background. The zero value is an
// empty one.
type Queue struct {
	mu      sync.Mutex
	running bool
	closed  bool
	worker  sync.WaitGroup
	waiting []work
	bytes   int // of all of it

	uncounted atomic.Int64
}

type work struct {
	bytes int
	do    func()
}

// Add has work done that counts so many bytes of text, and reports whether there is room for it. There is none
// once the queue is closed.
func (q *Queue) Add(bytes int, do func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes+bytes > maxWaiting {
		return false
	}
	q.waiting, q.bytes = append(q.waiting, work{bytes, do}), q.bytes+bytes
	if !q.running {
		q.running = true
		q.worker.Go(q.run)
	}
	return true
}

// run works until nothing waits.
func (q *Queue) run() {
	for w := q.next(); w.do != nil; w = q.next() {
		w.do()
		q.mu.Lock()
		q.bytes -= w.bytes
		q.mu.Unlock()
	}
}

func (q *Queue) next() (w work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running, q.waiting = false, nil
		return w
	}
	w, q.waiting[0] = q.waiting[0], work{}
	q.waiting = q.waiting[1:]
	return w
}

// Close waits until all work is done. What would be added after it is not.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.worker.Wait()
}

// Uncounted notes that a text could not be counted.
func (q *Queue) Uncounted() { q.uncounted.Add(1) }

// UncountedTexts is how many texts could not be counted.
func (q *Queue) UncountedTexts() int64 { return q.uncounted.Load() }
