package policies

import (
	"fmt"
	"time"
)

// A RateLimit is a rate-limit policy: it bounds what is counted in any window of its unit.
type RateLimit struct {
	Policy
	Unit  string `json:"unit"`
	Value int64  `json:"value"`
}

// Units are the units of rate limits, the shortest first.
var Units = []string{"rps", "rpm", "rph", "rpd", "rpw"}

// windows are the lengths of the units.
var windows = map[string]time.Duration{
	"rps": time.Second, "rpm": time.Minute, "rph": time.Hour, "rpd": 24 * time.Hour, "rpw": 7 * 24 * time.Hour,
}

// Validate returns the first error in a policy as a *FieldError.
func (p *RateLimit) Validate() error {
	if p.Type != Requests && p.Type != Tokens {
		return &FieldError{"type", "expected requests or tokens"}
	}
	if windows[p.Unit] == 0 {
		return &FieldError{"unit", "expected one of rps, rpm, rph, rpd, rpw"}
	}
	if p.Value < 0 || p.Value > MaxValue {
		return &FieldError{"value", fmt.Sprintf("expected a whole number from 0 to %d", int64(MaxValue))}
	}
	return p.validate()
}
