package cache

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

const (
	// DefaultMaxAge is how long an answer is kept by default.
	DefaultMaxAge = 7 * 24 * time.Hour
	// MinMaxAge is the shortest time that may be configured.
	MinMaxAge = time.Minute
	// MaxMaxAge is the longest time that may be configured.
	MaxMaxAge = 90 * 24 * time.Hour

	// DefaultSize is the default of the maximum size of all answers, in bytes.
	DefaultSize = 256 << 20
	// MaxEntry is the maximum size of an answer, in bytes.
	MaxEntry = 4 << 20
)

// An Entry is a stored answer in the caller's dialect.
type Entry struct {
	At       time.Time `json:"at"`
	Provider string    `json:"provider"`
	Stream   bool      `json:"stream"` // Body is server-sent events; otherwise JSON
	Type     string    `json:"type"`   // its media type
	Body     []byte    `json:"-"`
}

// A place describes a stored entry in memory.
type place struct {
	ID      string    `json:"id"`
	Size    int64     `json:"size"`
	At      time.Time `json:"at"`
	Expires time.Time `json:"expires"`
}

// A Cache keeps answers in a store. When they exceed the cache's size, the oldest ones
// are removed. It is safe for concurrent use.
type Cache struct {
	db      *storage.DB
	blobs   *storage.Blobs
	places  *storage.Collection[*place]
	vectors *vectors
	now     func() time.Time

	mu      sync.Mutex
	size    int64 // maximum
	used    int64
	queue   []*place          // by age; includes entries that were replaced
	byID    map[string]*place // the current entry of each id
	flights map[Key]*Flight
}

// Open returns the cache in a store.
func Open(ctx context.Context, db *storage.DB, now func() time.Time) (*Cache, error) {
	c := &Cache{
		db: db, blobs: storage.NewBlobs("cache"), places: storage.NewCollection("cache_places", func(p *place) string { return p.ID }),
		vectors: newVectors(), now: now, size: DefaultSize, byID: make(map[string]*place), flights: make(map[Key]*Flight),
	}
	err := db.View(ctx, func(tx storage.Tx) error {
		for p, err := range c.places.All(tx) {
			if err != nil {
				return err
			}
			c.queue = append(c.queue, p)
		}
		slices.SortStableFunc(c.queue, func(a, b *place) int { return a.At.Compare(b.At) })
		for _, p := range c.queue {
			c.byID[p.ID] = p
			c.used += p.Size
		}
		return c.vectors.load(tx, c.byID)
	})
	return c, err
}

// Resize sets the maximum size of all answers, in bytes.
func (c *Cache) Resize(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size = size
}

// Used returns the size of all answers, in bytes.
func (c *Cache) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// add registers a stored entry. The caller holds the lock.
func (c *Cache) add(p *place) {
	c.forget(c.byID[p.ID])
	c.byID[p.ID] = p
	c.used += p.Size
	c.queue = append(c.queue, p)
}

// Get returns the entry of a call that is no older than maxAge, or nil.
func (c *Cache) Get(ctx context.Context, key Key, maxAge time.Duration) (*Entry, error) {
	id := hex.EncodeToString(key[:])
	c.mu.Lock()
	p := c.byID[id]
	c.mu.Unlock()
	now := c.now()
	if p == nil || !now.Before(p.Expires) || now.Sub(p.At) >= maxAge {
		return nil, nil // not an error, and not worth a read
	}
	var data []byte
	err := c.db.View(ctx, func(tx storage.Tx) (err error) {
		data, err = c.blobs.Get(tx, id)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(data)
}

func decode(data []byte) (*Entry, error) {
	head, body, ok := bytes.Cut(data, []byte("\n"))
	e := new(Entry)
	if !ok {
		return nil, errors.New("a kept answer has no head")
	}
	if err := json.Unmarshal(head, e); err != nil {
		return nil, err
	}
	e.Body = body
	return e, nil
}

func encode(e *Entry) ([]byte, error) {
	head, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), e.Body...), nil
}

// Put stores an entry for maxAge, with the embedding of its question if there is one.
// Entries larger than MaxEntry are not stored.
func (c *Cache) Put(ctx context.Context, key Key, e *Entry, m *Meaning, maxAge time.Duration) error {
	data, err := encode(e)
	if err != nil {
		return err
	}
	id := hex.EncodeToString(key[:])
	row, floats := m.row(id)
	p := &place{ID: id, Size: int64(len(data) + len(id)), At: e.At, Expires: e.At.Add(maxAge)}
	outgrown, sum := "", signature{}
	if row != nil {
		sum = signatureOf(floats)
		p.Size += row.size()
		outgrown = c.vectors.outgrown(row.Scope)
	}
	c.mu.Lock()
	if len(e.Body) > MaxEntry || p.Size > c.size {
		c.mu.Unlock()
		return nil
	}
	c.forget(c.byID[id]) // replaced by the new one
	var gone []string
	if full := c.byID[outgrown]; full != nil && outgrown != id {
		c.forget(full)
		gone = append(gone, outgrown)
	}
	gone = c.makeRoom(gone, p.Size)
	c.mu.Unlock()
	err = c.db.Write(ctx, func(tx storage.Tx) error {
		for _, old := range gone {
			if err := errors.Join(c.blobs.Delete(tx, old), absent(c.places.Delete(tx, old)), absent(c.vectors.rows.Delete(tx, old))); err != nil {
				return err
			}
		}
		if err := errors.Join(c.blobs.PutTTL(tx, id, data, maxAge), c.places.PutTTL(tx, p, maxAge)); err != nil {
			return err
		}
		if row == nil {
			return absent(c.vectors.rows.Delete(tx, id))
		}
		return c.vectors.rows.PutTTL(tx, row, maxAge)
	})
	for _, old := range append(gone, id) {
		c.vectors.forget(old)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(p)
	if row != nil {
		c.vectors.add(id, row.Scope, p.At, floats, sum)
	}
	return nil
}

// absent returns nil if the error is that something does not exist.
func absent(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// forget removes an entry from memory. The caller holds the lock.
func (c *Cache) forget(p *place) {
	if p != nil && c.byID[p.ID] == p {
		delete(c.byID, p.ID)
		c.used -= p.Size
	}
}

const maxEvicted = 256 // in one transaction

// makeRoom removes the oldest entries from memory until there is room for size bytes,
// and appends their ids to gone. The caller holds the lock.
func (c *Cache) makeRoom(gone []string, size int64) []string {
	i := 0
	for ; i < len(c.queue) && len(gone) < maxEvicted; i++ {
		p := c.queue[i]
		if c.byID[p.ID] != p {
			continue // was replaced
		}
		if c.used+size <= c.size && c.now().Before(p.Expires) {
			break
		}
		c.forget(p)
		gone = append(gone, p.ID)
	}
	clear(c.queue[:i])
	c.queue = c.queue[i:]
	return gone
}
