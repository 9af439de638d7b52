package policies

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// Types of alerts.
const (
	AlertThreshold = "usage_limit_threshold_reached" // of the budget's alert_threshold
	AlertExhausted = "usage_limit_exhausted"
)

// An Alert is sent once in a period, when what is booked of a budget has reached its alert threshold,
// or when it is exhausted.
type Alert struct {
	ID   string    `json:"id"` // of this alert
	Type string    `json:"type"`
	At   time.Time `json:"at"`

	// Of a policy, its id and name; of the limit of an object, the object's kind, as a condition
	// names it, and id.
	Policy  string `json:"policy,omitempty"`
	Name    string `json:"name,omitempty"`
	Carrier string `json:"carrier,omitempty"`
	Object  string `json:"object,omitempty"`

	Group       string     `json:"group"`         // the value key of the counter
	Key         string     `json:"key,omitempty"` // the API key whose calls are counted; "": those of several
	Counts      string     `json:"counts"`        // cost, tokens or requests
	Limit       float64    `json:"limit"`
	Threshold   *float64   `json:"threshold,omitempty"`
	Booked      float64    `json:"booked"` // at the time, or later
	NextResetAt *time.Time `json:"next_reset_at,omitempty"`

	WorkspaceID    string `json:"workspace_id,omitempty"`
	OrganisationID string `json:"organisation_id"`
}

const (
	// maxAlerts is how many counters may wait to be looked at.
	maxAlerts = 1000

	// maxKnown is for how many counters the alerts that were sent are kept in memory.
	maxKnown = 10_000

	// A budget is exhausted when its limit is booked, or when it has refused a call and nine
	// tenths are booked: calls of tokens and costs are refused before the limit is reached.
	exhaustedFrom = 0.9

	alertTimeout = 10 * time.Second
)

// sentAlerts are the alerts that were sent for a counter, with the alert threshold and the limit at the time.
type sentAlerts struct {
	ID        string `json:"id"`
	Threshold *int64 `json:"threshold,omitempty"`
	Limit     *int64 `json:"limit,omitempty"`
	// Counter is the name of one that was reset: it is listed although it counts nothing.
	Counter string `json:"counter,omitempty"`
}

// covers reports whether alerts were sent for all that a counter has reached. A threshold that is lowered
// afterwards is no reason for another.
func (t *sentAlerts) covers(reached sentAlerts) bool {
	covers := func(sent, reached *int64) bool { return reached == nil || sent != nil && *sent >= *reached }
	return covers(t.Threshold, reached.Threshold) && covers(t.Limit, reached.Limit)
}

// reach returns what a counter has reached; refused: a call was, because there is no room.
func reach(limit, threshold *int64, booked int64, refused bool) (reached sentAlerts) {
	if threshold != nil && booked >= *threshold {
		reached.Threshold = threshold
	}
	if booked >= *limit || refused && float64(booked) >= exhaustedFrom*float64(*limit) {
		reached.Limit = limit
	}
	return reached
}

// crossing is a counter for which an alert may be due.
type crossing struct {
	rule      *Rule
	workspace string // of the call
	counter   string
	booked    int64
	refused   bool
}

// alerts are the alerts of budgets: those that were sent, and counters to be checked.
type alerts struct {
	rows  *storage.Collection[*sentAlerts]
	queue chan crossing
	// add sends an alert, in the transaction that stores that it is sent. It may be nil.
	add func(*storage.Txn, *Alert) error

	mu    sync.Mutex
	known map[string]sentAlerts // by counter, of some
}

func newAlerts() *alerts {
	return &alerts{
		rows:  storage.NewCollection("budget-alert", func(t *sentAlerts) string { return t.ID }),
		queue: make(chan crossing, maxAlerts), known: make(map[string]sentAlerts),
	}
}

// OnAlert has add called with each alert, in the transaction that stores that it is sent: if that does
// not commit, the alert is added again later. It is called before the first call is admitted.
func (l *Limits) OnAlert(add func(*storage.Txn, *Alert) error) { l.alerts.add = add }

// checkAlerts queues a counter if an alert may be due, because of a call of a workspace. It is called by calls, so that it must be fast.
func (l *Limits) checkAlerts(r *Rule, workspace, counter string, booked int64, refused bool) {
	if (r.alertAt == nil || booked < *r.alertAt) && booked < r.Limit && !refused {
		return
	}
	reached := reach(&r.Limit, r.alertAt, booked, refused)
	if !l.alerts.note(counter, reached) {
		return
	}
	select {
	case l.alerts.queue <- crossing{r, strings.Clone(workspace), strings.Clone(counter), booked, refused}:
	default: // a later call queues it
		l.alerts.forget(counter)
	}
}

// note notes that alerts will be sent for what a counter has reached, and reports whether that is new, as
// far as memory knows.
func (a *alerts) note(counter string, reached sentAlerts) bool {
	if reached == (sentAlerts{}) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.known[counter]
	if ok && known.covers(reached) {
		return false
	}
	if !ok && len(a.known) >= maxKnown {
		clear(a.known)
	}
	if reached.Threshold != nil {
		known.Threshold = reached.Threshold
	}
	if reached.Limit != nil {
		known.Limit = reached.Limit
	}
	a.known[strings.Clone(counter)] = known
	return true
}

// forget has the alerts of a counter read from the store again.
func (a *alerts) forget(counter string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, counter)
}

// sendAlerts sends the alerts of queued counters, until the limits are closed.
func (l *Limits) sendAlerts() {
	for {
		select {
		case c := <-l.alerts.queue:
			l.sendAlert(c)
		case <-l.ctx.Done():
			for {
				select {
				case c := <-l.alerts.queue:
					l.sendAlert(c)
				default:
					return
				}
			}
		}
	}
}

// sendAlert sends the alerts that are due for a counter.
func (l *Limits) sendAlert(c crossing) {
	ctx, cancel := context.WithTimeout(context.Background(), alertTimeout)
	defer cancel()
	err := l.db.Update(ctx, func(tx *storage.Txn) error {
		p := l.budgetOf(tx, c.rule)
		if p == nil {
			return nil // it is gone
		}
		at := p.At(l.now())
		if period := countersOf(p.ID, at.Resets); !strings.HasPrefix(c.counter, prefix(period)) {
			return nil // it was reset
		}
		reached, id := reach(&p.Limit, p.AlertThreshold, c.booked, c.refused), sentID(c.counter)
		before, err := l.alerts.rows.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			before, err = &sentAlerts{ID: id}, nil
		}
		if err != nil || before.covers(reached) {
			return err
		}
		row := *before
		if !before.covers(sentAlerts{Threshold: reached.Threshold}) {
			row.Threshold = reached.Threshold
			err = l.addAlert(tx, AlertThreshold, p, &at, c)
		}
		if err == nil && !before.covers(sentAlerts{Limit: reached.Limit}) {
			row.Limit = reached.Limit
			err = l.addAlert(tx, AlertExhausted, p, &at, c)
		}
		return errors.Join(err, l.alerts.rows.Put(tx, &row))
	})
	if err != nil {
		l.alerts.forget(c.counter) // a later call queues it
		l.logger.Error("sending an alert of a budget; the next call that it counts tries again", zap.String("policy", c.rule.ID), zap.Error(err))
	}
}

// budgetOf returns the budget of a rule as it is stored; nil: there is none any more.
func (l *Limits) budgetOf(tx *storage.Txn, r *Rule) *UsageLimit {
	if r.carrier == nil {
		p, ok := l.Budgets.In(tx).Get(r.ID)
		if !ok || p.Archived {
			return nil
		}
		return p
	}
	if r.carrier.Carrier == KeyToken { // which does not change
		return r.carrier.budget()
	}
	c, ok := l.Carried.In(tx).Get(r.carrier.ID)
	if !ok || c.Budget == nil {
		return nil
	}
	if p := c.budget(); p.ID == r.ID {
		return p
	}
	return nil
}

func (l *Limits) addAlert(tx *storage.Txn, kind string, p *UsageLimit, at *Schedule, c crossing) error {
	if l.alerts.add == nil {
		return nil
	}
	period := countersOf(p.ID, at.Resets)
	a := &Alert{
		ID: storage.NewID(rand.Reader), Type: kind, At: l.now().UTC(), Policy: p.ID, Name: p.Name, Group: valueKey(p.GroupBy, c.counter, period),
		Key: groupValue(p.GroupBy, c.counter, period, KeyAPIKey), Counts: p.Type, Limit: p.Amount(p.Limit), Booked: p.Amount(c.booked), NextResetAt: at.NextResetAt,
		WorkspaceID: p.WorkspaceID, OrganisationID: p.OrganisationID,
	}
	if p.AlertThreshold != nil {
		threshold := p.Amount(*p.AlertThreshold)
		a.Threshold = &threshold
	}
	if of := c.rule.carrier; of != nil {
		a.Policy, a.Carrier, a.Object = "", of.Carrier, of.ID
		if of.Carrier == KeyIntegration && of.WorkspaceID != "" {
			a.Object = strings.TrimSuffix(of.ID, IntegrationIn(of.WorkspaceID, ""))
		}
		switch {
		case of.Carrier == KeyAPIKey:
			a.Key = of.ID
		case of.Carrier == KeyToken, of.EachWorkspace: // which are of no workspace themselves
			a.WorkspaceID = c.workspace
		}
	}
	return l.alerts.add(tx, a)
}

// groupValue returns the value of a key that a counter groups by; "": there is none, or it is not known.
func groupValue(groupBy []string, counter, counters, key string) string {
	values, _ := groupValues(counter, counters)
	if i := slices.Index(groupBy, key); i >= 0 && i < len(values) {
		return values[i]
	}
	return ""
}

// sentID is the id of the row of the alerts of a counter. It begins as the counter's name does, up to
// the end of the name of its period.
func sentID(counter string) string {
	at := strings.IndexByte(counter, groupMark) + 1
	at += strings.IndexByte(counter[at:], groupMark) + 1
	return counter[:at] + entityID(counter)
}

// readSent sets in the counters of a period of a budget which alerts were sent for them, and appends those that were reset and
// have counted nothing since.
func (l *Limits) readSent(ctx context.Context, p *UsageLimit, period string, all []*Entity) ([]*Entity, error) {
	rows := make(map[string]*sentAlerts)
	err := l.db.View(ctx, func(tx storage.Tx) error {
		for row, err := range l.alerts.rows.Scan(tx, storage.Range{Prefix: prefix(period)}) {
			if err != nil {
				return err
			}
			rows[row.ID] = row
		}
		return nil
	})
	for _, e := range all {
		if row := rows[sentID(e.name)]; row != nil {
			e.ThresholdAlerted = p.AlertThreshold != nil && row.covers(sentAlerts{Threshold: p.AlertThreshold})
			e.ExhaustedAlerted = row.covers(sentAlerts{Limit: &p.Limit})
			delete(rows, row.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if counter := rows[id].Counter; counter != "" && len(all) < MaxEntities {
			all = append(all, newEntity(p, counter, period))
		}
	}
	return all, err
}

// keepListed replaces the alerts of a counter by none, so that they are sent again and it is listed.
func (l *Limits) keepListed(ctx context.Context, counter string) error {
	err := l.db.Write(ctx, func(tx storage.Tx) error {
		return l.alerts.rows.Put(tx, &sentAlerts{ID: sentID(counter), Counter: counter})
	})
	l.alerts.forget(counter)
	return err
}

// forgetAlerts forgets the alerts of counters, so that they are sent again.
func (l *Limits) forgetAlerts(ctx context.Context, prefix string) error {
	for more := true; more; {
		var ids []string
		err := l.db.View(ctx, func(tx storage.Tx) error {
			more, ids = false, ids[:0]
			for row, err := range l.alerts.rows.Scan(tx, storage.Range{Prefix: prefix}) {
				if err != nil {
					return err
				}
				if more = len(ids) == maxAlerts; more {
					break
				}
				ids = append(ids, row.ID)
			}
			return nil
		})
		if err == nil && len(ids) > 0 {
			err = l.db.Write(ctx, func(tx storage.Tx) error {
				for _, id := range ids {
					if err := l.alerts.rows.Delete(tx, id); err != nil && !errors.Is(err, storage.ErrNotFound) {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	l.alerts.mu.Lock()
	defer l.alerts.mu.Unlock()
	clear(l.alerts.known) // of which some are asked of the store again
	return nil
}
