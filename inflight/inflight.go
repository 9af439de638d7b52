// Package inflight bounds the bytes that calls hold in memory while they are under way:
// bodies, copies of them for another attempt, answers that are translated or kept.
//
// A [Budget] is shared by all calls. A [Lease] is what one holder has of it, for one key.
// A lease grows before memory is taken, and shrinks or is closed when it is given back. No
// key can take all: it may hold as long as that is at most [ShareOfFree] times what is
// free. Alone it gets three quarters of the budget, two that take what they can get three
// sevenths each, and however many they are, something is free for the next one.
package inflight

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// ShareOfFree is how many times what is free a key may hold.
const ShareOfFree = 3

// Why a lease does not grow.
var (
	ErrFull  = errors.New("the calls under way hold as much memory as they may together (max_inflight_bytes)")
	ErrShare = errors.New("the calls of this key that are under way hold as much memory as one key may while others need some (max_inflight_bytes)")
)

// Refused reports whether err says that a lease could not grow.
func Refused(err error) bool { return errors.Is(err, ErrFull) || errors.Is(err, ErrShare) }

// A Budget bounds what all leases hold together. It is safe for concurrent use, and no
// operation waits.
type Budget struct {
	limit, used atomic.Int64
	seed        maphash.Seed
	shards      [64]shard
}

type shard struct {
	mu     sync.Mutex
	shares map[string]*share
}

// A share is what one key holds.
type share struct {
	budget *Budget
	held   atomic.Int64
	leases atomic.Int64 // that are open
}

// maxIdle is how many shares a shard keeps before it drops those that nobody uses.
const maxIdle = 64

// New returns a budget of limit bytes.
func New(limit int64) *Budget {
	b := &Budget{seed: maphash.MakeSeed()}
	b.limit.Store(limit)
	return b
}

// Resize sets the limit. What is held above it stays so until it is given back.
func (b *Budget) Resize(limit int64) { b.limit.Store(limit) }

// Limit returns the limit, in bytes.
func (b *Budget) Limit() int64 { return b.limit.Load() }

// Held returns what all leases hold, in bytes.
func (b *Budget) Held() int64 { return b.used.Load() }

// Most returns what one lease can get at the most, in bytes: of an empty budget.
func (b *Budget) Most() int64 { return b.limit.Load() / (ShareOfFree + 1) * ShareOfFree }

// share returns the share of a key with one more lease.
func (b *Budget) share(key string) *share {
	s := &b.shards[maphash.String(b.seed, key)%uint64(len(b.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.shares[key]
	if own == nil {
		if s.shares == nil {
			s.shares = make(map[string]*share)
		}
		if len(s.shares) >= maxIdle {
			for key, other := range s.shares {
				if other.leases.Load() == 0 { // it gets one only under this lock
					delete(s.shares, key)
				}
			}
		}
		own = &share{budget: b}
		s.shares[key] = own
	}
	own.leases.Add(1)
	return own
}

// A Lease is what one holder has of a budget. The zero value, and nil, belong to none, and
// grow without bounds. Its methods are safe for concurrent use, save those that open it.
type Lease struct {
	share  *share
	n      atomic.Int64
	closed atomic.Bool
}

// Open makes the lease one of a budget's, for a key; of a nil budget, one of none.
func (l *Lease) Open(b *Budget, key string) {
	var s *share
	if b != nil {
		s = b.share(key)
	}
	l.open(s)
}

// Join makes the lease one for the key of another that is open.
func (l *Lease) Join(other *Lease) {
	var s *share
	if other != nil && other.share != nil {
		s = other.share
		s.leases.Add(1)
	}
	l.open(s)
}

func (l *Lease) open(s *share) {
	l.share = s
	l.n.Store(0)
	l.closed.Store(false)
}

// Grow takes n bytes. The error, [ErrFull] or [ErrShare], says that it took none.
func (l *Lease) Grow(n int) error {
	if l == nil || l.share == nil || n <= 0 || l.closed.Load() {
		return nil
	}
	s := l.share
	b := s.budget
	free := b.limit.Load() - b.used.Add(int64(n))
	if held := s.held.Add(int64(n)); held > ShareOfFree*free {
		s.held.Add(int64(-n))
		b.used.Add(int64(-n))
		if free < 0 {
			return ErrFull
		}
		return ErrShare
	}
	l.n.Add(int64(n))
	if l.closed.Load() { // meanwhile: what Close did not see is given back here
		l.give(l.n.Swap(0))
	}
	return nil
}

// Shrink gives n bytes back, or all where the lease has less.
func (l *Lease) Shrink(n int) {
	if l == nil || l.share == nil || n <= 0 {
		return
	}
	for {
		has := l.n.Load()
		give := min(has, int64(n))
		if l.n.CompareAndSwap(has, has-give) {
			l.give(give)
			return
		}
	}
}

// Held returns what the lease has, in bytes.
func (l *Lease) Held() int64 { return l.n.Load() }

// Close gives all back. Closing it again does nothing.
func (l *Lease) Close() {
	if l == nil || l.share == nil || l.closed.Swap(true) {
		return
	}
	l.give(l.n.Swap(0))
	l.share.leases.Add(-1)
}

func (l *Lease) give(n int64) {
	l.share.held.Add(-n)
	l.share.budget.used.Add(-n)
}
