package policies

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/caddy-gw/gateway/internal/prices"
)

// A UsageLimit is a usage-limit policy: a budget for all that is counted until it is reset.
type UsageLimit struct {
	Policy
	// Limit is what may be used, in requests, tokens or pico-dollars. AlertThreshold, in the
	// same, is what to alert somebody of; nil: there is no alert.
	Limit          int64  `json:"limit"`
	AlertThreshold *int64 `json:"alert_threshold,omitempty"`
	Schedule
	OnUnknownPrice string `json:"on_unknown_price,omitempty"` // of cost: Refuse ("") or Allow
}

// What a policy about costs does with a call whose model has no known price.
const (
	Refuse = "refuse"
	Allow  = "allow"
)

// Validate returns the first error in a policy as a *FieldError.
func (p *UsageLimit) Validate() error {
	switch {
	case p.Type != Cost && p.Type != Tokens && p.Type != Requests:
		return &FieldError{"type", "expected cost, tokens or requests"}
	case p.Limit < 0:
		return &FieldError{"credit_limit", "expected 0 or more"}
	case p.AlertThreshold != nil && (*p.AlertThreshold < 0 || *p.AlertThreshold >= p.Limit):
		return &FieldError{"alert_threshold", "expected from 0 to less than credit_limit"}
	case p.OnUnknownPrice != "" && p.OnUnknownPrice != Refuse && p.OnUnknownPrice != Allow:
		return &FieldError{"on_unknown_price", "expected refuse or allow"}
	case p.OnUnknownPrice != "" && p.Type != Cost:
		return &FieldError{"on_unknown_price", "expected only for the type cost"}
	}
	if err := p.Schedule.validate(); err != nil {
		return err
	}
	return p.Policy.validate()
}

// Units converts an amount of a policy's type, as the control plane has it: dollars, or a whole
// number of tokens or requests. The error says what was expected.
func (p *Policy) Units(n float64) (int64, error) {
	switch {
	case p.Type == Cost:
		if most := prices.MaxAmount.Dollars(); math.IsNaN(n) || n < 0 || n > most {
			return 0, fmt.Errorf("expected dollars, from 0 to %.0f", most)
		}
		return int64(prices.FromCents(n * 100)), nil
	case n != math.Trunc(n) || n < 0 || n > MaxValue:
		return 0, fmt.Errorf("expected a whole number from 0 to %d", int64(MaxValue))
	}
	return int64(n), nil
}

// Amount is the reverse of [Policy.Units].
func (p *Policy) Amount(units int64) float64 {
	if p.Type == Cost {
		return prices.Amount(units).Dollars()
	}
	return float64(units)
}

// Text is an amount for a message.
func (p *Policy) Text(units int64) string {
	if p.Type == Cost {
		return "$" + strconv.FormatFloat(p.Amount(units), 'f', -1, 64)
	}
	return strconv.FormatInt(units, 10) + " " + p.Type
}

// A Schedule says when usage is reset: monthly, weekly, or every so many days, at midnight UTC.
type Schedule struct {
	PeriodicReset     string     `json:"periodic_reset,omitempty"` // monthly, weekly; "": not
	PeriodicResetDays int        `json:"periodic_reset_days,omitempty"`
	NextResetAt       *time.Time `json:"next_reset_at,omitempty"` // nil: never
	LastResetAt       *time.Time `json:"last_reset_at,omitempty"` // nil: not yet
	// Resets is how often usage was reset. It is part of the names of counters.
	Resets int64 `json:"resets,omitempty"`
}

// MaxResetDays bounds the days between two resets.
const MaxResetDays = 365

func (s *Schedule) validate() error {
	switch {
	case s.PeriodicReset != "" && s.PeriodicReset != "monthly" && s.PeriodicReset != "weekly":
		return &FieldError{"periodic_reset", "expected monthly or weekly; for other periods, use periodic_reset_days"}
	case s.PeriodicResetDays < 0 || s.PeriodicResetDays > MaxResetDays:
		return &FieldError{"periodic_reset_days", fmt.Sprintf("expected from 1 to %d", MaxResetDays)}
	case s.PeriodicReset != "" && s.PeriodicResetDays != 0:
		return &FieldError{"periodic_reset_days", "expected periodic_reset or periodic_reset_days, not both"}
	case s.NextResetAt != nil && !s.periodic():
		return &FieldError{"next_usage_reset_at", "expected periodic_reset or periodic_reset_days with it"}
	}
	return nil
}

func (s *Schedule) periodic() bool { return s.PeriodicReset != "" || s.PeriodicResetDays != 0 }

// Begin sets the next reset after a time: of a new schedule.
func (s *Schedule) Begin(now time.Time) {
	s.NextResetAt = nil
	if s.periodic() {
		next := s.after(Midnight(now))
		s.NextResetAt = &next
	}
}

// Midnight is the beginning of a day in UTC.
func Midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// after returns the reset that follows a midnight.
func (s *Schedule) after(t time.Time) time.Time {
	switch s.PeriodicReset {
	case "monthly":
		return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	case "weekly":
		days := (int(time.Monday)-int(t.Weekday())+6)%7 + 1
		return t.AddDate(0, 0, days)
	}
	return t.AddDate(0, 0, s.PeriodicResetDays)
}

// At returns the schedule as it is at a time, after the resets that were due by then.
func (s *Schedule) At(now time.Time) Schedule {
	at := *s
	for at.NextResetAt != nil && !now.Before(*at.NextResetAt) && at.periodic() {
		last := *at.NextResetAt
		next := at.after(last)
		at.LastResetAt, at.NextResetAt = &last, &next
		at.Resets++
	}
	return at
}
