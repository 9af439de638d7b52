// Package inflight bounds the calls that are under way, and the bytes that they hold in memory
// while they are being processed: bodies, copies of them for retries, answers that are translated
// or stored.
//
// A [Budget] is shared by all calls. A [Lease] is the part of one holder, for a key of a
// workspace. A lease grows before memory is allocated, and shrinks or is closed when it is
// freed. Neither a workspace nor a key can use up everything: package fairshare determines
// what a workspace may hold of what is free, and what a key may hold of what is left to its
// workspace.
package inflight

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// Why a lease cannot grow.
var (
	ErrFull      = errors.New("calls in progress use all of the memory that calls may use (max_inflight_bytes)")
	ErrWorkspace = errors.New("calls in progress of this workspace use all of the memory that one workspace may use while others need some (max_inflight_bytes)")
	ErrKey       = errors.New("calls in progress with this key use all of the memory that one key may use while others need some (max_inflight_bytes)")
)

// Why a lease of a budget of calls cannot grow.
var (
	ErrCallsFull      = errors.New("too many calls are in progress (max_inflight_calls)")
	ErrCallsWorkspace = errors.New("this workspace has as many calls in progress as one workspace may have while others need some (max_inflight_calls)")
	ErrCallsKey       = errors.New("this key has as many calls in progress as one key may have while others need some (max_inflight_calls)")
)

// Refused reports whether err says that a lease could not grow.
func Refused(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrWorkspace) || errors.Is(err, ErrKey)
}

// A Budget bounds the total size of all leases. It is safe for concurrent use, and no
// operation waits.
type Budget struct {
	full, workspace, key error // why a lease cannot grow

	limit, used atomic.Int64
	growing     sync.Mutex // held while deciding whether a lease may grow, and counting it
	seed        maphash.Seed
	shards      [64]shard
}

type shard struct {
	mu     sync.Mutex
	shares map[holder]*share
}

// A holder is a key of a workspace or, without a key, the workspace.
type holder struct{ workspace, key string }

// A share is what one holder has.
type share struct {
	budget    *Budget
	workspace *share // of a key's
	held      atomic.Int64
	users     atomic.Int64 // leases that are open, and shares of keys
}

// maxIdle is how many shares a shard keeps before it drops unused ones.
const maxIdle = 64

// New returns a budget of limit bytes.
func New(limit int64) *Budget {
	b := &Budget{full: ErrFull, workspace: ErrWorkspace, key: ErrKey, seed: maphash.MakeSeed()}
	b.limit.Store(limit)
	return b
}

// NewCalls returns a budget of limit calls, whose leases have one unit each. Their errors are
// [ErrCallsFull], [ErrCallsWorkspace] and [ErrCallsKey].
func NewCalls(limit int64) *Budget {
	b := New(limit)
	b.full, b.workspace, b.key = ErrCallsFull, ErrCallsWorkspace, ErrCallsKey
	return b
}

// Resize sets the limit. Leases that exceed it are not affected.
func (b *Budget) Resize(limit int64) { b.limit.Store(limit) }

// Limit returns the limit, in bytes or calls.
func (b *Budget) Limit() int64 { return b.limit.Load() }

// InUse returns the total size of all leases, in bytes or calls.
func (b *Budget) InUse() int64 { return b.used.Load() }

// Most returns the most that one key can get of an empty budget.
func Most(limit int64) int64 {
	const f = fairshare.Factor
	return limit / (f*f + f + 1) * (f * f)
}

func (b *Budget) shard(h holder) *shard {
	name := h.key
	if name == "" {
		name = h.workspace
	}
	return &b.shards[maphash.String(b.seed, name)%uint64(len(b.shards))]
}

// find returns the share of a holder, with one more user, or nil if it has none.
func (b *Budget) find(h holder) *share {
	s := b.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.shares[h]
	if own != nil {
		own.users.Add(1)
	}
	return own
}

// share returns the share of a holder, with one more user.
func (b *Budget) share(h holder) *share {
	if own := b.find(h); own != nil {
		return own
	}
	fresh := &share{budget: b}
	if h.key != "" {
		fresh.workspace = b.share(holder{workspace: h.workspace}) // before the lock, because it may be in the same shard
	}
	s := b.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.shares[h]
	if own == nil {
		own = fresh
		s.add(h, own)
	} else if fresh.workspace != nil { // another goroutine was faster
		fresh.workspace.users.Add(-1)
	}
	own.users.Add(1)
	return own
}

// add adds a share, and drops unused ones if there are many.
func (s *shard) add(h holder, own *share) {
	if s.shares == nil {
		s.shares = make(map[holder]*share)
	}
	if len(s.shares) >= maxIdle {
		for h, other := range s.shares {
			if other.users.Load() > 0 { // users are only added under this lock
				continue
			}
			delete(s.shares, h)
			if other.workspace != nil {
				other.workspace.users.Add(-1)
			}
		}
	}
	s.shares[h] = own
}

// A Lease is one holder's part of a budget. The zero value, and nil, belong to no budget,
// and grow without bounds. Its methods are safe for concurrent use, except those that open
// it.
type Lease struct {
	share  *share
	n      atomic.Int64
	closed atomic.Bool
}

// Open makes the lease part of a budget, for a key of a workspace. The budget may be nil.
func (l *Lease) Open(b *Budget, workspace, key string) {
	var s *share
	if b != nil {
		s = b.share(holder{workspace, key})
	}
	l.open(s)
}

// Join makes the lease one for the key of another lease that is open.
func (l *Lease) Join(other *Lease) {
	var s *share
	if other != nil && other.share != nil {
		s = other.share
		s.users.Add(1)
	}
	l.open(s)
}

func (l *Lease) open(s *share) {
	l.share = s
	l.n.Store(0)
	l.closed.Store(false)
}

// Grow adds n bytes. If it cannot, the error is [ErrFull], [ErrWorkspace] or [ErrKey], and
// the size stays as it was.
func (l *Lease) Grow(n int) error {
	if l == nil || l.share == nil || n <= 0 || l.closed.Load() {
		return nil
	}
	if err := l.share.grow(int64(n)); err != nil {
		return err
	}
	l.n.Add(int64(n))
	if l.closed.Load() { // in the meantime: what Close did not see is given back here
		l.giveBack(l.n.Swap(0))
	}
	return nil
}

// grow decides before it counts, so that what is refused never affects others.
func (s *share) grow(n int64) error {
	b := s.budget
	b.growing.Lock()
	defer b.growing.Unlock()
	free := b.limit.Load() - b.used.Load() - n
	if free < 0 {
		return b.full
	}
	if w := s.workspace; w != nil {
		if free = fairshare.Left(w.held.Load()+n, free); free < 0 {
			return b.workspace
		}
		if fairshare.Left(s.held.Load()+n, free) < 0 {
			return b.key
		}
	} else if fairshare.Left(s.held.Load()+n, free) < 0 {
		return b.workspace
	}
	b.used.Add(n)
	s.add(n)
	return nil
}

func (s *share) add(n int64) {
	s.held.Add(n)
	if s.workspace != nil {
		s.workspace.held.Add(n)
	}
}

// Shrink gives back n bytes, or all if the lease has less.
func (l *Lease) Shrink(n int) {
	if l == nil || l.share == nil || n <= 0 {
		return
	}
	for {
		has := l.n.Load()
		give := min(has, int64(n))
		if l.n.CompareAndSwap(has, has-give) {
			l.giveBack(give)
			return
		}
	}
}

// Size returns the size of the lease, in bytes.
func (l *Lease) Size() int64 { return l.n.Load() }

// Close gives back everything. It may be called repeatedly.
func (l *Lease) Close() {
	if l == nil || l.share == nil || l.closed.Swap(true) {
		return
	}
	l.giveBack(l.n.Swap(0))
	l.share.users.Add(-1)
}

func (l *Lease) giveBack(n int64) {
	l.share.add(-n)
	l.share.budget.used.Add(-n)
}
