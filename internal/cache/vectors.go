package cache

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// DefaultThreshold is the default of the lowest cosine at which two questions are
// considered the same.
const DefaultThreshold = 0.95

const (
	// maxInScope is the maximum number of questions in a scope, which bounds the cost
	// of a lookup. The oldest is removed first.
	maxInScope = 10_000
	// maxCompared is the maximum number of vectors that are compared, the most similar
	// signatures first.
	maxCompared = 128
	// minDimensions is the number of dimensions from which signatures are used. With
	// fewer, all vectors are compared.
	minDimensions = 64
	nearest       = 5 // answers to check, the nearest first
)

// A Meaning is the embedding of a question.
type Meaning struct {
	Scope  Key // the scope it is compared in: [Question.Of]
	Vector []float32
}

// vectors is an index of the embeddings of all stored answers. It is in memory, and is
// rebuilt from the rows in the store when the cache is opened.
type vectors struct {
	rows *storage.Collection[*vector]

	mu     sync.RWMutex
	scopes map[string]*scope
	of     map[string]*scope // by the id of an answer
}

// A scope holds the embeddings that are compared with each other. The slices are
// parallel.
type scope struct {
	name       string
	ids        []string
	at         []int64 // when the answer was stored, in Unix ns
	signatures []signature
	units      [][]float32
	places     map[string]int // of an id in the slices
}

// A vector is the meaning of one question.
type vector struct {
	ID     string `json:"id"` // of the answer
	Scope  string `json:"scope"`
	Vector string `json:"vector"` // of length 1: little-endian float32 in base64
}

// size returns the size of the row, in bytes.
func (v *vector) size() int64 { return int64(len(v.ID) + len(v.Scope) + len(v.Vector)) }

func newVectors() *vectors {
	return &vectors{
		rows:   storage.NewCollection("cache_vectors", func(v *vector) string { return v.ID }),
		scopes: make(map[string]*scope), of: make(map[string]*scope),
	}
}

// load rebuilds the index from the stored embeddings of answers that still exist.
func (v *vectors) load(tx storage.Tx, kept map[string]*place) error {
	for row, err := range v.rows.All(tx) {
		if err != nil {
			return err
		}
		if p := kept[row.ID]; p != nil {
			if floats, err := unpack(row.Vector); err == nil {
				v.add(row.ID, row.Scope, p.At, floats, signatureOf(floats))
			}
		}
	}
	return nil
}

// add adds an embedding of length 1 to its scope.
func (v *vectors) add(id, name string, at time.Time, floats []float32, sum signature) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(id)
	s := v.scopes[name]
	if s == nil {
		s = &scope{name: name, places: make(map[string]int)}
		v.scopes[name] = s
	}
	v.of[id], s.places[id] = s, len(s.ids)
	s.ids, s.at = append(s.ids, id), append(s.at, at.UnixNano())
	s.signatures, s.units = append(s.signatures, sum), append(s.units, floats)
}

// forget removes the embedding of an answer from the index.
func (v *vectors) forget(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(id)
}

// drop is like forget, but the caller holds the lock.
func (v *vectors) drop(id string) {
	s := v.of[id]
	if s == nil {
		return
	}
	i, end := s.places[id], len(s.ids)-1
	delete(v.of, id)
	delete(s.places, id)
	if end == 0 {
		delete(v.scopes, s.name)
		return
	}
	if i != end {
		s.ids[i], s.at[i], s.signatures[i], s.units[i] = s.ids[end], s.at[end], s.signatures[end], s.units[end]
		s.places[s.ids[i]] = i
	}
	s.units[end] = nil
	s.ids, s.at, s.signatures, s.units = s.ids[:end], s.at[:end], s.signatures[:end], s.units[:end]
}

// outgrown returns the id of the oldest answer of a full scope, or "" if the scope has
// room.
func (v *vectors) outgrown(name string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.scopes[name]
	if s == nil || len(s.ids) < maxInScope {
		return ""
	}
	oldest := 0
	for i, at := range s.at {
		if at < s.at[oldest] {
			oldest = i
		}
	}
	return s.ids[oldest]
}

// find returns the ids of the answers to the nearest questions in a scope with a cosine
// of at least threshold. floats has length 1.
func (v *vectors) find(name string, floats []float32, threshold float64) []string {
	type near struct {
		id     string
		cosine float64
	}
	sum := signatureOf(floats)
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.scopes[name]
	if s == nil {
		return nil
	}
	var found []near
	look := func(i int) {
		if len(s.units[i]) != len(floats) {
			return
		}
		if c := cosine(floats, s.units[i]); c >= threshold {
			found = append(found, near{s.ids[i], c})
		}
	}
	if len(s.ids) <= maxCompared || len(floats) < minDimensions {
		for i := range s.ids {
			look(i)
		}
	} else {
		for _, i := range s.likely(&sum, farthest(threshold)) {
			look(i)
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Compare(b.cosine, a.cosine) })
	var ids []string
	for _, n := range found[:min(nearest, len(found))] {
		ids = append(ids, n.id)
	}
	return ids
}

// distances are buffers for the distances of a scope's signatures.
var distances = sync.Pool{New: func() any { return new([]uint16) }}

// likely returns the indexes of the embeddings whose signatures differ from sum in at
// most most bits. If there are too many, it returns the nearest.
func (s *scope) likely(sum *signature, most int) []int {
	noted := distances.Get().(*[]uint16)
	defer distances.Put(noted)
	all := slices.Grow((*noted)[:0], len(s.signatures))
	var counts [signatureBits + 1]int
	for i := range s.signatures {
		d := s.signatures[i].distance(sum)
		all = append(all, uint16(d))
		counts[d]++
	}
	*noted = all
	total, room := 0, maxCompared // room for embeddings at the last distance
	for d, n := range counts[:most+1] {
		if total+n >= maxCompared {
			most, room = d, maxCompared-total
			break
		}
		total += n
	}
	var places []int
	for i, d := range all {
		switch {
		case int(d) > most:
		case int(d) < most:
			places = append(places, i)
		case room > 0:
			room--
			places = append(places, i)
		}
	}
	return places
}

// Similar returns the entry of a similar question in the same scope, if it is no older
// than maxAge, or else nil.
func (c *Cache) Similar(ctx context.Context, m *Meaning, threshold float64, maxAge time.Duration) (*Entry, error) {
	floats, ok := unit(m.Vector)
	if !ok {
		return nil, errNoDirection
	}
	for _, id := range c.vectors.find(hex.EncodeToString(m.Scope[:]), floats, threshold) {
		var key Key
		if _, err := hex.Decode(key[:], []byte(id)); err != nil {
			return nil, err
		}
		entry, err := c.Get(ctx, key, maxAge)
		if entry != nil || err != nil {
			return entry, err
		}
	}
	return nil, nil
}

var errNoDirection = errors.New("a meaning that cannot be compared: expected finite numbers, at most 8192, that are not all 0")

// row returns the stored form of an embedding, and its vector of length 1. It returns
// nil if there is no embedding.
func (m *Meaning) row(id string) (*vector, []float32) {
	if m == nil {
		return nil, nil
	}
	floats, ok := unit(m.Vector)
	if !ok {
		return nil, nil
	}
	return &vector{ID: id, Scope: hex.EncodeToString(m.Scope[:]), Vector: pack(floats)}, floats
}

func pack(floats []float32) string {
	b := make([]byte, 0, 4*len(floats))
	for _, f := range floats {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func unpack(s string) ([]float32, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b)%4 != 0 || len(b) == 0 || len(b) > 4*maxDimensions {
		return nil, errors.New("not a vector")
	}
	floats := make([]float32, len(b)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return floats, nil
}
