package storage

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

type rehearsalKey struct{}

// A rehearsal is a draft of what a DB would have.
type rehearsal struct {
	db    *DB
	draft *draft
}

// Rehearse runs fn with a context with which [DB.Update] and [DB.Write] write nothing: they see the store as it is, with what those before
// them in the rehearsal would have written, and so does [DB.View]. None of it is kept, and functions of [Txn.OnCommit] are not called. What
// is in memory does not change.
func (db *DB) Rehearse(ctx context.Context, fn func(ctx context.Context) error) error {
	return db.store.View(ctx, func(tx Tx) error {
		return fn(context.WithValue(ctx, rehearsalKey{}, &rehearsal{db, newDraft(tx)}))
	})
}

// draftOf returns the draft of the rehearsal that a context is of; nil: it is of none.
func (db *DB) draftOf(ctx context.Context) *draft {
	if r, ok := ctx.Value(rehearsalKey{}).(*rehearsal); ok && r.db == db {
		return r.draft
	}
	return nil
}

// Rehearsed reports whether a context is of a rehearsal.
func Rehearsed(ctx context.Context) bool { return ctx.Value(rehearsalKey{}) != nil }

// A draft is a transaction that keeps what is written to itself, over one that is only read.
type draft struct {
	under  Tx
	writes map[string][]byte // by key; nil: deleted
	keys   []string          // of writes, in order: there may be many, of which a scan needs few
}

func newDraft(under Tx) *draft { return &draft{under: under, writes: make(map[string][]byte)} }

// update runs fn in a draft of its own, and takes over what it wrote if it returns no error.
func (d *draft) update(fn func(Tx) error) error {
	inner := newDraft(d)
	if err := fn(inner); err != nil {
		return err
	}
	for key, value := range inner.writes {
		d.write(key, value)
	}
	return nil
}

func (d *draft) write(key string, value []byte) {
	if _, ok := d.writes[key]; !ok {
		at, _ := slices.BinarySearch(d.keys, key)
		d.keys = slices.Insert(d.keys, at, key)
	}
	d.writes[key] = value
}

func (d *draft) Get(key []byte) ([]byte, error) {
	value, ok := d.writes[string(key)]
	switch {
	case !ok:
		return d.under.Get(key)
	case value == nil:
		return nil, ErrNotFound
	}
	return bytes.Clone(value), nil
}

func (d *draft) Set(key, value []byte) error {
	d.write(string(key), append(make([]byte, 0, len(value)), value...)) // not nil
	return nil
}

func (d *draft) SetTTL(key, value []byte, _ time.Duration) error { return d.Set(key, value) }

func (d *draft) Delete(key []byte) error {
	d.write(string(key), nil)
	return nil
}

func (d *draft) Scan(prefix, start []byte, reverse bool) iter.Seq2[Item, error] {
	order := strings.Compare
	if reverse {
		order = func(a, b string) int { return strings.Compare(b, a) }
	}
	return func(yield func(Item, error) bool) {
		var own []string
		first, _ := slices.BinarySearch(d.keys, string(prefix))
		for _, key := range d.keys[first:] {
			if !strings.HasPrefix(key, string(prefix)) {
				break
			}
			if start == nil || order(key, string(start)) >= 0 {
				own = append(own, key)
			}
		}
		if reverse {
			slices.Reverse(own)
		}
		// next yields those of the draft that come before a key; nil: all.
		next := func(before []byte) bool {
			for len(own) > 0 && (before == nil || order(own[0], string(before)) < 0) {
				key := own[0]
				own = own[1:]
				if value := d.writes[key]; value != nil && !yield(Item{[]byte(key), bytes.Clone(value)}, nil) {
					return false
				}
			}
			return true
		}
		for item, err := range d.under.Scan(prefix, start, reverse) {
			if err != nil {
				yield(item, err)
				return
			}
			if !next(item.Key) {
				return
			}
			if _, written := d.writes[string(item.Key)]; !written && !yield(item, nil) {
				return
			}
		}
		next(nil)
	}
}

// Interface guards
var _ Tx = (*draft)(nil)
