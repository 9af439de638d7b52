package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// A Collection is a typed table in a [Store]: rows as JSON, each under the
// id that it carries, and indexes that a write keeps right. It holds no state
// and no store, so one package variable a kind of row is enough, and its
// methods work in whatever transaction they are given. P is a pointer to a row, a
// struct: the compiler makes one instance of the methods for all pointers, and would make one
// for each struct.
//
// The layout in the store is described at the top of keys.go. A part of it may
// hold any bytes; the store's limit of 1024 bytes a key is what remains for the
// names, an indexed value and an id together.
type Collection[P any] struct {
	name    string
	id      func(P) string
	indexes []Index[P] // in the store
	keys    keys

	grouping []Index[P] // by which memory finds several rows: those that are not unique, and weigh none
}

// An Index allows rows to be found by other values than their ids.
type Index[P any] struct {
	// Name identifies the index within the collection. It is part of the stored keys, so
	// that renaming an index results in a new, empty one.
	Name string

	// Unique is set if a value belongs to at most one row.
	Unique bool

	// Counted says that the index knows only how many rows have a value, see
	// [Collection.Count], and not which.
	Counted bool

	// Weigh says that a counted index counts more than rows, such as the bytes of their texts: what a
	// row counts as. It must only depend on the row. Nil: each counts as one.
	Weigh func(P) int

	// Max is how much the rows with a value of a counted index may come to, which is called Rows in the
	// error for more, a [FullError]; 0: any number.
	Max  int
	Rows string

	// Memory says that the index is only kept by a [Cached], in its memory, where rows are found by
	// [Cached.Where]. It may be added to a collection that has rows.
	Memory bool

	// Keys returns the values by which to find the row, or none if the row is not in the
	// index. It must only depend on the row.
	Keys func(P) []string
}

// A Range says which rows to visit. Its zero value is all of them in the order
// of their ids.
type Range struct {
	Prefix  string // only ids with this prefix
	Start   string // begin at this id (included), or at the next one
	Reverse bool   // from the last id to the first
}

// NewCollection returns the collection called name, whose rows have the ids
// that id returns. Two collections of a store must differ in name. Ids and
// indexed values are read from rows as their JSON keeps them.
func NewCollection[P any](name string, id func(P) string, indexes ...Index[P]) *Collection[P] {
	c := &Collection[P]{name: name, id: id, keys: newKeys(name)}
	for _, index := range indexes {
		if !index.Memory {
			c.indexes = append(c.indexes, index)
		}
		if !index.Unique && index.Weigh == nil {
			c.grouping = append(c.grouping, index)
		}
	}
	return c
}

// Get returns the row with this id, or [ErrNotFound].
func (c *Collection[P]) Get(tx Tx, id string) (row P, err error) {
	data, err := lookup(tx, c.keys.row(id))
	if err != nil {
		return row, fmt.Errorf("%s %q: %w", c.name, id, err)
	}
	return c.decode(id, data)
}

// lookup returns the value of a key, which may be longer than any that there is.
func lookup(tx Tx, key []byte) ([]byte, error) {
	if len(key) > maxKey {
		return nil, ErrNotFound
	}
	return tx.Get(key)
}

// Put inserts row, or replaces the row that has its id. It returns [ErrExists],
// wrapped with the name of the index, when a value of a unique index belongs to
// another row, or a [FullError]; the transaction must not commit then.
func (c *Collection[P]) Put(tx Tx, row P) error {
	_, err := c.put(tx, row)
	return err
}

// PutTTL is Put for a row that disappears when ttl has passed. Index entries
// would not disappear with it, so a collection with indexes refuses.
func (c *Collection[P]) PutTTL(tx Tx, row P, ttl time.Duration) error {
	if len(c.indexes) > 0 {
		return fmt.Errorf("%s: rows of a collection with indexes cannot expire", c.name)
	}
	id, data, err := c.encode(row)
	if err != nil {
		return err
	}
	if err := tx.SetTTL(c.keys.row(id), data, ttl); err != nil {
		return fmt.Errorf("storing %s %q: %w", c.name, id, err)
	}
	return nil
}

// Delete removes the row with this id, or returns [ErrNotFound].
func (c *Collection[P]) Delete(tx Tx, id string) error {
	old, err := c.Get(tx, id)
	if err != nil {
		return err
	}
	for _, index := range c.indexes {
		if index.Counted {
			err = c.recount(tx, index, index.counts(old), nil)
		}
		for _, value := range index.values(old) {
			if err == nil && !index.Counted {
				err = tx.Delete(c.indexKey(index, value, id))
			}
		}
		if err != nil {
			return fmt.Errorf("deleting %s %q: %w", c.name, id, err)
		}
	}
	if err := tx.Delete(c.keys.row(id)); err != nil {
		return fmt.Errorf("deleting %s %q: %w", c.name, id, err)
	}
	return nil
}

// Find returns the row with a value of a unique index, or [ErrNotFound].
func (c *Collection[P]) Find(tx Tx, index, value string) (row P, err error) {
	unique, err := c.index(index)
	if err != nil {
		return row, err
	}
	if !unique.Unique {
		return row, fmt.Errorf("%s: index %s is not unique", c.name, index)
	}
	id, err := lookup(tx, c.keys.unique(index, value))
	if err != nil {
		return row, fmt.Errorf("%s by %s: %w", c.name, index, err)
	}
	return c.Get(tx, string(id))
}

// All iterates over all rows in the order of their ids. An error ends it.
func (c *Collection[P]) All(tx Tx) iter.Seq2[P, error] {
	return c.Scan(tx, Range{})
}

// Scan iterates over the rows of a range. An error ends it.
func (c *Collection[P]) Scan(tx Tx, r Range) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		var start []byte
		if r.Start != "" {
			start = c.keys.row(r.Start)
		}
		rows := c.keys.row("")
		for item, err := range tx.Scan(c.keys.row(r.Prefix), start, r.Reverse) {
			var row P
			if err == nil {
				row, err = c.decodeItem(item, rows)
			} else {
				err = fmt.Errorf("reading %s: %w", c.name, err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Where iterates over the rows that have a value in an index, in the order of
// their ids. An error ends it.
func (c *Collection[P]) Where(tx Tx, index, value string) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		var none P
		ix, err := c.index(index)
		if err != nil {
			yield(none, err)
			return
		}
		if ix.Counted {
			yield(none, fmt.Errorf("%s: index %s only counts", c.name, index))
			return
		}
		if ix.Unique {
			row, err := c.Find(tx, index, value)
			if !errors.Is(err, ErrNotFound) {
				yield(row, err)
			}
			return
		}
		prefix := c.keys.entry(index, value, "")
		for item, err := range tx.Scan(prefix, nil, false) {
			var row P
			if err == nil {
				row, err = c.follow(tx, item.Key, prefix)
			}
			if err != nil {
				err = fmt.Errorf("reading %s by %s: %w", c.name, index, err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// put stores row and returns a copy of it in the form that the store will return. It
// validates everything before it writes.
func (c *Collection[P]) put(tx Tx, row P) (kept P, err error) {
	var none P
	id, data, err := c.encode(row)
	if err != nil {
		return none, err
	}
	// Index entries are removed based on the row's JSON, so that they are also created from
	// it.
	if kept, err = c.decode(id, data); err != nil {
		return none, err
	}
	if c.id(kept) != id {
		return none, fmt.Errorf("storing %s %q: its JSON has another id, %q", c.name, id, c.id(kept))
	}
	var old P
	replaces := false
	if len(c.indexes) > 0 {
		if old, err = c.Get(tx, id); err != nil && !errors.Is(err, ErrNotFound) {
			return none, err
		}
		replaces, err = err == nil, nil
	}
	type entry struct{ key, value []byte }
	var gone [][]byte
	var added []entry
	var counts []func() error
	for _, index := range c.indexes {
		have, want := []string(nil), index.values(kept)
		if replaces {
			have = index.values(old)
		}
		if index.Counted {
			var before map[string]int
			if replaces {
				before = index.counts(old)
			}
			counts = append(counts, func() error { return c.recount(tx, index, before, index.counts(kept)) })
			continue
		}
		for _, value := range have {
			if !slices.Contains(want, value) {
				gone = append(gone, c.indexKey(index, value, id))
			}
		}
		for _, value := range want {
			if slices.Contains(have, value) {
				continue
			}
			e := entry{key: c.indexKey(index, value, id)}
			if index.Unique {
				e.value = []byte(id)
				if err := c.free(tx, index, e.key); err != nil {
					return none, err
				}
			}
			added = append(added, e)
		}
	}

	// The counts come first: where they begin, they are of the rows from before.
	for i := 0; i < len(counts) && err == nil; i++ {
		err = counts[i]()
	}
	if err == nil {
		err = tx.Set(c.keys.row(id), data)
	}
	for i := 0; i < len(gone) && err == nil; i++ {
		err = tx.Delete(gone[i])
	}
	for i := 0; i < len(added) && err == nil; i++ {
		err = tx.Set(added[i].key, added[i].value)
	}
	if err != nil {
		return none, fmt.Errorf("storing %s %q: %w", c.name, id, err)
	}
	return kept, nil
}

// free checks that no row has the key of a unique index.
func (c *Collection[P]) free(tx Tx, index Index[P], key []byte) error {
	switch _, err := tx.Get(key); {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("%s by %s: %w", c.name, index.Name, err)
	default:
		return fmt.Errorf("%s with this %s: %w", c.name, index.Name, ErrExists)
	}
}

// follow returns the row of an index entry.
func (c *Collection[P]) follow(tx Tx, key, prefix []byte) (row P, err error) {
	id, err := tail(key, prefix)
	if err != nil {
		return row, err
	}
	return c.Get(tx, id)
}

func (c *Collection[P]) index(name string) (Index[P], error) {
	for _, index := range c.indexes {
		if index.Name == name {
			return index, nil
		}
	}
	return Index[P]{}, fmt.Errorf("%s: no index %s", c.name, name)
}

func (c *Collection[P]) indexKey(index Index[P], value, id string) []byte {
	if index.Unique {
		return c.keys.unique(index.Name, value)
	}
	return c.keys.entry(index.Name, value, id)
}

// weight is what a row counts as.
func (ix Index[P]) weight(row P) int {
	if ix.Weigh == nil {
		return 1
	}
	return ix.Weigh(row)
}

// counts returns what a row counts as, by the values that it has.
func (ix Index[P]) counts(row P) map[string]int {
	counts := make(map[string]int)
	for _, value := range ix.values(row) {
		counts[value] = ix.weight(row)
	}
	return counts
}

// values returns the distinct values of row in the index.
func (ix Index[P]) values(row P) []string {
	values := slices.Clone(ix.Keys(row))
	slices.Sort(values)
	return slices.Compact(values)
}

func (c *Collection[P]) encode(row P) (id string, data []byte, err error) {
	if id = c.id(row); id == "" {
		return "", nil, fmt.Errorf("storing %s: the row has no id", c.name)
	}
	if data, err = json.Marshal(row); err != nil {
		return "", nil, fmt.Errorf("encoding %s %q: %w", c.name, id, err)
	}
	return id, data, nil
}

// asMarshaled decodes what encoding/json has encoded, in one pass: encoding/json takes one more to
// check the syntax, and another for each type with an UnmarshalJSON. Decoding is most of a start.
var asMarshaled = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// decode returns the row in data, which is an object.
func (c *Collection[P]) decode(id string, data []byte) (row P, err error) {
	if string(data) == "null" { // which would be no row
		return row, fmt.Errorf("decoding %s %q: expected an object", c.name, id)
	}
	if err := jsonv2.Unmarshal(data, &row, asMarshaled); err != nil {
		var none P
		return none, fmt.Errorf("decoding %s %q: %w", c.name, id, err)
	}
	return row, nil
}

func (c *Collection[P]) decodeItem(item Item, prefix []byte) (row P, err error) {
	id, err := tail(item.Key, prefix)
	if err != nil {
		return row, fmt.Errorf("reading %s: %w", c.name, err)
	}
	return c.decode(id, item.Value)
}
