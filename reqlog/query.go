package reqlog

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/jsonscan"
	"github.com/caddy-gw/gateway/prices"
	"github.com/caddy-gw/gateway/storage"
)

// A Filter says which records are meant: those that fit every field that is set. Of
// several values of a field, any will do.
type Filter struct {
	Workspaces    []string // ids; nil: all, while an empty list is none
	KeyIDs        []string
	Endpoints     []string
	Providers     []string
	VirtualKeys   []string
	Models        []string
	Configs       []string
	CacheStatuses []string
	TraceIDs      []string
	Statuses      []string          // such as 500, or 5xx
	From, To      time.Time         // of the call's beginning; From is included
	CostFrom      *prices.Amount    // included; calls whose cost is not known have none
	CostTo        *prices.Amount    // included
	Metadata      map[string]string // every entry
}

// A Page is a part of a list, which is newest first.
type Page struct {
	Before string // only records before the one with this id
	Skip   int    // matches
	Limit  int
}

// A List is a page of the records that match.
type List struct {
	Records []*Record
	// Total is how many match, from Before on; where Exact is not set, at least.
	Total int
	Exact bool
	More  bool
	// Next is the Before with which the list goes on; "": it has ended. Where a search
	// took too long, that comes before the page is full.
	Next string
	// Short: the search ended before it had skipped as many as the page asks.
	Short bool
}

// Bounds of what one list reads, in bytes; a row counts as readCost at least.
const (
	maxRead  = 8 << 20
	readCost = 16 << 10
)

// A condition is one field of a filter.
type condition struct {
	terms   []uint32 // one of them is among those of a row that has a match; nil: that is told otherwise
	needles [][]byte // one of them is in a line that matches; nil: only matches tells
	matches func(*Record) bool
	quick   func(line []byte) bool // of metadata and costs: whether a line may match
}

// A query is a filter made ready.
type query struct {
	*Filter
	conditions []condition
	simple     bool            // there is no condition but workspaces
	workspaces map[string]bool // nil: all
	from, to   int64           // ms; to is not included
}

func (f *Filter) query() *query {
	q := &query{Filter: f, from: math.MinInt64, to: math.MaxInt64}
	if f.Workspaces != nil {
		q.workspaces = make(map[string]bool)
		only := condition{matches: func(r *Record) bool { return q.workspaces[r.WorkspaceID] }}
		for _, id := range f.Workspaces {
			q.workspaces[id] = true
			only.needles = append(only.needles, byWorkspace.needle(id))
		}
		if len(only.needles) > fewNeedles {
			only.needles = nil
		}
		q.conditions = append(q.conditions, only)
	}
	if !f.From.IsZero() {
		q.from = f.From.UnixMilli()
	}
	if !f.To.IsZero() {
		q.to = f.To.UnixMilli()
	}
	for _, c := range []struct {
		field  *field
		values []string
	}{
		{byKey, f.KeyIDs},
		{byEndpoint, f.Endpoints},
		{byProvider, f.Providers},
		{byVirtualKey, f.VirtualKeys},
		{byModel, f.Models},
		{byConfig, f.Configs},
		{byCache, f.CacheStatuses},
		{byTrace, f.TraceIDs},
		{byStatus, f.Statuses},
	} {
		if len(c.values) > 0 {
			q.conditions = append(q.conditions, c.field.anyOf(c.values))
		}
	}
	q.simple = len(f.Metadata) == 0 && (len(q.conditions) == 0 || len(q.conditions) == 1 && f.Workspaces != nil)
	for key, value := range f.Metadata {
		q.conditions = append(q.conditions, metadataIs(key, value))
	}
	if f.CostFrom != nil || f.CostTo != nil {
		q.simple = false
		q.conditions = append(q.conditions, f.costs())
	}
	return q
}

// fewNeedles are as many as are looked for in a line rather than decoding it.
const fewNeedles = 8

// needle is in each line of a record that has the value; in others it may be, too.
func (f *field) needle(value string) []byte {
	b := []byte(`"` + f.member + `":`)
	if f == byStatus {
		return append(b, strings.TrimRight(value, "x")...)
	}
	return jsonscan.AppendQuoted(b, value)
}

func (f *field) anyOf(values []string) condition {
	var c condition
	for _, v := range values {
		c.terms = append(c.terms, term(f.member, v))
		c.needles = append(c.needles, f.needle(v))
	}
	c.matches = func(r *Record) bool {
		return slices.Contains(values, f.of(r)) || f == byStatus && slices.Contains(values, class(r.Status))
	}
	return c
}

func metadataIs(key, value string) condition {
	has := func(metadata []byte) (found bool) {
		eachMetadata(metadata, func(k, v string) { found = found || k == key && v == value })
		return found
	}
	return condition{
		terms:   []uint32{term(metadataField(key), value)},
		matches: func(r *Record) bool { return has(r.Metadata) },
		quick: func(line []byte) bool {
			metadata := gjson.GetBytes(line, "metadata").Raw
			return metadata != "" && has([]byte(metadata))
		},
	}
}

// costs is the condition on what a call cost.
func (f *Filter) costs() condition {
	from, to := prices.Amount(0), prices.MaxAmount
	if f.CostFrom != nil {
		from = *f.CostFrom
	}
	if f.CostTo != nil {
		to = *f.CostTo
	}
	return condition{
		needles: [][]byte{[]byte(`"cost_known":true`)},
		matches: func(r *Record) bool { return r.CostKnown && r.Cost >= from && r.Cost <= to },
		quick: func(line []byte) bool {
			cost := prices.Amount(gjson.GetBytes(line, "cost").Int())
			return cost >= from && cost <= to
		},
	}
}

// mayHave reports whether a row may have a match.
func (q *query) mayHave(s *segment) bool {
	if s.To < q.from || s.From >= q.to {
		return false
	}
	if q.count(s) == 0 {
		return false
	}
	for _, c := range q.conditions {
		if c.terms != nil && !slices.ContainsFunc(c.terms, s.Terms.has) {
			return false
		}
	}
	return true
}

// counted reports whether the segment alone says how many of its records match.
func (q *query) counted(s *segment) bool {
	return q.simple && s.From >= q.from && s.To < q.to
}

// count is how many records of a row are in the workspaces.
func (q *query) count(s *segment) int {
	if q.workspaces == nil {
		return s.Count
	}
	n := 0
	for id, count := range s.Workspaces {
		if q.workspaces[id] {
			n += count
		}
	}
	return n
}

// match decodes a line and returns its record, nil where it does not match.
func (q *query) match(line []byte) (*Record, error) {
	for _, c := range q.conditions {
		if c.needles != nil && !slices.ContainsFunc(c.needles, func(n []byte) bool { return bytes.Contains(line, n) }) || c.quick != nil && !c.quick(line) {
			return nil, nil //nolint:nilnil // no match
		}
	}
	r, err := decodeLine(line)
	if err != nil || !q.matches(r) {
		return nil, err
	}
	return r, nil
}

func (q *query) matches(r *Record) bool {
	at := r.At.UnixMilli()
	return at >= q.from && at < q.to &&
		!slices.ContainsFunc(q.conditions, func(c condition) bool { return !c.matches(r) })
}

// A search reads one page.
type search struct {
	*query
	Page
	list  List
	read  int
	newer string // id of the row that was looked at before: all records from it on are known
}

// List returns a page of the records that match. It reads a bounded number of rows: where
// that does not do, the list goes on with Next.
func (l *Log) List(ctx context.Context, f *Filter, p Page) (*List, error) {
	s := &search{query: f.query(), Page: p}
	s.list.Exact = s.simple
	err := l.blocks.view(ctx, func(tx storage.Tx, list []*segment) error {
		for _, seg := range slices.Backward(list) {
			if s.Before != "" && seg.ID >= s.Before {
				continue
			}
			if s.mayHave(seg) {
				if done, err := s.visit(tx, l.blocks, seg); done || err != nil {
					return err
				}
			}
			s.newer = seg.ID
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.list.Exact = s.list.Exact || !s.list.More
	if s.list.More && s.list.Next == "" && len(s.list.Records) > 0 {
		s.list.Next = s.list.Records[len(s.list.Records)-1].ID
	}
	return &s.list, nil
}

// visit looks into one row, and reports whether the search is over.
func (s *search) visit(tx storage.Tx, rows *shelf, seg *segment) (done bool, err error) {
	whole := s.counted(seg) && (s.Before == "" || seg.Last < s.Before)
	full := len(s.list.Records) == s.Limit
	if n := s.count(seg); whole && (full || s.Skip >= n) {
		s.list.Total += n
		if full {
			s.list.More = true
		} else {
			s.Skip -= n
		}
		return false, nil
	}
	if s.read >= maxRead {
		s.list.More, s.list.Exact, s.list.Short, s.list.Next = true, false, s.Skip > 0, s.newer
		return true, nil
	}
	row, err := rows.row(tx, seg)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.read += max(len(row), readCost)
	return s.look(row)
}

// look looks at the records of a row, the latest first.
func (s *search) look(row []byte) (done bool, err error) {
	for len(row) > 0 {
		var line []byte
		row, line = lastLine(row)
		if s.passes(line) {
			continue
		}
		r, err := s.match(line)
		if err != nil {
			return false, err
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
			if !s.list.Exact {
				return true, nil
			}
		}
	}
	return false, nil
}

// passes reports whether a line is after the records that are asked for, by its id alone.
func (s *search) passes(line []byte) bool {
	id, ok := bytes.CutPrefix(line, []byte(beginLine))
	return ok && s.Before != "" && len(id) >= len(s.Before) && string(id[:len(s.Before)]) >= s.Before
}

// Find returns the record with this id, or the latest one with this trace id, of those
// that the filter lets pass; nil: there is none.
func (l *Log) Find(ctx context.Context, id string, f *Filter) (found *Record, err error) {
	q := f.query()
	err = l.blocks.view(ctx, func(tx storage.Tx, list []*segment) error {
		for _, seg := range list {
			if id < seg.ID || id > seg.Last || !q.mayHave(seg) {
				continue
			}
			row, err := l.blocks.row(tx, seg)
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
	if found != nil || err != nil && !errors.Is(err, storage.ErrNotFound) {
		return found, err
	}
	traced := *f
	traced.TraceIDs = []string{id}
	list, err := l.List(ctx, &traced, Page{Limit: 1})
	if err != nil || len(list.Records) == 0 {
		return nil, err
	}
	return list.Records[0], nil
}

// Bodies reads what is kept of a record's bodies. A body that is kept no more is nil from
// then on.
func (l *Log) Bodies(ctx context.Context, r *Record) error {
	if r.Request == nil && r.Response == nil {
		return nil
	}
	var request, response []byte
	found := false
	err := l.bodies.view(ctx, func(tx storage.Tx, list []*segment) error {
		for _, seg := range list {
			if r.ID < seg.ID || r.ID > seg.Last {
				continue
			}
			row, err := l.bodies.row(tx, seg)
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
