package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Cached is a [Collection] whose rows are all kept in memory, for what every
// request reads: reading takes no store and no decoding. Rows are shared and
// immutable: what a P from one points to is never changed. To change a row, Put
// another under its id.
//
// Memory follows the [Feed] of the [DB], so all writes of these rows must go
// through a Cached, of this DB or of another over the same store. What a
// transaction writes must depend on nothing but what it reads itself, through
// [Cached.In]: memory may be older than the store, and a change made to what memory
// has would undo what another DB of the store did.
type Cached[P any] struct {
	db   *DB
	rows *Collection[P]

	// Of what In returns: the transaction, and where its writes are kept.
	tx     *Txn
	memory *Cached[P]

	mu     sync.RWMutex
	byID   map[string]P
	unique map[string]map[string]P           // the name of a unique index -> value -> row
	sorted *ordered[P]                       // all rows
	groups map[string]map[string]*ordered[P] // the name of another index -> value -> rows

	scanned []P // of In: all rows, until a write; nil: they were not read

	onChange func()
}

// NewCached returns rows with a memory, which is empty until [Cached.Load].
func NewCached[P any](db *DB, rows *Collection[P]) *Cached[P] {
	c := &Cached[P]{db: db, rows: rows}
	c.reset(0)
	db.OnCheck(rows.Check)
	db.mu.Lock()
	db.cached[rows.name] = c
	db.mu.Unlock()
	return c
}

// CachedOf returns the rows of the collection called name, for what works with the rows of all
// services, such as an export. It panics if there are none of this type.
func CachedOf[P any](db *DB, name string) *Cached[P] {
	db.mu.Lock()
	defer db.mu.Unlock()
	c, ok := db.cached[name].(*Cached[P])
	if !ok {
		var none P
		panic(fmt.Sprintf("storage: there are no rows of the type %T in memory that are called %s", none, name))
	}
	return c
}

// Load reads all rows from the store, and starts following its changes. It is called once,
// before the first use. If there is an error, memory stays empty.
func (c *Cached[P]) Load(ctx context.Context) error {
	return c.db.feed.Follow(ctx, func(tx Tx) error {
		loaded, err := c.rows.load(tx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.reset(len(loaded))
		for _, row := range loaded {
			c.set(row)
		}
		c.mu.Unlock()
		c.changed()
		return nil
	}, c.follow)
}

// OnChange registers a hook that is called when memory has changed: after Load, and after
// each commit that changed rows. It is used for what is computed from all rows. It must be
// called once, before Load. The hook must not call Update.
func (c *Cached[P]) OnChange(hook func()) { c.onChange = hook }

func (c *Cached[P]) changed() {
	if c.onChange != nil {
		c.onChange()
	}
}

// follow applies the changes of a committed transaction.
func (c *Cached[P]) follow(changes []Change) {
	prefix := c.rows.keys.row("")
	var changed []string
	var stored []P
	for _, change := range changes {
		id, err := tail(change.Key, prefix)
		if err != nil {
			continue // of another collection
		}
		changed = append(changed, id)
		if change.Value == nil {
			continue
		}
		// A row that cannot be decoded is dropped; its previous state would be wrong.
		if row, err := c.rows.decode(id, change.Value); err == nil {
			stored = append(stored, row)
		}
	}
	if len(changed) == 0 {
		return
	}
	c.apply(changed, stored)
	c.changed()
}

// apply first drops all changed rows, so that a unique value may move from one row to
// another.
func (c *Cached[P]) apply(changed []string, stored []P) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range changed {
		c.drop(id)
	}
	for _, row := range stored {
		c.set(row)
	}
}

// In returns the rows as tx sees them: Get, Find and All read from tx, and return rows that
// are not shared. If a read fails, the transaction fails. The result is valid as long as tx
// is, and is not safe for concurrent use.
func (c *Cached[P]) In(tx *Txn) *Cached[P] {
	return &Cached[P]{db: c.db, rows: c.rows, tx: tx, memory: c.Memory()}
}

// Memory returns the rows in memory, also inside a transaction.
func (c *Cached[P]) Memory() *Cached[P] {
	if c.tx != nil {
		return c.memory
	}
	return c
}

// read converts the result of a read in the transaction.
func (c *Cached[P]) read(row P, err error) (P, bool) {
	if err != nil {
		if !errors.Is(err, ErrNotFound) {
			c.tx.fail(err)
		}
		var none P
		return none, false
	}
	return row, true
}

// Get returns the row with this id.
func (c *Cached[P]) Get(id string) (P, bool) {
	if c.tx != nil {
		return c.read(c.rows.Get(c.tx, id))
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	row, ok := c.byID[id]
	return row, ok
}

// Find returns the row with a value of a unique index. It panics if the collection has no
// unique index with this name.
func (c *Cached[P]) Find(index, value string) (P, bool) {
	if c.tx != nil {
		return c.read(c.rows.Find(c.tx, index, value))
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	values, ok := c.unique[index]
	if !ok {
		panic(fmt.Sprintf("storage: %s has no unique index %s", c.rows.name, index))
	}
	row, ok := values[value]
	return row, ok
}

// Count is [Collection.Count] of rows that a transaction sees: memory does not say what a
// change may depend on. Outside of a transaction it panics, as without that index.
func (c *Cached[P]) Count(index, value string) int {
	if c.tx == nil {
		panic("storage: rows of " + c.rows.name + " are counted outside of a transaction")
	}
	if ix, err := c.rows.index(index); err != nil || !ix.Counted {
		panic(fmt.Sprintf("storage: %s has no counted index %s", c.rows.name, index))
	}
	n, err := c.rows.Count(c.tx, index, value)
	if err != nil {
		c.tx.fail(err)
	}
	return n
}

// All returns all rows in the order of their ids. The slice is shared and must not be
// modified.
func (c *Cached[P]) All() []P {
	if c.tx != nil {
		return c.scan()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.sorted.all()
}

// Where returns the rows that have a value in an index that is not unique, in the order of their
// ids, as All does. It panics if the collection has no such index. In a transaction it reads all rows where the
// index is only in memory, and where it counts if memory does not have as many rows with the value.
func (c *Cached[P]) Where(index, value string) []P {
	if c.tx != nil {
		return c.where(index, value)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	values, ok := c.groups[index]
	if !ok {
		panic(fmt.Sprintf("storage: %s has no index %s of several rows", c.rows.name, index))
	}
	if rows := values[value]; rows != nil {
		return rows.all()
	}
	return nil
}

// Len returns how many rows in memory [Cached.Where] returns, which they are not lent for. Memory does not say what a change may depend
// on.
func (c *Cached[P]) Len(index, value string) int {
	m := c.Memory()
	m.mu.RLock()
	defer m.mu.RUnlock()
	values, ok := m.groups[index]
	if !ok {
		panic(fmt.Sprintf("storage: %s has no index %s of several rows", c.rows.name, index))
	}
	if rows := values[value]; rows != nil {
		return len(rows.rows)
	}
	return 0
}

// where is Where in the transaction.
func (c *Cached[P]) where(index, value string) (found []P) {
	for _, ix := range c.rows.grouping {
		if ix.Name != index || !ix.Counted && !ix.Memory {
			continue
		}
		if ix.Counted && c.scanned == nil {
			if found, all := c.counted(&ix, value); all {
				return found
			}
		}
		for _, row := range c.scan() {
			if slices.Contains(ix.Keys(row), value) {
				found = append(found, row)
			}
		}
		return found
	}
	if ix, err := c.rows.index(index); err != nil || ix.Unique {
		panic(fmt.Sprintf("storage: %s has no index %s of several rows", c.rows.name, index))
	}
	for row, err := range c.rows.Where(c.tx, index, value) {
		if err != nil {
			c.tx.fail(err)
			return nil
		}
		found = append(found, row)
	}
	return found
}

// counted is where for a counted index: the transaction reads the rows that memory has with the value. They are all if the
// transaction counts as many. It reports false if it does not, or if there is not much less to read than all rows.
func (c *Cached[P]) counted(ix *Index[P], value string) (found []P, all bool) {
	n := c.Count(ix.Name, value)
	if n == 0 {
		return nil, true
	}
	known := c.memory.Where(ix.Name, value)
	if len(known) < n || len(known) > c.memory.size()/2 {
		return nil, false
	}
	for _, row := range known {
		if row, ok := c.Get(c.rows.id(row)); ok && slices.Contains(ix.Keys(row), value) {
			found = append(found, row)
		}
	}
	return found, len(found) == n
}

func (c *Cached[P]) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byID)
}

// scan reads all rows in the transaction, and keeps them until it writes some.
func (c *Cached[P]) scan() []P {
	if c.scanned != nil {
		return c.scanned
	}
	all := []P{}
	for row, err := range c.rows.All(c.tx) {
		if err != nil {
			c.tx.fail(err)
			return nil
		}
		all = append(all, row)
	}
	c.scanned = all
	return all
}

// Put is [Collection.Put]; memory follows when tx is committed. It keeps a copy
// of row, as the store would return it.
func (c *Cached[P]) Put(tx *Txn, row P) error {
	if c.tx != nil {
		c.scanned = nil
		return c.memory.Put(tx, row)
	}
	if err := c.rows.Put(tx, row); err != nil {
		return err
	}
	tx.change(c.rows.keys.row(c.rows.id(row)))
	return nil
}

// Delete is [Collection.Delete]; memory follows when tx is committed.
func (c *Cached[P]) Delete(tx *Txn, id string) error {
	if c.tx != nil {
		c.scanned = nil
		return c.memory.Delete(tx, id)
	}
	if err := c.rows.Delete(tx, id); err != nil {
		return err
	}
	tx.change(c.rows.keys.row(id))
	return nil
}

// reset empties memory, and makes room for so many rows.
func (c *Cached[P]) reset(rows int) {
	c.byID = make(map[string]P, rows)
	c.unique, c.groups = make(map[string]map[string]P), make(map[string]map[string]*ordered[P])
	c.sorted = &ordered[P]{rows: make([]P, 0, rows)}
	for _, index := range c.rows.indexes {
		if index.Unique {
			c.unique[index.Name] = make(map[string]P, rows)
		}
	}
	for _, index := range c.rows.grouping {
		c.groups[index.Name] = make(map[string]*ordered[P])
	}
}

// set adds a row that is not in memory.
func (c *Cached[P]) set(row P) {
	c.byID[c.rows.id(row)] = row
	c.sorted.put(row, c.rows.id)
	for _, index := range c.rows.indexes {
		if index.Unique {
			for _, value := range index.Keys(row) {
				c.unique[index.Name][value] = row
			}
		}
	}
	for _, index := range c.rows.grouping {
		of := c.groups[index.Name]
		for _, value := range index.Keys(row) {
			if of[value] == nil {
				of[value] = new(ordered[P])
			}
			of[value].put(row, c.rows.id)
		}
	}
}

// drop removes a row if it is in memory.
func (c *Cached[P]) drop(id string) {
	row, ok := c.byID[id]
	if !ok {
		return
	}
	delete(c.byID, id)
	c.sorted.drop(id, c.rows.id)
	for _, index := range c.rows.indexes {
		if index.Unique {
			for _, value := range index.Keys(row) {
				delete(c.unique[index.Name], value)
			}
		}
	}
	for _, index := range c.rows.grouping {
		of := c.groups[index.Name]
		for _, value := range index.Keys(row) {
			if rows := of[value]; rows != nil {
				if rows.drop(id, c.rows.id); len(rows.rows) == 0 {
					delete(of, value)
				}
			}
		}
	}
}

// Some returns the ids of the first rows, at most limit of them.
func Some[P any](rows []P, limit int, id func(P) string) (ids []string) {
	for _, row := range rows[:min(limit, len(rows))] {
		ids = append(ids, id(row))
	}
	return ids
}
