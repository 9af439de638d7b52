package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	badgeroptions "github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/skl"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// Sizes in bytes.
const (
	memtableSize   = 2 << 20   // also bounds a transaction, see maxSmall; the library keeps up to eight buffers of nearly twice this size
	memtables      = 1         // waiting to be flushed
	tableSize      = 512 << 10 // about ten are built at once, using twice their size in memory
	blockSize      = 64 << 10  // of a table; a larger row takes three times its size while it is written
	blockCacheSize = 16 << 20
	valueLogSize   = 64 << 20 // of a file
	valueThreshold = 96 << 10 // larger values are stored in the value log; two values below it and their indexes fit into maxSmall

	levelZeroTables = 2 // tables that are flushed memtables, before they are merged

	maxSmall = memtableSize * 15 / 100    // size of all values below the threshold in a transaction, as in the library
	maxKeys  = maxSmall / skl.MaxNodeSize // number of keys in a transaction, as in the library
	maxTx    = 32 << 20                   // size of all values in a transaction
)

const (
	// lockPatience is how long Open waits for a lock, because during a reload the store
	// may not have been closed yet.
	lockPatience = 2 * time.Second
	lockInterval = 50 * time.Millisecond
)

// Options are the options of a [Store].
type Options struct {
	// Logger receives the log messages of the store; nil: none.
	Logger *zap.Logger

	// Space measures the file system of a directory; nil: use the operating system.
	Space func(dir string) (Space, error)

	unfinished   bool // it is being written by writeCopy
	valueLogSize int  // 0: the constant
}

// Open opens the store in dir, which is created with mode 0700 if it does not exist. A
// store takes about 15 MiB of memory, and up to 16 MiB for its cache.
// is read.
//
// If the file system is read-only or has less free space than the [Reserve], the store
// can be read, but refuses writes until it is reopened with enough space. This requires
// that it was closed properly before. If it was not, its log must be written to, and
// Open returns an error that wraps [storage.ErrUnwritable].
//
// If files are damaged or missing, Open returns an error that wraps
// [storage.ErrDamaged] and names them, and changes nothing.
//
// If another process has the directory open, Open waits for two seconds before it
// returns an error that wraps [storage.ErrLocked].
//
// A transaction may write 300 KiB in values of less than 96 KiB, 32 MiB in total, and
// 3,200 keys. If it writes more, it returns [ErrTooBig].
func Open(dir string, opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.Space == nil {
		opts.Space = lately(statSpace, time.Now)
	}
	if opts.valueLogSize == 0 {
		opts.valueLogSize = valueLogSize
	}
	s, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("opening store %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, opts Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if !opts.unfinished {
		if err := finished(dir); err != nil {
			return nil, err
		}
	}
	s := &Store{dir: dir, opts: opts, gc: newCollector(int64(gcFiles * opts.valueLogSize))}
	s.Feed = storage.NewFeed(s)

	options := badgerdb.DefaultOptions(dir).
		WithLogger(logger{opts.Logger.Named("badger")}).
		WithMetricsEnabled(false).
		WithMemTableSize(memtableSize).
		WithNumMemtables(memtables).
		WithNumLevelZeroTables(levelZeroTables).
		WithNumLevelZeroTablesStall(2 * levelZeroTables).
		WithNumCompactors(2).
		WithBaseTableSize(tableSize).
		WithBlockSize(blockSize).
		WithCompression(badgeroptions.None).
		WithBlockCacheSize(blockCacheSize).
		WithValueLogFileSize(int64(opts.valueLogSize)).
		WithValueThreshold(valueThreshold).
		WithChecksumVerificationMode(badgeroptions.OnBlockRead).
		WithVerifyValueChecksum(true)
	options.TableSizeMultiplier = 1
	// Opening the database writes, which could end the process on a full disk.
	s.readOnly = opts.check(dir, Reserve)
	if s.readOnly == nil {
		err = s.openLocked(options)
		if err != nil && strings.Contains(err.Error(), syscall.EROFS.Error()) {
			s.readOnly = fmt.Errorf("%w: %w", storage.ErrUnwritable, err)
		}
	}
	if s.readOnly != nil {
		err = s.openReadOnly(options)
		if err != nil && !errors.Is(err, storage.ErrLocked) {
			return nil, fmt.Errorf("%w (opening it for reading: %w)", s.readOnly, err)
		}
	}
	if err != nil {
		return nil, err
	}

	if s.readOnly == nil {
		// The new log must exist after a crash.
		s.sync.begun = s.state.begun
		if err = s.state.opened(dir); err == nil {
			s.sync.synced, err = openSynced(dir)
		}
		if err == nil {
			err = s.sync.run(dir, s.db)
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("syncing: %w", err), s.db.Close())
			s.release()
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	if s.readOnly != nil {
		opts.Logger.Warn("store is open for reading only", zap.Error(s.readOnly))
		close(s.gc.done)
	} else {
		go s.collect(ctx)
	}
	s.trimmer.Go(func() { s.trim(ctx) })
	return s, nil
}

// openReadOnly opens the database without writing to disk.
func (s *Store) openReadOnly(options badgerdb.Options) error {
	files, err := os.ReadDir(options.Dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, func(f os.DirEntry) bool { return filepath.Ext(f.Name()) == ".mem" }) {
		// The library would return an error, too, but only after mapping a sparse file
		// into memory, for which some file systems need space.
		return errors.New("it was not closed properly, and its log must be written to")
	}
	return s.openLocked(options.WithReadOnly(true))
}

// openLocked verifies and opens the database, waiting for its lock.
func (s *Store) openLocked(options badgerdb.Options) error {
	deadline := time.Now().Add(lockPatience)
	for {
		err := s.openVerified(options)
		if err == nil || !errors.Is(err, storage.ErrLocked) && !strings.Contains(err.Error(), "Another process is using") {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %s", storage.ErrLocked, holder(options.Dir))
		}
		time.Sleep(lockInterval)
	}
}

// openVerified opens the database if its files are undamaged.
func (s *Store) openVerified(options badgerdb.Options) error {
	unlock, err := lockDir(options.Dir)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			unlock()
		}
	}()
	v, err := verify(options.Dir, s.opts.Logger)
	if err != nil {
		return err
	}
	if !options.ReadOnly {
		if s.state, err = v.prepare(); err != nil {
			return err
		}
	}
	if !options.ReadOnly && v.earlierLogs() {
		unlock() // the library takes the lock itself
		if err := s.flushLogs(options); err != nil {
			return err
		}
		return s.openVerified(options)
	}
	if options.ReadOnly || !keepsLock {
		unlock() // likewise
	} else {
		options = options.WithBypassLockGuard(true)
		if err := writePID(options.Dir); err != nil {
			return err
		}
	}
	err = guard("opening the database", func() error {
		s.db, err = badgerdb.Open(options)
		return err
	})
	if options.BypassLockGuard {
		if kept = err == nil; kept {
			s.unlock = func() { removePID(options.Dir); unlock() }
		} else {
			removePID(options.Dir)
		}
	}
	return err
}

// prepare prepares the files for the library to open them for writing, and returns the
// state that was written.
func (v *verification) prepare() (*state, error) {
	state, err := v.opening()
	if err != nil {
		return nil, err
	}
	if len(state.Logs) == 0 {
		// The library numbers its logs from 1 again.
		if err := os.Remove(v.path(syncedFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if err := state.write(v.dir); err != nil {
		return nil, err
	}
	for _, name := range v.empty {
		if err := os.Remove(v.path(name)); err != nil {
			return nil, err
		}
	}
	const discard = "DISCARD"
	if size, ok := v.names[discard]; ok && (size < 1<<20 || size%16 != 0) {
		v.logger.Warn("the store's statistics of garbage have lost their end and are recreated", zap.String("file", v.path(discard)))
		if err := os.Remove(v.path(discard)); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// pidFile has the id of the process that holds the lock, as the library writes it.
const pidFile = "LOCK"

// holder describes the process that holds the lock of dir, and what to do. The process
// id in the file is only a hint.
func holder(dir string) string {
	data, _ := os.ReadFile(filepath.Join(dir, pidFile))
	pid := strings.TrimSpace(string(data))
	if pid == strconv.Itoa(os.Getpid()) {
		return "this very process has the directory " + dir + " open already; open it once"
	}
	if pid != "" {
		pid = " (" + pid + ")"
	}
	return "another process" + pid + " has the directory " + dir + " open; stop it, or give each its own directory"
}
