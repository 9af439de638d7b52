package admin

import (
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/policies"
)

// carriedRate is a rate limit that an object itself has.
type carriedRate struct {
	Type  string `json:"type" enum:"requests,tokens"`
	Unit  string `json:"unit" enum:"rps,rpm,rph,rpd,rpw"`
	Value int64  `json:"value" minimum:"0"`
}

// carriedBudget is the budget of an object, as it is given.
type carriedBudget struct {
	Type              string              `json:"type,omitempty" enum:"cost,tokens,requests" doc:"Default: cost."`
	CreditLimit       *float64            `json:"credit_limit,omitempty" doc:"US dollars, of type cost (1 or more); else a number of tokens (100 or more) or requests."`
	AlertThreshold    Optional[float64]   `json:"alert_threshold,omitempty" minimum:"0"`
	PeriodicReset     Optional[string]    `json:"periodic_reset,omitempty"`
	PeriodicResetDays Optional[int]       `json:"periodic_reset_days,omitempty"`
	NextUsageResetAt  Optional[time.Time] `json:"next_usage_reset_at,omitempty"`
}

// shownBudget is the budget of an object, as it is shown.
type shownBudget struct {
	Type              string   `json:"type" enum:"cost,tokens,requests"`
	CreditLimit       float64  `json:"credit_limit" doc:"US dollars, of type cost; else a number of tokens or requests."`
	CurrentUsage      float64  `json:"current_usage"`
	AlertThreshold    *float64 `json:"alert_threshold"`
	PeriodicReset     *string  `json:"periodic_reset" doc:"monthly or weekly."`
	PeriodicResetDays *int     `json:"periodic_reset_days"`
	NextUsageResetAt  *string  `json:"next_usage_reset_at" format:"date-time"`
}

// CarriedFields are the fields of limits in bodies that make or change an object which has them.
type CarriedFields struct {
	RateLimits  Optional[[]carriedRate] `json:"rate_limits,omitempty" doc:"At most one of each type."`
	UsageLimits Optional[carriedBudget] `json:"usage_limits,omitempty"`
}

// given reports whether the fields change limits.
func (f *CarriedFields) given() bool { return f.RateLimits.Set || f.UsageLimits.Set }

// shownLimits are the limits of an object, as it shows them.
type shownLimits struct {
	rates       []carriedRate
	budget      *shownBudget
	exhausted   bool
	lastResetAt *string
}

// limitsOf shows the limits of an object.
func (c *call) limitsOf(id string) shownLimits {
	out := shownLimits{rates: []carriedRate{}}
	has, ok := c.api.Limits.Carried.Get(id)
	if !ok {
		return out
	}
	for _, r := range has.Rates {
		out.rates = append(out.rates, carriedRate(r))
	}
	b := has.Budget
	if b == nil {
		return out
	}
	used, err := c.api.Limits.CarriedUsage(c, has)
	if err != nil {
		c.api.Logger.Error("reading the usage of a budget", zap.String("id", id), zap.Error(err))
	}
	at := b.At(c.api.Now())
	out.exhausted, out.lastResetAt = used >= b.Limit, formatOptionalTime(at.LastResetAt)
	out.budget = &shownBudget{
		Type: b.Type, CreditLimit: b.Amount(b.Limit), CurrentUsage: b.Amount(used), PeriodicReset: text(at.PeriodicReset),
		NextUsageResetAt: formatOptionalTime(at.NextResetAt),
	}
	if b.AlertThreshold != nil {
		threshold := b.Amount(*b.AlertThreshold)
		out.budget.AlertThreshold = &threshold
	}
	if at.PeriodicResetDays != 0 {
		out.budget.PeriodicResetDays = &at.PeriodicResetDays
	}
	return out
}

// setLimits changes the limits of an object, which names it by its carrier and id. With reset, what
// was used of its budget becomes 0.
func (c *call) setLimits(of policies.Carried, in *CarriedFields, reset bool) error {
	if !in.given() && !reset {
		return nil
	}
	stored := c.api.Limits.Carried.In(c.tx)
	had, ok := stored.Get(of.ID)
	row := of
	if ok {
		row.Rates, row.Budget = had.Rates, had.Budget
	}
	if in.RateLimits.Set {
		row.Rates = nil
		for _, r := range in.RateLimits.Value {
			row.Rates = append(row.Rates, policies.CarriedRate(r))
		}
	}
	switch {
	case in.UsageLimits.Null:
		row.Budget = nil
	case in.UsageLimits.Set:
		budget, err := c.budget(row.Budget, &in.UsageLimits.Value)
		if err != nil {
			return err
		}
		row.Budget = budget
	}
	if reset && row.Budget != nil {
		b := *row.Budget
		b.Reset(c.api.Now())
		row.Budget = &b
	}
	if err := stored.Put(c.tx, &row); err != nil {
		return err
	}
	if ok {
		c.committed(func() { c.forgetLimits(had, &row) })
	}
	return nil
}

// budget is the budget of an object after a change.
func (c *call) budget(had *policies.UsageLimit, in *carriedBudget) (*policies.UsageLimit, error) {
	b := new(policies.UsageLimit)
	switch {
	case had != nil && (in.Type == "" || in.Type == had.Type):
		*b = *had
		b.Schedule = b.At(c.api.Now())
	case in.Type == "":
		b.Type = policies.Cost
	default:
		b.Type = in.Type
	}
	var err error
	switch {
	case in.CreditLimit != nil:
		if b.Limit, err = b.Units(*in.CreditLimit); err != nil {
			return nil, invalid("usage_limits.credit_limit", "%s", err)
		}
	case had == nil || b.Type != had.Type:
		return nil, invalid("usage_limits.credit_limit", "required")
	}
	if err := alertThreshold(b, "usage_limits.", in.AlertThreshold); err != nil {
		return nil, err
	}
	return b, c.schedule(&b.Schedule, "usage_limits.", in.PeriodicReset, in.PeriodicResetDays, in.NextUsageResetAt)
}

// forgetLimits drops the counters of limits that an object no longer has; has is nil if it has none.
func (c *call) forgetLimits(had, has *policies.Carried) {
	if err := c.api.Limits.ForgetCarried(c, had, has); err != nil {
		c.api.Logger.Warn("dropping the counters of limits", zap.String("id", had.ID), zap.Error(err)) // they count nothing any more
	}
}

// dropLimits removes the limits of an object that is removed.
func (c *call) dropLimits(id string) error {
	in := c.api.Limits.Carried.In(c.tx)
	had, ok := in.Get(id)
	if !ok {
		return nil
	}
	c.committed(func() { c.forgetLimits(had, nil) })
	return in.Delete(c.tx, id)
}
