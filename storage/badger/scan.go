package badger

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
)

// The library detects a conflict if another transaction has changed a key that was
// read. A key that did not exist when a scan passed it was not read, so two
// transactions that each scan a range and then insert into it would both commit, which
// is not serializable. The types in this file prevent that: they keep the keys of the
// latest commits, and a transaction is also in conflict if one of those keys lies in a
// range that it has scanned.

// A span is a range of keys, including both ends.
type span struct{ lo, hi []byte }

// spanOf returns the span that a scan may visit. The library's keys begin with an
// additional byte; see keyOf.
func spanOf(prefix, start []byte, reverse bool) span {
	s := span{lo: keyOf(prefix)}
	// No key with this prefix is longer or greater.
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

// maxRecent bounds the number of keys that are kept. A scan during which more keys were
// written counts as in conflict.
const maxRecent = 8192

// recent holds the keys of the latest commits.
type recent struct {
	// mu is held from the check of a transaction until the library has ordered it, so
	// that no other commit comes between, and by a transaction that runs alone.
	mu sync.Mutex

	last    atomic.Uint64 // number of the last commit
	forgot  uint64        // number of the last commit that is no longer kept
	commits []commit      // in order
	keys    int           // number of keys of all commits
}

type commit struct {
	number uint64
	keys   [][]byte
}

// conflicts reports whether a commit after number since wrote to any of the spans.
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

// add adds a commit. Transactions that begin later see it.
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
