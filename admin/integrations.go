package admin

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/storage"
)

// IntegrationRow is an integration in a list.
type IntegrationRow struct {
	ID             string            `json:"id" format:"uuid"`
	OrganisationID string            `json:"organisation_id" format:"uuid"`
	WorkspaceID    *string           `json:"workspace_id" doc:"Of the workspace that alone has it; null: it is the organisation's."`
	AIProviderID   string            `json:"ai_provider_id"`
	Name           string            `json:"name"`
	Status         string            `json:"status" enum:"active,archived"`
	Slug           string            `json:"slug"`
	Description    string            `json:"description"`
	Tags           map[string]string `json:"tags"`
	CreatedAt      string            `json:"created_at" format:"date-time"`
	LastUpdatedAt  string            `json:"last_updated_at" format:"date-time"`
	Object         string            `json:"object" enum:"integration"`
}

// Integration is a single integration. Its credential is masked.
type Integration struct {
	IntegrationRow
	MaskedKey      *string         `json:"masked_key" doc:"null: none was saved, or it is in secret_mappings."`
	Configurations json.RawMessage `json:"configurations" doc:"Credentials among them are masked."`
	Global         globalAccess    `json:"global_workspace_access_settings"`
	AllowAllModels bool            `json:"allow_all_models"`
	WorkspaceCount int             `json:"workspace_count" doc:"Workspaces that may use it."`
	SecretMappings []ShownMapping  `json:"secret_mappings"`
	Adjustments    json.RawMessage `json:"pricing_adjustments,omitempty"`
}

func showIntegrationRow(_ *call, i *credentials.Integration) IntegrationRow {
	tags := i.Tags
	if tags == nil {
		tags = map[string]string{}
	}
	return IntegrationRow{
		ID: i.ID, OrganisationID: i.OrganisationID, WorkspaceID: text(i.WorkspaceID), AIProviderID: i.Provider, Name: i.Name, Status: "active", Slug: i.Slug,
		Description: i.Description, Tags: tags, CreatedAt: formatTime(i.CreatedAt), LastUpdatedAt: formatTime(i.UpdatedAt), Object: "integration",
	}
}

func showIntegration(c *call, i *credentials.Integration) Integration {
	out := Integration{
		IntegrationRow: showIntegrationRow(c, i), MaskedKey: c.maskedKey(&i.Credential), Configurations: shownConfigurations(&i.Credential),
		Global: c.globalAccess(i), SecretMappings: showMappings(&i.Credential, "configurations"), AllowAllModels: !i.OnlyListed,
		Adjustments: i.Adjustments,
	}
	for _, w := range c.api.Directory.Workspaces() {
		if i.EnabledIn(w.ID) && c.maySee(w.ID) {
			out.WorkspaceCount++
		}
	}
	return out
}

// shownConfigurations returns the masked settings of a credential, including its custom
// host.
func shownConfigurations(cred *credentials.Credential) json.RawMessage {
	all := make(map[string]json.RawMessage)
	if cred.ModelConfig != nil {
		_ = json.Unmarshal(cred.ModelConfig, &all) // was created from such an object
	}
	if _, own := all["huggingface_base_url"]; cred.CustomHost != "" && !own && all["azure_foundry_url"] == nil {
		all["custom_host"], _ = json.Marshal(cred.CustomHost) // strings can always be encoded
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // values read from JSON can always be encoded
	}
	return b
}

// IntegrationFields are the fields of both create and update.
type IntegrationFields struct {
	Key                *string                     `json:"key,omitempty" maxLength:"16384"`
	Description        Optional[string]            `json:"description,omitempty"`
	Configurations     Optional[map[string]any]    `json:"configurations,omitempty" doc:"Settings of the provider, such as aws_region; and custom_host, custom_headers. Replaced as a whole."`
	Tags               Optional[map[string]string] `json:"tags,omitempty"`
	SecretMappings     Optional[[]SecretMapping]   `json:"secret_mappings,omitempty" doc:"Parts of the credential that are secrets of secret managers. Replaced as a whole."`
	PricingAdjustments Optional[map[string]any]    `json:"pricing_adjustments,omitempty" doc:"multiplier: what the price of each unit is multiplied by."`
}

type createIntegration struct {
	IntegrationFields
	Name                  string `json:"name" minLength:"1" maxLength:"255"`
	Slug                  string `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"Default: made of the name."`
	AIProviderID          string `json:"ai_provider_id" maxLength:"255"`
	WorkspaceID           string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug of the workspace that alone has it; default: the caller's workspace, or the organisation."`
	CreateDefaultProvider *flag  `json:"create_default_provider,omitempty" doc:"Whether a workspace that gets access gets a provider. Default: true."`
	DefaultProviderSlug   string `json:"default_provider_slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"The slug of that. Default: the integration's."`
}

type updateIntegration struct {
	IntegrationFields
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
}

// integrationList holds the query parameters of the list.
type integrationList struct {
	Paging
	InWorkspace
	Type string `query:"type" enum:"workspace,organisation,all" default:"all" doc:"Whose they are."`
	Tags string `query:"tags" maxLength:"4096" doc:"Only those with all of these: an object of texts, as JSON."`
	tags map[string]string
}

// Resolve parses the tags.
func (f *integrationList) Resolve(huma.Context) (errs []error) {
	f.tags, errs = readTags(f.Tags)
	return errs
}

type createdSlug struct {
	ID   string `json:"id" format:"uuid"`
	Slug string `json:"slug"`
}

const (
	organisationIntegrations = "organisation_integrations"
	workspaceIntegrations    = "workspace_integrations"
)

func integrationScope(i *credentials.Integration, action string) string {
	if i.WorkspaceID == "" {
		return organisationIntegrations + "." + action
	}
	return workspaceIntegrations + "." + action
}

func (a *API) integrations() {
	integrations := &resource[credentials.Integration]{
		path: "/integrations", param: "slug", noun: "integration", kind: audit.Integrations,
		scopes: func(action string) []string {
			return []string{organisationIntegrations + "." + action, workspaceIntegrations + "." + action}
		},
		rows: func(c *call) []*credentials.Integration { return c.api.Keyring.Integrations() },
		find: func(c *call, slugOrID string) (*credentials.Integration, error) {
			of, err := c.inWorkspace(c.item.query[ofWorkspace.Name])
			if err != nil {
				return nil, err
			}
			return c.integration(of, slugOrID)
		},
		name:      func(i *credentials.Integration) string { return i.Slug },
		workspace: func(i *credentials.Integration) string { return i.WorkspaceID },
		// Workspaces see those of the organisation that they may use.
		shared: func(c *call, workspace string, i *credentials.Integration, _ string) bool {
			of := cmp.Or(workspace, c.caller.WorkspaceID)
			return i.WorkspaceID == "" && (of == "" || i.EnabledIn(of))
		},
		secrets: func(c *call, i *credentials.Integration, is func(secret string, path ...string)) error {
			for n := range i.Models {
				headers, err := c.api.Keyring.OpenHeaders(i, &i.Models[n])
				if err != nil {
					return err
				}
				for name, value := range headers {
					is(value, "models", i.Models[n].Slug, "custom_headers", name)
				}
			}
			return c.hidden(&i.Credential, "masked_key", "configurations", is)
		},
		allow: func(c *call, i *credentials.Integration, action string) error {
			return c.need(integrationScope(i, action))
		},
	}
	create(a, integrations, (*call).createIntegration)
	listChosen(a, integrations, (*call).chooseIntegrations, showIntegrationRow)
	get(a, integrations, showIntegration)
	update(a, integrations, (*call).updateIntegration)
	remove(a, integrations, "Delete", func(c *call, i *credentials.Integration) error {
		if err := unused(c, "integration", i, dependentsOfIntegrations); err != nil {
			return err
		}
		return c.removeIntegration(i)
	})
	a.integrationModels(integrations)
	read(a, integrations, "/workspaces", "List the workspaces of an integration", (*call).accessOf)
	access := *integrations
	access.details = func(c *call, i *credentials.Integration) (any, error) {
		all, err := c.accessOf(i)
		if err != nil {
			return nil, err
		}
		of := make(map[string]IntegrationWorkspace, len(all.Workspaces))
		for _, w := range all.Workspaces {
			of[w.ID] = w
		}
		return map[string]any{"workspaces": of}, nil
	}
	act(a, &access, http.MethodPut, "/workspaces", "update", "Say which workspaces may use an integration", (*call).updateAccess)
}

// integration returns an integration that the caller may see. A slug is looked up in
// the named workspace, or for "" in the caller's own, and then in the organisation. If
// it is not found there and no workspace is known, it must be unique among all
// workspaces.
func (c *call) integration(workspace, slugOrID string) (*credentials.Integration, error) {
	if i, ok := c.api.Keyring.Integration(slugOrID); ok && c.seesIntegration(i) {
		return i, nil
	}
	if workspace == "" {
		workspace = c.caller.WorkspaceID
	}
	for _, of := range []string{workspace, ""} {
		if i, ok := c.api.Keyring.IntegrationOf(of, slugOrID); ok && c.seesIntegration(i) {
			return i, nil
		}
	}
	var found []*credentials.Integration
	for _, i := range c.api.Keyring.Integrations() {
		if workspace == "" && i.Slug == slugOrID {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return nil, storage.ErrNotFound
	case 1:
		return found[0], nil
	}
	return nil, failure(http.StatusConflict, "slug: several workspaces have an integration %q; send its id, or add workspace_id", credentials.Clip(slugOrID))
}

// seesIntegration reports whether the caller may see an integration. Workspace keys see
// those that their workspace may use.
func (c *call) seesIntegration(i *credentials.Integration) bool {
	return c.caller.WorkspaceID == "" || i.EnabledIn(c.caller.WorkspaceID)
}

// chooseIntegrations implements the filters of the list. A workspace lists what it may use. Only a filter by tags
// looks at every integration that the others leave.
func (c *call) chooseIntegrations(workspace string, f *integrationList) (chosen choice[credentials.Integration], err error) {
	own := f.Type != "organisation" && c.caller.May(workspaceIntegrations+".list")
	organisation := f.Type != "workspace" && c.caller.May(organisationIntegrations+".list")
	keyring := c.api.Keyring
	switch {
	case workspace != "":
		id := func(i *credentials.Integration) string { return i.ID }
		if own {
			chosen.rows = keyring.IntegrationsIn(workspace)
		}
		if organisation {
			named, everywhere := keyring.IntegrationsFor(workspace)
			chosen.rows = merge(id, chosen.rows, merge(id, named, everywhere))
			chosen.only(func(i *credentials.Integration) bool { return i.EnabledIn(workspace) })
		}
	case own && organisation:
		chosen.rows = keyring.Integrations()
	case own:
		chosen.rows = keyring.IntegrationsOfWorkspaces()
	case organisation:
		chosen.rows = keyring.IntegrationsIn("")
	}
	if f.tags != nil {
		chosen.only(func(i *credentials.Integration) bool { return hasTags(i.Tags, f.tags) })
	}
	return chosen, nil
}

func (c *call) createIntegration(in *createIntegration) (*credentials.Integration, *createdSlug, error) {
	i := &credentials.Integration{
		Credential: credentials.Credential{ID: storage.NewID(c.api.Random), Provider: in.AIProviderID},
		Slug:       in.Slug, Name: in.Name, OrganisationID: c.caller.OrganisationID,
		DefaultSlug: in.DefaultProviderSlug, NoDefault: in.CreateDefaultProvider != nil && !bool(*in.CreateDefaultProvider),
	}
	if in.WorkspaceID != "" || c.caller.WorkspaceID != "" {
		w, err := c.workspace(in.WorkspaceID)
		if err != nil {
			return nil, nil, err
		}
		i.WorkspaceID = w.ID
	}
	if err := c.need(integrationScope(i, "create")); err != nil {
		return nil, nil, err
	}
	p, err := providers.Find(i.Provider)
	if err != nil {
		return nil, nil, invalid("ai_provider_id", "%v", err)
	}
	i.Provider = p.Name
	if _, err := uuid.Parse(i.Slug); err == nil {
		return nil, nil, invalid("slug", "expected a name that is not a UUID, by which integrations are found too")
	}
	if i.Slug == "" {
		i.Slug = directory.NewSlug(c.api.Random, "", in.Name)
	}
	if !in.Configurations.Set {
		in.Configurations = Optional[map[string]any]{Set: true}
	}
	secret, err := c.applyIntegration(i, &in.IntegrationFields)
	if err != nil {
		return nil, nil, err
	}
	if err := c.complete(&i.Credential, "configurations", "configurations.custom_host"); err != nil {
		return nil, nil, err
	}
	if err := c.api.Keyring.ReplaceIntegration(c.tx, i, secret); err != nil {
		return i, nil, slugTaken(err, i.Slug)
	}
	if i.WorkspaceID != "" && !i.NoDefault {
		if err := c.provide(i, i.WorkspaceID, i.ProviderSlug()); err != nil {
			return i, nil, err
		}
	}
	return i, &createdSlug{i.ID, i.Slug}, nil
}

func (c *call) updateIntegration(i *credentials.Integration, in *updateIntegration) error {
	assign(&i.Name, in.Name)
	before, err := c.destinationOf(&i.Credential)
	if err != nil {
		return err
	}
	secret, err := c.applyIntegration(i, &in.IntegrationFields)
	if err != nil {
		return err
	}
	after, err := c.destinationOf(&i.Credential)
	if err != nil {
		return err
	}
	err = routing.CheckModels(c.api.Keyring, i, before != after, in.SecretMappings.Set, func(field, format string, args ...any) error {
		switch field {
		case fieldMappings:
		case "":
			field = "configurations"
		default:
			field = "configurations." + field
		}
		return invalid(field, format, args...)
	})
	if err != nil {
		return err
	}
	if err := c.complete(&i.Credential, "configurations", "configurations.custom_host"); err != nil {
		return err
	}
	return c.api.Keyring.ReplaceIntegration(c.tx, i, secret)
}

// applyIntegration applies a request to an integration, which is new or a copy of a
// stored one. It returns the secret in the request, if there is one.
func (c *call) applyIntegration(i *credentials.Integration, in *IntegrationFields) (secret credentials.Secret, err error) {
	if err := applyText("description", &in.Description, &i.Description); err != nil {
		return secret, err
	}
	if err := applyPricing(&i.Adjustments, in.PricingAdjustments, "pricing_adjustments", prices.ParseAdjustment); err != nil {
		return secret, err
	}
	if in.Tags.Set {
		if i.Tags, err = checkTags(in.Tags.Value); err != nil {
			return secret, err
		}
	}
	sent := &sentCredential{key: in.Key, field: "configurations", machine: i.WorkspaceID == ""}
	if sent.mappings, err = c.mappings(in.SecretMappings, sent.field, i.WorkspaceID); err != nil {
		return secret, err
	}
	if in.Configurations.Set {
		given := make(map[string]any, len(in.Configurations.Value))
		maps.Copy(given, in.Configurations.Value)
		if sent.settings, sent.host, err = takeHost(given); err != nil {
			return secret, err
		}
		sent.whole = true
	}
	if sent.settings != "" || sent.mappings != nil {
		text := cmp.Or(sent.settings, string(i.ModelConfig), "{}")
		if err := routing.CheckConfigurations(i.Provider, text, sent.mapped(&i.Credential), refuse("configurations.")); err != nil {
			return secret, err
		}
	}
	return c.receive(&i.Credential, sent)
}

func checkTags(tags map[string]string) (map[string]string, error) {
	if err := credentials.CheckTags(tags); err != nil {
		return nil, invalid("tags", "%v", err)
	}
	return tags, nil
}
