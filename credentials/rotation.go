package credentials

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// Bounds of rotations.
const (
	// MinTransition is the least time, and the default one, in which both secrets of a key work.
	MinTransition = 30 * time.Minute

	// MaxTransition bounds the transition of a key that is not rotated regularly.
	MaxTransition = MaxRotationDays * 24 * time.Hour

	// MaxRotationDays is the most days between two rotations.
	MaxRotationDays = 365
)

// The periods of a [Rotation].
const (
	RotateWeekly  = "weekly"  // Mondays 00:00 UTC
	RotateMonthly = "monthly" // the 1st 00:00 UTC
)

// ErrInTransition means that a key cannot be rotated, because both its secrets still work.
var ErrInTransition = errors.New("the key is in the transition of a rotation")

// A Rotation says when a key gets another secret: in a period, after some days, or once.
type Rotation struct {
	Period       string     `json:"period,omitempty"` // weekly or monthly
	Days         int        `json:"days,omitempty"`
	NextAt       *time.Time `json:"next_at,omitempty"`       // midnight; nil: never again
	TransitionMs int64      `json:"transition_ms,omitempty"` // how long both secrets work
}

// A RotationError says what is wrong with a member of a rotation policy.
type RotationError struct{ Field, Message string }

func (e *RotationError) Error() string { return e.Field + ": " + e.Message }

// Begin checks a new rotation, and sets the first time that it does not name.
func (r *Rotation) Begin(now time.Time) error {
	switch {
	case r.Period != "" && r.Period != RotateWeekly && r.Period != RotateMonthly:
		return &RotationError{"rotation_period", "expected weekly or monthly"}
	case r.Days < 0 || r.Days > MaxRotationDays:
		return &RotationError{"rotation_period_days", fmt.Sprintf("expected from 1 to %d", MaxRotationDays)}
	case r.Period != "" && r.Days != 0:
		return &RotationError{"rotation_period_days", "expected rotation_period or rotation_period_days, not both"}
	case r.Period == "" && r.Days == 0 && r.NextAt == nil:
		return &RotationError{"rotation_period", "expected rotation_period, rotation_period_days or next_rotation_at"}
	}
	if r.TransitionMs == 0 {
		r.TransitionMs = MinTransition.Milliseconds()
	}
	if err := r.MayTakeOver(r.Transition()); err != nil {
		return err
	}
	if r.NextAt == nil {
		r.NextAt = r.after(now)
		return nil
	}
	at := midnight(*r.NextAt)
	if !at.After(now) {
		return &RotationError{"next_rotation_at", "expected a time in the future; it counts as the beginning of that day in UTC"}
	}
	r.NextAt = &at
	return nil
}

// MayTakeOver returns an error if the secret before may not work for so long beside the next one: it would keep the
// rotation after that from being in time.
func (r *Rotation) MayTakeOver(transition time.Duration) error {
	longest := MaxTransition
	switch {
	case r.Period == RotateWeekly:
		longest = 7 * 24 * time.Hour
	case r.Period == RotateMonthly:
		longest = 28 * 24 * time.Hour
	case r.Days != 0:
		longest = time.Duration(r.Days) * 24 * time.Hour
	}
	if transition < MinTransition || transition >= longest {
		return &RotationError{"key_transition_period_ms", fmt.Sprintf("expected at least %d, and less than the period of %d", MinTransition.Milliseconds(), longest.Milliseconds())}
	}
	return nil
}

// Cadence is the days between two rotations: 7 if it is weekly, 30 if it is monthly, and 0 if there is
// only one rotation, or none.
func (r *Rotation) Cadence() int {
	switch {
	case r == nil:
		return 0
	case r.Period == RotateWeekly:
		return 7
	case r.Period == RotateMonthly:
		return 30
	}
	return r.Days
}

// RotateEvery sets the days between rotations of a key, counted from now; a rotation that is due earlier
// stays. A secret before works no longer than that. It reports whether it changed the key.
func (k *APIKey) RotateEvery(days int, now time.Time) (bool, error) {
	next := now.UTC().AddDate(0, 0, days)
	ended := days > 0 && k.PreviousUntil != nil && k.PreviousUntil.After(next)
	if ended {
		k.PreviousUntil = &next
	}
	if k.Rotation.Cadence() == days && k.Rotation.NextAt != nil {
		return ended, nil
	}
	rotation := &Rotation{Days: days}
	if k.Rotation != nil && k.Rotation.Transition() < time.Duration(days)*24*time.Hour {
		rotation.TransitionMs = k.Rotation.TransitionMs
	}
	if err := rotation.Begin(now); err != nil {
		return false, err
	}
	if k.Rotation != nil && k.Rotation.NextAt != nil && k.Rotation.NextAt.Before(*rotation.NextAt) {
		rotation.NextAt = k.Rotation.NextAt
	}
	k.Rotation = rotation
	return true, nil
}

// Transition is how long both secrets work.
func (r *Rotation) Transition() time.Duration {
	return time.Duration(r.TransitionMs) * time.Millisecond
}

// after returns the rotation that follows a time, or nil if there is none.
func (r *Rotation) after(t time.Time) *time.Time {
	day := midnight(t)
	var next time.Time
	switch {
	case r.Period == RotateMonthly:
		next = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	case r.Period == RotateWeekly:
		next = day.AddDate(0, 0, (int(time.Monday)-int(day.Weekday())+6)%7+1)
	case r.Days != 0:
		next = day.AddDate(0, 0, r.Days)
	default:
		return nil
	}
	return &next
}

// midnight is the beginning of a day in UTC.
func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// RotationDue reports whether it is time to rotate the key.
func (k *APIKey) RotationDue(now time.Time) bool {
	return k.Rotation != nil && k.Rotation.NextAt != nil && !now.Before(*k.Rotation.NextAt) && !k.Expired(now) && !k.InTransition(now)
}

// InTransition reports whether both secrets of the key work.
func (k *APIKey) InTransition(now time.Time) bool {
	return k.PreviousUntil != nil && now.Before(*k.PreviousUntil)
}

// Rotate gives a new secret to a copy of a key, and stores it. The one before works for the
// transition. The next rotation is counted from now. It returns [ErrInTransition] if the
// secret before that still works, because a key has two secrets at most.
func (k *Keyring) Rotate(tx *storage.Txn, a *APIKey, prefix string, transition time.Duration) (Secret, error) {
	now := k.now().UTC()
	if a.InTransition(now) {
		return Secret{}, ErrInTransition
	}
	secret, err := NewToken(k.random, prefix)
	if err != nil {
		return Secret{}, err
	}
	until, before := now.Add(transition), a.Digest
	a.Previous, a.PreviousUntil, a.Unclaimed = &before, &until, nil
	a.Digest, a.Hint = DigestOf(secret.Reveal()), secret.Hint()
	if a.Rotation != nil {
		rotation := *a.Rotation
		rotation.NextAt = rotation.after(now)
		a.Rotation = &rotation
	}
	return secret, k.ReplaceAPIKey(tx, a)
}

// RotateUnattended is Rotate for when no request waits for the secret: it is kept, sealed, until
// [Keyring.Claim].
func (k *Keyring) RotateUnattended(tx *storage.Txn, a *APIKey, prefix string) error {
	secret, err := k.Rotate(tx, a, prefix, a.Rotation.Transition())
	if err != nil {
		return err
	}
	if a.Unclaimed, err = k.box.Seal(secret, a.unclaimedID()); err != nil {
		return err
	}
	return k.ReplaceAPIKey(tx, a)
}

// Claim returns the secret that a rotation made unattended, once, and stores the copy of the
// key. The secret is empty if there is none to be claimed.
func (k *Keyring) Claim(tx *storage.Txn, a *APIKey) (Secret, error) {
	if a.Unclaimed == nil || !a.InTransition(k.now()) {
		return Secret{}, nil
	}
	secret, err := k.box.Unseal(a.Unclaimed, a.unclaimedID())
	if err != nil {
		return Secret{}, err
	}
	a.Unclaimed = nil
	return secret, k.ReplaceAPIKey(tx, a)
}

func (k *APIKey) unclaimedID() string { return "rotated/" + k.ID }
