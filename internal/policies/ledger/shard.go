package ledger

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"time"
)

const (
	// shardCount is also the number of bits in the sets of shards.
	shardCount = 64

	// linger is how long an account stays in memory that counts nothing, so that
	// a key that is always refused does not cost a read of the store each time.
	linger = time.Second

	// sweepsPerCall and sweepsWhenFull bound the accounts that a call looks at,
	// in each of its shards or, for want of room, in every shard.
	sweepsPerCall  = 2
	sweepsWhenFull = 64

	// rest is how long a counter that counts forever stays in memory unused.
	rest = int64(10 * time.Minute)
)

// An account is the counter of a key, and what connects it to the store.
type account struct {
	counter
	key    string
	owner  string // of the last claim that had one, or as the record says
	shard  *shard
	flight *flight       // the store I/O that is under way, of which there is one at most
	asked  int64         // the units that the claims being decided on ask for
	limit  int64         // of the last claim that was admitted
	used   int64         // when units were last reserved
	freed  chan struct{} // closed when units are given back; nil: nobody waits for it
	loaded bool          // the counter holds what the store's record said
	dirty  bool          // the store's record may differ from the counter
	behind bool          // the record lacks something that counts: it must be written first
}

// follow brings the counter to now and to a claim's window.
func (a *account) follow(window time.Duration, now int64) {
	if a.window == window {
		a.advance(now)
		return
	}
	a.rebase(window, now)
	a.behind = a.behind || a.total > 0
}

// A shard is a part of the accounts, under one lock. Whoever needs several locks
// takes them in the order of the shards.
type shard struct {
	mu       sync.Mutex
	accounts map[string]*account
	dues     dues
	latest   int64 // the time of the last sweep
	closed   bool
}

// A due says when to see whether an account is idle; not before that time is it.
type due struct {
	at      int64
	account *account
}

// dues is a heap: the earliest comes first.
type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = due{}
	*d = (*d)[:last]
	return x
}

func (l *Ledger) shardOf(key string) int {
	return int(maphash.String(l.seed, key) % shardCount)
}

// lock locks a set of shards.
func (l *Ledger) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (l *Ledger) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}

// account returns the account of a key in s, a new one if need be, which is yet
// to be loaded. The set of shards that the caller has locked includes s.
func (l *Ledger) account(s *shard, key string, window time.Duration, now int64, locked uint64) (*account, error) {
	if s.closed {
		return nil, ErrClosed
	}
	if a := s.accounts[key]; a != nil {
		return a, nil
	}
	if l.live.Add(1) > l.max && !l.evict(locked) {
		l.live.Add(-1)
		return nil, fmt.Errorf("%w: %d in memory, none idle, and %q is new", ErrFull, l.max, key)
	}
	a := &account{counter: counter{window: window}, key: strings.Clone(key), shard: s}
	s.accounts[a.key] = a
	heap.Push(&s.dues, due{now + int64(linger), a})
	return a, nil
}

// evict drops an idle account, of any shard that is in locked or not busy.
func (l *Ledger) evict(locked uint64) bool {
	for i := range l.shards {
		s := &l.shards[i]
		mine := locked&(1<<i) != 0
		if !mine && !s.mu.TryLock() {
			continue
		}
		dropped := l.sweepShard(s, l.now(), sweepsWhenFull) // never a time from before the lock
		if !mine {
			s.mu.Unlock()
		}
		l.live.Add(-dropped)
		if dropped > 0 {
			return true
		}
	}
	return false
}

// sweep drops idle accounts of the shards in locked.
func (l *Ledger) sweep(locked uint64, now int64) {
	for ; locked != 0; locked &= locked - 1 {
		if n := l.sweepShard(&l.shards[bits.TrailingZeros64(locked)], now, sweepsPerCall); n > 0 {
			l.live.Add(-n)
		}
	}
}

// sweepShard looks at the n accounts at most that may be idle since the longest, and
// returns how many it dropped.
func (l *Ledger) sweepShard(s *shard, now int64, n int) (dropped int64) {
	if now < s.latest-int64(linger) {
		for i := range s.dues { // the clock stepped back: see all of them again
			s.dues[i].at = now
		}
	}
	s.latest = now
	for ; n > 0 && len(s.dues) > 0 && s.dues[0].at <= now; n-- {
		a := s.dues[0].account
		if at := l.dueAt(a, now); at > now {
			s.dues[0].at = at
			heap.Fix(&s.dues, 0)
			continue
		}
		heap.Pop(&s.dues)
		delete(s.accounts, a.key)
		dropped++
	}
	return dropped
}

// dueAt returns when to look at an account again, or now if it is idle.
func (l *Ledger) dueAt(a *account, now int64) int64 {
	switch {
	case a.flight != nil:
		return now + int64(linger)
	case !a.loaded:
		return now
	}
	a.advance(now)
	switch {
	case a.window < Forever:
		return max(a.idleAt(), now)
	case a.used+rest > now:
		return a.used + rest
	case a.held > 0, a.freed != nil:
		return now + rest
	case a.dirty && !a.shard.closed:
		l.writeRested(a)
		return now + int64(linger)
	}
	return now
}
