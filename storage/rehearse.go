package storage

import (
	"bytes"
	"context"
	"iter"
	"maps"
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

// A draft is a transaction that keeps what is written to itself, over one that is only read.
type draft struct {
	under  Tx
	writes map[string][]byte // by key; nil: deleted
}

func newDraft(under Tx) *draft { return &draft{under, make(map[string][]byte)} }

// update runs fn in a draft of its own, and takes over what it wrote if it returns no error.
func (d *draft) update(fn func(Tx) error) error {
	inner := newDraft(d)
	if err := fn(inner); err != nil {
		return err
	}
	maps.Copy(d.writes, inner.writes)
	return nil
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
	d.writes[string(key)] = append(make([]byte, 0, len(value)), value...) // not nil
	return nil
}

func (d *draft) SetTTL(key, value []byte, _ time.Duration) error { return d.Set(key, value) }

func (d *draft) Delete(key []byte) error {
	d.writes[string(key)] = nil
	return nil
}

func (d *draft) Scan(prefix, start []byte, reverse bool) iter.Seq2[Item, error] {
	order := strings.Compare
	if reverse {
		order = func(a, b string) int { return strings.Compare(b, a) }
	}
	return func(yield func(Item, error) bool) {
		var own []string
		for key := range d.writes {
			if strings.HasPrefix(key, string(prefix)) && (start == nil || order(key, string(start)) >= 0) {
				own = append(own, key)
			}
		}
		slices.SortFunc(own, order)
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
