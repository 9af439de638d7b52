package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

// rotationPolicy is a rotation policy of an API key as clients send it.
type rotationPolicy struct {
	Period       *string    `json:"rotation_period,omitempty" enum:"weekly,monthly" nullable:"true" doc:"Mondays, or the 1st, at 00:00 UTC."`
	Days         *int       `json:"rotation_period_days,omitempty" minimum:"1" maximum:"365" nullable:"true" doc:"Instead of rotation_period."`
	NextAt       *time.Time `json:"next_rotation_at,omitempty" nullable:"true" doc:"The next rotation: the beginning of its day in UTC."`
	TransitionMs *int64     `json:"key_transition_period_ms,omitempty" minimum:"1800000" default:"1800000" doc:"How long the secret before still works: less than the period."`
	Status       string     `json:"status,omitempty" enum:"ACTIVE" doc:"As it is shown; ignored."`
}

// shownRotation is a rotation policy as shown by the control plane.
type shownRotation struct {
	Period       *string `json:"rotation_period,omitempty" enum:"weekly,monthly"`
	Days         *int    `json:"rotation_period_days,omitempty"`
	NextAt       *string `json:"next_rotation_at"`
	TransitionMs int64   `json:"key_transition_period_ms"`
	Status       string  `json:"status" enum:"ACTIVE"`
}

// is reports whether a policy says what one that is stored shows.
func (in *rotationPolicy) is(r *credentials.Rotation) bool {
	if r == nil || in.NextAt == nil || r.NextAt == nil || !in.NextAt.Equal(*r.NextAt) {
		return false
	}
	var period string
	var days int
	transition := r.TransitionMs
	assign(&period, in.Period)
	assign(&days, in.Days)
	assign(&transition, in.TransitionMs)
	return period == r.Period && days == r.Days && transition == r.TransitionMs
}

func showRotation(r *credentials.Rotation) *shownRotation {
	if r == nil {
		return nil
	}
	out := &shownRotation{Period: text(r.Period), NextAt: formatOptionalTime(r.NextAt), TransitionMs: r.TransitionMs, Status: "ACTIVE"}
	if r.Days != 0 {
		out.Days = &r.Days
	}
	return out
}

// applyRotation applies a rotation_policy field to a key.
func (c *call) applyRotation(k *credentials.APIKey, field Optional[rotationPolicy]) error {
	switch {
	case !field.Set:
		return nil
	case field.Null:
		k.Rotation = nil
		return nil
	}
	in := &field.Value
	if in.Period != nil && in.Days != nil {
		return invalid("rotation_policy", "expected rotation_period or rotation_period_days, not both")
	}
	r := &credentials.Rotation{NextAt: in.NextAt}
	assign(&r.Period, in.Period)
	assign(&r.Days, in.Days)
	if in.TransitionMs != nil {
		r.TransitionMs = min(*in.TransitionMs, maxTransitionMs+1)
	}
	if err := r.Begin(c.api.Now()); err != nil {
		var field *credentials.RotationError
		if errors.As(err, &field) {
			return invalid("rotation_policy."+field.Field, "%s", field.Message)
		}
		return err
	}
	k.Rotation = r
	return nil
}

const maxTransitionMs = int64(credentials.MaxTransition / time.Millisecond)

// rotateAPIKey is the body of a rotation, which may be left out.
type rotateAPIKey struct {
	TransitionMs *int64 `json:"key_transition_period_ms,omitempty" minimum:"1800000" doc:"How long the secret before still works: less than the period of the rotation policy, or at most 31536000000 without one. Default: that of the policy, or 1800000."`
}

type rotatedAPIKey struct {
	ID               string `json:"id" format:"uuid"`
	Key              string `json:"key" doc:"The new key. It is shown this once."`
	TransitionEndsAt string `json:"key_transition_expires_at" format:"date-time" doc:"When the key before stops working."`
}

// rotation adds POST path/{id}/rotate.
func (a *API) rotation(keys *resource[credentials.APIKey]) {
	change(a, keys.routeOfOne(http.MethodPost, "/rotate", "rotate", "Rotate an API key"), func(c *call, in *optionalBodyInput[rotateAPIKey]) (out *rotatedAPIKey, e edit, err error) {
		e, err = keys.edit(c, &in.item, "rotate", func(k *credentials.APIKey) (err error) {
			out, err = c.rotateAPIKey(k, in.Body)
			return err
		})
		return out, e, err
	})
}

// rotateAPIKey gives a new secret to a key, or returns the one that an unattended rotation has
// made and nobody has got yet.
func (c *call) rotateAPIKey(k *credentials.APIKey, in *rotateAPIKey) (*rotatedAPIKey, error) {
	transition := credentials.MinTransition.Milliseconds()
	if k.Rotation != nil {
		transition = k.Rotation.TransitionMs
	}
	if in != nil && in.TransitionMs != nil {
		c.record.Fields = []string{"key_transition_period_ms"}
		transition = *in.TransitionMs
	}
	if transition > maxTransitionMs {
		return nil, invalid("key_transition_period_ms", "expected from %d to %d", credentials.MinTransition.Milliseconds(), maxTransitionMs)
	}
	if k.Rotation != nil {
		var wrong *credentials.RotationError
		if err := k.Rotation.MayTakeOver(time.Duration(transition) * time.Millisecond); errors.As(err, &wrong) {
			return nil, invalid(wrong.Field, "%s", wrong.Message)
		}
	}
	if k.ExpiresAt != nil && !c.api.Now().Before(*k.ExpiresAt) {
		return nil, failure(http.StatusConflict, "The key expired at %s, and its new secret would not work either; give it another expires_at, and rotate it then", formatTime(*k.ExpiresAt))
	}
	// The caller gets the secret, and with it what the key may do.
	if k.ID != c.caller.KeyID {
		if err := c.bounded(k, &APIKeyFields{ExpiresAt: Optional[time.Time]{Set: true}, may: true}); err != nil {
			return nil, err
		}
	}
	secret, err := c.api.Keyring.Claim(c.tx, k)
	if err == nil && secret.Empty() {
		secret, err = c.api.Keyring.Rotate(c.tx, k, c.api.KeyPrefix, time.Duration(transition)*time.Millisecond)
		c.committed(func() {
			if c.api.Rotations != nil {
				c.api.Rotations.Rotated(k)
			}
		})
	}
	if errors.Is(err, credentials.ErrInTransition) {
		return nil, failure(http.StatusConflict, "The key was rotated, and its previous secret works until %s; rotate it again after that", formatTime(*k.PreviousUntil))
	}
	if err != nil {
		return nil, err
	}
	return &rotatedAPIKey{k.ID, secret.Reveal(), formatTime(*k.PreviousUntil)}, nil
}
