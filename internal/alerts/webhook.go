package alerts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/storage"
)

// A Webhook is a URL that alerts are posted to.
type Webhook struct {
	URL    string
	Secret credentials.Secret // of the signatures
	// Post sends a body, see [upstream.Client.Notify].
	Post func(ctx context.Context, url string, header http.Header, body []byte) (status int, err error)
}

// SignatureHeader has the signature of a body.
const SignatureHeader = "X-Gw-Signature"

// Sign returns the signature of a body at a time: t=<unix seconds>,v1=<HMAC-SHA256 of "t.body" in
// hexadecimal>.
func Sign(secret credentials.Secret, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// pauses are how long it takes from a failed attempt to the next one. After the last, the alert is
// given up.
var pauses = [...]time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
}

const (
	byAll = "all" // the index of all deliveries

	// poll is how often the store is looked at for what other processes left.
	poll = time.Minute

	// postGrace is how long Close waits for the post that is under way.
	postGrace = 2 * time.Second

	// lasting is how long an alert waits for a configuration that has a webhook.
	lasting = 24 * time.Hour
)

// A delivery is an alert that waits for the webhook.
type delivery struct {
	Alert    policies.Alert `json:"alert"`
	Attempts int            `json:"attempts,omitempty"`
	Due      time.Time      `json:"due"`
}

// await has an alert wait for the webhook. If too many do, it is given up.
func (t *Notifier) await(tx *storage.Txn, a *policies.Alert) error {
	n, err := t.waiting.Count(tx, byAll, "")
	if err != nil {
		return err
	}
	if n >= maxWaiting {
		tx.OnCommit(func() { t.giveUp(a, fmt.Errorf("%d other alerts wait for it", n)) })
		return nil
	}
	tx.OnCommit(t.awaken)
	return t.waiting.Put(tx, &delivery{Alert: *a, Due: t.now()})
}

func (t *Notifier) awaken() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// giveUp logs an alert that the webhook does not get.
func (t *Notifier) giveUp(a *policies.Alert, why error) {
	t.lost.Add(1)
	t.logger.Error("an alert is not delivered to the webhook", zap.Any("alert", content(a)), zap.Error(why))
}

// deliverAll posts what is due, until the notifier is closed.
func (t *Notifier) deliverAll() {
	for {
		next, err := t.Deliver(t.posting)
		if err != nil && t.ctx.Err() == nil && !errors.Is(err, storage.ErrLockHeld) && !errors.Is(err, storage.ErrLeaseLost) {
			t.logger.Error("delivering alerts", zap.Error(err))
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-t.wake:
		case <-t.ctx.Done():
		}
		timer.Stop()
		if t.ctx.Err() != nil {
			return
		}
	}
}

// Deliver posts the alerts that are due, one after the other, and returns how long it takes until
// another one may be. Of several processes, one does.
func (t *Notifier) Deliver(ctx context.Context) (next time.Duration, err error) {
	next = poll
	for err == nil && t.ctx.Err() == nil {
		var d *delivery
		d, next, err = t.due(ctx)
		if err != nil || d == nil {
			break
		}
		err = t.db.Job("alert-delivery").Do(ctx, func(ctx context.Context, step storage.Step) error { return t.attempt(ctx, step, d.Alert.ID) })
	}
	switch {
	case errors.Is(err, storage.ErrLockHeld): // perhaps by a process that was killed
		next = storage.JobTerm
	case err != nil:
		next = poll
	}
	return next, err
}

// due returns an alert that is due, or else how long none will be.
func (t *Notifier) due(ctx context.Context) (due *delivery, next time.Duration, err error) {
	now, hook := t.now(), t.settings.Get().Webhook
	next = poll
	err = t.db.View(ctx, func(tx storage.Tx) error {
		for d, err := range t.waiting.All(tx) {
			if err != nil {
				return err
			}
			switch in := d.Due.Sub(now); {
			case hook == nil && now.Sub(d.Alert.At) < lasting:
			case in <= 0:
				due = d
				return nil
			default:
				next = min(next, in)
			}
		}
		return nil
	})
	return due, next, err
}

// attempt posts an alert that is due.
func (t *Notifier) attempt(ctx context.Context, step storage.Step, id string) error {
	hook := t.settings.Get().Webhook
	var d *delivery
	err := t.db.View(ctx, func(tx storage.Tx) (err error) {
		d, err = t.waiting.Get(tx, id)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil // another process has delivered it
	}
	if err != nil || d.Due.After(t.now()) {
		return err
	}
	why := errors.New("no webhook is configured")
	if hook != nil {
		why = t.post(ctx, hook, &d.Alert)
	}
	if ctx.Err() != nil { // it is tried again, by whoever does the job then
		return ctx.Err()
	}
	given := why != nil && (hook == nil || d.Attempts >= len(pauses))
	err = t.db.Update(ctx, func(tx *storage.Txn) error {
		if err := step.Fence(tx); err != nil {
			return err
		}
		if why == nil || given {
			return t.waiting.Delete(tx, id)
		}
		again := *d
		again.Due = t.now().Add(pauses[d.Attempts])
		again.Attempts++
		return t.waiting.Put(tx, &again)
	})
	switch {
	case err != nil:
		return err
	case given:
		t.giveUp(&d.Alert, why)
	case why != nil:
		t.logger.Warn("the webhook did not take an alert; it is tried again", zap.String("alert", id), zap.Int("attempt", d.Attempts+1), zap.Error(why))
	}
	return nil
}

// post posts an alert. Any status from 200 to 299 means that the webhook has it.
func (t *Notifier) post(ctx context.Context, hook *Webhook, a *policies.Alert) error {
	body, err := json.Marshal(content(a))
	if err != nil {
		return err
	}
	status, err := hook.Post(ctx, hook.URL, http.Header{SignatureHeader: {Sign(hook.Secret, t.now(), body)}}, body)
	switch {
	case err != nil:
		return err
	case status < http.StatusOK || status >= http.StatusMultipleChoices:
		return fmt.Errorf("it answered with %d", status)
	}
	return nil
}
