// Package rotation rotates API keys that are due, and reports keys that were rotated, that
// will be, and whose time ends or has ended. It also writes when keys were last used.
package rotation

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/latest"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/storage"
)

const (
	// every is how often keys are looked at.
	every = time.Minute

	// ahead is how long before an event another one announces it.
	ahead = 24 * time.Hour

	// maxEvents is how many events may wait to be handled.
	maxEvents = 1000
)

// The events, as Caddy's events app gets them.
const (
	EventRotated  = "api_key_rotated"
	EventRotating = "api_key_rotating" // in a day at most
	EventExpiring = "api_key_expiring" // in a day at most
	EventExpired  = "api_key_expired"
)

// Settings are what a configuration says.
type Settings struct {
	KeyPrefix string // of new secrets
	// Emit reports an event. It may take its time.
	Emit func(name string, data map[string]any)
	// Mail sends mail to the alert_emails of the key; nil: none is sent.
	Mail mailer
}

// mailer is [mail.Sender].
type mailer interface{ Send(m *mail.Message) }

// An event waits to be sent.
type event struct {
	name   string
	data   map[string]any
	emails []string
	mail   mail.Message // To is one of emails
}

// cadences says after how many days every user key of a workspace is rotated; 0: as the keys say.
type cadences interface{ RotationDays(workspaceID string) int }

// A Rotator rotates keys. It is safe for concurrent use.
type Rotator struct {
	db       *storage.DB
	keyring  *credentials.Keyring
	required cadences
	trail    *audit.Trail
	now      func() time.Time
	logger   *zap.Logger
	settings latest.Value[Settings]

	events chan event
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a rotator, which does nothing before Start.
func New(db *storage.DB, keyring *credentials.Keyring, required cadences, trail *audit.Trail, now func() time.Time, logger *zap.Logger) *Rotator {
	return &Rotator{db: db, keyring: keyring, required: required, trail: trail, now: now, logger: logger, events: make(chan event, maxEvents), cancel: func() {}}
}

// Configure applies the settings of a configuration, until release is called.
func (r *Rotator) Configure(s Settings) (release func()) { return r.settings.Use(s) }

// Start starts looking at keys, until Close.
func (r *Rotator) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			r.log("rotating API keys", r.Step(ctx))
			r.log("writing when API keys were last used", r.keyring.FlushUses(ctx))
		}
	})
	r.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-r.events:
				r.tell(e)
			}
		}
	})
}

// Close stops, and writes when keys were last used. Events that were not handled yet are lost.
func (r *Rotator) Close() {
	r.cancel()
	r.done.Wait()
	r.log("writing when API keys were last used", r.keyring.FlushUses(context.Background()))
}

// log logs an error of background work, which is tried again. That another process does the
// work is no error.
func (r *Rotator) log(doing string, err error) {
	if err != nil && !errors.Is(err, storage.ErrLockHeld) && !errors.Is(err, storage.ErrLeaseLost) && !errors.Is(err, context.Canceled) {
		r.logger.Error(doing, zap.Error(err))
	}
}

func (r *Rotator) tell(e event) {
	s := r.settings.Get()
	if s.Emit != nil {
		s.Emit(e.name, e.data)
	}
	if s.Mail == nil {
		return
	}
	for _, address := range e.emails {
		m := e.mail
		m.To = address
		s.Mail.Send(&m)
	}
}

// Rotated reports that a key was rotated by somebody.
func (r *Rotator) Rotated(k *credentials.APIKey) { r.queue(EventRotated, k, false) }

func (r *Rotator) queue(name string, k *credentials.APIKey, unattended bool) {
	data := map[string]any{"id": k.ID, "name": k.Name, "type": string(k.Kind), "workspace_id": k.WorkspaceID, "alert_emails": k.AlertEmails}
	at := func(name string, t *time.Time) {
		if t != nil {
			data[name] = t.UTC().Format(time.RFC3339)
		}
	}
	at("expires_at", k.ExpiresAt)
	if k.Rotation != nil {
		at("next_rotation_at", k.Rotation.NextAt)
	}
	if name == EventRotated {
		at("key_transition_expires_at", k.PreviousUntil)
		data["unattended"] = unattended
	}
	select {
	case r.events <- event{name, data, k.AlertEmails, message(name, k, unattended)}:
	default:
		r.logger.Warn("an event is lost, because too many wait to be handled", zap.String("event", name), zap.String("key_id", k.ID))
	}
}

// Step rotates the keys that are due, and queues events. Of several processes, one does.
func (r *Rotator) Step(ctx context.Context) error {
	now := r.now()
	var due []string
	for _, k := range r.keyring.APIKeys() {
		if r.look(k, now).any() {
			due = append(due, k.ID)
		}
	}
	if len(due) == 0 {
		return nil
	}
	return r.db.Job("api-key-rotation").Do(ctx, func(ctx context.Context, step storage.Step) error {
		for _, id := range due {
			if err := r.db.Update(ctx, func(tx *storage.Txn) error { return r.handle(tx, step, id, now) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// A finding is what there is to do about a key.
type finding struct {
	rotate, rotating, expiring, expired bool
	// days: the key was made before all user keys of its workspace had to be rotated so often.
	days int
}

func (f finding) any() bool { return f != finding{} }

// look finds what there is to do about a key.
func (r *Rotator) look(k *credentials.APIKey, now time.Time) (f finding) {
	notified := func(of, at *time.Time) bool { return of != nil && of.Equal(*at) }
	if at := k.ExpiresAt; at != nil {
		f.expired = k.Expired(now) && !notified(k.NotifiedExpired, at)
		f.expiring = !k.Expired(now) && !now.Before(at.Add(-ahead)) && !notified(k.NotifiedExpiring, at)
	}
	if k.Kind == credentials.WorkspaceUser && !k.Expired(now) {
		if days := r.required.RotationDays(k.WorkspaceID); days != 0 && (k.Rotation.Cadence() != days || k.Rotation.NextAt == nil) {
			f.days = days
		}
	}
	if k.Rotation != nil && k.Rotation.NextAt != nil && !k.Expired(now) {
		at := k.Rotation.NextAt
		f.rotate = k.RotationDue(now)
		f.rotating = now.Before(*at) && !now.Before(at.Add(-ahead)) && !notified(k.NotifiedRotating, at)
	}
	return f
}

// handle does what there is to do about a key, in a transaction.
func (r *Rotator) handle(tx *storage.Txn, step storage.Step, id string, now time.Time) error {
	if err := step.Fence(tx); err != nil {
		return err
	}
	keyring := r.keyring.In(tx)
	stored, ok := keyring.APIKey(id)
	if !ok {
		return nil // deleted meanwhile
	}
	f, k := r.look(stored, now), *stored
	if !f.any() {
		return nil
	}
	if f.days != 0 {
		if err := r.applyRotation(tx, &k, f.days, now); err != nil {
			return err
		}
	}
	if f.expired {
		k.NotifiedExpired = k.ExpiresAt
		tx.OnCommit(func() { r.queue(EventExpired, &k, false) })
	}
	if f.expiring {
		k.NotifiedExpiring = k.ExpiresAt
		tx.OnCommit(func() { r.queue(EventExpiring, &k, false) })
	}
	if f.rotating {
		k.NotifiedRotating = k.Rotation.NextAt
		tx.OnCommit(func() { r.queue(EventRotating, &k, false) })
	}
	if !f.rotate {
		return keyring.ReplaceAPIKey(tx, &k)
	}
	if err := keyring.RotateUnattended(tx, &k, r.settings.Get().KeyPrefix); err != nil {
		return err
	}
	tx.OnCommit(func() { r.queue(EventRotated, &k, true) })
	return r.trail.Add(tx, &audit.Record{
		OrganisationID: k.OrganisationID, WorkspaceID: k.WorkspaceID, Scope: k.Kind.Resource() + ".rotate", Type: audit.APIKeys,
		Resource: k.ID, ResourceID: k.ID, ResourceName: k.Name, Status: 200,
	})
}

// applyRotation sets how often a key is rotated, by the settings of its workspace.
func (r *Rotator) applyRotation(tx *storage.Txn, k *credentials.APIKey, days int, now time.Time) error {
	if _, err := k.RotateEvery(days, now); err != nil {
		return err
	}
	return r.trail.Add(tx, &audit.Record{
		OrganisationID: k.OrganisationID, WorkspaceID: k.WorkspaceID, Scope: k.Kind.Resource() + ".update", Type: audit.APIKeys,
		Resource: k.ID, ResourceID: k.ID, ResourceName: k.Name, Status: 200,
		Changes: []audit.Change{{Field: "rotation_policy.rotation_period_days", To: strconv.Itoa(days)}},
	})
}
