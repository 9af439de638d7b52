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
	// shardCount is also the number of bits in a set of shards.
	shardCount = 64

	// linger is how long an account that counts nothing stays in memory, so that a key
	// that is always refused does not cost a read of the store each time.
	linger = time.Second

	// sweepsPerCall and sweepsWhenFull are how many accounts a call checks, in each of
	// its shards or, if there is no room, in every shard.
	sweepsPerCall  = 2
	sweepsWhenFull = 64

	// rest is how long an unused counter with the window Forever stays in memory.
	rest = int64(10 * time.Minute)
)

// An account is the counter of a key and its state in the store.
type account struct {
	counter
	key    string
	hash   uint64   // of the key
	next   *account // another one with the same hash
	owner  string   // of the last claim with an owner, or from the record
	shard  *shard
	flight *flight       // store I/O in progress, at most one
	asked  int64         // units requested by the claims that are being decided
	limit  int64         // of the last admitted claim
	used   int64         // when units were last reserved
	freed  chan struct{} // closed when units are given back; nil: nothing waits for it
	loaded bool          // the counter includes the stored record
	dirty  bool          // the stored record may differ from the counter
	behind bool          // the record lacks units that count, so it must be written first
	lavish bool          // it is in the list of its shard
}

// follow updates the counter to now and to a claim's window.
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
	accounts accounts
	dues     dues
	lavish   []*account // whose leases may be larger than their share, see [Ledger.ReduceLeases]
	latest   int64      // time of the last sweep
	closed   bool
}

// A due is the earliest time at which an account may be idle.
type due struct {
	at      int64
	account *account
}

// dues is a heap with the earliest first.
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

func (l *Ledger) hashOf(key string) uint64 { return maphash.String(l.seed, key) }

// shardOf returns the number of the shard that keys with a hash are in.
func shardOf(hash uint64) int { return int(hash % shardCount) }

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

// account returns the account of a key with its hash. If it is new, it has not been loaded. The
// set of shards locked by the caller includes its shard.
func (l *Ledger) account(hash uint64, key string, window time.Duration, now int64, locked uint64) (*account, error) {
	s := &l.shards[shardOf(hash)]
	if s.closed {
		return nil, ErrClosed
	}
	if a := s.accounts.get(hash, key); a != nil {
		return a, nil
	}
	if l.live.Add(1) > l.max && !l.evict(locked) {
		l.live.Add(-1)
		return nil, fmt.Errorf("%w: %d in memory, none idle, and %q is new", ErrFull, l.max, key)
	}
	a := &account{counter: counter{window: window}, key: strings.Clone(key), hash: hash, shard: s}
	s.accounts.add(a)
	heap.Push(&s.dues, due{now + int64(linger), a})
	return a, nil
}

// evict drops an idle account from any shard that is in locked or not busy.
func (l *Ledger) evict(locked uint64) bool {
	for i := range l.shards {
		s := &l.shards[i]
		mine := locked&(1<<i) != 0
		if !mine && !s.mu.TryLock() {
			continue
		}
		dropped := l.sweepShard(s, l.now(), sweepsWhenFull) // the time is read after locking
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

// sweepShard checks at most n accounts, those first that may have been idle for the
// longest time, and returns how many it dropped.
func (l *Ledger) sweepShard(s *shard, now int64, n int) (dropped int64) {
	if now < s.latest-int64(linger) {
		for i := range s.dues { // the clock stepped back, so check all of them again
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
		s.accounts.remove(a)
		dropped++
	}
	return dropped
}

// dueAt returns when to check an account again, or now if it is idle.
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
