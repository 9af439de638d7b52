package exchange

import "github.com/caddy-gw/gateway/internal/inflight"

// Memory is what a call under way has reserved of the memory for all of them.
type Memory struct{ lease inflight.Lease }

// Reserve reserves n bytes, until [Memory.Free] or the end of the call. The error is of package
// inflight; [Overloaded] makes the caller's of it.
func (m *Memory) Reserve(n int) error { return m.lease.Grow(n) }

// Free gives back n bytes.
func (m *Memory) Free(n int) { m.lease.Shrink(n) }

// Share makes a lease of the memory for what goes on when the call has ended.
func (m *Memory) Share(l *inflight.Lease) { l.Join(&m.lease) }

// NewBuffer returns a buffer that holds b, with one reference. It is not pooled.
func (m *Memory) NewBuffer(b []byte) (*Buffer, error) {
	buffer := &Buffer{b: b}
	buffer.forgotten.Store(true)
	buffer.refs.Store(1)
	buffer.lease.Join(&m.lease)
	return buffer.charged()
}
