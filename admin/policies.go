package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/storage"
)

type condition struct {
	Key   string `json:"key"`
	Value values `json:"value" doc:"A value, or a list any of whose values will do; * is any value."`
	// Excludes are values that do not match after all.
	Excludes []string `json:"excludes,omitempty" nullable:"false" doc:"Values that do not match after all."`
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

// showSelection shows which calls a policy counts.
func showSelection(p *policies.Policy) ([]condition, []groupKey) {
	conditions, groupBy := []condition{}, []groupKey{}
	for _, c := range p.Conditions {
		conditions = append(conditions, condition{c.Key, c.Values, c.Excludes})
	}
	for _, key := range p.GroupBy {
		groupBy = append(groupBy, groupKey{key})
	}
	return conditions, groupBy
}

// statusOfPolicy is the query parameter that tells archived policies from those in force.
var statusOfPolicy = parameter("query", "status", "", huma.Schema{Enum: []any{"active", archived}, Default: "active"})

const archived = "archived" // the status of what is kept, and not in force

func statusOf(p *policies.Policy) string {
	if p.Archived {
		return archived
	}
	return "active"
}

// NewPolicy is what the bodies that create policies have in common.
type NewPolicy struct {
	Name           *string      `json:"name,omitempty" maxLength:"255" nullable:"true"`
	Description    *string      `json:"description,omitempty" maxLength:"500" nullable:"true"`
	Conditions     *[]condition `json:"conditions,omitempty" nullable:"true"`
	GroupBy        *[]groupKey  `json:"group_by,omitempty" nullable:"true"`
	WorkspaceID    string       `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug. An organisation key that leaves it out makes a policy for the calls of every workspace."`
	OrganisationID string       `json:"organisation_id,omitempty" format:"uuid"`
}

func (c *call) newPolicy(in *NewPolicy, kind string) (*policies.Policy, error) {
	if in.OrganisationID != "" && !strings.EqualFold(in.OrganisationID, c.caller.OrganisationID) {
		return nil, forbidden("organisation_id: the API key belongs to another organisation")
	}
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	p := &policies.Policy{
		ID: storage.NewID(c.api.Random), Type: kind, WorkspaceID: w.ID, OrganisationID: c.caller.OrganisationID,
		AllWorkspaces: in.WorkspaceID == "" && c.caller.WorkspaceID == "", ByOrganisation: c.caller.WorkspaceID == "",
	}
	assign(&p.Name, in.Name)
	assign(&p.Description, in.Description)
	if in.Conditions != nil {
		if p.Conditions, err = c.conditions(*in.Conditions, counts(p)); err != nil {
			return nil, err
		}
	}
	if in.GroupBy != nil {
		for _, g := range *in.GroupBy {
			p.GroupBy = append(p.GroupBy, g.Key)
		}
	}
	return p, nil
}

// mayChange refuses changes of the organisation's policies by the key of a workspace.
func (c *call) mayChange(p *policies.Policy, action string) error {
	if action != "read" && (p.AllWorkspaces || p.ByOrganisation) && c.caller.WorkspaceID != "" {
		return forbidden("The policy is the organisation's; change it with an organisation key")
	}
	return nil
}

// archived drops the counters of a policy once it is archived.
func (c *call) archived(p *policies.Policy) {
	c.committed(func() {
		if err := c.api.Limits.Forget(c, p.ID); err != nil {
			// The policy is archived and no longer counts anything.
			c.api.Logger.Warn("dropping the counters of an archived policy", zap.String("policy", p.ID), zap.Error(err))
		}
	})
}

// conditions converts conditions. A condition on something that does not exist would never
// match, and the limit would never apply, or what it excludes would count, so it is refused, and in the same words if it
// exists in another workspace. The policy counts the calls of workspace; "" means all.
func (c *call) conditions(in []condition, workspace string) ([]policies.Condition, error) {
	out := make([]policies.Condition, len(in))
	for i, given := range in {
		out[i] = policies.Condition{Key: given.Key, Values: lowerIDs(given.Value), Excludes: lowerIDs(given.Excludes)}
		for _, of := range [...]struct {
			name   string
			values []string
		}{{"value", out[i].Values}, {"excludes", out[i].Excludes}} {
			for _, v := range of.values {
				if v != "*" && !c.conditioned(workspace, given.Key, v) {
					return nil, unknownReference(fmt.Sprintf("conditions[%d].%s", i, of.name), "there is no %s %q", given.Key, credentials.Clip(v))
				}
			}
		}
	}
	return out, nil
}

// conditioned reports whether there is what a value of a condition names, as far as that can be known.
func (c *call) conditioned(workspace, key, v string) bool {
	switch key {
	case policies.KeyWorkspace:
		w, ok := c.api.Directory.Workspace(v)
		return ok && c.maySee(w.ID)
	case policies.KeyAPIKey:
		of, ok := c.api.Keyring.APIKey(v)
		return ok && c.maySee(of.WorkspaceID) || v == credentials.OwnerKeyID
	case policies.KeyVirtualKey:
		return len(c.virtualKeysOf(workspace, v)) > 0
	case policies.KeyProvider:
		return c.provider(workspace, strings.TrimPrefix(v, "@"))
	case policies.KeyConfig:
		return c.config(workspace, v)
	case policies.KeyPrompt:
		return c.prompt(workspace, v)
	case policies.KeyOrganisation:
		return v == c.caller.OrganisationID
	case policies.KeyEndpoint:
		return exchange.IsEndpoint(v)
	case policies.KeyModel:
		of, model, named := strings.Cut(v, "/")
		return !named || of[:min(1, len(of))] != "@" || model == "" || c.provider(workspace, of[1:])
	}
	return true
}

// provider reports whether calls can go to a provider with that name: a built-in one, one
// of the operator's, or a virtual key of the workspace, or for "" of any.
func (c *call) provider(workspace, name string) bool {
	if _, ok := providers.Lookup(name); ok || c.mayUse(workspace, name) {
		return true
	}
	return slices.ContainsFunc(c.virtualKeysOf(workspace, name), func(v *credentials.VirtualKey) bool { return v.Slug == name })
}

// lowerIDs returns values with their ids in lower case, as ids are generated and compared.
func lowerIDs(values []string) []string {
	values = slices.Clone(values)
	for i, v := range values {
		if id, err := uuid.Parse(v); err == nil {
			values[i] = id.String()
		}
	}
	return values
}

// config reports whether calls can have a saved config, of a workspace or, for "", of any.
func (c *call) config(workspace, slug string) bool {
	saved, ok := c.api.Configs.Get(slug)
	return ok && saved.Slug == slug && (workspace == "" || saved.WorkspaceID == workspace)
}

// prompt reports whether calls can have a saved prompt, of a workspace or shared with it or, for "", of any.
func (c *call) prompt(workspace, slug string) bool {
	p, ok := c.api.Prompts.Get(slug)
	return ok && p.Slug == slug && !p.Partial && !p.Archived && (workspace == "" || p.VisibleIn(workspace))
}

// counts returns the workspace whose calls a policy counts; "" means all.
func counts(p *policies.Policy) string {
	if p.AllWorkspaces {
		return ""
	}
	return p.WorkspaceID
}

// logReset logs that usage could not be reset.
func (a *API) logReset(policy string, err error) {
	a.Logger.Error("resetting the usage of a policy", zap.String("policy", policy), zap.Error(err))
}

// allConditions are those of every policy.
func (c *call) allConditions() (all [][]policies.Condition) {
	for _, p := range c.api.RateLimits.All() {
		all = append(all, p.Conditions)
	}
	for _, p := range c.api.UsageLimits.All() {
		all = append(all, p.Conditions)
	}
	return all
}
