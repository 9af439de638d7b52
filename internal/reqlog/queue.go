package reqlog

import "sync"

// A queue holds records that wait to be written, up to a number of bytes. The last quarter
// is for records without bodies, so that bodies are dropped first. Custom records have a
// separate share.
type queue struct {
	mu     sync.Mutex
	calls  waiting
	custom waiting
	limit  int64
	closed bool
	read   chan struct{} // to be closed when what waits now is written; nil: nothing waits for that

	some chan struct{} // has a token once there are records
	full chan struct{} // once they fill a block, or the queue is closed
}

// waiting holds records of one kind.
type waiting struct {
	records []*Record
	bytes   int64 // of these records, and of those that the writer has taken but not written yet
}

func newQueue(limit int64) *queue {
	return &queue{limit: limit, some: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// of returns the queue for a record, and its bound in bytes.
func (q *queue) of(custom bool) (*waiting, int64) {
	if custom {
		return &q.custom, customShare(q.limit)
	}
	return &q.calls, q.limit - customShare(q.limit)
}

// put adds a record, and reports whether there was no room for it, or for its bodies.
func (q *queue) put(r *Record) (lost, bodiesLost bool) {
	size, bodies := r.size()
	q.mu.Lock()
	defer q.mu.Unlock()
	w, limit := q.of(r.Custom)
	if q.closed || w.bytes+size > limit {
		return true, bodies > 0
	}
	if bodies > 0 && w.bytes+size+bodies > limit-limit/4 {
		r.Request, r.Response = nil, nil
		bodies, bodiesLost = 0, true
	}
	w.bytes += size + bodies
	w.records = append(w.records, r)
	signal(q.some)
	if len(w.records) >= blockRecords || w.bytes >= blockBytes {
		signal(q.full)
	}
	return false, bodiesLost
}

// written returns a channel that is closed when the records that were added until now are
// written, or nil if they are. The writer does not wait for more of them.
func (q *queue) written() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.calls.bytes == 0 && q.custom.bytes == 0 {
		return nil
	}
	if q.read == nil {
		q.read = make(chan struct{})
	}
	signal(q.some)
	signal(q.full)
	return q.read
}

// take returns the waiting records of calls and one block of custom ones, so that calls
// do not wait for many of those. Their bytes count until they are returned. After these are
// written, done is to be called.
func (q *queue) take() (calls, custom []*Record, done func(), closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls, q.calls.records = q.calls.records, nil
	n := min(len(q.custom.records), blockRecords)
	custom, q.custom.records = q.custom.records[:n:n], q.custom.records[n:]
	if len(q.custom.records) > 0 {
		signal(q.some)
		signal(q.full)
		return calls, custom, func() {}, false
	}
	q.custom.records = nil
	if !q.closed {
		select {
		case <-q.full: // it was signalled for these records
		default:
		}
	}
	read := q.read
	q.read = nil
	return calls, custom, func() {
		if read != nil {
			close(read)
		}
	}, q.closed
}

func (q *queue) free(custom bool, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, _ := q.of(custom)
	w.bytes -= bytes
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
