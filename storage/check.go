package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// maxFaults bounds how many faults of a collection are listed.
const maxFaults = 20

// Check walks all keys of the collection, and returns an error that lists what is wrong: rows that
// cannot be decoded or have another id, entries of indexes that are missing or have no row, and
// wrong counts.
func (c *Collection[P]) Check(tx Tx) error {
	f := &faults{collection: c.name}
	expected, counts, err := c.expected(tx, f)
	if err != nil {
		return fmt.Errorf("checking %s: %w", c.name, err)
	}
	rows := c.keys.row("")
	for item, err := range tx.Scan(c.keys.name, nil, false) {
		if err != nil {
			return fmt.Errorf("checking %s: %w", c.name, err)
		}
		if bytes.HasPrefix(item.Key, rows) {
			continue
		}
		kind, index := c.indexOf(item.Key)
		switch want, ok := expected[string(item.Key)]; {
		case index == nil, kind == kindCounted: // of an index that is no more; the note about counts
		case kind == kindCount:
			if n := counts[string(item.Key)]; strconv.Itoa(n) != string(item.Value) {
				f.add("index %s: %q counts %s rows, and there are %d", index.Name, item.Key, item.Value, n)
			}
			delete(counts, string(item.Key))
		case !ok:
			f.add("index %s: the entry %q has no row", index.Name, item.Key)
		case !bytes.Equal(want.value, item.Value):
			f.add("index %s: the entry %q is for %q, and the row is %q", index.Name, item.Key, item.Value, want.value)
		}
		delete(expected, string(item.Key))
	}
	for _, key := range slices.Sorted(maps.Keys(expected)) {
		f.add("index %s: the entry %q of the row %q is missing", expected[key].index, key, expected[key].id)
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		_, index := c.indexOf([]byte(key))
		all, err := c.countsAll(tx, *index)
		if err != nil {
			return fmt.Errorf("checking %s: %w", c.name, err)
		}
		if all {
			f.add("index %s: the count %q is missing", index.Name, key)
		}
	}
	return f.err()
}

// An expectedEntry is the entry of an index that a row should have.
type expectedEntry struct {
	index, id string
	value     []byte
}

// expected returns the entries and the counts that the rows should have, by their keys.
func (c *Collection[P]) expected(tx Tx, f *faults) (map[string]expectedEntry, map[string]int, error) {
	entries, counts := make(map[string]expectedEntry), make(map[string]int)
	rows := c.keys.row("")
	for item, err := range tx.Scan(rows, nil, false) {
		if err != nil {
			return nil, nil, err
		}
		row, err := c.decodeItem(item, rows)
		if err != nil {
			f.add("%v", err)
			continue
		}
		id := string(item.Key[len(rows):])
		if got := c.id(row); got != id {
			f.add("the row %q has the id %q", id, got)
		}
		for _, index := range c.indexes {
			for _, value := range index.values(row) {
				if index.Counted {
					if n := index.weight(row); n > 0 { // what is nothing has no count
						counts[string(c.keys.count(index.Name, value))] += n
					}
					continue
				}
				entry := expectedEntry{index: index.Name, id: id}
				if index.Unique {
					entry.value = []byte(id)
				}
				key := string(c.indexKey(index, value, id))
				if other, taken := entries[key]; taken {
					f.add("index %s: the rows %q and %q have the same value %q", index.Name, other.id, id, value)
				}
				entries[key] = entry
			}
		}
	}
	return entries, counts, nil
}

// indexOf returns the kind of a key of the collection, and the index that it belongs to; nil: there
// is none.
func (c *Collection[P]) indexOf(key []byte) (kind byte, index *Index[P]) {
	rest := key[len(c.keys.name):]
	if len(rest) == 0 {
		return 0, nil
	}
	kind = rest[0]
	for i := range c.indexes {
		ix := &c.indexes[i]
		var prefix []byte
		switch kind {
		case kindCounted:
			if bytes.Equal(key, c.keys.counted(ix.Name)) {
				return kind, ix
			}
			continue
		case kindCount:
			prefix = c.keys.count(ix.Name, "")
		case kindUnique:
			prefix = c.keys.unique(ix.Name, "")
		case kindIndex:
			prefix = appendPart(c.keys.with(kindIndex, 0), ix.Name)
		default:
			return kind, nil
		}
		if bytes.HasPrefix(key, prefix) {
			return kind, ix
		}
	}
	return kind, nil
}

// faults collects what is wrong with a collection.
type faults struct {
	collection string
	list       []error
	more       int
}

func (f *faults) add(format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, fmt.Errorf(f.collection+": "+format, args...))
}

func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.list, fmt.Errorf("%s: %d more faults", f.collection, f.more))...)
	}
	return errors.Join(f.list...)
}

// Check checks every collection that is kept in memory, see [Collection.Check], and what was
// registered by [DB.OnCheck]. The error lists all faults.
func (db *DB) Check(ctx context.Context) error {
	db.mu.Lock()
	checks := slices.Clone(db.checks)
	db.mu.Unlock()
	return db.View(ctx, func(tx Tx) error {
		var faults []error
		for _, check := range checks {
			faults = append(faults, check(tx))
		}
		return errors.Join(faults...)
	})
}

// OnCheck has [DB.Check] run a function, too, whose error lists faults.
func (db *DB) OnCheck(check func(Tx) error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.checks = append(db.checks, check)
}
