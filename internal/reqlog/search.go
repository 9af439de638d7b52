package reqlog

import (
	"context"
	"errors"
	"slices"

	"github.com/caddy-gw/gateway/storage"
)

// A Page selects a part of a list, which is newest first.
type Page struct {
	Before string // only records before the one with this id
	Skip   int    // matches
	Limit  int
}

// A List is a page of the records that match.
type List struct {
	Records []*Record
	// Total is the number of matches, from Before on. If Exact is not set, it is the number of those in
	// the part of the log that was searched, which does not depend on the page unless that needs more.
	Total int
	Exact bool
	More  bool
	// Next is the Before of the next page, or "" at the end. If a search takes too long,
	// the page is not full.
	Next string
	// Short is set if the search ended before it had skipped as many matches as requested.
	Short bool
}

// Bounds of what one list reads, in bytes; a row counts as at least readCost.
const (
	maxRead    = 8 << 20
	maxCounted = 2 << 20 // to count the matches behind the page
	readCost   = 16 << 10
)

// A search reads one page, of one or several archives.
type search struct {
	*query
	Page
	sources []*source
	list    List
	read    int
	newer   string // id of the last visited record or row; all later records have been visited
}

// A source is the unread part of an archive.
type source struct {
	*archive
	list []*segment // the next one is the last
	row  []byte     // the unread part of that segment's row; nil: not read yet
}

// next returns the id of the next record or a greater one, or "" at the end.
func (s *source) next() string {
	switch {
	case len(s.list) == 0:
		return ""
	case len(s.row) > 0:
		_, line := lastLine(s.row)
		if id := lineID(line); len(id) > 0 {
			return string(id)
		}
	}
	return s.list[len(s.list)-1].Last
}

func (s *source) pass() { s.list, s.row = s.list[:len(s.list)-1], nil }

// List returns a page of the records that match, the latest added included. It reads a
// bounded number of rows; if that is not enough, the list continues with Next.
func (l *Log) List(ctx context.Context, f *Filter, p Page) (*List, error) {
	l.catchUp(ctx)
	return list(ctx, f, p, l.blocks, l.custom.blocks)
}

func list(ctx context.Context, f *Filter, p Page, archives ...*archive) (*List, error) {
	s := &search{query: f.query(), Page: p}
	err := view(ctx, archives, func(tx storage.Tx, lists [][]*segment) error {
		for i, list := range lists {
			s.sources = append(s.sources, &source{archive: archives[i], list: list})
		}
		return s.run(tx)
	})
	if err != nil {
		return nil, err
	}
	if s.list.More && s.list.Next == "" && len(s.list.Records) > 0 {
		s.list.Next = s.list.Records[len(s.list.Records)-1].ID
	}
	return &s.list, nil
}

func (s *search) run(tx storage.Tx) error {
	for {
		src, others := s.newest()
		if src == nil {
			s.list.Exact = true
			return nil
		}
		done, err := s.visit(tx, src, others)
		if done || err != nil {
			return err
		}
	}
}

// newest returns the source with the newest unread record, and the id of the newest one of
// the other sources. It skips rows without matches.
func (s *search) newest() (src *source, others string) {
	for _, c := range s.sources {
		for len(c.list) > 0 && c.row == nil {
			seg := c.list[len(c.list)-1]
			if (s.Before == "" || seg.ID < s.Before) && s.mayHave(seg) {
				break
			}
			c.pass()
		}
		switch id := c.next(); {
		case id == "":
		case src == nil:
			src = c
		case id > src.next():
			src, others = c, max(others, src.next())
		default:
			others = max(others, id)
		}
	}
	return src, others
}

// visit reads the next row of a source, as far as its records are newer than those of
// the other sources, and reports whether the search has ended.
func (s *search) visit(tx storage.Tx, src *source, others string) (done bool, err error) {
	seg := src.list[len(src.list)-1]
	if src.row == nil {
		whole := s.counted(seg) && (s.Before == "" || seg.Last < s.Before)
		full := len(s.list.Records) == s.Limit
		if n := s.count(seg); whole && (full || s.Skip >= n+s.among(src, seg.ID)) {
			s.list.Total += n
			if full {
				s.list.More = true
			} else {
				s.Skip -= n
			}
			src.pass()
			return false, nil
		}
		switch {
		case full && s.list.More && !s.simple && s.read >= maxCounted:
			return true, nil
		case s.read >= maxRead:
			s.list.More, s.list.Short = true, s.Skip > 0
			if !full {
				s.list.Next = s.newer
			}
			return true, nil
		}
		src.row, err = src.archive.row(tx, seg)
		if errors.Is(err, storage.ErrNotFound) {
			src.pass()
			return false, nil
		}
		if err != nil {
			return false, err
		}
		s.read += max(len(src.row), readCost)
	}
	if err = s.look(src, others); len(src.row) == 0 {
		s.newer = seg.ID
		src.pass()
	}
	return false, err
}

// among returns how many records of the other sources may be newer than id.
func (s *search) among(src *source, id string) (n int) {
	for _, c := range s.sources {
		if c == src {
			continue
		}
		for _, seg := range slices.Backward(c.list) {
			if seg.Last < id {
				break
			}
			n += s.count(seg)
		}
	}
	return n
}

// look visits the records of a row that are newer than others, newest first.
func (s *search) look(src *source, others string) error {
	for len(src.row) > 0 {
		rest, line := lastLine(src.row)
		if id := lineID(line); others != "" && len(id) > 0 {
			if string(id) < others {
				return nil
			}
			s.newer = string(id)
		}
		src.row = rest
		if s.passes(line) {
			continue
		}
		r, err := s.match(line)
		if err != nil {
			return err
		}
		if r == nil || s.Before != "" && r.ID >= s.Before {
			continue
		}
		s.list.Total++
		switch {
		case s.Skip > 0:
			s.Skip--
		case len(s.list.Records) < s.Limit:
			s.list.Records = append(s.list.Records, r)
		default:
			s.list.More = true
		}
	}
	return nil
}

// passes reports whether a line is before the start of the page, judging by its id.
func (s *search) passes(line []byte) bool {
	return s.Before != "" && string(lineID(line)) >= s.Before
}

// Find returns the record with the given id, or else the latest one with the given
// trace id, if it matches the filter, or nil. A custom record is only found by its
// trace id if no call has that trace id.
func (l *Log) Find(ctx context.Context, id string, f *Filter) (*Record, error) {
	l.catchUp(ctx)
	for _, s := range []*archive{l.blocks, l.custom.blocks} {
		if found, err := s.find(ctx, id, f.query()); found != nil || err != nil {
			return found, err
		}
	}
	traced := *f
	traced.TraceIDs = []string{id}
	for _, s := range []*archive{l.blocks, l.custom.blocks} {
		found, err := list(ctx, &traced, Page{Limit: 1}, s)
		switch {
		case err != nil:
			return nil, err
		case len(found.Records) > 0:
			return found.Records[0], nil
		case found.More: // the part that was not searched may contain it
			return nil, nil //nolint:nilnil // none was found
		}
	}
	return nil, nil //nolint:nilnil // it does not exist
}

// find returns the record with this id.
func (s *archive) find(ctx context.Context, id string, q *query) (found *Record, err error) {
	err = view(ctx, []*archive{s}, func(tx storage.Tx, lists [][]*segment) error {
		for _, seg := range lists[0] {
			if id < seg.ID || id > seg.Last || !q.mayHave(seg) {
				continue
			}
			row, err := s.row(tx, seg)
			if err != nil {
				return err
			}
			if line := lineOf(row, id); line != nil {
				found, err = q.match(line)
			}
			if found != nil || err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	return found, err
}

// Bodies reads the stored bodies of a record. Bodies that are no longer stored are nil.
func (l *Log) Bodies(ctx context.Context, r *Record) error {
	if r.Request == nil && r.Response == nil {
		return nil
	}
	var request, response []byte
	found := false
	bodies := l.of(r.Custom).bodies
	err := view(ctx, []*archive{bodies}, func(tx storage.Tx, lists [][]*segment) error {
		for _, seg := range lists[0] {
			if r.ID < seg.ID || r.ID > seg.Last {
				continue
			}
			row, err := bodies.row(tx, seg)
			if err != nil {
				return err
			}
			if request, response, found, err = bodiesOf(row, r.ID); found || err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if !found {
		r.Request, r.Response = nil, nil
		return nil
	}
	if r.Request != nil {
		r.Request.Bytes = request
	}
	if r.Response != nil {
		r.Response.Bytes = response
	}
	return nil
}

// Records returns the newest records first, at most limit of them.
func (l *Log) Records(ctx context.Context, limit int) ([]*Record, error) {
	list, err := l.List(ctx, &Filter{}, Page{Limit: limit})
	if err != nil {
		return nil, err
	}
	return list.Records, nil
}
