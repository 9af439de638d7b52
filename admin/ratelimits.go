package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/storage"
)

// RateLimit is a rate-limit policy as shown by the control plane.
type RateLimit struct {
	ID             string      `json:"id" format:"uuid"`
	Name           *string     `json:"name"`
	Conditions     []condition `json:"conditions"`
	GroupBy        []groupKey  `json:"group_by"`
	Type           string      `json:"type" enum:"requests"`
	Unit           string      `json:"unit" enum:"rpm,rph,rpd"`
	Value          int64       `json:"value"`
	Status         string      `json:"status" enum:"active,archived"`
	WorkspaceID    string      `json:"workspace_id" format:"uuid"`
	OrganisationID string      `json:"organisation_id" format:"uuid"`
	CreatedAt      string      `json:"created_at" format:"date-time"`
	LastUpdatedAt  string      `json:"last_updated_at" format:"date-time"`
	Object         string      `json:"object,omitempty" enum:"policy_rate_limits"`
}

type condition struct {
	Key   string `json:"key"`
	Value values `json:"value" doc:"A value, or a list of which any will do; * is any value."`
}

type groupKey struct {
	Key string `json:"key"`
}

// values is a string or an array of strings.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*v = make(values, 1)
		return json.Unmarshal(b, &(*v)[0])
	}
	return json.Unmarshal(b, (*[]string)(v))
}

func (v values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

func (values) Schema(huma.Registry) *huma.Schema {
	one := &huma.Schema{Type: huma.TypeString}
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one}}}
}

func showRateLimit(_ *call, p *policies.RateLimit) RateLimit {
	out := RateLimit{
		ID: p.ID, Name: text(p.Name), Conditions: []condition{}, GroupBy: []groupKey{}, Type: p.Type, Unit: p.Unit, Value: p.Value,
		Status: statusOf(p), WorkspaceID: p.WorkspaceID, OrganisationID: p.OrganisationID,
		CreatedAt: formatTime(p.CreatedAt), LastUpdatedAt: formatTime(p.UpdatedAt), Object: "policy_rate_limits",
	}
	for _, c := range p.Conditions {
		out.Conditions = append(out.Conditions, condition{c.Key, c.Values})
	}
	for _, key := range p.GroupBy {
		out.GroupBy = append(out.GroupBy, groupKey{key})
	}
	return out
}

func statusOf(p *policies.RateLimit) string {
	if p.Archived {
		return "archived"
	}
	return "active"
}

type createRateLimit struct {
	Name           *string      `json:"name,omitempty" maxLength:"255" nullable:"true"`
	Conditions     *[]condition `json:"conditions,omitempty" nullable:"true"`
	GroupBy        *[]groupKey  `json:"group_by,omitempty" nullable:"true"`
	Type           string       `json:"type" enum:"requests,tokens"`
	Unit           string       `json:"unit" enum:"rpm,rph,rpd"`
	Value          float64      `json:"value" minimum:"0"`
	WorkspaceID    string       `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug. An organisation key that leaves it out makes a policy for the calls of every workspace."`
	OrganisationID string       `json:"organisation_id,omitempty" format:"uuid"`
}

type updateRateLimit struct {
	Name       Optional[string] `json:"name,omitempty"`
	Conditions *[]condition     `json:"conditions,omitempty"`
	Unit       string           `json:"unit,omitempty" enum:"rpm,rph,rpd"`
	Value      *float64         `json:"value,omitempty" minimum:"0"`
}

// rateLimitFilter holds the query parameters of the list.
type rateLimitFilter struct {
	WorkspaceFilter
	Status string `query:"status" enum:"active,archived" default:"active"`
	Type   string `query:"type" enum:"requests,tokens"`
	Unit   string `query:"unit" enum:"rpm,rph,rpd"`
}

func (a *API) rateLimits() {
	limits := &resource[policies.RateLimit]{
		path: "/policies/rate-limits", param: "id", noun: "rate-limit policy", scope: "policies",
		rows:      func(c *call) []*policies.RateLimit { return c.api.RateLimits.All() },
		find:      (*call).rateLimit,
		name:      func(p *policies.RateLimit) string { return p.ID },
		workspace: func(p *policies.RateLimit) string { return p.WorkspaceID },
		allow: func(c *call, p *policies.RateLimit, action string) error {
			if action != "read" && p.AllWorkspaces && c.caller.WorkspaceID != "" {
				return forbidden("The policy is the organisation's; change it with an organisation key")
			}
			return nil
		},
	}
	create(a, limits, (*call).createRateLimit)
	list(a, limits, func(_ *call, p *policies.RateLimit, f *rateLimitFilter) bool {
		return statusOf(p) == f.Status && (f.Type == "" || p.Type == f.Type) && (f.Unit == "" || p.Unit == f.Unit)
	}, showRateLimit)
	update(a, limits, (*call).updateRateLimit)
	remove(a, limits, "Archive", func(c *call, p *policies.RateLimit) error {
		p.Archived = true
		c.committed(func() {
			if err := c.api.RateLimits.Forget(c, p.ID); err != nil {
				// The policy is archived and no longer counts, and its counters will
				// expire.
				c.api.Logger.Warn("dropping the counters of an archived rate-limit policy", zap.String("policy", p.ID), zap.Error(err))
			}
		})
		return c.api.RateLimits.Put(c.tx, p)
	})

	shown := *limits // archived policies can be read but not changed
	shown.query = []*huma.Param{parameter("query", "status", "", huma.Schema{Enum: []any{"active", "archived"}, Default: "active"})}
	get(a, &shown, showRateLimit)
}

// rateLimit finds a policy with the requested status.
func (c *call) rateLimit(id string) (*policies.RateLimit, error) {
	p, ok := c.api.RateLimits.Get(strings.ToLower(id))
	return found(p, ok && statusOf(p) == cmp.Or(c.item.query["status"], "active"))
}

func (c *call) updateRateLimit(p *policies.RateLimit, in *updateRateLimit) (err error) {
	if in.Name.Set {
		p.Name = in.Name.Value
	}
	if in.Unit != "" {
		p.Unit = in.Unit
	}
	if in.Conditions != nil {
		if p.Conditions, err = c.conditions(*in.Conditions, counts(p)); err != nil {
			return err
		}
	}
	if in.Value != nil {
		if p.Value, err = wholeNumber("value", *in.Value); err != nil {
			return err
		}
	}
	return c.api.RateLimits.Put(c.tx, p)
}

func (c *call) createRateLimit(in *createRateLimit) (*policies.RateLimit, *RateLimit, error) {
	if in.OrganisationID != "" && !strings.EqualFold(in.OrganisationID, c.caller.OrganisationID) {
		return nil, nil, forbidden("organisation_id: the API key belongs to another organisation")
	}
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	p := &policies.RateLimit{
		ID: storage.NewID(c.api.Random), Type: in.Type, Unit: in.Unit, WorkspaceID: w.ID, OrganisationID: c.caller.OrganisationID,
		AllWorkspaces: in.WorkspaceID == "" && c.caller.WorkspaceID == "",
	}
	if in.Name != nil {
		p.Name = *in.Name
	}
	if in.Conditions != nil {
		if p.Conditions, err = c.conditions(*in.Conditions, counts(p)); err != nil {
			return nil, nil, err
		}
	}
	if in.GroupBy != nil {
		for _, g := range *in.GroupBy {
			p.GroupBy = append(p.GroupBy, g.Key)
		}
	}
	if p.Value, err = wholeNumber("value", in.Value); err != nil {
		return nil, nil, err
	}
	if err := c.api.RateLimits.Put(c.tx, p); err != nil {
		return p, nil, err
	}
	v := showRateLimit(c, p)
	return p, &v, nil
}

// conditions converts conditions. A condition on something that does not exist would
// never match, so that the limit would never apply. Therefore it is rejected, with the
// same message if it exists in another workspace. The policy counts the calls of
// workspace; "" means all.
func (c *call) conditions(in []condition, workspace string) ([]policies.Condition, error) {
	out := make([]policies.Condition, len(in))
	for i, given := range in {
		values := slices.Clone(given.Value)
		for k, v := range values {
			if id, err := uuid.Parse(v); err == nil {
				values[k] = id.String() // ids are generated in lower case
			}
			exists := true
			switch given.Key {
			case policies.KeyWorkspace:
				w, ok := c.api.Directory.Workspace(values[k])
				exists = ok && c.sees(w.ID)
			case policies.KeyAPIKey:
				of, ok := c.api.Keyring.APIKey(values[k])
				exists = ok && c.sees(of.WorkspaceID) || values[k] == credentials.OwnerKeyID
			case policies.KeyVirtualKey:
				exists = len(c.virtualKeysOf(workspace, values[k])) > 0
			case policies.KeyProvider:
				exists = c.provider(workspace, strings.TrimPrefix(v, "@"))
			}
			if !exists && v != "*" {
				return nil, unknownReference(fmt.Sprintf("conditions[%d].value", i), "there is no %s %q", given.Key, credentials.Clip(v))
			}
		}
		out[i] = policies.Condition{Key: given.Key, Values: values}
	}
	return out, nil
}

// provider reports whether calls can go to a provider with that name: a built-in
// provider, one of the operator's, or a virtual key of the workspace, where "" means
// any workspace.
func (c *call) provider(workspace, name string) bool {
	if _, ok := providers.Lookup(name); ok {
		return true
	}
	if saved := c.api.ParseOptions.SavedProvider; saved != nil && saved(name) {
		return true
	}
	return slices.ContainsFunc(c.virtualKeysOf(workspace, name), func(v *credentials.VirtualKey) bool { return v.Slug == name })
}

// counts returns the workspace whose calls a policy counts; "" means all.
func counts(p *policies.RateLimit) string {
	if p.AllWorkspaces {
		return ""
	}
	return p.WorkspaceID
}

// wholeNumber converts a JSON number to an integer.
func wholeNumber(field string, n float64) (int64, error) {
	if n != math.Trunc(n) || n < 0 || n > policies.MaxValue {
		return 0, invalid(field, "expected a whole number from 0 to %d", int64(policies.MaxValue))
	}
	return int64(n), nil
}
