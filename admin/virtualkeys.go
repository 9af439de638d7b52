package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/storage"
)

// VirtualKey is a virtual key as shown by the control plane. Its credential is masked.
type VirtualKey struct {
	ID             string          `json:"id" format:"uuid"`
	Slug           string          `json:"slug"`
	Name           string          `json:"name"`
	AIProviderName string          `json:"ai_provider_name"`
	Provider       string          `json:"provider"`
	Key            string          `json:"key" doc:"Always empty; see masked_api_key."`
	MaskedAPIKey   *string         `json:"masked_api_key" doc:"null: none was saved, or it is in secret_mappings or the integration."`
	ModelConfig    json.RawMessage `json:"model_config"`
	CustomHost     *string         `json:"custom_host"`
	IntegrationID  *string         `json:"integration_id" doc:"Of a provider: the integration that its credential is from."`
	Note           *string         `json:"note"`
	Status         string          `json:"status" enum:"active,exhausted,expired"`
	WorkspaceID    string          `json:"workspace_id"`
	WorkspaceName  string          `json:"workspace_name"`
	UsageLimits    *shownBudget    `json:"usage_limits"`
	RateLimits     []carriedRate   `json:"rate_limits"`
	LastResetAt    *string         `json:"last_reset_at" format:"date-time" doc:"Of its usage."`
	ResetUsage     *float64        `json:"reset_usage"`
	Tags           tags            `json:"tags" doc:"Of a provider: those of its integration."`
	SecretMappings []ShownMapping  `json:"secret_mappings"`
	CreatedAt      string          `json:"created_at" format:"date-time"`
	LastUpdatedAt  string          `json:"last_updated_at" format:"date-time"`
	ExpiresAt      *string         `json:"expires_at"`
	Object         string          `json:"object" enum:"virtual-key"`
}

func showVirtualKey(c *call, v *credentials.VirtualKey) VirtualKey {
	limits := c.limitsOf(v.ID)
	out := VirtualKey{
		ID: v.ID, Slug: v.Slug, Name: v.Name, AIProviderName: v.Provider, Provider: v.Provider, MaskedAPIKey: c.maskedKey(&v.Credential),
		ModelConfig: v.ModelConfig, CustomHost: text(v.CustomHost), IntegrationID: text(v.IntegrationID), Note: text(v.Note), Status: limits.statusOr(v.Status(c.api.Now())),
		WorkspaceID: v.WorkspaceID, RateLimits: limits.rates, UsageLimits: limits.budget, LastResetAt: limits.lastResetAt, SecretMappings: showMappings(&v.Credential, "model_config"), CreatedAt: formatTime(v.CreatedAt),
		LastUpdatedAt: formatTime(v.UpdatedAt), ExpiresAt: formatOptionalTime(v.ExpiresAt), Object: "virtual-key",
	}
	out.Tags = c.tagsOf(v)
	if out.ModelConfig == nil {
		out.ModelConfig = json.RawMessage("{}")
	}
	if w, ok := c.api.Directory.Workspace(v.WorkspaceID); ok {
		out.WorkspaceName = w.Name
	}
	return out
}

// tags are the tags of an integration.
type tags = map[string]string

// tagsOf returns the tags of the integration of a provider.
func (c *call) tagsOf(v *credentials.VirtualKey) tags {
	if i, ok := c.api.Keyring.Integration(v.IntegrationID); ok && i.Tags != nil {
		return i.Tags
	}
	return tags{}
}

// VirtualKeyFields are the fields of both create and update.
type VirtualKeyFields struct {
	TargetLimits
	Note           Optional[string]          `json:"note,omitempty"`
	CustomHost     Optional[string]          `json:"custom_host,omitempty"`
	ExpiresAt      Optional[time.Time]       `json:"expires_at,omitempty"`
	SecretMappings Optional[[]SecretMapping] `json:"secret_mappings,omitempty" doc:"Parts of the credential that are secrets of secret managers. Replaced as a whole."`
	ModelConfig    Optional[map[string]any]  `json:"model_config,omitempty" doc:"Settings of the provider, such as aws_region. Those that an update does not name are kept; null removes one."`

	// Older names of Azure OpenAI's settings.
	APIVersion       Optional[string]       `json:"apiVersion,omitempty"`
	ResourceName     Optional[string]       `json:"resourceName,omitempty"`
	DeploymentName   Optional[string]       `json:"deploymentName,omitempty"`
	DeploymentConfig Optional[[]deployment] `json:"deploymentConfig,omitempty" doc:"Replaced as a whole."`

	AzureInSnakeCase
}

// AzureInSnakeCase are the same in snake case, which some clients make of all members of a body.
type AzureInSnakeCase struct {
	APIVersionSnake       Optional[string]       `json:"api_version,omitempty" doc:"The same as apiVersion."`
	ResourceNameSnake     Optional[string]       `json:"resource_name,omitempty" doc:"The same as resourceName."`
	DeploymentNameSnake   Optional[string]       `json:"deployment_name,omitempty" doc:"The same as deploymentName."`
	DeploymentConfigSnake Optional[[]deployment] `json:"deployment_config,omitempty" doc:"The same as deploymentConfig."`
}

// fromSnakeCase reads what is in snake case.
func (in *VirtualKeyFields) fromSnakeCase() error {
	snake := &in.AzureInSnakeCase
	return cmp.Or(
		otherName("api_version", &snake.APIVersionSnake, "apiVersion", &in.APIVersion),
		otherName("resource_name", &snake.ResourceNameSnake, "resourceName", &in.ResourceName),
		otherName("deployment_name", &snake.DeploymentNameSnake, "deploymentName", &in.DeploymentName),
		otherName("deployment_config", &snake.DeploymentConfigSnake, "deploymentConfig", &in.DeploymentConfig),
	)
}

// A deployment is one of an Azure resource's.
type deployment struct {
	DeploymentName string `json:"deploymentName" minLength:"1" maxLength:"255"`
	APIVersion     string `json:"apiVersion" minLength:"1" maxLength:"30"`
	Alias          string `json:"alias,omitempty" maxLength:"255" doc:"What calls name as their model."`
	IsDefault      flag   `json:"is_default,omitempty" doc:"Whether calls of other models go to it."`
}

type createVirtualKey struct {
	VirtualKeyFields
	Name        string `json:"name" minLength:"1" maxLength:"255"`
	Provider    string `json:"provider" maxLength:"255"`
	Key         string `json:"key,omitempty" maxLength:"16384"`
	Slug        string `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255"`
	WorkspaceID string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updateVirtualKey struct {
	VirtualKeyFields
	Name       *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Key        *string `json:"key,omitempty" maxLength:"16384"`
	ResetUsage flag    `json:"reset_usage,omitempty" nullable:"true" doc:"Whether what was used of its budget becomes 0. null, as which it is shown: it stays."`
}

func (a *API) virtualKeys() {
	keys := &resource[credentials.VirtualKey]{
		path: "/virtual-keys", param: "slug", noun: "virtual key", kind: audit.VirtualKeys, scope: "virtual_keys",
		rows: func(c *call) []*credentials.VirtualKey { return c.api.Keyring.VirtualKeys() },
		rowsOf: func(c *call, workspace string) []*credentials.VirtualKey {
			return c.api.Keyring.VirtualKeysIn(workspace)
		},
		secrets: func(c *call, v *credentials.VirtualKey, is func(secret string, path ...string)) error {
			return c.hidden(&v.Credential, "masked_api_key", "model_config", is)
		},
		find:      (*call).virtualKey,
		name:      func(v *credentials.VirtualKey) string { return v.Slug },
		workspace: func(v *credentials.VirtualKey) string { return v.WorkspaceID },
	}
	create(a, keys, (*call).createVirtualKey)
	list[credentials.VirtualKey, WorkspaceFilter](a, keys, nil, showVirtualKey)
	get(a, keys, showVirtualKey)
	update(a, keys, func(c *call, v *credentials.VirtualKey, in *updateVirtualKey) error {
		assign(&v.Name, in.Name)
		secret, err := c.applyVirtualKey(v, &in.VirtualKeyFields, in.Key)
		if err != nil {
			return err
		}
		if v.IntegrationID == "" && (in.ModelConfig.Set || in.azure() || in.CustomHost.Set) {
			if err := c.complete(&v.Credential, "model_config", "custom_host"); err != nil {
				return err
			}
		}
		if err := c.setTargetLimits(v, &in.TargetLimits, bool(in.ResetUsage)); err != nil {
			return err
		}
		return c.api.Keyring.ReplaceVirtualKey(c.tx, v, secret)
	})
	remove(a, keys, "Delete", func(c *call, v *credentials.VirtualKey) error { return c.removeVirtualKey("virtual key", v) })
}

// removeVirtualKey removes a virtual key or provider, and its limits. noun is which of them it is.
func (c *call) removeVirtualKey(noun string, v *credentials.VirtualKey) error {
	if !c.mayUse(v.WorkspaceID, v.Slug) { // else what names it means the operator's provider
		if err := unused(c, noun, v, dependentsOfVirtualKeys); err != nil {
			return err
		}
	}
	if err := c.dropLimits(v.ID); err != nil {
		return err
	}
	return c.api.Keyring.RemoveVirtualKey(c.tx, v.ID)
}

// setTargetLimits changes the limits of a virtual key or provider.
func (c *call) setTargetLimits(v *credentials.VirtualKey, in *TargetLimits, reset bool) error {
	limits, err := in.limits()
	if err != nil {
		return err
	}
	return c.setLimits(policies.Carried{
		Carrier: policies.KeyVirtualKey, ID: v.ID, WorkspaceID: v.WorkspaceID, OrganisationID: c.caller.OrganisationID,
	}, limits, reset)
}

type createdVirtualKey struct {
	Success bool `json:"success"`
	Data    struct {
		ID   string `json:"id" format:"uuid"`
		Slug string `json:"slug"`
	} `json:"data"`
}

// virtualKey returns a virtual key. If several workspaces have one with the slug, none
// is returned, because it could be the wrong one.
func (c *call) virtualKey(slugOrID string) (*credentials.VirtualKey, error) {
	only, err := c.inWorkspace(c.item.query[ofWorkspace.Name])
	if err != nil {
		return nil, err
	}
	switch found := c.virtualKeysOf(only, slugOrID); len(found) {
	case 0:
		return nil, storage.ErrNotFound
	case 1:
		return found[0], nil
	}
	return nil, failure(http.StatusConflict, "slug: several workspaces have a virtual key %q; send its id, or add workspace_id", credentials.Clip(slugOrID))
}

// virtualKeysOf returns the virtual keys with a slug or id in a workspace; "" means all
// workspaces.
func (c *call) virtualKeysOf(workspace, slugOrID string) (found []*credentials.VirtualKey) {
	if workspace != "" {
		if v, ok := c.api.Keyring.VirtualKey(workspace, slugOrID); ok {
			found = append(found, v)
		}
		return found
	}
	for _, w := range c.api.Directory.Workspaces() {
		if v, ok := c.api.Keyring.VirtualKey(w.ID, slugOrID); ok {
			found = append(found, v)
		}
	}
	return found
}

func (c *call) createVirtualKey(in *createVirtualKey) (*credentials.VirtualKey, *createdVirtualKey, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	p, err := providers.Find(in.Provider)
	if err != nil {
		return nil, nil, invalid("provider", "%v", err)
	}
	v := &credentials.VirtualKey{
		Credential: credentials.Credential{ID: storage.NewID(c.api.Random), Provider: p.Name},
		Slug:       in.Slug, Name: in.Name, WorkspaceID: w.ID,
	}
	secret, err := c.applyVirtualKey(v, &in.VirtualKeyFields, &in.Key)
	if err != nil {
		return nil, nil, err
	}
	if err := c.complete(&v.Credential, "model_config", "custom_host"); err != nil {
		return nil, nil, err
	}
	if err := c.slugFor(v, "slug", in.Name); err != nil {
		return nil, nil, err
	}
	if err := c.api.Keyring.AddVirtualKey(c.tx, v, secret); err != nil {
		return v, nil, slugTaken(err, v.Slug)
	}
	out := &createdVirtualKey{Success: true}
	out.Data.ID, out.Data.Slug = v.ID, v.Slug
	return v, out, c.setTargetLimits(v, &in.TargetLimits, false)
}

// applyVirtualKey applies a request to a virtual key, which is new or a copy of a
// stored one. It returns the secret in the request, if there is one. Stored secrets
// that are kept are bound to their destination.
func (c *call) applyVirtualKey(v *credentials.VirtualKey, in *VirtualKeyFields, key *string) (secret credentials.Secret, err error) {
	if err := cmp.Or(in.fromSnakeCase(), applyText("note", &in.Note, &v.Note)); err != nil {
		return secret, err
	}
	if v.IntegrationID != "" {
		switch {
		case key != nil && *key != "":
			return secret, ofIntegration("key")
		case in.ModelConfig.Set || in.azure():
			return secret, ofIntegration("model_config")
		case in.CustomHost.Set:
			return secret, ofIntegration("custom_host")
		case in.SecretMappings.Set:
			return secret, ofIntegration(fieldMappings)
		}
		v.ExpiresAt, err = expiry(in.ExpiresAt, v.ExpiresAt, c.api.Now())
		return secret, err
	}
	sent := &sentCredential{key: key, host: in.CustomHost, field: "model_config", machine: true}
	if sent.mappings, err = c.mappings(in.SecretMappings, sent.field, v.WorkspaceID); err != nil {
		return secret, err
	}
	if sent.settings, err = in.settings(&v.Credential, sent.mappings); err != nil {
		return secret, err
	}
	if sent.settings != "" || sent.mappings != nil {
		if sent.settings != "" {
			if _, err := c.settings(sent.settings, sent.field); err != nil {
				return secret, err
			}
		}
		if err := routing.CheckModelConfig(v.Provider, cmp.Or(sent.settings, string(v.ModelConfig), "{}"), sent.mapped(&v.Credential), in.refuse); err != nil {
			return secret, err
		}
	}
	if v.ExpiresAt, err = expiry(in.ExpiresAt, v.ExpiresAt, c.api.Now()); err != nil {
		return secret, err
	}
	return c.receive(&v.Credential, sent)
}

func ofIntegration(field string) error {
	return invalid(field, "the provider has it from its integration; change it there")
}

// azure reports whether the older names of Azure OpenAI's settings are used.
func (in *VirtualKeyFields) azure() bool {
	return in.APIVersion.Set || in.ResourceName.Set || in.DeploymentName.Set || in.DeploymentConfig.Set
}

// azureNames are the older names of Azure OpenAI's settings.
var azureNames = map[string]string{
	"azure_api_version": "apiVersion", "azure_resource_name": "resourceName", "azure_deployment_id": "deploymentName",
	"azure_deployment_config": "deploymentConfig",
}

// refuse returns the error for a setting, by the name that the request has for it.
func (in *VirtualKeyFields) refuse(field, format string, args ...any) error {
	name, older := azureNames[field]
	if _, own := in.ModelConfig.Value[field]; own || !older || !in.azure() {
		name = "model_config." + field
	}
	return invalid(name, format, args...)
}

// settings returns the settings of a credential, as JSON, with those of the request in place of the stored
// ones: all that it names, but what is null, and not what its mappings have. "": nothing changes.
func (in *VirtualKeyFields) settings(cred *credentials.Credential, mappings *[]credentials.SecretMapping) (string, error) {
	all := make(map[string]json.RawMessage)
	if cred.ModelConfig != nil && !in.ModelConfig.Null {
		if err := json.Unmarshal(cred.ModelConfig, &all); err != nil {
			return "", fmt.Errorf("reading stored settings: %w", err)
		}
	}
	changed := in.ModelConfig.Set || in.azure()
	if mappings != nil {
		for _, m := range *mappings {
			_, stored := all[m.Field]
			changed = changed || stored
			delete(all, m.Field)
		}
	}
	if !changed {
		return "", nil
	}
	given := maps.Clone(in.ModelConfig.Value)
	if given == nil {
		given = make(map[string]any)
	}
	for name, value := range map[string]Optional[string]{
		"azure_api_version": in.APIVersion, "azure_resource_name": in.ResourceName, "azure_deployment_id": in.DeploymentName,
	} {
		if value.Set {
			given[name] = value.Value
		}
	}
	if in.DeploymentConfig.Set {
		given["azure_deployment_config"] = in.deployments()
	}
	booleans(given)
	for name, value := range given {
		if value == nil || value == "" {
			delete(all, name)
			continue
		}
		b, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		all[name] = b
	}
	b, err := json.Marshal(all)
	return string(b), err
}

// deployments returns the deployments of the request as model_config has them; nil: none.
func (in *VirtualKeyFields) deployments() any {
	if len(in.DeploymentConfig.Value) == 0 {
		return nil
	}
	list := make([]any, len(in.DeploymentConfig.Value))
	for i, d := range in.DeploymentConfig.Value {
		one := map[string]any{"deploymentName": d.DeploymentName, "apiVersion": d.APIVersion}
		if d.Alias != "" {
			one["alias"] = d.Alias
		}
		if d.IsDefault {
			one["is_default"] = true
		}
		list[i] = one
	}
	return list
}

// slugFor checks the slug of a new virtual key or provider, or generates one from its
// name. field is the name of the slug's field.
func (c *call) slugFor(v *credentials.VirtualKey, field, name string) error {
	if err := credentials.CheckProviderSlug(v.Slug); err != nil {
		return invalid(field, "%v", err)
	}
	if c.mayUse(v.WorkspaceID, v.Slug) {
		return failure(http.StatusConflict, "%s: %q is a provider of the operator's configuration", field, v.Slug)
	}
	if v.Slug == "" {
		v.Slug = directory.NewSlug(c.api.Random, "", name)
	}
	return nil
}
