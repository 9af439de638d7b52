package badger

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
)

// The library finds a transaction in conflict when another one has changed a
// key that it read. A key that was not there when a scan passed is not read,
// so two transactions that each scan a range and then insert into it would both
// commit: it is not serializable. The types of this file close the gap. They
// keep the keys of the last commits, and a transaction that scanned is in
// conflict as well when one of them lies in a range that it has scanned.

// A span is a range of keys, ends included.
type span struct{ lo, hi []byte }

// spanOf returns the span that a scan may visit. Keys of the library differ
// from ours by a first byte; see keyOf.
func spanOf(prefix, start []byte, reverse bool) span {
	s := span{lo: keyOf(prefix)}
	// No key with this prefix is longer or has greater bytes.
	s.hi = append(slices.Clone(s.lo), bytes.Repeat([]byte{0xff}, max(0, maxKey+1-len(prefix)))...)
	if start == nil {
		return s
	}
	at := keyOf(start)
	if !reverse && bytes.Compare(at, s.lo) > 0 {
		s.lo = at
	}
	if reverse && bytes.Compare(at, s.hi) < 0 {
		s.hi = at
	}
	return s
}

func (s span) contains(key []byte) bool {
	return bytes.Compare(s.lo, key) <= 0 && bytes.Compare(key, s.hi) <= 0
}

// maxRecent bounds the keys that are remembered of the last commits. A scan
// that took longer than so many writes counts as in conflict.
const maxRecent = 8192

// recent remembers the keys of the last commits.
type recent struct {
	// mu is held from the check of a transaction until the library has put it
	// in order, so that nothing comes in between; and by a transaction that
	// runs alone.
	mu sync.Mutex

	last    atomic.Uint64 // the number of the last commit
	forgot  uint64        // the number of the last commit that is not remembered
	commits []commit      // in order
	keys    int           // of all commits
}

type commit struct {
	number uint64
	keys   [][]byte
}

// conflicts reports whether a commit after number since wrote into a span.
func (r *recent) conflicts(spans []span, since uint64) bool {
	if len(spans) == 0 {
		return false
	}
	if since < r.forgot {
		return true
	}
	for i := len(r.commits) - 1; i >= 0 && r.commits[i].number > since; i-- {
		for _, key := range r.commits[i].keys {
			for _, s := range spans {
				if s.contains(key) {
					return true
				}
			}
		}
	}
	return false
}

// add remembers a commit. A transaction that begins after it sees it.
func (r *recent) add(keys [][]byte) {
	number := r.last.Load() + 1
	r.commits = append(r.commits, commit{number, keys})
	r.keys += len(keys)
	for r.keys > maxRecent {
		oldest := r.commits[0]
		r.forgot = oldest.number
		r.keys -= len(oldest.keys)
		r.commits[0] = commit{}
		r.commits = r.commits[1:]
	}
	r.last.Store(number)
}
