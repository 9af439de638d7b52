package audit

import (
	linked "container/list"
	"slices"
	"sort"
	"sync"
)

// maxRecalled bounds the sets that are kept in memory, of some 140 bytes each: 9 MiB.
const maxRecalled = 1 << 16

// A recall keeps which rows have the terms that lists were filtered by lately, of blocks that are complete: no row is added to
// those any more, and rows that were cut off are before the first one that a list asks for. It is safe for concurrent use.
type recall struct {
	mu    sync.Mutex
	terms map[string]*linked.Element // of *recalled, by the prefixes of terms
	used  linked.List                // the most lately used first
	kept  int                        // blocks of all terms
}

// recalled is what is kept of a term: the blocks from first to last in which rows have it.
type recalled struct {
	prefix      string
	first, last uint64
	blocks      []block
}

// get returns the blocks of a term from first on, and up to which one all are known; ok is false if none are.
func (r *recall) get(prefix string, first uint64) (blocks []block, last uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.terms[prefix]
	if e == nil {
		return nil, 0, false
	}
	had := e.Value.(*recalled)
	if had.first > first || had.last < first {
		return nil, 0, false
	}
	r.used.MoveToFront(e)
	return had.blocks[at(had.blocks, first):], had.last, true
}

// put keeps the blocks of a term from first to last, unless more of them are kept. The slice must not be changed afterwards.
func (r *recall) put(prefix string, first, last uint64, blocks []block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.terms[prefix]; e != nil {
		if had := e.Value.(*recalled); had.first <= first && had.last >= last {
			return
		}
		r.drop(e)
	}
	if len(blocks) > maxRecalled {
		return
	}
	if r.terms == nil {
		r.terms = make(map[string]*linked.Element)
	}
	r.terms[prefix] = r.used.PushFront(&recalled{prefix, first, last, blocks})
	r.kept += weight(blocks)
	for r.kept > maxRecalled {
		r.drop(r.used.Back())
	}
}

func (r *recall) drop(e *linked.Element) {
	had := r.used.Remove(e).(*recalled)
	delete(r.terms, had.prefix)
	r.kept -= weight(had.blocks)
}

// weight is what is counted of a term, which takes memory also if no row has it.
func weight(blocks []block) int { return len(blocks) + 2 }

// at returns the index of the first block that is not before a number.
func at(blocks []block, number uint64) int {
	return sort.Search(len(blocks), func(i int) bool { return blocks[i].number >= number })
}

// upTo returns the blocks up to a number.
func upTo(blocks []block, last uint64) []block { return slices.Clip(blocks[:at(blocks, last+1)]) }
