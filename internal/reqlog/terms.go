package reqlog

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"unique"

	"github.com/tidwall/gjson"
)

// terms are hashes of the values that occur in a row, sorted, with two bytes each. A
// search skips rows whose terms do not contain the value. It reads n in 65,536 rows
// without a match, if n is the number of terms per row. That is little for a block of
// records with a trace id each, and a million records need half the memory of hashes
// with four bytes.
type terms []byte

const termSize = 2

// term returns the hash of a field's value.
func term(field, value string) uint16 { return narrow(wideTerm(field, value)) }

// narrow shortens a hash of four bytes, which earlier versions stored. It uses all of
// its bits, because hashes of values that only differ in their last character differ in
// few bits.
func narrow(wide uint32) uint16 { return uint16(wide * 2654435769 >> 16) }

func wideTerm(field, value string) uint32 {
	const prime = 1099511628211 // of FNV-1a
	sum := uint64(14695981039346656037)
	for i := range len(field) {
		sum = (sum ^ uint64(field[i])) * prime
	}
	sum *= prime // separates field and value
	for i := range len(value) {
		sum = (sum ^ uint64(value[i])) * prime
	}
	return uint32(sum ^ sum>>32)
}

func newTerms(hashes []uint16) terms {
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	t := make(terms, 0, termSize*len(hashes))
	for _, h := range hashes {
		t = binary.BigEndian.AppendUint16(t, h)
	}
	return t
}

// narrowTerms converts the terms that earlier versions stored.
func narrowTerms(wide []byte) terms {
	hashes := make([]uint16, len(wide)/4)
	for i := range hashes {
		hashes[i] = narrow(binary.BigEndian.Uint32(wide[4*i:]))
	}
	return newTerms(hashes)
}

func (t terms) hashes() []uint16 {
	all := make([]uint16, len(t)/termSize)
	for i := range all {
		all[i] = binary.BigEndian.Uint16(t[termSize*i:])
	}
	return all
}

func (t terms) has(hash uint16) bool {
	n := len(t) / termSize
	at := func(i int) uint16 { return binary.BigEndian.Uint16(t[termSize*i:]) }
	i := sort.Search(n, func(i int) bool { return at(i) >= hash })
	return i < n && at(i) == hash
}

func (t terms) union(more terms) terms { return newTerms(append(t.hashes(), more.hashes()...)) }

// counts are the numbers of records in a row by workspace. In JSON they are an object.
type counts []count

type count struct {
	ID string // of the workspace
	N  int
}

func (c *counts) add(id string, n int) {
	for i := range *c {
		if (*c)[i].ID == id {
			(*c)[i].N += n
			return
		}
	}
	*c = append(*c, count{id, n})
}

// MarshalJSON implements [json.Marshaler].
func (c counts) MarshalJSON() ([]byte, error) {
	all := make(map[string]int, len(c))
	for _, one := range c {
		all[one.ID] = one.N
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *counts) UnmarshalJSON(b []byte) error {
	var all map[string]int
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*c = make(counts, 0, len(all))
	for id, n := range all {
		*c = append(*c, count{unique.Make(id).Value(), n})
	}
	return nil
}

// A field is a criterion for filtering lists of records. It has the name of the member
// that holds its value in a stored record, and the value.
type field struct {
	member string
	of     func(*Record) string
}

// The fields with a single value.
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

	// byUser has no terms: the records of a user are found among those of the workspace.
	byUser = &field{"user_id", func(r *Record) string { return r.UserID }}

	// byPrompt has no terms: rows that were written before there was a filter do not have them.
	byPrompt = &field{"prompt_slug", func(r *Record) string { return r.PromptSlug }}

	fields = []*field{byWorkspace, byKey, byEndpoint, byProvider, byVirtualKey, byModel, byConfig, byCache, byTrace, byStatus}
)

// class returns the name of a status class, such as 5xx.
func class(status int) string { return strconv.Itoa(status/100) + "xx" }

// metadataField returns the name of an entry of metadata in terms.
func metadataField(key string) string { return "metadata." + key }

// A collector collects the terms of a row.
type collector struct {
	hashes   []uint16
	latest   []string // value of each field in the latest record, because most values repeat
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

// eachMetadata calls f for each entry of metadata, with its value as text.
func eachMetadata(metadata json.RawMessage, f func(key, value string)) {
	gjson.ParseBytes(metadata).ForEach(func(key, value gjson.Result) bool {
		if value.Type != gjson.Null {
			f(key.String(), value.String())
		}
		return true
	})
}
