package admin

import (
	"cmp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/policies"
)

// RateLimit is a rate-limit policy as shown by the control plane.
type RateLimit struct {
	ID             string      `json:"id" format:"uuid"`
	Name           *string     `json:"name"`
	Description    *string     `json:"description"`
	Conditions     []condition `json:"conditions"`
	GroupBy        []groupKey  `json:"group_by"`
	Type           string      `json:"type" enum:"requests,tokens"`
	Unit           string      `json:"unit" enum:"rps,rpm,rph,rpd,rpw"`
	Value          int64       `json:"value"`
	Status         string      `json:"status" enum:"active,archived"`
	WorkspaceID    string      `json:"workspace_id" format:"uuid"`
	OrganisationID string      `json:"organisation_id" format:"uuid"`
	CreatedAt      string      `json:"created_at" format:"date-time"`
	LastUpdatedAt  string      `json:"last_updated_at" format:"date-time"`
	Object         string      `json:"object,omitempty" enum:"policy_rate_limits"`
}

func showRateLimit(_ *call, p *policies.RateLimit) RateLimit {
	out := RateLimit{
		ID: p.ID, Name: text(p.Name), Description: text(p.Description), Type: p.Type, Unit: p.Unit, Value: p.Value,
		Status: statusOf(&p.Policy), WorkspaceID: p.WorkspaceID, OrganisationID: p.OrganisationID,
		CreatedAt: formatTime(p.CreatedAt), LastUpdatedAt: formatTime(p.UpdatedAt), Object: "policy_rate_limits",
	}
	out.Conditions, out.GroupBy = showSelection(&p.Policy)
	return out
}

type createRateLimit struct {
	NewPolicy
	Type   string  `json:"type" enum:"requests,tokens"`
	Unit   string  `json:"unit" enum:"rps,rpm,rph,rpd,rpw"`
	Value  float64 `json:"value" minimum:"0"`
	Target string  `json:"target,omitempty" doc:"What is called; llm is all that is limited yet."`
}

type updateRateLimit struct {
	Name        Optional[string] `json:"name,omitempty"`
	Description Optional[string] `json:"description,omitempty" maxLength:"500"`
	Conditions  *[]condition     `json:"conditions,omitempty"`
	Unit        string           `json:"unit,omitempty" enum:"rps,rpm,rph,rpd,rpw"`
	Value       *float64         `json:"value,omitempty" minimum:"0"`
}

// rateLimitFilter holds the query parameters of the list.
type rateLimitFilter struct {
	WorkspaceFilter
	Status string `query:"status" enum:"active,archived" default:"active"`
	Type   string `query:"type" enum:"requests,tokens"`
	Unit   string `query:"unit" enum:"rps,rpm,rph,rpd,rpw"`
}

func (a *API) rateLimits() {
	limits := &resource[policies.RateLimit]{
		path: "/policies/rate-limits", param: "id", noun: "rate-limit policy", kind: audit.RateLimits, scope: "policies",
		rows:      func(c *call) []*policies.RateLimit { return c.api.RateLimits.All() },
		find:      (*call).rateLimit,
		name:      func(p *policies.RateLimit) string { return p.ID },
		workspace: func(p *policies.RateLimit) string { return p.WorkspaceID },
		allow:     func(c *call, p *policies.RateLimit, action string) error { return c.mayChange(&p.Policy, action) },
	}
	create(a, limits, (*call).createRateLimit)
	listChosen(a, limits, func(c *call, workspace string, f *rateLimitFilter) (chosen choice[policies.RateLimit], err error) {
		chosen.rows = c.api.RateLimits.Listed(workspace, f.Type, f.Status == archived)
		if f.Unit != "" {
			chosen.keep = func(p *policies.RateLimit) bool { return p.Unit == f.Unit }
		}
		return chosen, nil
	}, showRateLimit)
	update(a, limits, (*call).updateRateLimit)
	remove(a, limits, "Archive", func(c *call, p *policies.RateLimit) error {
		p.Archived = true
		c.archived(&p.Policy)
		return c.api.RateLimits.Put(c.tx, p)
	})

	shown := *limits // an archived policy can be read, but not changed
	shown.query = []*huma.Param{statusOfPolicy}
	get(a, &shown, showRateLimit)
}

// rateLimit finds a policy with the requested status.
func (c *call) rateLimit(id string) (*policies.RateLimit, error) {
	p, ok := c.api.RateLimits.Get(strings.ToLower(id))
	return found(p, ok && statusOf(&p.Policy) == cmp.Or(c.item.query["status"], "active"))
}

func (c *call) updateRateLimit(p *policies.RateLimit, in *updateRateLimit) (err error) {
	in.Name.assign(&p.Name)
	in.Description.assign(&p.Description)
	if in.Unit != "" {
		p.Unit = in.Unit
	}
	if in.Conditions != nil {
		if p.Conditions, err = c.conditions(*in.Conditions, counts(&p.Policy)); err != nil {
			return err
		}
	}
	if in.Value != nil {
		if p.Value, err = p.Units(*in.Value); err != nil {
			return invalid("value", "%s", err)
		}
	}
	return c.api.RateLimits.Put(c.tx, p)
}

func (c *call) createRateLimit(in *createRateLimit) (*policies.RateLimit, *RateLimit, error) {
	if in.Target != "" && in.Target != "llm" {
		return nil, nil, invalid("target", "expected llm; other targets are not limited yet")
	}
	base, err := c.newPolicy(&in.NewPolicy, in.Type)
	if err != nil {
		return nil, nil, err
	}
	p := &policies.RateLimit{Policy: *base, Unit: in.Unit}
	if p.Value, err = p.Units(in.Value); err != nil {
		return nil, nil, invalid("value", "%s", err)
	}
	if err := c.api.RateLimits.Put(c.tx, p); err != nil {
		return p, nil, err
	}
	v := showRateLimit(c, p)
	return p, &v, nil
}
