package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"
)

// A DB is a [Store] as the control plane uses it: what is kept in memory about the
// stored rows follows its [Feed], and so changes with every update, of this DB and of
// any other over the same store, in the order in which they were committed.
type DB struct {
	store Store
	feed  Feed
	locks Locker
	owner string // of locks: this DB

	mu     sync.Mutex
	jobs   map[string]*Job
	checks []func(Tx) error // see [DB.Check]
	cached map[string]any   // of type *Cached, by the names of their collections
}

// A Txn is the transaction of a [DB.Update].
type Txn struct {
	Tx
	changed [][]byte // keys of the rows whose changes the feed reports
	err     error    // of the first read through a [Cached] that failed
	after   []func() // see [Txn.OnCommit]
}

// NewDB returns a DB over store, which it closes with [DB.Close]. DBs over one store
// lose none of each other's updates. They see them in memory where the store is a
// Feed, as that of storage/badger is. Its locks are the store's where that is a [Locker], and
// else [Locks].
func NewDB(store Store) *DB {
	feed, ok := store.(Feed)
	if !ok {
		feed = NewFeed(store)
	}
	locks, ok := store.(Locker)
	if !ok {
		locks = NewLocks(store, time.Now)
	}
	return &DB{store: store, feed: feed, locks: locks, owner: rand.Text(), jobs: make(map[string]*Job), cached: make(map[string]any)}
}

// Job returns the job called name, of which one of the DBs of a store does a step at a time.
func (db *DB) Job(name string) *Job {
	db.mu.Lock()
	defer db.mu.Unlock()
	j := db.jobs[name]
	if j == nil {
		j = NewJob(db.locks, name, db.owner, time.Now)
		db.jobs[name] = j
	}
	return j
}

// Writable returns an error if the store does not accept writes at present.
func (db *DB) Writable() error {
	if p, ok := db.store.(Prober); ok {
		return p.Writable()
	}
	return nil
}

// Backup writes a backup of the store; see [Backuper].
func (db *DB) Backup(ctx context.Context, w io.Writer) (rows int, err error) {
	b, ok := db.store.(Backuper)
	if !ok {
		return 0, errors.New("the storage driver makes no backups; use those of its database")
	}
	return b.Backup(ctx, w)
}

// fail makes the transaction fail with the error of a read.
func (t *Txn) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Update runs fn like [Store.Update]. When it returns, every [Cached] in this process
// has what was written. Updates that go through the feed of one process run one after
// the other, none later than ctx allows; fn must not call Update. See also [DB.Rehearse].
func (db *DB) Update(ctx context.Context, fn func(*Txn) error) error {
	if d := db.draftOf(ctx); d != nil {
		return d.update(func(tx Tx) error {
			txn := &Txn{Tx: tx}
			err := fn(txn)
			return cmp.Or(txn.err, err)
		})
	}
	var after []func()
	err := db.feed.Publish(ctx, func(tx Tx) ([]Change, error) {
		txn := &Txn{Tx: tx}
		err := fn(txn)
		after = txn.after
		if txn.err != nil {
			return nil, txn.err // fn continued without the row that could not be read
		}
		if err != nil {
			return nil, err
		}
		return changes(tx, txn.changed)
	})
	if err != nil {
		return err
	}
	for _, f := range after {
		f()
	}
	return nil
}

// OnCommit registers a function to be called once the transaction has been committed, outside
// of it.
func (t *Txn) OnCommit(f func()) { t.after = append(t.after, f) }

// change marks a row of the transaction as changed, for the feed.
func (t *Txn) change(key []byte) { t.changed = append(t.changed, key) }

// View is [Store.View].
func (db *DB) View(ctx context.Context, fn func(Tx) error) error {
	if d := db.draftOf(ctx); d != nil {
		return fn(d)
	}
	return db.store.View(ctx, fn)
}

// Write is [Store.Write]. It does not wait for updates, and the feed does not report its
// changes, so it must not be used for rows of a [Cached].
func (db *DB) Write(ctx context.Context, fn func(Tx) error) error {
	if d := db.draftOf(ctx); d != nil {
		return d.update(fn)
	}
	return db.store.Write(ctx, fn)
}

// Close gives up the locks of jobs and closes the store. That a lock cannot be given up is no
// error: it lapses.
func (db *DB) Close() error {
	db.mu.Lock()
	for _, j := range db.jobs {
		_ = j.Release(context.Background())
	}
	db.mu.Unlock()
	return db.store.Close()
}
