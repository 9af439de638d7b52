package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/latest"
	"github.com/caddy-gw/gateway/storage"
)

const (
	// checkpointEvery is how often the last row is logged, if there are new ones.
	checkpointEvery = time.Minute

	// retainEvery is how often old rows are removed, in ticks of checkpointEvery.
	retainEvery = 60

	// sendBatch is how many rows the sink gets before it is noted that it has them.
	sendBatch = 100
)

// Settings are what a configuration says about the trail.
type Settings struct {
	Retention time.Duration // 0: rows are kept
	Sink      io.Writer     // gets each row as a line of JSON, at least once; nil: none
	Logger    *zap.Logger   // of checkpoints
}

// A follower does what follows from rows: it writes them to the log and the sink, and removes old ones.
type follower struct {
	woken chan struct{}
	stop  context.CancelFunc // nil: it does not run
	done  chan struct{}

	settings latest.Value[Settings]
	failing  atomic.Bool // the sink refuses rows, which was logged
}

func (f *follower) init() { f.woken = make(chan struct{}, 1) }

func (f *follower) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// Configure applies the settings of a configuration, until release is called.
func (t *Trail) Configure(s Settings) (release func()) {
	release = t.follower.settings.Use(s)
	t.follower.wake()
	return release
}

func (t *Trail) settings() Settings { return t.follower.settings.Get() }

// Start starts what follows from rows, until Close.
func (t *Trail) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	t.follower.stop, t.follower.done = cancel, make(chan struct{})
	go func() {
		defer close(t.follower.done)
		tick := time.NewTicker(checkpointEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-t.follower.woken:
				n--
			case <-tick.C:
				t.log("writing a checkpoint of the audit trail", t.checkpoint(ctx))
				if n%retainEvery == 0 {
					t.log("removing old rows of the audit trail", t.retain(ctx))
				}
			}
			t.log("sending the audit trail", t.send(ctx))
		}
	}()
}

// Close sends what is left to the sink, and writes a last checkpoint.
func (t *Trail) Close() {
	if t.follower.stop == nil {
		return
	}
	t.follower.stop()
	<-t.follower.done
	t.follower.stop = nil
	ctx := context.Background()
	t.log("sending the audit trail", t.send(ctx))
	t.log("writing a checkpoint of the audit trail", t.checkpoint(ctx))
}

// log logs an error of background work, which is tried again. That another process does the
// work is no error.
func (t *Trail) log(doing string, err error) {
	if err != nil && !errors.Is(err, errSinkFails) && !errors.Is(err, storage.ErrLockHeld) && !errors.Is(err, storage.ErrLeaseLost) && !errors.Is(err, context.Canceled) {
		t.logger.Error(doing, zap.Error(err))
	}
}

// checkpoint logs the last row, if it was not logged yet. The store then has it
// on the disk, because a row that a power failure takes away must not look like one that
// somebody removed.
func (t *Trail) checkpoint(ctx context.Context) error {
	logger := t.settings().Logger
	if logger == nil {
		return nil
	}
	var head mark
	logged := false
	read := func(tx storage.Tx) error {
		checked, err := t.mark(tx, markChecked)
		if err != nil {
			return err
		}
		head, err = t.head(tx)
		logged = head.number <= checked.number
		return err
	}
	if err := t.db.View(ctx, read); err != nil || logged {
		return err
	}
	err := t.db.Update(ctx, func(tx *storage.Txn) error {
		if err := read(tx); err != nil || logged {
			return err
		}
		return t.putMark(tx, markChecked, head)
	})
	if err == nil && !logged {
		logger.Info(checkpointMessage, zap.Uint64(checkpointRow, head.number), zap.String(checkpointSeal, head.seal.String()), zap.Time("row_at", head.at))
	}
	return err
}

// retain removes rows that are older than the retention.
func (t *Trail) retain(ctx context.Context) error {
	age := t.settings().Retention
	if age == 0 {
		return nil
	}
	return t.db.Job("audit-retention").Do(ctx, func(ctx context.Context, step storage.Step) error {
		_, err := t.Cut(ctx, t.now().Add(-age), step.Fence)
		return err
	})
}

// send writes to the sink what it has not got. Of several processes with the store, one does.
func (t *Trail) send(ctx context.Context) error {
	sink := t.settings().Sink
	if sink == nil {
		return nil
	}
	return t.db.Job("audit-sink").Do(ctx, func(ctx context.Context, step storage.Step) error {
		for {
			more, err := t.sendBatch(ctx, sink, step)
			if err != nil || !more {
				return err
			}
		}
	})
}

func (t *Trail) sendBatch(ctx context.Context, sink io.Writer, step storage.Step) (more bool, err error) {
	var rows []*row
	var sent mark
	begin := false
	err = t.db.View(ctx, func(tx storage.Tx) error {
		var there bool
		if sent, _, there, err = t.readMark(tx, markSent); err != nil {
			return err
		}
		if begin = !there; begin { // the sink is new, and gets what happens from now on
			sent, err = t.head(tx)
			return err
		}
		for blob, err := range t.rows.Scan(tx, storage.Range{Start: numbered(sent.number + 1)}) {
			if err != nil {
				return err
			}
			row, err := decodeRow(blob)
			if err != nil {
				return err
			}
			if rows = append(rows, row); len(rows) == sendBatch {
				break
			}
		}
		return nil
	})
	if err != nil || len(rows) == 0 && !begin {
		return false, err
	}
	for _, row := range rows {
		if err := t.write(sink, row); err != nil {
			return false, err
		}
		sent = mark{number: row.number, seal: row.seal}
	}
	err = t.db.Write(ctx, func(tx storage.Tx) error {
		if err := step.Fence(tx); err != nil {
			return err
		}
		return t.putMark(tx, markSent, sent)
	})
	return len(rows) == sendBatch, err
}

// write writes a row to the sink. The first of several failures is logged.
func (t *Trail) write(sink io.Writer, row *row) error {
	_, err := sink.Write(append(row.text, '\n'))
	if failed := t.follower.failing.Swap(err != nil); err != nil && failed {
		return errSinkFails
	}
	if err != nil {
		return fmt.Errorf("row %d: %w", row.number, err)
	}
	return nil
}

// errSinkFails is for failures after the first one, which are not logged.
var errSinkFails = errors.New("the sink still refuses rows")
