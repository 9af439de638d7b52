package storage

import "context"

// A DB is a [Store] as the control plane uses it: its updates run one after the
// other, and what is kept in memory about the stored rows changes with them, in
// the order in which they were committed.
type DB struct {
	store Store
	turn  chan struct{} // holds the token of the update that runs
}

// A Txn is the transaction of a [DB.Update].
type Txn struct {
	Tx
	hooks []func()
	err   error // of the first read through a [Cached] that failed
}

// NewDB returns a DB over store, which it closes with [DB.Close]. Two DBs over one
// store lose none of each other's updates, though what one keeps in memory does
// not follow the other's.
func NewDB(store Store) *DB {
	return &DB{store: store, turn: make(chan struct{}, 1)}
}

// OnCommit has hook called once when the transaction is committed and durable,
// before Update returns and before the next update begins. Hooks run in the
// order in which they were added. They must not call Update or [Cached.Load].
func (t *Txn) OnCommit(hook func()) {
	t.hooks = append(t.hooks, hook)
}

// fail makes the transaction fail with the error of a read.
func (t *Txn) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Update runs fn like [Store.Update], alone: one caller after the other, none
// later than ctx allows. Of a run of fn that is repeated after a conflict, the
// hooks are forgotten with the writes. fn must not call Update.
func (db *DB) Update(ctx context.Context, fn func(*Txn) error) error {
	if err := db.lock(ctx); err != nil {
		return err
	}
	defer db.unlock()

	var txn *Txn
	err := db.store.Update(ctx, func(tx Tx) error {
		txn = &Txn{Tx: tx}
		err := fn(txn)
		if txn.err != nil {
			return txn.err // fn took the row that could not be read for none
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, hook := range txn.hooks {
		hook()
	}
	return nil
}

// View is [Store.View].
func (db *DB) View(ctx context.Context, fn func(Tx) error) error {
	return db.store.View(ctx, fn)
}

// Write is [Store.Write]. It does not wait for updates, and has no hooks: it is
// for what no [Cached] holds.
func (db *DB) Write(ctx context.Context, fn func(Tx) error) error {
	return db.store.Write(ctx, fn)
}

// Close closes the store.
func (db *DB) Close() error { return db.store.Close() }

func (db *DB) lock(ctx context.Context) error {
	select {
	case db.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (db *DB) unlock() { <-db.turn }
