package admin

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/validation"
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
	AlertThreshold    Optional[float64]   `json:"alert_threshold,omitempty" minimum:"1"`
	PeriodicReset     Optional[string]    `json:"periodic_reset,omitempty"`
	PeriodicResetDays Optional[int]       `json:"periodic_reset_days,omitempty"`
	NextUsageResetAt  Optional[time.Time] `json:"next_usage_reset_at,omitempty"`
	CurrentUsage      Optional[float64]   `json:"current_usage,omitempty" doc:"As it is shown; ignored."`
	OnUnknownPrice    string              `json:"on_unknown_price,omitempty" enum:"refuse,allow" doc:"Of type cost: what to do with calls to models of which no price is known. Default: refuse."`
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
	OnUnknownPrice    string   `json:"on_unknown_price,omitempty" enum:"refuse,allow"`
}

// CarriedFields are the fields of limits in bodies that make or change an API key.
type CarriedFields struct {
	RateLimits  Optional[[]carriedRate] `json:"rate_limits,omitempty" doc:"At most one of each type."`
	UsageLimits Optional[carriedBudget] `json:"usage_limits,omitempty"`
}

func (f *CarriedFields) given() bool { return f.RateLimits.Set || f.UsageLimits.Set }

func (f *CarriedFields) limits() *limitFields {
	return &limitFields{rates: f.RateLimits, budget: f.UsageLimits, ofBudget: "usage_limits."}
}

// TargetLimits are the same of providers and virtual keys.
type TargetLimits struct {
	RateLimits  Optional[oneOrMany]     `json:"rate_limits,omitempty" doc:"A limit, or a list of at most one of each type: of type (requests, tokens), unit (rps, rpm, rph, rpd, rpw) and value."`
	UsageLimits Optional[carriedBudget] `json:"usage_limits,omitempty"`
}

func (f *TargetLimits) limits() (*limitFields, error) {
	rates, err := f.RateLimits.Value.rates()
	return &limitFields{rates: Optional[[]carriedRate]{f.RateLimits.Set, f.RateLimits.Null, rates}, budget: f.UsageLimits, ofBudget: "usage_limits."}, err
}

// ListedLimits are the same of workspaces, and of integrations in workspaces: lists.
type ListedLimits struct {
	RateLimits  Optional[[]carriedRate]   `json:"rate_limits,omitempty" doc:"At most one of each type."`
	UsageLimits Optional[[]carriedBudget] `json:"usage_limits,omitempty" doc:"At most one."`
}

// limits are the fields, which are in the field that inside ends with.
func (f *ListedLimits) limits(inside string) (*limitFields, error) {
	out := &limitFields{rates: f.RateLimits, inside: inside, ofBudget: inside + "usage_limits[0]."}
	switch given := &f.UsageLimits; len(given.Value) {
	case 0:
		out.budget.Set, out.budget.Null = given.Set, given.Set
	case 1:
		out.budget = Optional[carriedBudget]{Set: true, Value: given.Value[0]}
	default:
		return nil, invalid(inside+"usage_limits", "expected one budget at most")
	}
	return out, nil
}

// limitFields are the limits in a body.
type limitFields struct {
	rates  Optional[[]carriedRate]
	budget Optional[carriedBudget]

	inside   string // what the names of fields begin with
	ofBudget string // the same of the budget's
}

// given reports whether the fields change limits.
func (f *limitFields) given() bool { return f.rates.Set || f.budget.Set }

// field names a field as the body has it.
func (f *limitFields) field(err error) error {
	var wrong *policies.FieldError
	if !errors.As(err, &wrong) {
		return err
	}
	if name, ok := strings.CutPrefix(wrong.Field, "usage_limits."); ok {
		return invalid(f.ofBudget+name, "%s", wrong.Message)
	}
	return invalid(f.inside+wrong.Field, "%s", wrong.Message)
}

// oneOrMany is a rate limit, or a list of some.
type oneOrMany struct{ raw stdjson.RawMessage }

func (r *oneOrMany) UnmarshalJSON(b []byte) error {
	r.raw = slices.Clone(b)
	return nil
}

func (oneOrMany) Schema(r huma.Registry) *huma.Schema {
	rate := r.Schema(reflect.TypeFor[carriedRate](), true, "")
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeArray, Items: rate, Nullable: true}, rate}}
}

func (r oneOrMany) rates() (rates []carriedRate, err error) {
	if len(r.raw) == 0 {
		return nil, nil
	}
	into := any(&rates)
	if r.raw[0] == '{' {
		rates = make([]carriedRate, 1)
		into = &rates[0]
	}
	if err := json.Unmarshal(r.raw, into, json.RejectUnknownMembers(true)); err != nil {
		field, message := validation.Misread(err)
		if field != "" && field[0] != '[' {
			field = "." + field
		}
		return nil, invalid("rate_limits"+field, "%s; limits have type, unit and value (a whole number)", message)
	}
	return rates, nil
}

// shownLimits are the limits of an object, as it shows them.
type shownLimits struct {
	rates       []carriedRate
	budget      *shownBudget
	exhausted   bool
	lastResetAt *string
}

// listed shows the budget as a list.
func (l *shownLimits) listed() []shownBudget {
	if l.budget == nil {
		return []shownBudget{}
	}
	return []shownBudget{*l.budget}
}

// statusOr is the status of an object with these limits, which would be the given one without.
func (l *shownLimits) statusOr(status string) string {
	if l.exhausted && status == "active" {
		return "exhausted"
	}
	return status
}

// carried returns the limits that objects have: in a change, as its transaction sees them.
func (c *call) carried() *policies.CarriedLimits {
	if c.tx == nil {
		return c.api.Limits.Carried
	}
	return c.api.Limits.Carried.In(c.tx)
}

// limitsOf shows the limits of an object.
func (c *call) limitsOf(id string) shownLimits {
	out := shownLimits{rates: []carriedRate{}}
	has, ok := c.carried().Get(id)
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
	used, exhausted, err := c.api.Limits.CarriedUsage(c, has, "")
	if err != nil {
		c.api.Logger.Error("reading the usage of a budget", zap.String("id", id), zap.Error(err))
	}
	at := b.At(c.api.Now())
	out.exhausted, out.lastResetAt = exhausted, formatOptionalTime(at.LastResetAt)
	out.budget = &shownBudget{
		Type: b.Type, CreditLimit: b.Amount(b.Limit), CurrentUsage: b.Amount(used), PeriodicReset: text(at.PeriodicReset),
		NextUsageResetAt: formatOptionalTime(at.NextResetAt), OnUnknownPrice: b.OnUnknownPrice,
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
func (c *call) setLimits(of policies.Carried, in *limitFields, reset bool) error {
	if !in.given() && !reset {
		return nil
	}
	stored := c.carried()
	had, ok := stored.Get(of.ID)
	row := of
	if ok {
		row.Rates, row.Budget = had.Rates, had.Budget
	}
	if in.rates.Set {
		row.Rates = nil
		for _, r := range in.rates.Value {
			row.Rates = append(row.Rates, policies.CarriedRate(r))
		}
	}
	switch {
	case in.budget.Null:
		row.Budget = nil
	case in.budget.Set:
		budget, err := c.budget(row.Budget, &in.budget.Value, in.ofBudget)
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
		return in.field(err)
	}
	if ok {
		c.committed(func() { c.forgetLimits(had, &row) })
	}
	return nil
}

// budget is the budget of an object after a change, whose fields' names begin with inside.
func (c *call) budget(had *policies.UsageLimit, in *carriedBudget, inside string) (*policies.UsageLimit, error) {
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
			return nil, invalid(inside+"credit_limit", "%s", err)
		}
	case had == nil || b.Type != had.Type:
		return nil, invalid(inside+"credit_limit", "required")
	}
	if err := alertThreshold(b, inside, in.AlertThreshold); err != nil {
		return nil, err
	}
	b.OnUnknownPrice = cmp.Or(in.OnUnknownPrice, b.OnUnknownPrice)
	return b, c.schedule(&b.Schedule, inside, in.PeriodicReset, in.PeriodicResetDays, in.NextUsageResetAt)
}

// forgetLimits drops the counters of limits that an object no longer has; has is nil if it has none.
func (c *call) forgetLimits(had, has *policies.Carried) {
	if err := c.api.Limits.ForgetCarried(c, had, has); err != nil {
		c.api.Logger.Warn("dropping the counters of limits", zap.String("id", had.ID), zap.Error(err)) // they count nothing any more
	}
}

// dropLimits removes the limits of an object that is removed.
func (c *call) dropLimits(id string) error {
	in := c.carried()
	had, ok := in.Get(id)
	if !ok {
		return nil
	}
	c.committed(func() { c.forgetLimits(had, nil) })
	return in.Delete(c.tx, id)
}
