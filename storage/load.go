package storage

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// loadAtOnce is how many rows are decoded together.
const loadAtOnce = 512

// A part is some rows that are decoded together.
type part[P any] struct {
	items []Item
	rows  []P
	err   error // of the first row that could not be decoded
}

// load returns all rows in the order of their ids, as [Collection.All] does, and decodes them on
// all processors while it reads: most of the time of a start is decoding.
func (c *Collection[P]) load(tx Tx) ([]P, error) {
	rows := c.keys.row("")
	var parts []*part[P]
	var decoding sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0)) // bounds what waits to be decoded
	decode := func(p *part[P]) {
		free <- struct{}{}
		decoding.Go(func() {
			defer func() { <-free }()
			for i := 0; i < len(p.items) && p.err == nil; i++ {
				p.rows[i], p.err = c.decodeItem(p.items[i], rows)
			}
			p.items = nil
		})
	}
	next := new(part[P])
	flush := func() {
		if len(next.items) > 0 {
			next.rows = make([]P, len(next.items))
			parts = append(parts, next)
			decode(next)
			next = new(part[P])
		}
	}
	var err error
	for item, fault := range tx.Scan(rows, nil, false) {
		if fault != nil {
			err = fmt.Errorf("reading %s: %w", c.name, fault)
			break
		}
		next.items = append(next.items, item)
		if len(next.items) == loadAtOnce {
			flush()
		}
	}
	flush()
	decoding.Wait()
	lists := make([][]P, len(parts))
	for i, p := range parts {
		if p.err != nil {
			return nil, p.err // it comes before whatever else is wrong
		}
		lists[i] = p.rows
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(lists...), nil
}
