package storage

import (
	"slices"
	"strings"
	"sync/atomic"
)

// An ordered has rows in the order of their ids. Readers get the slice itself: what they have does
// not change.
type ordered[P any] struct {
	rows []P
	lent atomic.Bool // a reader may have the slice
}

// all returns the rows. It may be called by several at once.
func (o *ordered[P]) all() []P {
	o.lent.Store(true)
	return o.rows
}

// find returns the position of an id, and whether it is there.
func (o *ordered[P]) find(id string, idOf func(P) string) (int, bool) {
	if n := len(o.rows); n == 0 || idOf(o.rows[n-1]) < id { // new rows have the highest ids
		return n, false
	}
	return slices.BinarySearchFunc(o.rows, id, func(row P, id string) int { return strings.Compare(idOf(row), id) })
}

// own makes the slice the writer's own. That it grows behind what readers have needs no copy.
func (o *ordered[P]) own() {
	if o.lent.Load() {
		o.rows = slices.Clone(o.rows)
		o.lent.Store(false)
	}
}

// put adds a row, or replaces the one with its id.
func (o *ordered[P]) put(row P, idOf func(P) string) {
	i, found := o.find(idOf(row), idOf)
	switch {
	case found:
		o.own()
		o.rows[i] = row
	case i == len(o.rows):
		o.rows = append(o.rows, row)
	default:
		o.own()
		o.rows = slices.Insert(o.rows, i, row)
	}
}

// drop removes the row with an id.
func (o *ordered[P]) drop(id string, idOf func(P) string) {
	if i, found := o.find(id, idOf); found {
		o.own()
		o.rows = slices.Delete(o.rows, i, i+1)
	}
}
