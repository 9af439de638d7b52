package admin

import (
	"cmp"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/policies"
)

// UsageLimit is a usage-limit policy as the control plane shows it.
type UsageLimit struct {
	ID                string                `json:"id" format:"uuid"`
	Name              *string               `json:"name"`
	Description       *string               `json:"description"`
	Conditions        []condition           `json:"conditions"`
	GroupBy           []groupKey            `json:"group_by"`
	Type              string                `json:"type" enum:"cost,tokens,requests"`
	CreditLimit       float64               `json:"credit_limit" doc:"US dollars, of type cost; else a number of tokens or requests."`
	AlertThreshold    *float64              `json:"alert_threshold"`
	PeriodicReset     *string               `json:"periodic_reset" doc:"monthly or weekly."`
	PeriodicResetDays *int                  `json:"periodic_reset_days" minimum:"1" maximum:"365"`
	NextUsageResetAt  *string               `json:"next_usage_reset_at" format:"date-time"`
	LastResetAt       *string               `json:"last_reset_at" format:"date-time"`
	OnUnknownPrice    string                `json:"on_unknown_price,omitempty" enum:"refuse,allow" doc:"Of type cost: what to do with calls to models of which no price is known."`
	Status            string                `json:"status" enum:"active,archived"`
	WorkspaceID       string                `json:"workspace_id" format:"uuid"`
	OrganisationID    string                `json:"organisation_id" format:"uuid"`
	CreatedAt         string                `json:"created_at" format:"date-time"`
	LastUpdatedAt     string                `json:"last_updated_at" format:"date-time"`
	Usage             map[string]valueUsage `json:"value_key_usage_map,omitzero" doc:"With include_usage only."`
	Object            string                `json:"object,omitempty" enum:"policy_usage_limits"`
}

// valueUsage is what was used of one value key.
type valueUsage struct {
	CurrentUsage  float64 `json:"current_usage"`
	Reserved      float64 `json:"reserved_usage" doc:"What calls under way, and batches that are not settled, may use besides."`
	Status        string  `json:"status" enum:"active,exhausted"`
	ThresholdSent bool    `json:"is_threshold_alerts_sent"`
	ExhaustedSent bool    `json:"is_exhausted_alerts_sent"`
}

// usageEntity is a counter of a policy: of one combination of the values that it groups by.
type usageEntity struct {
	ID           string  `json:"id" format:"uuid"`
	ValueKey     string  `json:"value_key"`
	CurrentUsage float64 `json:"current_usage"`
	Reserved     float64 `json:"reserved_usage" doc:"What calls under way, and batches that are not settled, may use besides."`
	Status       string  `json:"status" enum:"active,exhausted"`
}

func showUsageLimit(c *call, p *policies.UsageLimit) UsageLimit {
	at := p.At(c.api.Now())
	out := UsageLimit{
		ID: p.ID, Name: text(p.Name), Description: text(p.Description), Type: p.Type, CreditLimit: p.Amount(p.Limit), PeriodicReset: text(at.PeriodicReset),
		NextUsageResetAt: formatOptionalTime(at.NextResetAt), LastResetAt: formatOptionalTime(at.LastResetAt),
		Status: statusOf(&p.Policy), WorkspaceID: p.WorkspaceID, OrganisationID: p.OrganisationID,
		CreatedAt: formatTime(p.CreatedAt), LastUpdatedAt: formatTime(p.UpdatedAt), Object: "policy_usage_limits",
	}
	out.Conditions, out.GroupBy = showSelection(&p.Policy)
	if p.AlertThreshold != nil {
		threshold := p.Amount(*p.AlertThreshold)
		out.AlertThreshold = &threshold
	}
	if at.PeriodicResetDays != 0 {
		out.PeriodicResetDays = &at.PeriodicResetDays
	}
	if p.Type == policies.Cost {
		out.OnUnknownPrice = cmp.Or(p.OnUnknownPrice, policies.Refuse)
	}
	return out
}

type createUsageLimit struct {
	NewPolicy
	Type              string              `json:"type" enum:"cost,tokens,requests"`
	CreditLimit       float64             `json:"credit_limit" minimum:"0"`
	AlertThreshold    Optional[float64]   `json:"alert_threshold,omitempty" minimum:"0"`
	PeriodicReset     Optional[string]    `json:"periodic_reset,omitempty"`
	PeriodicResetDays Optional[int]       `json:"periodic_reset_days,omitempty"`
	NextUsageResetAt  Optional[time.Time] `json:"next_usage_reset_at,omitempty"`
	OnUnknownPrice    string              `json:"on_unknown_price,omitempty" enum:"refuse,allow"`
}

type updateUsageLimit struct {
	Name               Optional[string]    `json:"name,omitempty"`
	Description        Optional[string]    `json:"description,omitempty" maxLength:"500"`
	Conditions         *[]condition        `json:"conditions,omitempty"`
	CreditLimit        *float64            `json:"credit_limit,omitempty" minimum:"0"`
	AlertThreshold     Optional[float64]   `json:"alert_threshold,omitempty" minimum:"0"`
	PeriodicReset      Optional[string]    `json:"periodic_reset,omitempty"`
	PeriodicResetDays  Optional[int]       `json:"periodic_reset_days,omitempty"`
	NextUsageResetAt   Optional[time.Time] `json:"next_usage_reset_at,omitempty"`
	OnUnknownPrice     string              `json:"on_unknown_price,omitempty" enum:"refuse,allow"`
	ResetUsageForValue string              `json:"reset_usage_for_value,omitempty" maxLength:"4096" doc:"A value key, whose usage becomes 0."`
}

// resetUsage is the body of a reset of several counters, or of one that it names.
type resetUsage struct {
	ID       string `json:"id,omitempty" doc:"Of an entity; none: all of the policy's."`
	ValueKey string `json:"value_key,omitempty" maxLength:"4096"`
}

// usageLimitFilter has the query parameters of the list.
type usageLimitFilter struct {
	WorkspaceFilter
	Status string `query:"status" enum:"active,archived" default:"active"`
	Type   string `query:"type" enum:"cost,tokens,requests"`
}

func (a *API) usageLimits() {
	limits := &resource[policies.UsageLimit]{
		path: "/policies/usage-limits", param: "id", noun: "usage-limit policy", kind: audit.UsageLimits, scope: "policies",
		rows:      func(c *call) []*policies.UsageLimit { return c.api.UsageLimits.All() },
		find:      (*call).usageLimit,
		name:      func(p *policies.UsageLimit) string { return p.ID },
		workspace: func(p *policies.UsageLimit) string { return p.WorkspaceID },
		allow:     func(c *call, p *policies.UsageLimit, action string) error { return c.mayChange(&p.Policy, action) },
	}
	create(a, limits, (*call).createUsageLimit)
	listChosen(a, limits, func(c *call, workspace string, f *usageLimitFilter) (choice[policies.UsageLimit], error) {
		return choice[policies.UsageLimit]{rows: c.api.UsageLimits.Listed(workspace, f.Type, f.Status == archived)}, nil
	}, showUsageLimit)
	update(a, limits, (*call).updateUsageLimit)
	remove(a, limits, "Archive", func(c *call, p *policies.UsageLimit) error {
		p.Archived = true
		c.archived(&p.Policy)
		return c.api.UsageLimits.Put(c.tx, p)
	})

	shown := *limits // an archived policy can be read, but not changed
	shown.query = []*huma.Param{statusOfPolicy, parameter("query", "include_usage", "", huma.Schema{Enum: []any{"true", "false"}, Default: "false"})}
	read(a, &shown, "", "Get a usage-limit policy", func(c *call, p *policies.UsageLimit) (*UsageLimit, error) {
		v := showUsageLimit(c, p)
		if c.item.query["include_usage"] != "true" {
			return &v, nil
		}
		all, err := c.api.Limits.Entities(c, p)
		if err != nil {
			return nil, err
		}
		v.Usage = make(map[string]valueUsage, len(all))
		for _, e := range all {
			v.Usage[e.Group] = valueUsage{p.Amount(e.Booked), p.Amount(e.Held), usageStatus(p, e), e.ThresholdAlerted, e.ExhaustedAlerted}
		}
		return &v, nil
	})

	entities := *limits
	entities.query = []*huma.Param{
		parameter("query", "status", "", huma.Schema{Enum: []any{"active", "exhausted"}}),
		parameter("query", "search", "Part of a value key.", huma.Schema{}),
	}
	readList(a, &entities, "/entities", "List what was used of a usage-limit policy", func(c *call, p *policies.UsageLimit, page Paging) (*listOutput[usageEntity], error) {
		all, err := c.api.Limits.Entities(c, p)
		if err != nil {
			return nil, err
		}
		status, search := c.item.query["status"], c.item.query["search"]
		chosen := choice[policies.Entity]{rows: all}
		chosen.only(func(e *policies.Entity) bool {
			return (status == "" || status == usageStatus(p, e)) && strings.Contains(e.Group, search)
		})
		return pageOf(&chosen, page, func(e *policies.Entity) usageEntity {
			return usageEntity{e.ID, e.Group, p.Amount(e.Booked), p.Amount(e.Held), usageStatus(p, e)}
		}), nil
	})
	act(a, limits, "PUT", "/entities/reset", "update", "Reset what was used of a usage-limit policy", func(c *call, p *policies.UsageLimit, in *resetUsage) (*empty, error) {
		all := in.ID == "" && in.ValueKey == ""
		return &empty{}, c.resetUsage(p, func(e *policies.Entity) bool { return all || e.ID == in.ID || e.Group == in.ValueKey }, cmp.Or(in.ID, in.ValueKey))
	})
	actBare(a, limits, "PUT", "/entities/{entity_id}/reset", "update", "Reset one counter of a usage-limit policy", func(c *call, p *policies.UsageLimit) error {
		id := c.item.query["entity_id"]
		return c.resetUsage(p, func(e *policies.Entity) bool { return e.ID == id || e.Group == id }, id)
	})
}

func usageStatus(p *policies.UsageLimit, e *policies.Entity) string {
	if p.Exhausted(e) {
		return "exhausted"
	}
	return "active"
}

// usageLimit finds a policy with the requested status. Those that are changed are in force.
func (c *call) usageLimit(id string) (*policies.UsageLimit, error) {
	p, ok := c.api.UsageLimits.Get(strings.ToLower(id))
	want := c.item.query["status"]
	if want != "archived" {
		want = "active"
	}
	return found(p, ok && statusOf(&p.Policy) == want)
}

// resetUsage forgets what counters counted once the change is committed. named is what the
// request names, if it names one.
func (c *call) resetUsage(p *policies.UsageLimit, which func(*policies.Entity) bool, named string) error {
	all, err := c.api.Limits.Entities(c, p)
	if err != nil {
		return err
	}
	hit := named == ""
	for _, e := range all {
		if !which(e) {
			continue
		}
		hit = true
		at := "usage." + e.Group
		c.also(edit{map[string]any{at: p.Amount(e.Booked)}, map[string]any{at: 0}})
		c.committed(func() {
			if err := c.api.Limits.ResetEntity(c, e); err != nil {
				c.api.logReset(p.ID, err)
			}
		})
	}
	if !hit {
		return notFound("Entity", credentials.Clip(named))
	}
	return nil
}

func (c *call) updateUsageLimit(p *policies.UsageLimit, in *updateUsageLimit) (err error) {
	in.Name.assign(&p.Name)
	in.Description.assign(&p.Description)
	if in.Conditions != nil {
		if p.Conditions, err = c.conditions(*in.Conditions, counts(&p.Policy)); err != nil {
			return err
		}
	}
	if in.CreditLimit != nil {
		if p.Limit, err = p.Units(*in.CreditLimit); err != nil {
			return invalid("credit_limit", "%s", err)
		}
	}
	if in.OnUnknownPrice != "" {
		p.OnUnknownPrice = in.OnUnknownPrice
	}
	if err := alertThreshold(p, "", in.AlertThreshold); err != nil {
		return err
	}
	p.Schedule = p.At(c.api.Now())
	if err := c.schedule(&p.Schedule, "", in.PeriodicReset, in.PeriodicResetDays, in.NextUsageResetAt); err != nil {
		return err
	}
	if in.ResetUsageForValue != "" {
		if err := c.resetUsage(p, func(e *policies.Entity) bool { return e.Group == in.ResetUsageForValue }, in.ResetUsageForValue); err != nil {
			return invalid("reset_usage_for_value", "nothing was used of it")
		}
	}
	return c.api.UsageLimits.Put(c.tx, p)
}

// alertThreshold applies the field of that name, which is in another.
func alertThreshold(p *policies.UsageLimit, inside string, in Optional[float64]) error {
	switch {
	case !in.Set:
		return nil
	case in.Null:
		p.AlertThreshold = nil
		return nil
	}
	units, err := p.Units(in.Value)
	if err != nil {
		return invalid(inside+"alert_threshold", "%s", err)
	}
	p.AlertThreshold = &units
	return nil
}

// schedule applies the fields that say when usage is reset, which are in another.
func (c *call) schedule(s *policies.Schedule, inside string, periodic Optional[string], days Optional[int], next Optional[time.Time]) error {
	if periodic.Value != "" && days.Value != 0 {
		return invalid(inside+"periodic_reset_days", "expected periodic_reset or periodic_reset_days, not both")
	}
	if days.Set && !days.Null && (days.Value < 1 || days.Value > policies.MaxResetDays) {
		return invalid(inside+"periodic_reset_days", "expected from 1 to %d", policies.MaxResetDays)
	}
	before := *s
	if periodic.Set {
		s.PeriodicReset = periodic.Value
		if periodic.Value != "" {
			s.PeriodicResetDays = 0
		}
	}
	if days.Set {
		s.PeriodicResetDays = days.Value
		if days.Value != 0 {
			s.PeriodicReset = ""
		}
	}
	if s.PeriodicReset != before.PeriodicReset || s.PeriodicResetDays != before.PeriodicResetDays {
		s.Begin(c.api.Now())
	}
	switch at := policies.Midnight(next.Value); {
	case !next.Set:
	case next.Null:
		s.Begin(c.api.Now())
	case !at.After(c.api.Now()):
		return invalid(inside+"next_usage_reset_at", "expected a day in the future")
	default:
		s.NextResetAt = &at
	}
	return nil
}

func (c *call) createUsageLimit(in *createUsageLimit) (*policies.UsageLimit, *UsageLimit, error) {
	base, err := c.newPolicy(&in.NewPolicy, in.Type)
	if err != nil {
		return nil, nil, err
	}
	p := &policies.UsageLimit{Policy: *base, OnUnknownPrice: in.OnUnknownPrice}
	if p.Limit, err = p.Units(in.CreditLimit); err != nil {
		return nil, nil, invalid("credit_limit", "%s", err)
	}
	if err := alertThreshold(p, "", in.AlertThreshold); err != nil {
		return nil, nil, err
	}
	if err := c.schedule(&p.Schedule, "", in.PeriodicReset, in.PeriodicResetDays, in.NextUsageResetAt); err != nil {
		return nil, nil, err
	}
	if err := c.api.UsageLimits.Put(c.tx, p); err != nil {
		return p, nil, err
	}
	v := showUsageLimit(c, p)
	return p, &v, nil
}
