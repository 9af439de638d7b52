package reqlog

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"sort"
	"strconv"

	"github.com/tidwall/gjson"
)

// terms are the hashes of the values that occur in a row, sorted, four bytes each: who
// looks for a value that is not among them passes the row over without reading it.
type terms []byte

const termSize = 4

// term is the hash of a field's value.
func term(field, value string) uint32 {
	const prime = 1099511628211 // of FNV-1a
	sum := uint64(14695981039346656037)
	for i := range len(field) {
		sum = (sum ^ uint64(field[i])) * prime
	}
	sum *= prime // between the two
	for i := range len(value) {
		sum = (sum ^ uint64(value[i])) * prime
	}
	return uint32(sum ^ sum>>32)
}

func newTerms(hashes []uint32) terms {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	t := make(terms, 0, termSize*len(hashes))
	for _, h := range hashes {
		t = binary.BigEndian.AppendUint32(t, h)
	}
	return t
}

func (t terms) hashes() []uint32 {
	all := make([]uint32, len(t)/termSize)
	for i := range all {
		all[i] = binary.BigEndian.Uint32(t[termSize*i:])
	}
	return all
}

func (t terms) has(hash uint32) bool {
	n := len(t) / termSize
	at := func(i int) uint32 { return binary.BigEndian.Uint32(t[termSize*i:]) }
	i := sort.Search(n, func(i int) bool { return at(i) >= hash })
	return i < n && at(i) == hash
}

func (t terms) union(more terms) terms { return newTerms(append(t.hashes(), more.hashes()...)) }

// A field is what lists of records can be filtered by: the member of a stored record
// that has its value, and the value.
type field struct {
	member string
	of     func(*Record) string
}

// The fields that have one value. Metadata has many.
var (
	byWorkspace  = &field{"workspace_id", func(r *Record) string { return r.WorkspaceID }}
	byKey        = &field{"key_id", func(r *Record) string { return r.KeyID }}
	byEndpoint   = &field{"endpoint", func(r *Record) string { return r.Endpoint }}
	byProvider   = &field{"provider", func(r *Record) string { return r.Provider }}
	byVirtualKey = &field{"virtual_key", func(r *Record) string { return r.VirtualKey }}
	byModel      = &field{"model", func(r *Record) string { return r.Model }}
	byConfig     = &field{"config", func(r *Record) string { return r.Config }}
	byCache      = &field{"cache_status", func(r *Record) string { return r.CacheStatus }}
	byTrace      = &field{"trace_id", func(r *Record) string { return r.TraceID }}
	byStatus     = &field{"status", func(r *Record) string { return strconv.Itoa(r.Status) }}

	fields = []*field{byWorkspace, byKey, byEndpoint, byProvider, byVirtualKey, byModel, byConfig, byCache, byTrace, byStatus}
)

// class is the name of a status class, such as 5xx.
func class(status int) string { return strconv.Itoa(status/100) + "xx" }

// metadataField names an entry of the metadata among the terms.
func metadataField(key string) string { return "metadata." + key }

// A collector gathers the terms of a row.
type collector struct {
	hashes   []uint32
	latest   []string // value of each field in the latest record: most repeat
	metadata string
}

func (c *collector) add(r *Record) {
	if c.latest == nil {
		c.latest = make([]string, len(fields))
	}
	for i, f := range fields {
		value := f.of(r)
		if value == "" || value == c.latest[i] {
			continue
		}
		c.latest[i] = value
		c.hashes = append(c.hashes, term(f.member, value))
		if f == byStatus {
			c.hashes = append(c.hashes, term(f.member, class(r.Status)))
		}
	}
	if len(r.Metadata) == 0 || string(r.Metadata) == c.metadata {
		return
	}
	c.metadata = string(r.Metadata)
	eachMetadata(r.Metadata, func(key, value string) {
		c.hashes = append(c.hashes, term(metadataField(key), value))
	})
}

// eachMetadata calls f with each entry of metadata, its value as text.
func eachMetadata(metadata json.RawMessage, f func(key, value string)) {
	gjson.ParseBytes(metadata).ForEach(func(key, value gjson.Result) bool {
		if value.Type != gjson.Null {
			f(key.String(), value.String())
		}
		return true
	})
}
