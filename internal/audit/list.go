package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A Filter says which records are listed. Empty members do not filter.
type Filter struct {
	From, To    time.Time // both included
	WorkspaceID string
	Who         string // id of a key or a user
	Actor       Actor
	Resource    string // such as virtual_keys
	ResourceID  string
	Action      string // such as create
	Method      string
	Path        string
	Status      int
	RequestID   string
	IP          string
	Country     string
}

// terms are what the rows that match have: those that the fewest rows have, as a rule, come first.
func (f *Filter) terms() []term {
	status := ""
	if f.Status != 0 {
		status = strconv.Itoa(f.Status)
	}
	return slices.DeleteFunc([]term{
		{"request", f.RequestID},
		{"id", f.ResourceID},
		{"path", f.Path},
		{"who", f.Who},
		{"ip", f.IP},
		{"workspace", f.WorkspaceID},
		{"country", f.Country},
		{"resource", f.Resource},
		{"action", f.Action},
		{"status", status},
		{"method", f.Method},
		{"type", string(f.Actor)},
	}, func(t term) bool { return t.value == "" })
}

// ResourceType returns the kind of resource of a record, such as virtual_keys, and what was done
// to it, such as create.
func (r *Record) ResourceType() (resource, action string) {
	resource, action = splitScope(r.Scope)
	return cmp.Or(string(r.Type), resource), action
}

func splitScope(scope string) (resource, action string) {
	i := strings.LastIndexByte(scope, '.')
	if i < 0 {
		return scope, ""
	}
	return scope[:i], scope[i+1:]
}

// A List is a page of records, the newest first, and how many there are on all pages.
type List struct {
	Total   int
	Records []*Record
}

// List returns records that match a filter, after the first skip of them and at most limit.
func (t *Trail) List(ctx context.Context, f *Filter, skip, limit int) (*List, error) {
	list := new(List)
	err := t.db.View(ctx, func(tx storage.Tx) error {
		*list = List{}
		from, to, err := t.between(tx, f.From, f.To)
		if err != nil || from > to {
			return err
		}
		terms := f.terms()
		if len(terms) == 0 {
			list.Total = int(to - from + 1)
			for n := to - min(uint64(skip), to-from+1); n >= from && len(list.Records) < limit; n-- {
				if err := t.take(tx, list, n); err != nil {
					return err
				}
			}
			return nil
		}
		blocks, err := t.matching(tx, terms, from, to)
		if err != nil {
			return err
		}
		for _, b := range slices.Backward(blocks) {
			n := b.set.count()
			first := list.Total
			if list.Total += n; list.Total <= skip || len(list.Records) == limit {
				continue
			}
			for i := perBlock - 1; i >= 0 && len(list.Records) < limit; i-- {
				if !b.set.has(i) {
					continue
				}
				if first++; first <= skip {
					continue
				}
				if err := t.take(tx, list, b.number*perBlock+uint64(i)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the audit trail: %w", err)
	}
	return list, nil
}

// take appends the row with a number to a list.
func (t *Trail) take(tx storage.Tx, list *List, n uint64) error {
	data, err := t.rows.Get(tx, numbered(n))
	if err != nil {
		return fmt.Errorf("row %d: %w; %w", n, err, errAltered)
	}
	row, err := decodeRow(storage.Blob{ID: numbered(n), Data: data})
	if err != nil {
		return err
	}
	r, err := row.record()
	if err == nil {
		list.Records = append(list.Records, r)
	}
	return err
}

// between returns the numbers of the first and the last row in a time; the first is the
// greater one if there is none.
func (t *Trail) between(tx storage.Tx, from, to time.Time) (first, last uint64, err error) {
	cut, err := t.mark(tx, markCut)
	if err != nil {
		return 0, 0, err
	}
	head, err := t.head(tx)
	if err != nil {
		return 0, 0, err
	}
	// before returns how many of the rows that are left are earlier than a time. Rows that are far from each other are in
	// blocks of their own of the store, so that the block is found first by what is known of the beginnings of blocks.
	before := func(at time.Time) (uint64, error) {
		var failed error
		// search returns the first row, of n rows that are every so many, that is not earlier.
		search := func(from, every uint64, n int, timeOf func(storage.Tx, uint64) (time.Time, error)) int {
			return sort.Search(n, func(i int) bool {
				rowAt, err := timeOf(tx, from+every*uint64(i))
				if err != nil {
					failed = err
				}
				return failed != nil || !rowAt.Before(at)
			})
		}
		block, _ := blockOf(cut.number + perBlock) // the first that begins behind the cut
		last, _ := blockOf(head.number)
		low, high := cut.number+1, head.number+1
		if block <= last {
			n := search(block*perBlock, perBlock, int(last-block+1), t.beginning)
			if n > 0 {
				low = (block + uint64(n) - 1) * perBlock
			}
			if begins := block + uint64(n); begins <= last {
				high = begins * perBlock
			}
		}
		n := search(low, 1, int(high-low), t.timeOf)
		return low + uint64(n) - cut.number - 1, failed
	}
	first, last = cut.number+1, head.number
	if !from.IsZero() {
		n, err := before(from)
		if err != nil {
			return 0, 0, err
		}
		first += n
	}
	if !to.IsZero() && head.number > cut.number {
		n, err := before(to.Add(1))
		if err != nil {
			return 0, 0, err
		}
		last = cut.number + n
	}
	return first, last, nil
}

// maxBeginnings bounds the beginnings of blocks whose times are kept: those of 67 million rows.
const maxBeginnings = 1 << 16

// beginning is timeOf for the first row of a block, which never changes and is kept.
func (t *Trail) beginning(tx storage.Tx, n uint64) (time.Time, error) {
	t.beginnings.Lock()
	at, ok := t.beginnings.at[n]
	t.beginnings.Unlock()
	if ok {
		return at, nil
	}
	at, err := t.timeOf(tx, n)
	if err != nil {
		return at, err
	}
	t.beginnings.Lock()
	defer t.beginnings.Unlock()
	if t.beginnings.at == nil || len(t.beginnings.at) == maxBeginnings {
		t.beginnings.at = make(map[uint64]time.Time)
	}
	t.beginnings.at[n] = at
	return at, nil
}

// timeOf returns the time of a row, or of the next one if there is none with the number.
func (t *Trail) timeOf(tx storage.Tx, n uint64) (time.Time, error) {
	var list List
	err := t.take(tx, &list, n)
	if err == nil {
		return list.Records[0].At, nil
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return time.Time{}, err
	}
	for blob, err := range t.rows.Scan(tx, storage.Range{Start: numbered(n)}) {
		if err != nil {
			return time.Time{}, err
		}
		row, err := decodeRow(blob)
		if err != nil {
			return time.Time{}, err
		}
		r, err := row.record()
		if err != nil {
			return time.Time{}, err
		}
		return r.At, nil
	}
	return time.Time{}, fmt.Errorf("row %d: %w; %w", n, storage.ErrNotFound, errAltered)
}

// A block is what matches in a block of rows.
type block struct {
	number uint64
	set    set
}

// matching returns the blocks in which rows have all terms, in order.
func (t *Trail) matching(tx storage.Tx, terms []term, first, last uint64) ([]block, error) {
	firstBlock, from := blockOf(first)
	lastBlock, to := blockOf(last)
	had, err := t.having(tx, terms[0], firstBlock, lastBlock)
	blocks := slices.Clone(had)
	for _, one := range terms[1:] {
		if err != nil || len(blocks) == 0 {
			return nil, err
		}
		blocks, err = t.narrow(tx, blocks, one)
	}
	if err != nil {
		return nil, err
	}
	for i := range blocks {
		low, high := 0, perBlock-1
		if blocks[i].number == firstBlock {
			low = from
		}
		if blocks[i].number == lastBlock {
			high = to
		}
		if low > 0 || high < perBlock-1 {
			blocks[i].set.between(low, high)
		}
	}
	return blocks, nil
}

// having returns the blocks in which rows have a term, from first to last, in order. They must not be changed.
func (t *Trail) having(tx storage.Tx, one term, first, last uint64) (blocks []block, err error) {
	prefix, from := one.prefix(), first
	known, until, ok := t.recall.get(prefix, first)
	if ok {
		blocks, from = upTo(known, last), until+1
	}
	if from > last {
		return blocks, nil
	}
	for blob, err := range t.postings.Scan(tx, storage.Range{Prefix: prefix, Start: prefix + numbered(from)}) {
		if err != nil {
			return nil, err
		}
		n := number(blob.ID[len(prefix):])
		if n > last {
			break
		}
		s, err := decodeSet(blob.Data)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block{n, s})
	}
	if last > first { // the last one may get more rows
		t.recall.put(prefix, first, last-1, upTo(blocks, last-1))
	}
	return blocks, nil
}

// maxSought is of how many blocks the postings are read one by one: finding one takes as long as
// reading some that follow each other.
const maxSought = 32

// narrow returns the blocks in which rows have another term, too.
func (t *Trail) narrow(tx storage.Tx, blocks []block, one term) (narrowed []block, err error) {
	add := func(b *block, s set) {
		if s.only(&b.set); s != (set{}) {
			narrowed = append(narrowed, block{b.number, s})
		}
	}
	if len(blocks) <= maxSought {
		for i := range blocks {
			s, err := t.posting(tx, one.posting(blocks[i].number))
			if err != nil {
				return nil, err
			}
			add(&blocks[i], s)
		}
		return narrowed, nil
	}
	others, err := t.having(tx, one, blocks[0].number, blocks[len(blocks)-1].number)
	next := 0
	for i := range others {
		for next < len(blocks) && blocks[next].number < others[i].number {
			next++
		}
		if next < len(blocks) && blocks[next].number == others[i].number {
			add(&blocks[next], others[i].set)
		}
	}
	return narrowed, err
}
