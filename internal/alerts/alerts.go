// Package alerts notifies of budgets whose alert threshold was reached, or that are exhausted: as an
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
	// Emit emits an event. It may take its time.
	Emit func(name string, data map[string]any)
	// Mail sends mail to the addresses that Emails returns for an API key; nil: none is sent.
	Mail   mailer
	Emails func(keyID string) []string
	// Webhook is a URL that alerts are posted to; nil: there is none.
	Webhook *Webhook
}

// mailer is [mail.Sender].
type mailer interface{ Send(m *mail.Message) }

// A Notifier sends alerts. It is safe for concurrent use.
type Notifier struct {
	db       *storage.DB
	now      func() time.Time
	logger   *zap.Logger
	settings latest.Value[Settings]
	waiting  *storage.Collection[*delivery]

	queue      chan *policies.Alert
	wake       chan struct{} // something waits for the webhook
	sent, lost atomic.Int64

	ctx    context.Context
	cancel context.CancelFunc
	// posting ends a while after ctx: what is being posted would be posted twice otherwise.
	posting context.Context
	abandon context.CancelFunc
	done    sync.WaitGroup
}

// New returns a notifier, which does nothing before Start.
func New(db *storage.DB, now func() time.Time, logger *zap.Logger) *Notifier {
	t := &Notifier{
		db: db, now: now, logger: logger, queue: make(chan *policies.Alert, maxQueued), wake: make(chan struct{}, 1),
		waiting: storage.NewCollection("alert-delivery", func(d *delivery) string { return d.Alert.ID },
			storage.Index[*delivery]{Name: byAll, Counted: true, Keys: func(*delivery) []string { return []string{""} }}),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.posting, t.abandon = context.WithCancel(context.Background())
	return t
}

// Configure applies the settings of a configuration, until release is called.
func (t *Notifier) Configure(s Settings) (release func()) {
	release = t.settings.Use(s)
	t.awaken()
	return release
}

// Start starts sending, until Close.
func (t *Notifier) Start() {
	t.done.Go(t.notifyAll)
	t.done.Go(t.deliverAll)
}

// Close sends what is queued, except to the webhook: that goes on after a restart. The post that is
// under way has two seconds to end.
func (t *Notifier) Close() {
	t.cancel()
	defer time.AfterFunc(postGrace, t.abandon).Stop()
	t.done.Wait()
	t.abandon()
}

// Counts returns how many alerts were sent, and how many the webhook did not get.
func (t *Notifier) Counts() (sent, undelivered int64) { return t.sent.Load(), t.lost.Load() }

// Add has an alert sent once the transaction is committed.
func (t *Notifier) Add(tx *storage.Txn, a *policies.Alert) error {
	if t.settings.Get().Webhook != nil {
		if err := t.await(tx, a); err != nil {
			return err
		}
	}
	tx.OnCommit(func() {
		t.sent.Add(1)
		select {
		case t.queue <- a:
		default:
			t.logger.Warn("an alert is neither an event nor mail, because too many wait to be handled", zap.Any("alert", content(a)))
		}
	})
	return nil
}

func (t *Notifier) notifyAll() {
	for {
		select {
		case a := <-t.queue:
			t.notify(a)
		case <-t.ctx.Done():
			for {
				select {
				case a := <-t.queue:
					t.notify(a)
				default:
					return
				}
			}
		}
	}
}

// notify has an event and mail made of an alert.
func (t *Notifier) notify(a *policies.Alert) {
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
