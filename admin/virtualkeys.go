package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/storage"
)

// VirtualKey is a virtual key as the control plane shows it. The credential is masked.
type VirtualKey struct {
	ID             string          `json:"id" format:"uuid"`
	Slug           string          `json:"slug"`
	Name           string          `json:"name"`
	AIProviderName string          `json:"ai_provider_name"`
	Provider       string          `json:"provider"`
	Key            string          `json:"key" doc:"Always empty; see masked_api_key."`
	MaskedAPIKey   string          `json:"masked_api_key"`
	ModelConfig    json.RawMessage `json:"model_config"`
	CustomHost     *string         `json:"custom_host"`
	Note           *string         `json:"note"`
	Status         string          `json:"status" enum:"active,expired"`
	WorkspaceID    string          `json:"workspace_id"`
	WorkspaceName  string          `json:"workspace_name"`
	UsageLimits    *empty          `json:"usage_limits"`
	RateLimits     []empty         `json:"rate_limits"`
	CreatedAt      string          `json:"created_at" format:"date-time"`
	LastUpdatedAt  string          `json:"last_updated_at" format:"date-time"`
	ExpiresAt      *string         `json:"expires_at"`
	Object         string          `json:"object" enum:"virtual-key"`
}

func showVirtualKey(c *call, v *credentials.VirtualKey) VirtualKey {
	out := VirtualKey{
		ID: v.ID, Slug: v.Slug, Name: v.Name, AIProviderName: v.Provider, Provider: v.Provider, MaskedAPIKey: v.Hint,
		ModelConfig: v.ModelConfig, CustomHost: text(v.CustomHost), Note: text(v.Note), Status: v.Status(c.api.Now()),
		WorkspaceID: v.WorkspaceID, RateLimits: []empty{}, CreatedAt: formatTime(v.CreatedAt),
		LastUpdatedAt: formatTime(v.UpdatedAt), ExpiresAt: formatOptionalTime(v.ExpiresAt), Object: "virtual-key",
	}
	if out.ModelConfig == nil {
		out.ModelConfig = json.RawMessage("{}")
	}
	if w, ok := c.api.Directory.Workspace(v.WorkspaceID); ok {
		out.WorkspaceName = w.Name
	}
	return out
}

// VirtualKeyFields are the fields that create and update share.
type VirtualKeyFields struct {
	Note           Optional[string]         `json:"note,omitempty"`
	CustomHost     Optional[string]         `json:"custom_host,omitempty"`
	ExpiresAt      Optional[time.Time]      `json:"expires_at,omitempty"`
	RateLimits     Optional[[]any]          `json:"rate_limits,omitempty"`
	UsageLimits    Optional[map[string]any] `json:"usage_limits,omitempty"`
	SecretMappings Optional[[]any]          `json:"secret_mappings,omitempty"`
	ModelConfig    Optional[map[string]any] `json:"model_config,omitempty" doc:"Settings of the provider, such as aws_region."`

	// Older names of Azure OpenAI's settings.
	APIVersion       Optional[string] `json:"apiVersion,omitempty"`
	ResourceName     Optional[string] `json:"resourceName,omitempty"`
	DeploymentName   Optional[string] `json:"deploymentName,omitempty"`
	DeploymentConfig Optional[[]any]  `json:"deploymentConfig,omitempty"`
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
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Key  *string `json:"key,omitempty" maxLength:"16384"`
}

func (a *API) virtualKeys() {
	longest := 255
	keys := &resource[credentials.VirtualKey]{
		path: "/virtual-keys", param: "slug", noun: "virtual key", scope: "virtual_keys",
		query: []*huma.Param{parameter("query", "workspace_id", "Id or slug. Workspaces may have virtual keys of the same slug: an organisation key says whose it means, or sends the id in place of the slug.",
			huma.Schema{MaxLength: &longest})},
		rows:      func(c *call) []*credentials.VirtualKey { return c.api.Keyring.VirtualKeys() },
		find:      (*call).virtualKey,
		name:      func(v *credentials.VirtualKey) string { return v.Slug },
		workspace: func(v *credentials.VirtualKey) string { return v.WorkspaceID },
	}
	create(a, keys, (*call).createVirtualKey)
	list[credentials.VirtualKey, WorkspaceFilter](a, keys, nil, showVirtualKey)
	get(a, keys, showVirtualKey)
	update(a, keys, func(c *call, v *credentials.VirtualKey, in *updateVirtualKey) error {
		if in.Name != nil {
			v.Name = *in.Name
		}
		secret, err := c.applyVirtualKey(v, &in.VirtualKeyFields, in.Key)
		if err != nil {
			return err
		}
		return c.api.Keyring.ReplaceVirtualKey(c.tx, v, secret)
	})
	remove(a, keys, "Delete", func(c *call, v *credentials.VirtualKey) error {
		if err := c.named(v); err != nil {
			return err
		}
		return c.api.Keyring.RemoveVirtualKey(c.tx, v.ID)
	})
}

type createdVirtualKey struct {
	Success bool `json:"success"`
	Data    struct {
		ID   string `json:"id" format:"uuid"`
		Slug string `json:"slug"`
	} `json:"data"`
}

// virtualKey finds a virtual key. If several workspaces have one with the slug, none is
// returned, because the wrong one could be chosen.
func (c *call) virtualKey(slugOrID string) (*credentials.VirtualKey, error) {
	only, err := c.inWorkspace(c.item.query["workspace_id"])
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

// virtualKeysOf returns the virtual keys with a slug or id in a workspace, or, for "", in
// all.
func (c *call) virtualKeysOf(workspace, slugOrID string) (found []*credentials.VirtualKey) {
	if workspace != "" {
		if v, ok := c.api.Keyring.VirtualKey(workspace, slugOrID); ok {
			found = append(found, v)
		}
		return found
	}
	for _, v := range c.api.Keyring.VirtualKeys() {
		if v.Slug == slugOrID || v.ID == slugOrID {
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
	base, settled, ok := providers.BaseURL(in.Provider)
	if !ok {
		return nil, nil, invalid("provider", "there is no provider %q", credentials.Clip(in.Provider))
	}
	v := &credentials.VirtualKey{
		ID: storage.NewID(c.api.Random), Slug: in.Slug, Name: in.Name, Provider: in.Provider, WorkspaceID: w.ID,
	}
	secret, err := c.applyVirtualKey(v, &in.VirtualKeyFields, &in.Key)
	if err != nil {
		return nil, nil, err
	}
	if settled && v.CustomHost == "" {
		if err := c.complete(v); err != nil {
			return nil, nil, err
		}
	}
	if base == nil && !settled && v.CustomHost == "" {
		return nil, nil, invalid("custom_host", "provider %s has no address of its own, name one", v.Provider)
	}
	if _, err := uuid.Parse(v.Slug); err == nil || v.Slug == "cf" || v.Slug == "hf" {
		return nil, nil, invalid("slug", "expected a name that is no UUID and neither cf nor hf, which models begin with")
	}
	if c.api.ParseOptions.SavedProvider != nil && c.api.ParseOptions.SavedProvider(v.Slug) {
		return nil, nil, failure(http.StatusConflict, "slug: %q is a provider of the operator's configuration", v.Slug)
	}
	if v.Slug == "" {
		v.Slug = directory.NewSlug(c.api.Random, "", in.Name)
	}
	if err := c.api.Keyring.AddVirtualKey(c.tx, v, secret); err != nil {
		return v, nil, slugTaken(err, v.Slug)
	}
	out := &createdVirtualKey{Success: true}
	out.Data.ID, out.Data.Slug = v.ID, v.Slug
	return v, out, nil
}

// checkSecret refuses a credential that cannot be sent in a header.
func checkSecret(key string) error {
	if strings.TrimSpace(key) != key || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("key", "expected no white space around it and no control characters")
	}
	return nil
}

// applyVirtualKey applies the changes in in to v, which is new or a copy of a stored one.
// It returns the credential that was sent, if any. Stored secrets that are kept are bound
// to their destination.
func (c *call) applyVirtualKey(v *credentials.VirtualKey, in *VirtualKeyFields, key *string) (secret credentials.Secret, err error) {
	switch {
	case len(in.RateLimits.Value) > 0:
		return secret, invalid("rate_limits", "limits of a virtual key itself are not supported yet; make a rate-limit policy with the condition virtual_key")
	case len(in.UsageLimits.Value) > 0:
		return secret, invalid("usage_limits", "not supported yet; leave it out")
	case len(in.SecretMappings.Value) > 0:
		return secret, invalid("secret_mappings", "not supported yet; leave it out")
	case len(in.Note.Value) > 1024:
		return secret, invalid("note", "expected at most 1024 bytes")
	}
	if in.Note.Set {
		v.Note = in.Note.Value
	}
	stored, old, err := c.secretsOf(v)
	if err != nil {
		return secret, err
	}
	was, settings := v.CustomHost, ""
	if in.ModelConfig.Set || in.azure() {
		var host string
		if settings, host, err = c.settings(in); err != nil {
			return secret, err
		}
		if host != "" {
			v.CustomHost = host
		}
	}
	if in.CustomHost.Set {
		v.CustomHost = in.CustomHost.Value
	}
	if v.CustomHost != was {
		if _, err := c.api.Guard.Check(v.CustomHost); v.CustomHost != "" && err != nil {
			return secret, invalid("custom_host", "%s", credentials.CustomHostError(err).Message)
		}
	}
	if v.ExpiresAt, err = expiry(in.ExpiresAt, v.ExpiresAt, c.api.Now()); err != nil {
		return secret, err
	}
	secret, err = c.bind(v, stored, old, settings, key)
	var bound *credentials.BindingError
	if errors.As(err, &bound) {
		return secret, invalid(bound.Field, "%s", bound.Why)
	}
	return secret, err
}

// destination returns the destination of a virtual key's credentials, without its settings.
func destination(v *credentials.VirtualKey) credentials.Destination {
	return credentials.Destination{"provider": v.Provider, "custom_host": v.CustomHost}
}

// secretsOf returns the secrets of a stored virtual key, and its settings in JSON.
func (c *call) secretsOf(v *credentials.VirtualKey) (*credentials.Binding, string, error) {
	if v.Sealed == nil {
		return new(credentials.Binding), "{}", nil
	}
	key, err := c.api.Keyring.OpenKey(v)
	if err != nil {
		return nil, "", err
	}
	settings, err := c.api.Keyring.OpenSettings(v)
	if err != nil {
		return nil, "", err
	}
	plain := make(map[string]string, len(settings))
	for name, s := range settings {
		plain[name] = s.Reveal()
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, "", err
	}
	stored := routing.Secrets(string(text), destination(v))
	stored.Add(credentials.Bound{Field: "key", Name: "key", Secret: key, For: routing.Destination(string(text), destination(v))})
	return &stored, string(text), nil
}

// bind sets the settings of v to those that were sent, or keeps the stored ones, and
// returns the credential that was sent. A secret that is not sent in clear must keep its
// destination.
func (c *call) bind(v *credentials.VirtualKey, stored *credentials.Binding, old, sent string, key *string) (secret credentials.Secret, err error) {
	settings := sent
	if sent == "" {
		settings = old
	}
	to := routing.Destination(settings, destination(v))
	if key == nil || *key == "" || *key == v.Hint { // sending the masked value back changes nothing
		err = stored.Keep("key", to)
	} else if err = checkSecret(*key); err == nil {
		secret, err = stored.Take("key", "key", *key, to)
	}
	if err != nil {
		return secret, err
	}
	if sent == "" {
		for _, name := range routing.SecretKeys {
			if err := stored.Keep(name, to); err != nil {
				return secret, err
			}
		}
		return secret, nil
	}
	if settings, err = routing.Receive(sent, stored, destination(v)); err != nil {
		return secret, err
	}
	list, faults := routing.Settings([]byte(settings), c.api.ParseOptions)
	if len(faults) > 0 {
		return secret, invalid("model_config", "%s", strings.Join(faults.Strings(), "; "))
	}
	sealed := make(map[string]credentials.Secret, len(list))
	for _, s := range list {
		sealed[s.Name] = s.Value
	}
	v.ModelConfig = json.RawMessage(routing.Mask(settings))
	return secret, c.api.Keyring.SealSettings(v, sealed)
}

// azure reports whether a setting of Azure OpenAI is given by its older name.
func (in *VirtualKeyFields) azure() bool {
	return in.APIVersion.Set || in.ResourceName.Set || in.DeploymentName.Set || in.DeploymentConfig.Set
}

// settings returns the provider's settings as sent, in JSON, and the address among them,
// which is a custom host.
func (c *call) settings(in *VirtualKeyFields) (text, host string, err error) {
	given := make(map[string]any, len(in.ModelConfig.Value)+4)
	maps.Copy(given, in.ModelConfig.Value)
	for name, value := range map[string]Optional[string]{
		"azure_api_version": in.APIVersion, "azure_resource_name": in.ResourceName, "azure_deployment_id": in.DeploymentName,
	} {
		if value.Value != "" {
			given[name] = value.Value
		}
	}
	if len(in.DeploymentConfig.Value) > 0 {
		given["azure_deployment_config"] = in.DeploymentConfig.Value
	}
	b, err := json.Marshal(given)
	if err != nil {
		return "", "", err
	}
	list, faults := routing.Settings(b, c.api.ParseOptions)
	if len(faults) > 0 {
		return "", "", invalid("model_config", "%s", strings.Join(faults.Strings(), "; "))
	}
	return string(b), routing.Host(list), nil
}

// complete returns an error if a virtual key lacks a setting that its provider's address
// needs.
func (c *call) complete(v *credentials.VirtualKey) error {
	settings, err := c.api.Keyring.OpenSettings(v)
	if err != nil {
		return err
	}
	p, _ := providers.Lookup(v.Provider)
	for _, name := range p.Settings() {
		if s := settings[name]; s.Empty() {
			return invalid("model_config", "%s is required for provider %s", name, v.Provider)
		}
	}
	return nil
}
