// Package alerts tells of budgets whose alert threshold was reached, or that are exhausted: as an
// event of Caddy, by mail, and to a webhook. What waits for the webhook is in the store, so that
// a restart does not lose it.
package alerts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/latest"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/storage"
)

const (
	// maxQueued is how many alerts may wait to be an event and mail.
	maxQueued = 1000

	// maxWaiting is how many may wait for the webhook.
	maxWaiting = 1000
)

// Settings are where alerts go, by a configuration.
type Settings struct {
	// Emit tells of an event. It may take its time.
	Emit func(name string, data map[string]any)
	// Mail sends mail to the addresses that Emails returns for an API key; nil: none is sent.
	Mail   mailer
	Emails func(keyID string) []string
	// Webhook is a URL that alerts are posted to; nil: there is none.
	Webhook *Webhook
}

// mailer is [mail.Sender].
type mailer interface{ Send(m *mail.Message) }

// A Teller tells of alerts. It is safe for concurrent use.
type Teller struct {
	db       *storage.DB
	now      func() time.Time
	logger   *zap.Logger
	settings latest.Value[Settings]
	waiting  *storage.Collection[delivery]

	queue      chan *policies.Alert
	wake       chan struct{} // something waits for the webhook
	told, lost atomic.Int64

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a teller, which does nothing before Start.
func New(db *storage.DB, now func() time.Time, logger *zap.Logger) *Teller {
	t := &Teller{
		db: db, now: now, logger: logger, queue: make(chan *policies.Alert, maxQueued), wake: make(chan struct{}, 1),
		waiting: storage.NewCollection("alert-delivery", func(d *delivery) string { return d.Alert.ID },
			storage.Index[delivery]{Name: byAll, Counted: true, Keys: func(*delivery) []string { return []string{""} }}),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Configure applies the settings of a configuration, until release is called.
func (t *Teller) Configure(s Settings) (release func()) {
	release = t.settings.Use(s)
	t.awaken()
	return release
}

// Start starts telling, until Close.
func (t *Teller) Start() {
	t.done.Go(t.tellAll)
	t.done.Go(t.deliverAll)
}

// Close tells what is queued, except to the webhook: that goes on after a restart.
func (t *Teller) Close() {
	t.cancel()
	t.done.Wait()
}

// Counts returns how many alerts were told, and how many the webhook did not get.
func (t *Teller) Counts() (told, undelivered int64) { return t.told.Load(), t.lost.Load() }

// Add has an alert told once the transaction is committed.
func (t *Teller) Add(tx *storage.Txn, a *policies.Alert) error {
	if t.settings.Get().Webhook != nil {
		if err := t.await(tx, a); err != nil {
			return err
		}
	}
	tx.OnCommit(func() {
		t.told.Add(1)
		select {
		case t.queue <- a:
		default:
			t.logger.Warn("an alert is neither an event nor mail, because too many wait to be handled", zap.Any("alert", content(a)))
		}
	})
	return nil
}

func (t *Teller) tellAll() {
	for {
		select {
		case a := <-t.queue:
			t.tell(a)
		case <-t.ctx.Done():
			for {
				select {
				case a := <-t.queue:
					t.tell(a)
				default:
					return
				}
			}
		}
	}
}

// tell has an event and mail made of an alert.
func (t *Teller) tell(a *policies.Alert) {
	s := t.settings.Get()
	if s.Emit != nil {
		s.Emit(a.Type, content(a))
	}
	if s.Mail == nil || s.Emails == nil || a.Key == "" {
		return
	}
	for _, address := range s.Emails(a.Key) {
		s.Mail.Send(message(a, address))
	}
}
