package tokens

import (
	"sync"
	"sync/atomic"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// maxWaiting bounds the bytes of the texts that wait, of which a holder has its share: 1 MiB, if nobody else has any. They
// are counted within a second or two, and within a quarter of a minute at worst.
const maxWaiting = (1<<20)*(fairshare.Factor+1)/fairshare.Factor + 1

// A Queue does work that counts texts, one at a time, in the background: that of each holder in its order, and of several holders
// by turns. The zero value is an empty one.
type Queue struct {
	mu      sync.Mutex
	running bool
	closed  bool
	worker  sync.WaitGroup
	holders map[string]*holder
	turns   []*holder // that have work waiting
	bytes   int       // of all work

	uncounted atomic.Int64
}

// A holder is one that has work waiting or under way.
type holder struct {
	name    string
	waiting []work
	bytes   int // of all of its work
}

type work struct {
	of    *holder
	bytes int
	do    func()
}

// Add has work of a holder done that counts so many bytes of text, and reports whether its share has room for it. There is none
// once the queue is closed.
func (q *Queue) Add(name string, bytes int, do func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.holders[name]
	if h == nil {
		h = &holder{name: name}
	}
	if q.closed || fairshare.Left(int64(h.bytes+bytes), int64(maxWaiting-q.bytes-bytes)) < 0 {
		return false
	}
	if q.holders == nil {
		q.holders = make(map[string]*holder)
	}
	q.holders[name] = h
	if len(h.waiting) == 0 {
		q.turns = append(q.turns, h)
	}
	h.waiting = append(h.waiting, work{h, bytes, do})
	h.bytes, q.bytes = h.bytes+bytes, q.bytes+bytes
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
		q.done(&w)
	}
}

func (q *Queue) next() (w work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		q.running, q.turns = false, nil
		return w
	}
	h := q.turns[0]
	q.turns[0] = nil
	q.turns = q.turns[1:]
	w, h.waiting[0] = h.waiting[0], work{}
	if h.waiting = h.waiting[1:]; len(h.waiting) > 0 {
		q.turns = append(q.turns, h)
	} else {
		h.waiting = nil
	}
	return w
}

func (q *Queue) done(w *work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := w.of
	h.bytes, q.bytes = h.bytes-w.bytes, q.bytes-w.bytes
	if h.bytes == 0 && len(h.waiting) == 0 {
		delete(q.holders, h.name)
	}
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
