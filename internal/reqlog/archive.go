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

// A segment is what memory knows of a row that holds several records, or their bodies:
// enough to pass the row over.
type segment struct {
	ID    string `json:"id"`   // of the first record
	Last  string `json:"last"` // of the last one
	Count int    `json:"count"`
	Size  int64  `json:"size"`            // of what is stored, in bytes
	Bytes int64  `json:"bytes,omitempty"` // of the row before it is compressed; 0: it is not
	From  int64  `json:"from"`            // the earliest and the latest time of a record, in ms
	To    int64  `json:"to"`
	// Of records, not of bodies: how many each workspace has, and which values occur.
	Workspaces counts `json:"workspaces,omitempty"`
	Terms      terms  `json:"hashes,omitempty"`
	// WideTerms are what earlier builds wrote: read once, and then nil.
	WideTerms []byte `json:"terms,omitempty"`
}

// overhead is the most that a segment's own row and the keys of both take, beside the
// terms and the workspaces.
const overhead = 512

// length is what there is to read of the row, in bytes.
func (s *segment) length() int64 {
	if s.Bytes == 0 {
		return s.Size
	}
	return s.Bytes
}

// weigh sets the sizes of a segment: of its row, and of what is stored of it.
func (s *segment) weigh(row, stored int) {
	s.Bytes = int64(row)
	s.Size = int64(stored) + overhead + int64(len(s.Terms))*4/3 + int64(len(s.Workspaces))*64
}

// join makes one segment of several, without their size.
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

// An archive keeps rows in the order of their ids, each with a segment in memory. Rows that
// are small are merged, so that there are never many of them however few calls come; the
// oldest leave when they are too old, or make room. One goroutine writes, any may read.
type archive struct {
	name  string
	keeps func(*Settings) (retention time.Duration, size int64)
	db    *storage.DB
	rows  *storage.Blobs
	index *storage.Collection[segment]

	// A row of fewer records and bytes than these is small.
	smallCount int
	smallSize  int64

	room   []byte // of the writer, for what is stored of a row
	joined []byte // the same, of rows that are merged

	// mu is held for writing while memory changes; and while parts become one, for as
	// long as the store takes, because rows change then that readers may know of.
	mu    sync.RWMutex
	list  []*segment // what a reader has of it never changes
	loose int        // at the end of list, that are not packed together yet
	used  int64
}

// collocate moves segments into memory of their own. Each is made among the short-lived
// objects of many calls, whose memory it would keep from being given back.
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
	mergeParts = 256 // that are merged however small they are
	maxDropped = 64  // rows in one transaction
	together   = 128 // segments that share their memory
	maxSpare   = 1 << 20
)

func newArchive(db *storage.DB, name string, smallCount int, smallSize int64, keeps func(*Settings) (time.Duration, int64)) *archive {
	return &archive{
		name: name, keeps: keeps, db: db, rows: storage.NewBlobs(name), index: storage.NewCollection(name+"_segments", func(s *segment) string { return s.ID }),
		smallCount: smallCount, smallSize: smallSize,
	}
}

func (s *archive) load(ctx context.Context) error {
	return s.db.View(ctx, func(tx storage.Tx) error {
		for seg, err := range s.index.All(tx) {
			if err != nil {
				return err
			}
			if seg.WideTerms != nil {
				seg.Terms, seg.WideTerms = narrowTerms(seg.WideTerms), nil
			}
			s.append(seg)
		}
		return nil
	})
}

// append adds a segment to the list, which only the writer and load do.
func (s *archive) append(seg *segment) {
	s.list = append(s.list, seg)
	s.used += seg.Size
	if s.loose++; s.loose == together {
		s.list = slices.Clone(s.list)
		collocate(s.list[len(s.list)-s.loose:])
		s.loose = 0
	}
}

// view runs fn with the segments of archives at the moment, and a transaction in which
// their rows are.
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

// size is what the rows take, in bytes.
func (s *archive) size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.used
}

// last is the id of the latest record; "": there is none.
func (s *archive) last() string {
	if n := len(s.list); n > 0 {
		return s.list[n-1].Last
	}
	return ""
}

// pack compresses a row, and says in its segment what that takes. The result is good
// until the next call.
func (s *archive) pack(seg *segment, row []byte) ([]byte, error) {
	stored, err := pack(s.room[:0], row)
	if err != nil {
		return nil, err
	}
	s.room = spare(stored)
	seg.weigh(len(row), len(stored))
	return stored, nil
}

// spare is a buffer to be used again, unless it has become too large to keep.
func spare(b []byte) []byte {
	if cap(b) > maxSpare {
		return nil
	}
	return b
}

// put adds a packed row behind all others.
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
	stored, err := s.rows.Get(tx, seg.ID)
	if err != nil {
		return to, err
	}
	return unpack(to, stored)
}

func (s *archive) write(tx storage.Tx, seg *segment, row []byte) error {
	if err := s.rows.Put(tx, seg.ID, row); err != nil {
		return err
	}
	return s.index.Put(tx, seg)
}

// merge makes one row of the last ones, where they are small and enough.
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

// mergeLast makes one row of the last n.
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
	if err := s.rows.Delete(tx, seg.ID); err != nil {
		return err
	}
	if err := s.index.Delete(tx, seg.ID); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// drop drops some of what is from before oldest, and of the oldest rows as long as all of
// them do not fit into size: a bounded number of them, in a transaction that begins with
// fence, unless that is nil.
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

// surplus reports whether there are rows to be dropped.
func (s *archive) surplus(oldest time.Time, size int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.list) > 0 && (s.list[0].To < oldest.UnixMilli() || s.used > size)
}

// take takes rows that are to be dropped out of memory, before they leave the store: who
// reads on has a transaction from before.
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

// restore puts back what could not be dropped.
func (s *archive) restore(gone []*segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Concat(gone, s.list)
	for _, seg := range gone {
		s.used += seg.Size
	}
}
