// Package reqlog keeps one record of every call that was admitted. Records leave
// through a bounded queue to a batch writer: no call waits for the disk, and what
// does not fit is counted.
package reqlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// A Record is one call.
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
	Failure          string    `json:"failure,omitempty"`
}

const (
	queueSize = 8192 // records
	batchSize = 256
	retention = 30 * 24 * time.Hour
)

// A Log writes records. It is safe for concurrent use.
type Log struct {
	db      *storage.DB
	records *storage.Collection[Record]
	queue   chan *Record
	lost    atomic.Int64
	logger  *zap.Logger

	closing sync.RWMutex
	closed  bool
	done    chan struct{}
}

// Open starts the writer of a store's records. It outlives the configuration that it
// was opened under, and so must logger.
func Open(db *storage.DB, logger *zap.Logger) *Log {
	l := &Log{
		db:      db,
		records: storage.NewCollection("request", func(r *Record) string { return r.ID }),
		queue:   make(chan *Record, queueSize),
		logger:  logger,
		done:    make(chan struct{}),
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
	batch := make([]*Record, 0, batchSize)
	for r := range l.queue {
		batch = append(batch[:0], r)
		for len(batch) < batchSize && len(l.queue) > 0 {
			if r, ok := <-l.queue; ok {
				batch = append(batch, r)
			}
		}
		l.write(batch)
	}
}

func (l *Log) write(batch []*Record) {
	err := l.db.Write(context.Background(), func(tx storage.Tx) error {
		for _, r := range batch {
			if err := l.records.PutTTL(tx, r, retention); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.lost.Add(int64(len(batch)))
		l.logger.Error("writing request records", zap.Int("lost", len(batch)), zap.Error(err))
	}
}

// Records returns the newest records first, at most limit of them.
func (l *Log) Records(ctx context.Context, limit int) ([]*Record, error) {
	var all []*Record
	err := l.db.View(ctx, func(tx storage.Tx) error {
		for r, err := range l.records.Scan(tx, storage.Range{Reverse: true}) {
			if err != nil {
				return err
			}
			if all = append(all, r); len(all) == limit {
				return nil
			}
		}
		return nil
	})
	return all, err
}
