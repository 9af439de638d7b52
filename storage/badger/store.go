package badger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// maxConflicts is how often a transaction is attempted concurrently with others.
// After that it runs alone, so that it cannot be in conflict.
const maxConflicts = 8

// errConflict means that a transaction must be run again.
var errConflict = errors.New("conflict")

// A Store is a [storage.Store] and [storage.Feed] in a directory. See [Open].
//
// Functions passed to Update and Write must not call either of them, because a
// transaction that is repeatedly in conflict runs while the others wait.
type Store struct {
	storage.Feed

	dir      string
	opts     Options
	db       *badgerdb.DB
	unlock   func() // releases the lock; nil: the library holds it
	readOnly error  // why the database was opened read-only, or nil
	state    *state // nil if readOnly

	recent recent
	sync   syncer
	failed atomic.Pointer[error] // why writing has ended permanently
	broken atomic.Pointer[error] // why reading has ended as well

	mu      sync.RWMutex // guards closed, and closing against new transactions
	closed  bool
	running sync.WaitGroup // transactions in progress
	close   sync.Once
	err     error              // result of Close
	stop    context.CancelFunc // ends what runs in the background
	gc      collector
	trimmer sync.WaitGroup
}

// View implements [storage.Store].
func (s *Store) View(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	t := &tx{ctx: ctx, txn: s.db.NewTransaction(false)}
	defer t.end()
	return fn(t)
}

// Update implements [storage.Store].
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.transact(ctx, fn, true)
}

// Write implements [storage.Store]. Its data is in the page cache of the operating
// system, through a memory map of the log.
func (s *Store) Write(ctx context.Context, fn func(storage.Tx) error) error {
	return s.transact(ctx, fn, false)
}

// Close waits for transactions in progress and closes the database. Further calls
// return the result of the first one.
//
// If less than half of the [Reserve] is free, Close leaves the database as after a
// crash, because flushing could end the process (see Reserve). All data is in the log,
// from which the next Open restores it. The directory stays locked until the process
// ends, and the error wraps [storage.ErrUnwritable].
func (s *Store) Close() error {
	s.close.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.running.Wait()
		s.stop()
		<-s.gc.done
		s.trimmer.Wait()
		if s.readOnly == nil {
			if err := s.writable(closeReserve); err != nil {
				s.err = fmt.Errorf("closing store %s without a flush: %w", s.dir, err)
				return
			}
		}
		defer s.release() // once the state file says that the store was closed
		if err := s.db.Close(); err != nil {
			s.err = fmt.Errorf("closing store %s: %w", s.dir, err)
			return
		}
		if s.readOnly == nil && s.failed.Load() == nil {
			if err := errors.Join(s.sync.synced.close(), s.state.closed(s.dir)); err != nil {
				s.err = fmt.Errorf("closing store %s: %w", s.dir, err)
			}
		}
	})
	return s.err
}

// release releases the lock, if the store holds it itself.
func (s *Store) release() {
	if s.unlock != nil {
		s.unlock()
	}
}

// begin starts a transaction, which must end with s.running.Done.
func (s *Store) begin(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return storage.ErrClosed
	}
	if err := s.broken.Load(); err != nil {
		return *err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.running.Add(1)
	return nil
}

// Writable returns an error if the store currently refuses writes.
func (s *Store) Writable() error {
	if err := s.begin(context.Background()); err != nil {
		return err
	}
	defer s.running.Done()
	return s.writable(Reserve)
}

// writable returns an error that wraps [storage.ErrUnwritable] if the store cannot be
// written to, or its file system has less than need bytes free.
func (s *Store) writable(need int) error {
	if s.readOnly != nil {
		return s.readOnly
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	err := s.opts.check(s.dir, need)
	if err != nil {
		s.gc.ask()
	}
	return err
}

// fail ends writing permanently. The library is not guaranteed to work after a disk
// error, and the operating system does not guarantee that a second sync makes up for a
// failed one.
func (s *Store) fail(doing string, err error) error {
	err = fmt.Errorf("%w: %s in %s failed, nothing is written until the gateway is restarted: %w",
		storage.ErrUnwritable, doing, s.dir, err)
	if s.failed.CompareAndSwap(nil, &err) {
		s.opts.Logger.Error("store stopped writing", zap.Error(err))
	}
	return err
}

func (s *Store) transact(ctx context.Context, fn func(storage.Tx) error, durable bool) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if err := s.writable(Reserve); err != nil {
		return err
	}
	for run := 0; ; run++ {
		t, err := s.attempt(ctx, fn, run == maxConflicts)
		switch {
		case errors.Is(err, errConflict):
			continue
		case err != nil || len(t.keys) == 0:
			return err
		}
		// A value in the value log must not be lost while the log of the memtable with
		// the pointer to it survives, because it could never be read.
		if durable || t.bytes >= valueThreshold {
			if err := s.sync.run(s.dir, s.db); err != nil {
				return s.fail("syncing", err)
			}
		}
		return nil
	}
}

// attempt runs fn in a transaction and commits it. It returns errConflict if another
// transaction conflicts, which cannot happen if it runs alone.
func (s *Store) attempt(ctx context.Context, fn func(storage.Tx) error, alone bool) (*tx, error) {
	if alone {
		s.recent.mu.Lock()
		defer s.recent.mu.Unlock()
	}
	since := s.recent.last.Load()
	t := &tx{ctx: ctx, txn: s.db.NewTransaction(true), write: true}
	defer t.end()
	if err := fn(t); err != nil {
		return t, err
	}
	switch err := ctx.Err(); {
	case t.err != nil:
		return t, t.err
	case err != nil:
		return t, err
	case len(t.keys) == 0:
		return t, nil
	case t.bytes > valueThreshold:
		if err := s.writable(Reserve + t.bytes); err != nil {
			return t, err
		}
	}

	result := make(chan error, 1)
	if !s.send(t, since, alone, result) {
		return t, errConflict
	}
	switch err := <-result; {
	case err == nil:
		s.gc.wrote(t.stale)
		return t, nil
	case errors.Is(err, badgerdb.ErrConflict):
		return t, errConflict
	case errors.Is(err, badgerdb.ErrTxnTooBig):
		return t, translate(err)
	default:
		return t, s.fail("writing", err)
	}
}

// send passes the transaction to the library, which orders it before returning, and
// sends the result of the commit later. It returns false if a commit after number since
// conflicts with the transaction.
func (s *Store) send(t *tx, since uint64, alone bool, result chan<- error) bool {
	if !alone {
		s.recent.mu.Lock()
		defer s.recent.mu.Unlock()
	}
	if s.recent.conflicts(t.spans, since) {
		return false
	}
	t.txn.CommitWith(func(err error) { result <- err })
	s.recent.add(t.keys)
	return true
}

// verifyTables reads all tables. The library treats a block with a wrong checksum as
// empty, so if there is one, reading and writing end.
func (s *Store) verifyTables(ctx context.Context) {
	m, err := readManifest(filepath.Join(s.dir, badgerdb.ManifestFilename))
	if err != nil {
		s.breakDown(damage{badgerdb.ManifestFilename, err.Error()})
		return
	}
	for id, compression := range m.tables {
		if ctx.Err() != nil {
			return
		}
		path := filepath.Join(s.dir, tableName(id))
		err := readTable(path, compression, func(row) {}, nil)
		if err == nil {
			continue
		}
		// The table may have been merged and deleted in the meantime.
		now, manifestErr := readManifest(filepath.Join(s.dir, badgerdb.ManifestFilename))
		if _, listed := now.tables[id]; listed || manifestErr != nil {
			s.breakDown(damage{tableName(id), err.Error()})
			return
		}
	}
}

// breakDown ends reading and writing permanently.
func (s *Store) breakDown(f damage) {
	err := fmt.Errorf("store %s: %w", s.dir, damages{f}.err())
	if s.broken.CompareAndSwap(nil, &err) {
		s.failed.CompareAndSwap(nil, &err)
		s.opts.Logger.Error("the store is damaged, nothing is read or written", zap.Error(err))
	}
}

// Interface guards
var (
	_ storage.Store  = (*Store)(nil)
	_ storage.Feed   = (*Store)(nil)
	_ storage.Prober = (*Store)(nil)
)
