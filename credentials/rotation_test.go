package credentials

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRotationsBeginAtMidnight(t *testing.T) {
	friday := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	tomorrow := time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		r     Rotation
		next  string // or the field at fault
		valid bool
	}{
		{Rotation{Period: "weekly"}, "2026-11-30", true},
		{Rotation{Period: "monthly"}, "2026-12-01", true},
		{Rotation{Days: 1}, "2026-11-28", true},
		{Rotation{Days: 365}, "2027-11-27", true},
		{Rotation{Days: 30, NextAt: &tomorrow}, "2026-11-28", true},
		{Rotation{NextAt: &tomorrow}, "2026-11-28", true},
		{Rotation{NextAt: &friday}, "next_rotation_at", false},
		{Rotation{}, "rotation_period", false},
		{Rotation{Period: "yearly"}, "rotation_period", false},
		{Rotation{Period: "weekly", Days: 7}, "rotation_period_days", false},
		{Rotation{Days: 366}, "rotation_period_days", false},
		{Rotation{Days: -1}, "rotation_period_days", false},
		{Rotation{Days: 1, TransitionMs: 24 * 3600_000}, "key_transition_period_ms", false},
		{Rotation{Days: 1, TransitionMs: 24*3600_000 - 1}, "2026-11-28", true},
		{Rotation{Days: 1, TransitionMs: 1_799_999}, "key_transition_period_ms", false},
	} {
		r := c.r
		err := r.Begin(friday)
		got := ""
		var field *RotationError
		if errors.As(err, &field) {
			got = field.Field
		} else if r.NextAt != nil {
			got = r.NextAt.Format(time.DateOnly)
		}
		if got != c.next || (err == nil) != c.valid {
			t.Errorf("%+v: %s, %v, want %s", c.r, got, err, c.next)
		}
		if err == nil && r.TransitionMs < 1_800_000 {
			t.Errorf("%+v: transition %d", c.r, r.TransitionMs)
		}
	}
}

// Whatever the time, the next rotation is a midnight in the future, within the period.
func TestTheNextRotationIsInTheFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "now"), 0).UTC()
		r := rapid.SampledFrom([]Rotation{{Period: "weekly"}, {Period: "monthly"}, {Days: 1}, {Days: 90}}).Draw(t, "rotation")
		next := r.after(now)
		longest := map[string]int{"weekly": 7, "monthly": 31, "": r.Days}[r.Period]
		if next == nil || !next.After(now) || next.Sub(now) > time.Duration(longest)*24*time.Hour || !next.Equal(midnight(*next)) {
			t.Fatalf("%v after %v", next, now)
		}
		if r.Period == "weekly" && next.Weekday() != time.Monday || r.Period == "monthly" && next.Day() != 1 {
			t.Fatalf("%v", next)
		}
	})
}

// A cadence that is required ends a secret before that would work for longer.
func TestARequiredCadenceEndsTransitions(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		rotation *Rotation
		until    time.Duration
		want     time.Duration
	}{
		{nil, 300 * 24 * time.Hour, 7 * 24 * time.Hour},
		{&Rotation{Days: 7}, 300 * 24 * time.Hour, 7 * 24 * time.Hour},
		{nil, time.Hour, time.Hour},
	} {
		until := now.Add(c.until)
		k := &APIKey{PreviousUntil: &until, Rotation: c.rotation}
		if k.Rotation != nil {
			if err := k.Rotation.Begin(now); err != nil {
				t.Fatal(err)
			}
		}
		if changed, err := k.RotateEvery(7, now); err != nil || !changed || !k.PreviousUntil.Equal(now.Add(c.want)) {
			t.Errorf("%v, %v: until %s", changed, err, k.PreviousUntil)
		}
	}
}
