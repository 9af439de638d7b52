package badger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

const (
	// maxConflicts is how often a transaction is run beside others. Then it
	// runs alone, and cannot conflict.
	maxConflicts = 8

	// gcInterval is the time between two collections of the value log.
	gcInterval = 10 * time.Minute

	// verifyEvery is how many of them come between two verifications of the
	// tables.
	verifyEvery = 6

	// gcRatio is the part of a value log file that must be garbage for it to be
	// rewritten.
	gcRatio = 0.5
)

// errConflict means that a transaction must run again.
var errConflict = errors.New("conflict")

// A Store is a [storage.Store] in a directory, and its [storage.Feed]. See [Open].
//
// Functions given to Update and Write must not call either of them; a
// transaction that conflicts again and again runs while the others wait.
type Store struct {
	storage.Feed

	dir      string
	opts     Options
	db       *badgerdb.DB
	readOnly error  // why the database was opened for reading only, or nil
	state    *state // unless readOnly

	recent recent
	sync   syncer
	failed atomic.Pointer[error] // why writing ended for good
	broken atomic.Pointer[error] // why reading did, too

	mu      sync.RWMutex // guards closed, and the first transaction against it
	closed  bool
	running sync.WaitGroup // transactions
	close   sync.Once
	err     error // of close
	gc      context.CancelFunc
	gcDone  chan struct{}
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

// Write implements [storage.Store]. What it has written is in the page cache of
// the operating system, in a memory map of the log.
func (s *Store) Write(ctx context.Context, fn func(storage.Tx) error) error {
	return s.transact(ctx, fn, false)
}

// Close waits for the transactions that run, and closes the database. Further
// calls return what the first one did.
//
// With less than half of the [Reserve] free, it leaves the database as a crash
// would: flushing could end the process (see Reserve), and what was written is
// in the log, from which the next Open takes it. The directory stays locked
// until the process ends, and the error wraps [storage.ErrUnwritable].
func (s *Store) Close() error {
	s.close.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.running.Wait()
		s.gc()
		<-s.gcDone
		s.trimmer.Wait()
		if s.readOnly == nil {
			if err := s.writable(closeReserve); err != nil {
				s.err = fmt.Errorf("closing store %s without a flush: %w", s.dir, err)
				return
			}
		}
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

// begin admits a transaction, which must end with s.running.Done.
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

// Writable returns an error if the store takes no writes now.
func (s *Store) Writable() error {
	if err := s.begin(context.Background()); err != nil {
		return err
	}
	defer s.running.Done()
	return s.writable(Reserve)
}

// writable returns an error that wraps [storage.ErrUnwritable] if the store
// cannot be written, or its file system does not have need bytes free.
func (s *Store) writable(need int) error {
	if s.readOnly != nil {
		return s.readOnly
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return s.opts.check(s.dir, need)
}

// fail ends writing for good: the library does not promise to work on after an
// error of the disk, nor the system that a second sync makes up for a failed one.
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
		// A value in the value log must not be lost while the log of the
		// memtable that points to it survives, or it could never be read again.
		if durable || t.bytes >= valueThreshold {
			if err := s.sync.run(s.dir, s.db); err != nil {
				return s.fail("syncing", err)
			}
		}
		return nil
	}
}

// attempt runs fn in a transaction and commits it. It returns errConflict if
// another transaction was in the way, which none is if it runs alone.
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
		return t, nil
	case errors.Is(err, badgerdb.ErrConflict):
		return t, errConflict
	case errors.Is(err, badgerdb.ErrTxnTooBig):
		return t, translate(err)
	default:
		return t, s.fail("writing", err)
	}
}

// send gives the transaction to the library, which puts it in order before it
// returns, and sends the result of the commit later. It returns false if a
// commit after number since is in conflict with the transaction.
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

// collect removes garbage from the value log until ctx ends.
func (s *Store) collect(ctx context.Context) {
	defer close(s.gcDone)
	tick := time.NewTicker(gcInterval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n%verifyEvery == 0 {
			s.verifyTables(ctx)
		}
		// A rewrite takes the space of a file before it gives back any.
		for ctx.Err() == nil && s.writable(Reserve+valueLogSize) == nil {
			err := s.db.RunValueLogGC(gcRatio)
			if err == nil {
				continue
			}
			if !errors.Is(err, badgerdb.ErrNoRewrite) && !errors.Is(err, badgerdb.ErrRejected) {
				s.opts.Logger.Warn("collecting garbage", zap.String("dir", s.dir), zap.Error(err))
			}
			break
		}
	}
}

// verifyTables reads all tables. The library takes a block that does not fit its
// checksum for one without rows, so if there is one, reading and writing end.
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
		// It may have been merged into another meanwhile, and deleted.
		now, manifestErr := readManifest(filepath.Join(s.dir, badgerdb.ManifestFilename))
		if _, listed := now.tables[id]; listed || manifestErr != nil {
			s.breakDown(damage{tableName(id), err.Error()})
			return
		}
	}
}

// breakDown ends reading and writing for good.
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
