package exchange

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// A Buffer holds a body. Buffers are pooled: everyone who may still read one holds
// a reference, because an HTTP transport may go on reading a request's body after
// its answer has arrived.
type Buffer struct {
	b    []byte
	refs atomic.Int32
}

const (
	startSize = 16 << 10
	maxPooled = 1 << 20 // larger buffers are left to the garbage collector
)

var buffers = sync.Pool{New: func() any { return &Buffer{b: make([]byte, 0, startSize)} }}

// newBuffer returns an empty buffer with room for size bytes and one reference.
func newBuffer(size int) *Buffer {
	b := buffers.Get().(*Buffer)
	if cap(b.b) < size {
		b.b = make([]byte, 0, size)
	}
	b.b = b.b[:0]
	b.refs.Store(1)
	return b
}

// NewBuffer returns a buffer that holds b, with one reference.
func NewBuffer(b []byte) *Buffer {
	buffer := &Buffer{b: b}
	buffer.refs.Store(1)
	return buffer
}

// Bytes returns what the buffer holds; it is valid while a reference is held.
func (b *Buffer) Bytes() []byte { return b.b }

// Release gives a reference back.
func (b *Buffer) Release() {
	if b.refs.Add(-1) == 0 && cap(b.b) <= maxPooled {
		buffers.Put(b)
	}
}

// Reader returns a new reader of the buffer that holds a reference until it is
// closed.
func (b *Buffer) Reader() io.ReadCloser {
	b.refs.Add(1)
	return &bufferReader{buffer: b}
}

// A bufferReader may be closed while another goroutine reads it, as an HTTP
// transport does with a body that it gave up on.
type bufferReader struct {
	mu     sync.Mutex
	buffer *Buffer // nil once closed
	off    int
}

func (r *bufferReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buffer == nil {
		return 0, errors.New("read of a closed body")
	}
	n := copy(p, r.buffer.b[r.off:])
	if r.off += n; n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *bufferReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buffer != nil {
		r.buffer.Release()
		r.buffer = nil
	}
	return nil
}

var errBodyTooLarge = errors.New("body over the limit")

// readBody reads a whole body of at most limit bytes into a buffer.
func readBody(r *http.Request, limit int64) (*Buffer, error) {
	if r.ContentLength > limit {
		return nil, errBodyTooLarge
	}
	size := startSize
	if r.ContentLength > 0 {
		// The extra byte lets the last Read see EOF. What a header promises is
		// believed only so far, or a few idle requests could hold a lot of memory.
		size = int(min(r.ContentLength, maxPooled-1)) + 1
	}
	buffer := newBuffer(size)
	for {
		if len(buffer.b) == cap(buffer.b) {
			buffer.b = append(buffer.b, 0)[:len(buffer.b)]
		}
		n, err := r.Body.Read(buffer.b[len(buffer.b):cap(buffer.b)])
		buffer.b = buffer.b[:len(buffer.b)+n]
		switch {
		case int64(len(buffer.b)) > limit:
			buffer.Release()
			return nil, errBodyTooLarge
		case err == io.EOF:
			return buffer, nil
		case err != nil:
			buffer.Release()
			return nil, err
		}
	}
}
