package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A FullError means that a row has no room next to the others with one of its values.
type FullError struct {
	Rows string // what they are called, such as model aliases of a workspace
	Max  int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("There may be at most %d %s", e.Max, e.Rows)
}

// Count returns how many rows have a value in a counted index, or what they come to if it weighs them. It is what bounds on the
// number of rows go by: whoever counts and adds a row in one transaction never exceeds
// them, however many processes do so at once, because a transaction whose count has changed
// meanwhile does not commit.
//
// The number has a key of its own, written with the rows. Counting the entries of an index
// would do without, but read as many keys as there may be rows, which are thousands, through
// a network in some stores, and each of them for every row that is added.
func (c *Collection[P]) Count(tx Tx, index, value string) (int, error) {
	ix, err := c.index(index)
	if err != nil {
		return 0, err
	}
	if !ix.Counted {
		return 0, fmt.Errorf("%s: index %s does not count", c.name, index)
	}
	return c.count(tx, ix, value)
}

// count returns how many rows have a value. The collection is read only where the value has
// not been counted yet.
func (c *Collection[P]) count(tx Tx, index Index[P], value string) (int, error) {
	data, err := tx.Get(c.keys.count(index.Name, value))
	if errors.Is(err, ErrNotFound) {
		var all bool
		if all, err = c.countsAll(tx, index); err != nil || all {
			return 0, err
		}
		counts, err := c.countRows(tx, index)
		return counts[value], err
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, fmt.Errorf("counting %s: %w", c.name, err)
	}
	return n, nil
}

// recount notes that a row counted as have in a counted index, and counts as want from now on; nil: there is none.
func (c *Collection[P]) recount(tx Tx, index Index[P], have, want map[string]int) error {
	if err := c.beginCounts(tx, index); err != nil {
		return err
	}
	values := slices.Concat(slices.Collect(maps.Keys(have)), slices.Collect(maps.Keys(want)))
	slices.Sort(values)
	for _, value := range slices.Compact(values) {
		change := want[value] - have[value]
		if change == 0 {
			continue
		}
		before, err := c.count(tx, index, value)
		if err == nil && change > 0 && index.Max > 0 && before+change > index.Max {
			err = &FullError{index.Rows, index.Max}
		}
		if err == nil {
			err = c.setCount(tx, index, value, before+change)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Collection[P]) setCount(tx Tx, index Index[P], value string, n int) error {
	key := c.keys.count(index.Name, value)
	if n <= 0 {
		return tx.Delete(key)
	}
	return tx.Set(key, strconv.AppendInt(nil, int64(n), 10))
}

// Rows may have been stored before the collection had the index. Which values are counted is
// noted under a key of its own, once.
var (
	countedAll  = []byte("all")  // a value without a number has no rows
	countedSome = []byte("some") // it has those that are there
)

// countsAll reports whether all values have been counted.
func (c *Collection[P]) countsAll(tx Tx, index Index[P]) (bool, error) {
	counted, err := tx.Get(c.keys.counted(index.Name))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return bytes.Equal(counted, countedAll), err
}

// maxBegun bounds how many values are counted in the first transaction that changes rows,
// in addition to what it was made for. Of more, each is counted when it is needed.
const maxBegun = 500

// beginCounts counts the rows that were there before the index.
func (c *Collection[P]) beginCounts(tx Tx, index Index[P]) error {
	key := c.keys.counted(index.Name)
	if _, err := tx.Get(key); !errors.Is(err, ErrNotFound) {
		return err
	}
	counts, err := c.countRows(tx, index)
	if err != nil {
		return err
	}
	if len(counts) > maxBegun {
		return tx.Set(key, countedSome)
	}
	for value, n := range counts {
		if err := c.setCount(tx, index, value, n); err != nil {
			return err
		}
	}
	return tx.Set(key, countedAll)
}

func (c *Collection[P]) countRows(tx Tx, index Index[P]) (map[string]int, error) {
	counts := make(map[string]int)
	for row, err := range c.All(tx) {
		if err != nil {
			return nil, err
		}
		for _, value := range index.values(row) {
			counts[value] += index.weight(row)
		}
	}
	return counts, nil
}
