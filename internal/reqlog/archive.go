package reqlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A segment describes a row of records or of bodies in memory, with enough information
// to skip rows without reading them.
type segment struct {
	ID    string `json:"id"`   // of the first record
	Last  string `json:"last"` // of the last record
	Count int    `json:"count"`
	Size  int64  `json:"size"`            // stored size, in bytes
	Bytes int64  `json:"bytes,omitempty"` // size of the row before compression, in bytes; 0: not compressed
	From  int64  `json:"from"`            // earliest and latest time of a record, in ms
	To    int64  `json:"to"`
	// Only for rows of records: the number of records of each workspace, and the values
	// that occur.
	Workspaces counts `json:"workspaces,omitempty"`
	Terms      terms  `json:"hashes,omitempty"`
	// WideTerms are the terms that earlier versions stored. They are converted when
	// they are read.
	WideTerms []byte `json:"terms,omitempty"`

	earlier bool // stored in the tables of an earlier version
}

// overhead is the maximum size of a segment's own row and the keys of both rows,
// without terms and workspaces.
const overhead = 512

// length returns how much there is to read for the row, in bytes.
func (s *segment) length() int64 {
	if s.Bytes == 0 {
		return s.Size
	}
	return s.Bytes
}

// weigh sets the sizes of a segment from the sizes of its row and of its stored form.
func (s *segment) weigh(row, stored int) {
	s.Bytes = int64(row)
	s.Size = int64(stored) + overhead + int64(len(s.Terms))*4/3 + int64(len(s.Workspaces))*64
}

// join returns the combination of several segments, without its size.
func join(parts []*segment) *segment {
	all := &segment{ID: parts[0].ID, Last: parts[len(parts)-1].Last, From: parts[0].From, To: parts[0].To}
	for _, p := range parts {
		all.Count += p.Count
		all.From, all.To = min(all.From, p.From), max(all.To, p.To)
		for _, c := range p.Workspaces {
			all.Workspaces.add(c.ID, c.N)
		}
		all.Terms = all.Terms.union(p.Terms)
	}
	return all
}

// An archive stores rows in the order of their ids, with a segment in memory for each.
// Small rows are merged, so that there are few of them even if there are few calls. The
// oldest rows are removed when they expire, or to make room. There is one writer and
// any number of readers.
type archive struct {
	name  string
	keeps func(*Settings) (retention time.Duration, size int64)
	db    *storage.DB

	tables  tables
	earlier tables // of earlier versions: rows are read and removed, but not added

	// A row with fewer records and fewer bytes is small.
	smallCount int
	smallSize  int64

	room   []byte // of the writer, for what is stored of a row
	joined []byte // the same, of rows that are merged

	// mu is held for writing while memory changes and, when rows are merged, until the
	// store has committed, because the merge changes rows that readers may know of.
	mu    sync.RWMutex
	list  []*segment // the part that a reader has never changes
	loose int        // number at the end of list that are not collocated yet
	used  int64
}

// collocate copies segments into memory of their own. Otherwise, each would keep alive
// the memory of many short-lived objects of calls among which it was allocated.
func collocate(list []*segment) {
	var text strings.Builder
	var hashes, workspaces int
	for _, s := range list {
		text.WriteString(s.ID)
		text.WriteString(s.Last)
		hashes += len(s.Terms)
		workspaces += len(s.Workspaces)
	}
	ids, all := text.String(), make([]segment, len(list))
	terms, counts := make(terms, 0, hashes), make(counts, 0, workspaces)
	for i, s := range list {
		all[i] = *s
		n := len(s.ID)
		all[i].ID, all[i].Last, ids = ids[:n], ids[n:n+len(s.Last)], ids[n+len(s.Last):]
		terms = append(terms, s.Terms...)
		all[i].Terms = terms[len(terms)-len(s.Terms) : len(terms) : len(terms)]
		counts = append(counts, s.Workspaces...)
		all[i].Workspaces = counts[len(counts)-len(s.Workspaces) : len(counts) : len(counts)]
		list[i] = &all[i]
	}
}

const (
	mergeParts = 256 // rows to merge regardless of their size
	maxDropped = 64  // rows in one transaction
	together   = 128 // segments that share their memory
	maxSpare   = 1 << 20
)

func newArchive(db *storage.DB, name string, smallCount int, smallSize int64, keeps func(*Settings) (time.Duration, int64)) *archive {
	return &archive{
		name: name, keeps: keeps, db: db, smallCount: smallCount, smallSize: smallSize,
		tables: tables{
			rows:  storage.NewBlobs("0." + name),
			index: storage.NewCollection("~"+name, func(s *segment) string { return descending(s.ID) }),
		},
		earlier: tables{
			rows:  storage.NewBlobs(name),
			index: storage.NewCollection(name+"_segments", func(s *segment) string { return s.ID }),
		},
	}
}

// The tables of an archive hold its rows and its segments. A store that is a log-structured
// merge tree, as Badger is, rewrites all rows between the keys of what it compacts. Rows are
// only added at one end of their table, so that nothing old is rewritten if that is the end
// of what else is written: the rows come before all other tables, in ascending order, and the
// segments after them, in descending order. In the middle, as in earlier versions, a counter
// that came before the rows made every compaction rewrite all of them.
type tables struct {
	rows  *storage.Blobs
	index *storage.Collection[*segment]
}

// descending returns the hexadecimal id with each digit replaced by its complement, so that
// later ids come first.
func descending(id string) string {
	b := []byte(id)
	for i, c := range b {
		switch {
		case '0' <= c && c <= '5':
			b[i] = 'f' - (c - '0')
		case '6' <= c && c <= '9':
			b[i] = '9' - (c - '6')
		case 'a' <= c && c <= 'f':
			b[i] = '5' - (c - 'a')
		}
	}
	return string(b)
}

// of returns the tables in which a segment and its row are stored.
func (s *archive) of(seg *segment) *tables {
	if seg.earlier {
		return &s.earlier
	}
	return &s.tables
}

func (s *archive) load(ctx context.Context) error {
	return s.db.View(ctx, func(tx storage.Tx) error {
		for seg, err := range s.earlier.index.All(tx) {
			if err != nil {
				return err
			}
			if seg.WideTerms != nil {
				seg.Terms, seg.WideTerms = narrowTerms(seg.WideTerms), nil
			}
			seg.earlier = true
			s.append(seg)
		}
		for seg, err := range s.tables.index.Scan(tx, storage.Range{Reverse: true}) {
			if err != nil {
				return err
			}
			s.append(seg)
		}
		return nil
	})
}

// append adds a segment to the list. Only the writer and load call it.
func (s *archive) append(seg *segment) {
	s.list = append(s.list, seg)
	s.used += seg.Size
	if s.loose++; s.loose == together {
		s.list = slices.Clone(s.list)
		collocate(s.list[len(s.list)-s.loose:])
		s.loose = 0
	}
}

// view runs fn with the current segments of archives, and with a transaction that
// contains their rows.
func view(ctx context.Context, archives []*archive, fn func(tx storage.Tx, lists [][]*segment) error) error {
	for _, s := range archives {
		s.mu.RLock()
	}
	unlock := sync.OnceFunc(func() {
		for _, s := range archives {
			s.mu.RUnlock()
		}
	})
	defer unlock()
	return archives[0].db.View(ctx, func(tx storage.Tx) error {
		lists := make([][]*segment, len(archives))
		for i, s := range archives {
			lists[i] = s.list
		}
		unlock()
		return fn(tx, lists)
	})
}

// size returns the size of all rows, in bytes.
func (s *archive) size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.used
}

// last returns the id of the latest record, or "" if there are none.
func (s *archive) last() string {
	if n := len(s.list); n > 0 {
		return s.list[n-1].Last
	}
	return ""
}

// pack compresses a row and sets its sizes in the segment. The result is valid until
// the next call.
func (s *archive) pack(seg *segment, row []byte) ([]byte, error) {
	stored, err := pack(s.room[:0], row)
	if err != nil {
		return nil, err
	}
	s.room = spare(stored)
	seg.weigh(len(row), len(stored))
	return stored, nil
}

// spare returns a buffer for reuse, unless it is too large to keep.
func spare(b []byte) []byte {
	if cap(b) > maxSpare {
		return nil
	}
	return b
}

// put adds a packed row at the end.
func (s *archive) put(seg *segment, stored []byte) error {
	err := s.db.Write(context.Background(), func(tx storage.Tx) error { return s.write(tx, seg, stored) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(seg)
	return nil
}

// row reads the row of a segment.
func (s *archive) row(tx storage.Tx, seg *segment) ([]byte, error) {
	return s.appendRow(nil, tx, seg)
}

func (s *archive) appendRow(to []byte, tx storage.Tx, seg *segment) ([]byte, error) {
	stored, err := s.of(seg).rows.Get(tx, seg.ID)
	if err != nil {
		return to, err
	}
	return unpack(to, stored)
}

func (s *archive) write(tx storage.Tx, seg *segment, row []byte) error {
	if err := s.tables.rows.Put(tx, seg.ID, row); err != nil {
		return err
	}
	return s.tables.index.Put(tx, seg)
}

// merge merges the last rows, if they are small and numerous enough.
func (s *archive) merge() error {
	n, count, length := len(s.list), 0, int64(0)
	for n > 0 && s.list[n-1].Count < s.smallCount && s.list[n-1].length() < s.smallSize {
		n--
		count += s.list[n].Count
		length += s.list[n].length()
	}
	parts := len(s.list) - n
	if parts < 2 || parts < mergeParts && count < 4*s.smallCount && length < 4*s.smallSize {
		return nil
	}
	return s.mergeLast(parts)
}

// mergeLast merges the last n rows.
func (s *archive) mergeLast(n int) error {
	before, parts := s.list[:len(s.list)-n], s.list[len(s.list)-n:]
	s.mu.Lock()
	defer s.mu.Unlock()
	all := join(parts)
	err := s.db.Write(context.Background(), func(tx storage.Tx) error {
		row := s.joined[:0]
		for _, p := range parts {
			longer, err := s.appendRow(row, tx, p)
			if err == nil {
				row = longer
			} else if !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			if err := s.delete(tx, p); err != nil {
				return err
			}
		}
		s.joined = spare(row)
		stored, err := s.pack(all, row)
		if err != nil {
			return err
		}
		return s.write(tx, all, stored)
	})
	if err != nil {
		return fmt.Errorf("merging %d rows: %w", len(parts), err)
	}
	for _, p := range parts {
		s.used -= p.Size
	}
	s.list = slices.Clone(before)
	s.loose = max(s.loose-n, 0)
	s.append(all)
	return nil
}

func (s *archive) delete(tx storage.Tx, seg *segment) error {
	id, in := seg.ID, s.of(seg)
	if err := in.rows.Delete(tx, id); err != nil {
		return err
	}
	if in == &s.tables {
		id = descending(id)
	}
	if err := in.index.Delete(tx, id); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// drop removes rows that are older than oldest, and the oldest rows as long as all rows
// exceed size. It removes a bounded number of them in a transaction, which begins with
// fence unless that is nil.
func (s *archive) drop(ctx context.Context, oldest time.Time, size int64, fence func(storage.Tx) error) error {
	gone := s.take(oldest, size)
	err := s.db.Write(ctx, func(tx storage.Tx) error {
		if fence != nil {
			if err := fence(tx); err != nil {
				return err
			}
		}
		for _, seg := range gone {
			if err := s.delete(tx, seg); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.restore(gone)
		return fmt.Errorf("dropping %d rows: %w", len(gone), err)
	}
	return nil
}

// surplus reports whether there are rows to drop.
func (s *archive) surplus(oldest time.Time, size int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.list) > 0 && (s.list[0].To < oldest.UnixMilli() || s.used > size)
}

// take removes the rows to drop from memory before they are removed from the store.
// Readers still have a transaction that contains them.
func (s *archive) take(oldest time.Time, size int64) []*segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < min(len(s.list), maxDropped) && (s.list[n].To < oldest.UnixMilli() || s.used > size) {
		s.used -= s.list[n].Size
		n++
	}
	gone := s.list[:n]
	s.list = s.list[n:]
	s.loose = min(s.loose, len(s.list))
	return gone
}

// restore puts back rows that could not be dropped.
func (s *archive) restore(gone []*segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Concat(gone, s.list)
	for _, seg := range gone {
		s.used += seg.Size
	}
}
