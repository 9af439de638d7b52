package cache

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/philippgille/chromem-go"

	"github.com/caddy-gw/gateway/storage"
)

// DefaultThreshold is the cosine from which on two questions are the same.
const DefaultThreshold = 0.95

// vectors are the meanings of the kept answers' questions: an index in memory, and a row
// each in the store, from which the index is made at the start. Each scope is an index of
// its own.
type vectors struct {
	rows  *storage.Collection[vector]
	index *chromem.DB

	mu     sync.Mutex
	scopes map[string]string // by the id of an answer: its scope
}

// A vector is the meaning of one question.
type vector struct {
	ID      string    `json:"id"` // of the answer
	Scope   string    `json:"scope"`
	Vector  string    `json:"vector"` // floats of 32 bits, little-endian, in base64
	Expires time.Time `json:"expires"`
}

func newVectors() *vectors {
	return &vectors{
		rows:  storage.NewCollection("cache_vectors", func(v *vector) string { return v.ID }),
		index: chromem.NewDB(), scopes: make(map[string]string),
	}
}

// load makes the index of what is stored.
func (v *vectors) load(ctx context.Context, tx storage.Tx, now time.Time) error {
	for row, err := range v.rows.All(tx) {
		if err != nil {
			return err
		}
		floats, err := unpack(row.Vector)
		if err != nil || !now.Before(row.Expires) {
			continue
		}
		if err := v.add(ctx, row.ID, row.Scope, floats); err != nil {
			return err
		}
	}
	return nil
}

// add puts a meaning into its scope's index.
func (v *vectors) add(ctx context.Context, id, scope string, floats []float32) error {
	v.forget(ctx, id)
	c, err := v.index.GetOrCreateCollection(scope, nil, noEmbedding)
	if err != nil {
		return err
	}
	if err := c.AddDocument(ctx, chromem.Document{ID: id, Embedding: floats}); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.scopes[id] = scope
	return nil
}

// noEmbedding is never called: every meaning is told.
func noEmbedding(context.Context, string) ([]float32, error) {
	return nil, errors.New("no model of embeddings")
}

// forget takes the meaning of an answer out of the index.
func (v *vectors) forget(ctx context.Context, id string) {
	v.mu.Lock()
	scope, ok := v.scopes[id]
	delete(v.scopes, id)
	v.mu.Unlock()
	if !ok {
		return
	}
	if c := v.index.GetCollection(scope, noEmbedding); c != nil {
		_ = c.Delete(ctx, nil, nil, id) // it is only in memory, which does not fail
		if c.Count() == 0 {
			_ = v.index.DeleteCollection(scope)
		}
	}
}

const nearest = 5 // answers that are looked at, the nearest first

// find returns the ids of the answers to the nearest questions in a scope.
func (v *vectors) find(ctx context.Context, scope string, floats []float32, threshold float64) ([]string, error) {
	c := v.index.GetCollection(scope, noEmbedding)
	if c == nil || c.Count() == 0 {
		return nil, nil
	}
	results, err := c.QueryEmbedding(ctx, floats, min(nearest, c.Count()), nil, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range results {
		if float64(r.Similarity) >= threshold {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// Similar returns the entry of a question in the same scope whose meaning is near enough,
// no older than maxAge, or nil.
func (c *Cache) Similar(ctx context.Context, scope Key, meaning []float32, threshold float64, maxAge time.Duration) (*Entry, error) {
	ids, err := c.vectors.find(ctx, hex.EncodeToString(scope[:]), meaning, threshold)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
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

// Learn notes the meaning of the question whose answer is kept under key for maxAge.
func (c *Cache) Learn(ctx context.Context, key, scope Key, meaning []float32, maxAge time.Duration) error {
	row := &vector{
		ID: hex.EncodeToString(key[:]), Scope: hex.EncodeToString(scope[:]), Vector: pack(meaning), Expires: c.now().Add(maxAge),
	}
	err := c.db.Write(ctx, func(tx storage.Tx) error { return c.vectors.rows.PutTTL(tx, row, maxAge) })
	if err != nil {
		return err
	}
	return c.vectors.add(ctx, row.ID, row.Scope, meaning)
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
	if err != nil || len(b)%4 != 0 || len(b) == 0 {
		return nil, errors.New("not a vector")
	}
	floats := make([]float32, len(b)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return floats, nil
}
