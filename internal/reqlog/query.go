package reqlog

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Filter selects the records that match every field that is set, by any of the field's
// values.
type Filter struct {
	Workspaces    []string // ids; nil: all workspaces, but an empty list: none
	KeyIDs        []string
	UserIDs       []string
	Endpoints     []string
	Providers     []string
	VirtualKeys   []string
	Models        []string
	Configs       []string
	Prompts       []string // slugs
	CacheStatuses []string
	TraceIDs      []string
	Statuses      []string          // such as 500, or 5xx
	From, To      time.Time         // of the beginning of the call; From is inclusive
	CostFrom      *prices.Amount    // inclusive; calls with unknown cost do not match
	CostTo        *prices.Amount    // inclusive
	Metadata      map[string]string // all entries must match
}

// A condition is one field of a filter.
type condition struct {
	terms   []uint16 // a row with a match has at least one of them; nil: not known by terms
	needles [][]byte // a matching line contains at least one of them; nil: only match decides
	matches func(*Record) bool
	quick   func(line []byte) bool // whether a line may match, for metadata and costs
}

// A query is a prepared filter.
type query struct {
	*Filter
	conditions []condition
	simple     bool            // there are no conditions except workspaces
	workspaces map[string]bool // nil: all
	from, to   int64           // ms; to is exclusive
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
	for _, c := range []struct {
		field  *field
		values []string
	}{{byUser, f.UserIDs}, {byPrompt, f.Prompts}} {
		if len(c.values) > 0 {
			only := c.field.anyOf(c.values)
			only.terms = nil // rows do not have them
			q.conditions = append(q.conditions, only)
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

// fewNeedles is the maximum number of strings that are searched for in a line instead of
// decoding it.
const fewNeedles = 8

// needle returns a string that occurs in the lines of all records with the value, and
// possibly in others.
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
		terms:   []uint16{term(metadataField(key), value)},
		matches: func(r *Record) bool { return has(r.Metadata) },
		quick: func(line []byte) bool {
			metadata := gjson.GetBytes(line, "metadata").Raw
			return metadata != "" && has([]byte(metadata))
		},
	}
}

// costs returns the condition on the cost of a call.
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

// mayHave reports whether a row may contain a match.
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

// counted reports whether the segment alone determines how many of its records match.
func (q *query) counted(s *segment) bool {
	return q.simple && s.From >= q.from && s.To < q.to
}

// count returns the number of a row's records in the workspaces.
func (q *query) count(s *segment) int {
	if q.workspaces == nil {
		return s.Count
	}
	n := 0
	for _, c := range s.Workspaces {
		if q.workspaces[c.ID] {
			n += c.N
		}
	}
	return n
}

// match decodes a line and returns its record, or nil if it does not match.
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
