// Package reqlog keeps a record of every call, and optionally the bodies of the call.
//
// Records are written through a queue that is bounded in bytes: no call waits for the disk,
// and dropped records are counted. A writer combines many records in one row, and assigns
// increasing ids. For each row, memory holds a [segment]: its position, and the values that
// occur in it. So a record is found by its id with one read, and lists skip rows without
// matches. Bodies are in separate rows, with their own retention and size, so that metadata
// may be kept longer.
//
// Callers may write records of calls that did not use the gateway, called custom
// records. They are stored separately, within their own share of the sizes, so that
// they do not displace records of calls.
//
// A record can be read once it has been written, about a tenth of a second after its
// call.
package reqlog

import (
	"context"
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/storage"
)

// Settings determine which records are kept and for how long.
type Settings struct {
	Retention time.Duration // of records
	Size      int64         // of all records, in bytes; an eighth of it is for custom ones
	Queue     int64         // of records waiting to be written, in bytes; likewise

	Bodies        bool
	MaxBody       int64 // how much of each body is kept, in bytes
	BodyRetention time.Duration
	BodySize      int64 // of all bodies, in bytes; likewise
}

// customShare returns the part of a size that is for custom records.
func customShare(size int64) int64 { return size / 8 }

// Defaults of the settings.
const (
	DefaultRetention     = 30 * 24 * time.Hour
	DefaultSize          = 1 << 30
	DefaultQueue         = 32 << 20
	DefaultMaxBody       = 64 << 10
	DefaultBodyRetention = 7 * 24 * time.Hour
	DefaultBodySize      = 1 << 30
)

// Bounds of the settings.
const (
	MaxMaxBody = 4 << 20
	MinSize    = 1 << 20
	MinQueue   = 1 << 20
)

const (
	linger     = 100 * time.Millisecond
	readAfter  = time.Second // how long a reader waits for what was added before it came
	trimEvery  = 10 * time.Second
	smallBlock = blockRecords / 4
	smallRow   = 64 << 10
)

// Options of a log.
type Options struct {
	Now    func() time.Time
	Random io.Reader
	Logger *zap.Logger // must outlive the configuration that opened the log
}

// A Log writes records and finds them. It is safe for concurrent use.
type Log struct {
	Options
	settings atomic.Pointer[Settings] // nil: not configured yet, so nothing is removed
	queue    *queue
	ids      ids
	archives // of calls
	custom   archives
	room     []byte // used by the writer for a row

	refused          *fairshare.Quota // of records of refused calls, by workspace
	lost, lostBodies atomic.Int64

	trimming *storage.Job

	changed chan struct{} // has a token after the settings changed
	done    chan struct{}
}

// archives hold the records of one kind, and their bodies.
type archives struct{ blocks, bodies *archive }

// newArchives opens archives by their names. share returns their part of a size.
func newArchives(db *storage.DB, blocks, bodies string, share func(int64) int64) archives {
	return archives{
		blocks: newArchive(db, blocks, smallBlock, smallRow, func(s *Settings) (time.Duration, int64) { return s.Retention, share(s.Size) }),
		bodies: newArchive(db, bodies, math.MaxInt32, smallRow, func(s *Settings) (time.Duration, int64) { return s.BodyRetention, share(s.BodySize) }),
	}
}

// of returns the archives for a kind of records.
func (l *Log) of(custom bool) archives {
	if custom {
		return l.custom
	}
	return l.archives
}

func (l *Log) all() []*archive {
	return []*archive{l.blocks, l.bodies, l.custom.blocks, l.custom.bodies}
}

// Open opens the records of a store and starts the writer. The log may outlive the
// configuration that opened it.
func Open(ctx context.Context, db *storage.DB, o Options) (*Log, error) {
	l := &Log{
		Options:  o,
		queue:    newQueue(DefaultQueue),
		ids:      ids{now: o.Now, random: o.Random},
		archives: newArchives(db, "logs", "log_bodies", func(size int64) int64 { return size - customShare(size) }),
		custom:   newArchives(db, "logs_own", "log_bodies_own", customShare),
		refused:  newRefusedQuota(o.Now),
		trimming: db.Job("request-log"),
		changed:  make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	for _, s := range l.all() {
		if err := s.load(ctx); err != nil {
			return nil, err
		}
		l.ids.after(s.last())
	}
	go l.run()
	return l, nil
}

// Configure changes the settings. Records that exceed the new settings are removed in the
// background.
func (l *Log) Configure(s Settings) {
	l.settings.Store(&s)
	l.queue.resize(s.Queue)
	signal(l.changed)
}

// MaxBody returns how much of each body is kept, in bytes. 0 means that bodies are not
// stored.
func (l *Log) MaxBody() int {
	if s := l.settings.Load(); s != nil && s.Bodies {
		return int(s.MaxBody)
	}
	return 0
}

// Add queues a record, which must not be changed afterwards, and reports whether it was
// queued. It never waits: if there is no room, or refused calls of the workspace have too many, bodies and then records are dropped and
// counted. Custom records that are dropped are not counted, because their callers are
// told.
func (l *Log) Add(r *Record) bool {
	r.bound()
	admitted, bodies := l.admit(r)
	lost := !admitted
	if admitted {
		var bodiesLost bool
		lost, bodiesLost = l.queue.put(r)
		bodies = bodies || bodiesLost
	}
	if lost && r.Custom {
		return false
	}
	if lost {
		l.lost.Add(1)
	}
	if bodies {
		l.lostBodies.Add(1)
	}
	return !lost
}

// Lost returns how many records were lost since the log was opened.
func (l *Log) Lost() int64 { return l.lost.Load() }

// LostBodies returns the number of records whose bodies were lost since the log was opened.
func (l *Log) LostBodies() int64 { return l.lostBodies.Load() }

// Size returns the size of the records and of their bodies in the store, in bytes.
func (l *Log) Size() (records, bodies int64) {
	return l.blocks.size() + l.custom.blocks.size(), l.bodies.size() + l.custom.bodies.size()
}

// Close writes the queued records and stops the writer.
func (l *Log) Close() {
	l.queue.close()
	<-l.done
}

func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.trim()
		case <-l.changed:
			l.trim()
		case <-l.queue.some:
			l.linger()
			calls, custom, done, closed := l.queue.take()
			l.write(calls)
			l.write(custom)
			done()
			if closed {
				return
			}
		}
	}
}

// linger waits a moment for more records to be written together.
func (l *Log) linger() {
	moment := time.NewTimer(linger)
	defer moment.Stop()
	select {
	case <-l.queue.full:
	case <-moment.C:
	}
}

// catchUp waits until the records that were added are written, so that whoever made a call
// finds it. It does not wait long for a store that is slow.
func (l *Log) catchUp(ctx context.Context) {
	written := l.queue.written()
	if written == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readAfter)
	defer cancel()
	select {
	case <-written:
	case <-l.done:
	case <-ctx.Done():
	}
}

// write writes records of one kind in blocks.
func (l *Log) write(records []*Record) {
	for len(records) > 0 {
		custom := records[0].Custom
		to := l.of(custom)
		n, size, all := 0, int64(0), int64(0)
		for n < min(len(records), blockRecords) {
			record, bodies := records[n].size()
			if n > 0 && size+record-baseSize/2 > l.rowSize(custom, to.blocks) {
				break
			}
			size += record - baseSize/2 // a line is shorter than the record in memory
			all += record + bodies
			n++
		}
		for i, id := range l.ids.next(n) {
			records[i].ID = id
		}
		l.writeBodies(to.bodies, records[:n])
		l.writeBlock(to.blocks, records[:n])
		l.queue.free(custom, all)
		records = records[n:]
	}
}

// rowSize returns the maximum size of a row, in bytes. Several rows of custom records, or
// of their bodies, must fit into their share.
func (l *Log) rowSize(custom bool, to *archive) int64 {
	if s := l.settings.Load(); s != nil && custom {
		_, size := to.keeps(s)
		return min(blockBytes, size/4)
	}
	return blockBytes
}

func (l *Log) writeBlock(to *archive, records []*Record) {
	seg, row, err := newBlock(records, l.room[:0])
	l.room = spare(row)
	if err == nil {
		err = l.keep(to, seg, row)
	}
	if err != nil {
		l.lost.Add(int64(len(records)))
		l.Logger.Error("writing request records", zap.Int("lost", len(records)), zap.Error(err))
		return
	}
	if err := to.merge(); err != nil {
		l.Logger.Error("keeping request records", zap.Error(err))
	}
}

// keep adds a row to an archive, after making room for it.
func (l *Log) keep(s *archive, seg *segment, row []byte) error {
	stored, err := s.pack(seg, row)
	if err != nil {
		return err
	}
	l.makeRoom(s, seg.Size)
	return s.put(seg, stored)
}

// writeBodies writes the bodies of records, and removes them from the records.
func (l *Log) writeBodies(to *archive, records []*Record) {
	var some []*Record
	size, limit := 0, int(l.rowSize(records[0].Custom, to))
	flush := func() {
		if len(some) == 0 {
			return
		}
		seg, row, err := newBodies(some, l.room[:0])
		l.room = spare(row)
		if err == nil {
			err = l.keep(to, seg, row)
		}
		for _, r := range some {
			if err != nil {
				r.Request, r.Response = nil, nil
				continue
			}
			for _, b := range []*Body{r.Request, r.Response} {
				if b != nil {
					b.Bytes = nil
				}
			}
		}
		if err != nil {
			l.lostBodies.Add(int64(len(some)))
			l.Logger.Error("writing bodies of requests", zap.Int("lost", len(some)), zap.Error(err))
		} else if err := to.merge(); err != nil {
			l.Logger.Error("keeping bodies of requests", zap.Error(err))
		}
		some, size = nil, 0
	}
	for _, r := range records {
		n := len(r.Request.bytes()) + len(r.Response.bytes())
		if n == 0 {
			continue
		}
		if size+n > limit {
			flush()
		}
		some = append(some, r)
		size += n
	}
	flush()
}

// trim drops expired rows and those that exceed the size, unless another process that
// uses the store does. Rows that this process needs room for are dropped by makeRoom.
func (l *Log) trim() {
	for _, s := range l.all() {
		for {
			settings := l.settings.Load()
			if settings == nil {
				return
			}
			retention, size := s.keeps(settings)
			oldest := l.Now().Add(-retention)
			if !s.surplus(oldest, size) {
				break // without taking the job's lock, which would be a useless write
			}
			err := l.trimming.Do(context.Background(), func(ctx context.Context, step storage.Step) error {
				return s.drop(ctx, oldest, size, step.Fence)
			})
			if errors.Is(err, storage.ErrLockHeld) || errors.Is(err, storage.ErrLeaseLost) {
				return
			}
			if err != nil {
				l.failedToDrop(s, err)
				break
			}
		}
	}
}

// makeRoom drops expired rows of an archive, and more if that is necessary to make room
// for need bytes.
func (l *Log) makeRoom(s *archive, need int64) {
	settings := l.settings.Load()
	if settings == nil {
		return
	}
	retention, size := s.keeps(settings)
	for oldest := l.Now().Add(-retention); s.surplus(oldest, size-need); {
		if err := s.drop(context.Background(), oldest, size-need, nil); err != nil {
			l.failedToDrop(s, err)
			return
		}
	}
}

func (l *Log) failedToDrop(s *archive, err error) {
	l.Logger.Error("dropping old request records", zap.String("of", s.name), zap.Error(err))
}
