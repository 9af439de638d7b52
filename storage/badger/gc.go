package badger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
)

const (
	// gcInterval is the interval between garbage collections of the value log when
	// little is written to it.
	gcInterval = 10 * time.Minute

	// gcFiles is how many files of the value log are written before its garbage is
	// collected without waiting for the interval.
	gcFiles = 4

	// gcPause is the interval between garbage collections while the disk is too full
	// for writing.
	gcPause = 10 * time.Second

	// gcDelay is the time in which the library usually merges tables.
	gcDelay = time.Second

	// verifyEvery is the number of intervals between two verifications of the tables.
	verifyEvery = 6

	// gcRatio is the fraction of a value log file that must be garbage for the file to
	// be rewritten. While there is no space for what is left of it, it is lowSpaceRatio.
	gcRatio       = 0.5
	lowSpaceRatio = 0.9
)

// A collector decides when the garbage of the value log is collected.
type collector struct {
	volume int64         // bytes of the value log that are written between two collections
	bytes  atomic.Int64  // written to the value log since the last collection, and of keys that were deleted
	asked  chan struct{} // has an element if there should be a collection before the interval ends
	done   chan struct{} // closed once there are no more collections
}

func newCollector(volume int64) collector {
	return collector{volume: volume, asked: make(chan struct{}, 1), done: make(chan struct{})}
}

// wrote adds bytes that were written to the value log, or of keys that were deleted.
func (c *collector) wrote(bytes int) {
	if bytes > 0 && c.bytes.Add(int64(bytes)) >= c.volume {
		c.ask()
	}
}

// ask asks for a collection.
func (c *collector) ask() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// collect removes garbage from the value log until ctx ends.
func (s *Store) collect(ctx context.Context) {
	defer close(s.gc.done)
	tick := time.NewTicker(gcInterval)
	defer tick.Stop()
	var low time.Time // when garbage was last collected because the disk was too full
	var merged <-chan time.Time
	for n := 1; ; {
		flush := true
		select {
		case <-ctx.Done():
			return
		case <-merged:
			merged = nil
			s.note(s.rewrite(ctx))
			continue
		case <-s.gc.asked:
			if s.gc.bytes.Load() < s.gc.volume {
				if time.Since(low) < gcPause {
					continue
				}
				low = time.Now()
			}
		case <-tick.C:
			if n++; n%verifyEvery == 0 {
				s.verifyTables(ctx)
			}
			flush = s.gc.bytes.Load() > 0
		}
		if s.gc.bytes.Store(0); flush {
			s.note(s.flush(ctx))
		}
		if merged == nil {
			merged = time.After(gcDelay)
		}
	}
}

// note logs an error of the garbage collection. Its next run may succeed.
func (s *Store) note(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.opts.Logger.Warn("collecting garbage", zap.String("dir", s.dir), zap.Error(err))
	}
}

// rewrite removes the files of the value log that are known to be garbage for the most part.
func (s *Store) rewrite(ctx context.Context) error {
	// What is left of a file is written again before the file is deleted.
	for ctx.Err() == nil && s.opts.check(s.dir, closeReserve) == nil {
		ratio := gcRatio
		if s.opts.check(s.dir, Reserve+s.opts.valueLogSize) != nil {
			ratio = lowSpaceRatio
		}
		switch err := s.db.RunValueLogGC(ratio); {
		case errors.Is(err, badgerdb.ErrNoRewrite), errors.Is(err, badgerdb.ErrRejected):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// flush has the library write its memtables to tables, and merge them.
//
// The library only finds out that a value is garbage when it merges the table with the
// row that replaced it. Rows whose values are in the value log are small, so thousands
// of them, with gigabytes of values, fit into a memtable, and the library writes that to
// a table only when it is full. So flush fills as many memtables as tables are merged.
// What it fills them with has already expired, and is therefore neither read nor kept.
func (s *Store) flush(ctx context.Context) error {
	const size = valueThreshold - 1
	for range (levelZeroTables + memtables + 1) * memtableSize / size { // since some wait to be flushed
		if err := errors.Join(ctx.Err(), s.opts.check(s.dir, closeReserve)); err != nil {
			return err
		}
		txn := s.db.NewTransaction(true)
		err := txn.SetEntry(&badgerdb.Entry{Key: []byte{keyPrefix}, Value: make([]byte, size), ExpiresAt: 1})
		if err == nil {
			err = txn.Commit()
		}
		txn.Discard()
		if err != nil {
			return fmt.Errorf("flushing: %w", err)
		}
	}
	return nil
}
