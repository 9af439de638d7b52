package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/storage"
)

// Provider is the use of an integration in a workspace, as shown by the control plane.
type Provider struct {
	ID             string          `json:"id" format:"uuid"`
	Slug           string          `json:"slug"`
	Name           string          `json:"name"`
	IntegrationID  string          `json:"integration_id" format:"uuid"`
	AIProviderID   string          `json:"ai_provider_id"`
	WorkspaceID    string          `json:"workspace_id"`
	Note           *string         `json:"note"`
	Status         string          `json:"status" enum:"active,exhausted,expired"`
	UsageLimits    *shownBudget    `json:"usage_limits"`
	RateLimits     []carriedRate   `json:"rate_limits"`
	ResetUsage     *float64        `json:"reset_usage"`
	Tags           tags            `json:"tags" doc:"Those of the integration."`
	LastResetAt    *string         `json:"last_reset_at" format:"date-time" doc:"Of its usage."`
	CreatedAt      string          `json:"created_at" format:"date-time"`
	LastUpdatedAt  string          `json:"last_updated_at" format:"date-time"`
	ExpiresAt      *string         `json:"expires_at"`
	Configurations json.RawMessage `json:"configurations,omitempty" doc:"The integration's, with include_configurations; credentials are masked."`
	Object         string          `json:"object" enum:"provider"`
}

func showProvider(c *call, v *credentials.VirtualKey) Provider {
	limits := c.limitsOf(v.ID)
	return Provider{
		ID: v.ID, Slug: v.Slug, Name: v.Name, IntegrationID: v.IntegrationID, AIProviderID: v.Provider, WorkspaceID: v.WorkspaceID, Note: text(v.Note),
		Status: limits.statusOr(v.Status(c.api.Now())), RateLimits: limits.rates, UsageLimits: limits.budget, LastResetAt: limits.lastResetAt, CreatedAt: formatTime(v.CreatedAt), LastUpdatedAt: formatTime(v.UpdatedAt),
		ExpiresAt: formatOptionalTime(v.ExpiresAt), Tags: c.tagsOf(v), Object: "provider",
	}
}

// ProviderFields are the fields of both create and update.
type ProviderFields struct {
	TargetLimits
	Note      Optional[string]    `json:"note,omitempty"`
	ExpiresAt Optional[time.Time] `json:"expires_at,omitempty"`
}

type createProvider struct {
	ProviderFields
	Name          string `json:"name" minLength:"1" maxLength:"255"`
	IntegrationID string `json:"integration_id" minLength:"1" maxLength:"255" doc:"Id or slug."`
	WorkspaceID   string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
	Slug          string `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"What calls name it by. Default: made of the name."`
}

type updateProvider struct {
	ProviderFields
	Name       *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	ResetUsage flag    `json:"reset_usage,omitempty" nullable:"true" doc:"Whether what was used of its budget becomes 0. null, as which it is shown: it stays."`
}

// providerList holds the query parameters of the list.
type providerList struct {
	WorkspaceFilter
	Tags string `query:"tags" maxLength:"4096" doc:"Only those whose integration has all of these: an object of texts, as JSON."`
	tags tags
}

// Resolve parses the tags.
func (f *providerList) Resolve(huma.Context) (errs []error) {
	f.tags, errs = readTags(f.Tags)
	return errs
}

const includeConfigurations = "include_configurations"

func (a *API) providers() {
	all := &resource[credentials.VirtualKey]{
		path: "/providers", param: "slug", noun: "provider", kind: audit.Providers, scope: "providers",
		rows: func(c *call) []*credentials.VirtualKey { return c.api.Keyring.Providers("") },
		rowsOf: func(c *call, workspace string) []*credentials.VirtualKey {
			return c.api.Keyring.Providers(workspace)
		},
		find: func(c *call, slugOrID string) (*credentials.VirtualKey, error) {
			v, err := c.virtualKey(slugOrID)
			if err == nil && v.IntegrationID == "" {
				return nil, storage.ErrNotFound
			}
			return v, err
		},
		name:      func(v *credentials.VirtualKey) string { return v.Slug },
		workspace: func(v *credentials.VirtualKey) string { return v.WorkspaceID },
	}
	create(a, all, (*call).createProvider)
	listChosen(a, all, func(c *call, workspace string, f *providerList) (choice[credentials.VirtualKey], error) {
		chosen := all.all(c, workspace)
		if f.tags != nil {
			chosen.only(func(v *credentials.VirtualKey) bool { return hasTags(c.tagsOf(v), f.tags) })
		}
		return chosen, nil
	}, showProvider)
	one := *all
	one.query = append(one.query, parameter("query", includeConfigurations, "Shows the integration's configurations, to the data-service token only.", huma.Schema{Enum: []any{"true", "false"}}))
	read(a, &one, "", "Get a provider", func(c *call, v *credentials.VirtualKey) (*Provider, error) {
		out := showProvider(c, v)
		if c.item.query[includeConfigurations] == "true" {
			if !c.caller.System {
				return nil, forbidden("%s: only the data-service token sees configurations here", includeConfigurations)
			}
			if i, ok := c.api.Keyring.Integration(v.IntegrationID); ok {
				out.Configurations = shownConfigurations(&i.Credential)
			}
		}
		return &out, nil
	})
	act(a, all, http.MethodPut, "", "update", "Update a provider", func(c *call, v *credentials.VirtualKey, in *updateProvider) (*createdSlug, error) {
		assign(&v.Name, in.Name)
		if err := c.applyProvider(v, &in.ProviderFields); err != nil {
			return nil, err
		}
		if err := c.setTargetLimits(v, &in.TargetLimits, bool(in.ResetUsage)); err != nil {
			return nil, err
		}
		return &createdSlug{v.ID, v.Slug}, c.api.Keyring.ReplaceVirtualKey(c.tx, v, credentials.Secret{})
	})
	remove(a, all, "Delete", func(c *call, v *credentials.VirtualKey) error {
		return c.removeVirtualKey("provider", v)
	})
}

func (c *call) createProvider(in *createProvider) (*credentials.VirtualKey, *createdSlug, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	i, err := c.integration(w.ID, in.IntegrationID)
	if err != nil {
		return nil, nil, unknownReference("integration_id", "there is no integration %q", credentials.Clip(in.IntegrationID))
	}
	if !i.EnabledIn(w.ID) {
		return nil, nil, invalid("integration_id", "the integration is not enabled for the workspace; PUT /v1/integrations/%s/workspaces does that", i.Slug)
	}
	v := &credentials.VirtualKey{
		Credential:    credentials.Credential{ID: storage.NewID(c.api.Random), Provider: i.Provider},
		IntegrationID: i.ID, Slug: in.Slug, Name: in.Name, WorkspaceID: w.ID,
	}
	if err := c.slugFor(v, "slug", in.Name); err != nil {
		return nil, nil, err
	}
	if err := c.applyProvider(v, &in.ProviderFields); err != nil {
		return nil, nil, err
	}
	if err := c.api.Keyring.AddProvider(c.tx, v); err != nil {
		return v, nil, slugTaken(err, v.Slug)
	}
	return v, &createdSlug{v.ID, v.Slug}, c.setTargetLimits(v, &in.TargetLimits, false)
}

func (c *call) applyProvider(v *credentials.VirtualKey, in *ProviderFields) (err error) {
	_, err = c.applyVirtualKey(v, &VirtualKeyFields{Note: in.Note, ExpiresAt: in.ExpiresAt}, nil)
	return err
}
