package admin

import (
	"cmp"
	"errors"
	"maps"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/storage"
)

// globalAccess is the access of workspaces that are not listed.
type globalAccess struct {
	Enabled     bool          `json:"enabled"`
	UsageLimits []shownBudget `json:"usage_limits" doc:"Of each workspace without limits of its own for the integration; current_usage is that of all of these."`
	RateLimits  []carriedRate `json:"rate_limits"`
}

// IntegrationWorkspaces lists the workspaces with a setting of their own for an
// integration.
type IntegrationWorkspaces struct {
	Total      int                    `json:"total"`
	Global     globalAccess           `json:"global_workspace_access"`
	Workspaces []IntegrationWorkspace `json:"workspaces"`
}

// IntegrationWorkspace is the access of one workspace.
type IntegrationWorkspace struct {
	ID          string        `json:"id" format:"uuid"`
	Slug        string        `json:"slug"`
	Name        string        `json:"name"`
	Enabled     bool          `json:"enabled"`
	UsageLimits []shownBudget `json:"usage_limits" doc:"Its own for the integration."`
	RateLimits  []carriedRate `json:"rate_limits"`
	LastResetAt *string       `json:"last_reset_at" format:"date-time" doc:"Of its usage."`
}

type workspaceAccess struct {
	ListedLimits                 // of which at most one rate limit
	ID                    string `json:"id" minLength:"1" maxLength:"255" doc:"Id or slug."`
	Slug                  string `json:"slug,omitempty" doc:"As it is shown; ignored."`
	Name                  string `json:"name,omitempty" doc:"As it is shown; ignored."`
	LastResetAt           string `json:"last_reset_at,omitempty" nullable:"true" doc:"As it is shown; ignored."`
	Enabled               flag   `json:"enabled"`
	ResetUsage            flag   `json:"reset_usage,omitempty" doc:"Whether what was used of its budget becomes 0."`
	CreateDefaultProvider *flag  `json:"create_default_provider,omitempty"`
	DefaultProviderSlug   string `json:"default_provider_slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255"`
}

type updateGlobalAccess struct {
	ListedLimits      // of which at most one rate limit
	Enabled      flag `json:"enabled"`
}

type updateAccess struct {
	Workspaces            []workspaceAccess   `json:"workspaces,omitempty" maxItems:"500" doc:"A provider may be made for each, in one transaction."`
	Global                *updateGlobalAccess `json:"global_workspace_access,omitempty" doc:"Of the workspaces that are not named, those to come too. They get no default provider."`
	Override              flag                `json:"override_existing_workspace_access,omitempty" doc:"Whether workspaces that are not named here are as if they never were."`
	CreateDefaultProvider *flag               `json:"create_default_provider,omitempty" doc:"Whether a workspace that gets access gets a provider. Default: as the integration was made."`
	DefaultProviderSlug   string              `json:"default_provider_slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"The slug of that. Default: as the integration was made."`
}

func (c *call) accessOf(i *credentials.Integration) (*IntegrationWorkspaces, error) {
	out := &IntegrationWorkspaces{Global: c.globalAccess(i), Workspaces: []IntegrationWorkspace{}}
	for _, w := range c.api.Directory.Workspaces() {
		_, named := i.Access[w.ID]
		if enabled := i.EnabledIn(w.ID); c.maySee(w.ID) && (enabled || named) {
			limits := c.limitsOf(policies.IntegrationIn(w.ID, i.ID))
			out.Workspaces = append(out.Workspaces, IntegrationWorkspace{
				ID: w.ID, Slug: w.Slug, Name: w.Name, Enabled: enabled, UsageLimits: limits.listed(), RateLimits: limits.rates, LastResetAt: limits.lastResetAt,
			})
		}
	}
	out.Total = len(out.Workspaces)
	return out, nil
}

func (c *call) globalAccess(i *credentials.Integration) globalAccess {
	limits := c.limitsOf(i.ID)
	return globalAccess{Enabled: i.AllWorkspaces, UsageLimits: limits.listed(), RateLimits: limits.rates}
}

// setAccessLimits changes the limits of an integration: in one workspace, or for "" in each that has none
// of its own for it.
func (c *call) setAccessLimits(i *credentials.Integration, workspace string, in *ListedLimits, inside string, reset bool) error {
	limits, err := in.limits(inside)
	if err != nil {
		return err
	}
	if len(limits.rates.Value) > 1 {
		return invalid(inside+"rate_limits", "expected one limit at most")
	}
	of := policies.Carried{Carrier: policies.KeyIntegration, ID: i.ID, OrganisationID: i.OrganisationID, EachWorkspace: workspace == ""}
	if workspace != "" {
		of.ID, of.WorkspaceID = policies.IntegrationIn(workspace, i.ID), workspace
	}
	return c.setLimits(of, limits, reset)
}

// removeIntegration removes an integration that has no providers, and its limits.
func (c *call) removeIntegration(i *credentials.Integration) error {
	for workspace := range i.Access {
		if err := c.dropLimits(policies.IntegrationIn(workspace, i.ID)); err != nil {
			return err
		}
	}
	if err := c.dropLimits(i.ID); err != nil {
		return err
	}
	return c.api.Keyring.RemoveIntegration(c.tx, i.ID)
}

func (c *call) updateAccess(i *credentials.Integration, in *updateAccess) (*empty, error) {
	if i.WorkspaceID != "" {
		return nil, invalid("workspaces", "the integration is one workspace's own")
	}
	before := *i
	if in.Global != nil {
		if err := c.setAccessLimits(i, "", &in.Global.ListedLimits, "global_workspace_access.", false); err != nil {
			return nil, err
		}
		i.AllWorkspaces = bool(in.Global.Enabled)
	}
	access := make(map[string]bool)
	if !in.Override {
		maps.Copy(access, i.Access)
	}
	i.Access = access
	seen := make(map[string]bool)
	for n := range in.Workspaces {
		one := &in.Workspaces[n]
		w, err := c.workspace(one.ID)
		if err != nil {
			return nil, unknownReference(element("workspaces", n, "id"), "there is no workspace %q", credentials.Clip(one.ID))
		}
		if seen[w.ID] {
			return nil, invalid(element("workspaces", n, "id"), "the workspace is named twice")
		}
		seen[w.ID] = true
		access[w.ID] = bool(one.Enabled)
		if err := c.setAccessLimits(i, w.ID, &one.ListedLimits, element("workspaces", n, "")+".", bool(one.ResetUsage)); err != nil {
			return nil, err
		}
		create := flag(!i.NoDefault)
		for _, given := range []*flag{in.CreateDefaultProvider, one.CreateDefaultProvider} {
			if given != nil {
				create = *given
			}
		}
		if !bool(one.Enabled && create) || before.EnabledIn(w.ID) && one.CreateDefaultProvider == nil && one.DefaultProviderSlug == "" {
			continue
		}
		if err := c.provide(i, w.ID, cmp.Or(one.DefaultProviderSlug, in.DefaultProviderSlug, i.ProviderSlug())); err != nil {
			return nil, err
		}
	}
	for workspace := range before.Access {
		if _, kept := access[workspace]; kept {
			continue
		}
		if err := c.dropLimits(policies.IntegrationIn(workspace, i.ID)); err != nil {
			return nil, err
		}
	}
	return &empty{}, c.api.Keyring.ReplaceIntegration(c.tx, i, credentials.Secret{})
}

// provided reports whether a workspace has a provider for an integration.
func (c *call) provided(i *credentials.Integration, workspace string) bool {
	for _, v := range c.api.Keyring.ProvidersOf(i.ID) {
		if v.WorkspaceID == workspace {
			return true
		}
	}
	return false
}

// provide creates a provider for an integration in a workspace, unless it has one.
func (c *call) provide(i *credentials.Integration, workspace, slug string) error {
	if c.provided(i, workspace) {
		return nil
	}
	v := &credentials.VirtualKey{
		Credential:    credentials.Credential{ID: storage.NewID(c.api.Random), Provider: i.Provider},
		IntegrationID: i.ID, Slug: slug, Name: i.Name, WorkspaceID: workspace,
	}
	if err := c.slugFor(v, "default_provider_slug", i.Name); err != nil {
		return err
	}
	switch err := c.api.Keyring.AddProvider(c.tx, v); {
	case errors.Is(err, storage.ErrExists):
		return invalid("default_provider_slug", "the workspace has a provider or virtual key %q; name another, or set create_default_provider to false", credentials.Clip(slug))
	case err != nil:
		return err
	}
	return nil
}
