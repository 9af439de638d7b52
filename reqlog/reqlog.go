// Package reqlog keeps one record of every call that was admitted. Records leave
// through a bounded queue to a batch writer: no call waits for the disk, and what
// does not fit is counted.
package reqlog

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/directory"
	"github.com/caddy-gw/gateway/storage"
)

// A Record is one call. The log gives it its ID.
type Record struct {
	ID               string    `json:"id"`
	TraceID          string    `json:"trace_id"`
	At               time.Time `json:"at"`
	DurationMS       float64   `json:"duration_ms"`
	FirstByteMS      float64   `json:"first_byte_ms,omitempty"`
	OrganisationID   string    `json:"organisation_id"`
	WorkspaceID      string    `json:"workspace_id"`
	KeyID            string    `json:"key_id"`
	Endpoint         string    `json:"endpoint"`
	Provider         string    `json:"provider"`
	VirtualKey       string    `json:"virtual_key,omitempty"`
	Model            string    `json:"model,omitempty"`
	Stream           bool      `json:"stream,omitempty"`
	Status           int       `json:"status"`
	Attempts         int       `json:"attempts"`
	UsageKnown       bool      `json:"usage_known"`
	PromptTokens     int64     `json:"prompt_tokens"`
	CompletionTokens int64     `json:"completion_tokens"`
	CacheStatus      string    `json:"cache_status,omitempty"`
	Malformed        int       `json:"malformed,omitempty"` // events of a stream that were taken out
	Failure          string    `json:"failure,omitempty"`

	SpanID       string          `json:"span_id,omitempty"`
	ParentSpanID string          `json:"parent_span_id,omitempty"`
	SpanName     string          `json:"span_name,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"` // an object
}

const (
	queueSize = 8192 // records
	blockSize = 256  // records
	linger    = 100 * time.Millisecond
	retention = 30 * 24 * time.Hour
)

// A block is what is stored: the records of a moment, in the order of their ids. Its
// own id is the first of them, so that the block of a record is the last one whose
// id is not greater. One row for many records is what keeps a record cheap.
type block struct {
	ID      string    `json:"id"`
	Records []*Record `json:"records"`
}

// A Log writes records. It is safe for concurrent use.
type Log struct {
	db     *storage.DB
	blocks *storage.Collection[block]
	random io.Reader
	queue  chan *Record
	lost   atomic.Int64
	logger *zap.Logger

	closing sync.RWMutex
	closed  bool
	done    chan struct{}
}

// Open starts the writer of a store's records. It outlives the configuration that it
// was opened under, and so must logger.
func Open(db *storage.DB, random io.Reader, logger *zap.Logger) *Log {
	l := &Log{
		db:     db,
		blocks: storage.NewCollection("requests", func(b *block) string { return b.ID }),
		random: random,
		queue:  make(chan *Record, queueSize),
		logger: logger,
		done:   make(chan struct{}),
	}
	go l.run()
	return l
}

// Add queues a record. It never waits: a record for which there is no room is lost
// and counted.
func (l *Log) Add(r *Record) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed {
		l.lost.Add(1)
		return
	}
	select {
	case l.queue <- r:
	default:
		l.lost.Add(1)
	}
}

// Lost returns how many records were lost since the log was opened.
func (l *Log) Lost() int64 { return l.lost.Load() }

// Close writes what is queued and stops the writer.
func (l *Log) Close() {
	l.closing.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.closing.Unlock()
	<-l.done
}

func (l *Log) run() {
	defer close(l.done)
	for r := range l.queue {
		l.write(l.collect(r))
	}
}

// collect waits a moment for more records to write together with the first.
func (l *Log) collect(first *Record) *block {
	b := &block{Records: append(make([]*Record, 0, blockSize), first)}
	moment := time.NewTimer(linger)
	defer moment.Stop()
	for len(b.Records) < blockSize {
		select {
		case r, open := <-l.queue:
			if !open {
				return b
			}
			b.Records = append(b.Records, r)
		case <-moment.C:
			return b
		}
	}
	return b
}

func (l *Log) write(b *block) {
	for _, r := range b.Records {
		r.ID = directory.NewID(l.random)
	}
	b.ID = b.Records[0].ID
	err := l.db.Write(context.Background(), func(tx storage.Tx) error { return l.blocks.PutTTL(tx, b, retention) })
	if err != nil {
		l.lost.Add(int64(len(b.Records)))
		l.logger.Error("writing request records", zap.Int("lost", len(b.Records)), zap.Error(err))
	}
}

// Records returns the newest records first, at most limit of them.
func (l *Log) Records(ctx context.Context, limit int) ([]*Record, error) {
	var all []*Record
	if limit <= 0 {
		return nil, nil
	}
	err := l.db.View(ctx, func(tx storage.Tx) error {
		for b, err := range l.blocks.Scan(tx, storage.Range{Reverse: true}) {
			if err != nil {
				return err
			}
			for _, r := range slices.Backward(b.Records) {
				if all = append(all, r); len(all) == limit {
					return nil
				}
			}
		}
		return nil
	})
	return all, err
}
