package reqlog

import "sync"

// A queue holds the records that wait for the writer, up to a number of bytes. The last
// quarter of them is for records alone: bodies are the first to find no room.
type queue struct {
	mu      sync.Mutex
	records []*Record
	bytes   int64 // of those, and of what the writer has taken and not written yet
	limit   int64
	closed  bool

	some chan struct{} // has a token once there are records
	full chan struct{} // once they fill a block, or the queue is closed
}

func newQueue(limit int64) *queue {
	return &queue{limit: limit, some: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// put adds a record, and reports whether there was no room for it, or for its bodies.
func (q *queue) put(r *Record) (lost, bodiesLost bool) {
	size, bodies := r.size()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes+size > q.limit {
		return true, bodies > 0
	}
	if bodies > 0 && q.bytes+size+bodies > q.limit-q.limit/4 {
		r.Request, r.Response = nil, nil
		bodies, bodiesLost = 0, true
	}
	q.bytes += size + bodies
	q.records = append(q.records, r)
	signal(q.some)
	if len(q.records) >= blockRecords || q.bytes >= blockBytes {
		signal(q.full)
	}
	return false, bodiesLost
}

// take returns all that waits. Its bytes are free again once they are given back.
func (q *queue) take() (records []*Record, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	records, q.records = q.records, nil
	if !q.closed {
		select {
		case <-q.full: // it was about these records
		default:
		}
	}
	return records, q.closed
}

func (q *queue) free(bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= bytes
}

func (q *queue) resize(limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = limit
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	signal(q.some)
	signal(q.full)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
