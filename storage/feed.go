package storage

import (
	"context"
	"errors"
	"fmt"
)

// A Change is a row that a transaction stored or deleted.
type Change struct {
	Key   []byte
	Value []byte // nil: the row was deleted
}

// A Feed notifies every cache over a store of what was committed, in the order of the
// commits. [NewFeed] is the one of a store that a single process uses. A driver
// whose store several processes share implements Feed in addition to [Store]; [NewDB] uses
// it then. Every Feed passes the suite in storage/storagetest.
type Feed interface {
	// Publish runs fn in a transaction like [Store.Update]. It returns once the
	// changes that fn returned have been sent to every follower in this process:
	// who reads a cache afterwards reads what was written. Nothing is sent of a
	// transaction that failed, and of a run of fn that was repeated. fn must not
	// call Publish.
	Publish(ctx context.Context, fn func(Tx) ([]Change, error)) error

	// Follow runs load in a read-only transaction. From then on, follow is called
	// with the changes of each transaction that load did not see, whichever
	// process it ran in: one after the other, in the order of the commits. follow
	// must neither call the Feed nor keep or change the slices. An error of load
	// is returned as it is, and ends it.
	Follow(ctx context.Context, load func(Tx) error, follow func([]Change)) error
}

// feed is the Feed of a single process. Its transactions run one after the other, so that
// their order is known.
type feed struct {
	store     Store
	turn      chan struct{} // holds a token, which a transaction or a follower takes
	followers []func([]Change)
}

// NewFeed returns the Feed of a store that only this process uses. There must be one for
// each store, and all changes that are to be followed must use it.
func NewFeed(store Store) Feed {
	return &feed{store: store, turn: make(chan struct{}, 1)}
}

func (f *feed) Publish(ctx context.Context, fn func(Tx) ([]Change, error)) error {
	if err := f.lock(ctx); err != nil {
		return err
	}
	defer f.unlock()

	var changes []Change
	err := f.store.Update(ctx, func(tx Tx) (err error) {
		changes, err = fn(tx)
		return err
	})
	if err != nil || len(changes) == 0 {
		return err
	}
	for _, follow := range f.followers {
		follow(changes)
	}
	return nil
}

func (f *feed) Follow(ctx context.Context, load func(Tx) error, follow func([]Change)) error {
	// No transaction may commit between the snapshot and the first call of follow.
	if err := f.lock(ctx); err != nil {
		return err
	}
	defer f.unlock()
	if err := f.store.View(ctx, load); err != nil {
		return err
	}
	f.followers = append(f.followers, follow)
	return nil
}

func (f *feed) lock(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *feed) unlock() { <-f.turn }

// changes returns the final state of changed rows in tx, without duplicates.
func changes(tx Tx, keys [][]byte) ([]Change, error) {
	var all []Change
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		value, err := tx.Get(key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("reading what was written: %w", err)
		}
		all = append(all, Change{Key: key, Value: value})
	}
	return all, nil
}
