package exchange

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/race"
)

// A Buffer holds a body. Buffers are pooled: each reader holds a reference, because an HTTP
// transport may go on reading a request's body after its answer has arrived. The memory is leased
// until the last reference is gone.
type Buffer struct {
	b     []byte
	refs  atomic.Int32
	lease inflight.Lease

	forgotten atomic.Bool // it is not pooled
}

// Buffers are pooled by capacity, so that a small body holds no large buffer. The large ones have
// room for a little more than a round number, as files have that were encoded in base64.
var (
	classes = [...]int{
		1 << 10, 4 << 10, startSize, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20,
		3 << 19, 2<<20 + 4<<10, 3 << 20, maxPooled,
	}
	pools [len(classes)]sync.Pool
)

const (
	startSize = 16 << 10
	maxPooled = 4<<20 + 4<<10 // larger buffers are left to the garbage collector

	// trust is how many times what has arrived of a body is reserved for what its length promises.
	trust = 16
)

// class returns the smallest class of buffers with room for size bytes.
func class(size int) (i int, ok bool) {
	for i, c := range classes {
		if size <= c {
			return i, true
		}
	}
	return 0, false
}

// newBuffer returns an empty buffer with room for size bytes and one reference. Its memory
// is that of the key of a lease, which may be nil. The error is of package inflight.
func newBuffer(size int, of *inflight.Lease) (*Buffer, error) {
	i, pooled := class(size)
	if pooled {
		size = classes[i]
	}
	var b *Buffer
	if pooled {
		b, _ = pools[i].Get().(*Buffer)
	}
	if b == nil {
		b = new(Buffer)
	}
	b.lease.Join(of)
	if err := b.lease.Grow(size); err != nil {
		b.lease.Close()
		return nil, err
	}
	if b.b == nil {
		b.b = make([]byte, 0, size)
	}
	b.b = b.b[:0]
	b.refs.Store(1)
	return b, nil
}

// grown returns a larger buffer with the contents of b, which it releases. If it is known how
// much is to come, want is the final size.
func (b *Buffer) grown(want int) (*Buffer, error) {
	defer b.Release()
	size := 2 * cap(b.b)
	switch {
	case want > cap(b.b):
		size = min(want, trust*cap(b.b))
	case cap(b.b) < 1<<20:
		size = min(4*cap(b.b), 1<<20)
	}
	larger, err := newBuffer(size, &b.lease)
	if err != nil {
		return nil, err
	}
	larger.b = append(larger.b, b.b...)
	return larger, nil
}

// charged updates the lease of a buffer that has grown. If that is refused, the buffer is
// released.
func (b *Buffer) charged() (*Buffer, error) {
	if err := b.lease.Grow(cap(b.b) - int(b.lease.Size())); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Bytes returns what the buffer holds; it is valid while a reference is held.
func (b *Buffer) Bytes() []byte { return b.b }

// Release gives a reference back.
func (b *Buffer) Release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	b.lease.Close()
	if i, ok := class(cap(b.b)); ok && cap(b.b) == classes[i] && !b.forgotten.Load() {
		if race.Enabled { // tests see at once what reads a buffer that was released
			overwrite(b.b[:cap(b.b)])
		}
		pools[i].Put(b)
	}
}

var overwriting = bytes.Repeat([]byte{0xdb}, classes[0])

func overwrite(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, overwriting):]
	}
}

// Forget gives a reference back to a buffer that must not be used again, because its bytes may
// still be in use elsewhere.
func (b *Buffer) Forget() {
	b.forgotten.Store(true)
	b.Release()
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

// readBody reads a whole body of at most limit bytes into a buffer. length is that of the header,
// or -1; the memory that is reserved for it is at most startSize, or trust times what has arrived.
func readBody(src io.Reader, length, limit int64, of *inflight.Lease) (*Buffer, error) {
	if length > limit {
		return nil, errBodyTooLarge
	}
	size, want := startSize, 0
	if length > 0 {
		want = int(length) + 1 // the extra byte lets the last Read see EOF
		size = min(want, startSize)
	}
	buffer, err := newBuffer(size, of)
	if err != nil {
		return nil, err
	}
	for {
		if len(buffer.b) == cap(buffer.b) {
			if buffer, err = buffer.grown(want); err != nil {
				return nil, err
			}
		}
		n, err := src.Read(buffer.b[len(buffer.b):cap(buffer.b)])
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
