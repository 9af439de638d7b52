package admin

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/storage"
)

// APIKey is an API key as shown by the control plane. The key itself is masked.
type APIKey struct {
	ID                  string         `json:"id" doc:"A UUID; of the owner's key of the configuration admin_key."`
	Key                 string         `json:"key" doc:"Masked."`
	Name                string         `json:"name"`
	Description         *string        `json:"description"`
	Type                string         `json:"type" enum:"organisation-service,workspace-service,workspace-user"`
	OrganisationID      string         `json:"organisation_id" format:"uuid"`
	WorkspaceID         *string        `json:"workspace_id"`
	UserID              *string        `json:"user_id"`
	Status              string         `json:"status" enum:"active,exhausted,expired"`
	CreatedAt           string         `json:"created_at" format:"date-time"`
	LastUpdatedAt       string         `json:"last_updated_at" format:"date-time"`
	CreationMode        string         `json:"creation_mode" enum:"api,auto"`
	RateLimits          []carriedRate  `json:"rate_limits"`
	UsageLimits         *shownBudget   `json:"usage_limits"`
	LastResetAt         *string        `json:"last_reset_at" format:"date-time" doc:"Of its usage."`
	NextUsageResetAt    *string        `json:"next_usage_reset_at" format:"date-time" doc:"The same as in usage_limits."`
	ResetUsage          *float64       `json:"reset_usage"`
	Scopes              []string       `json:"scopes"`
	DefaultsID          *string        `json:"api_key_defaults_id" doc:"The id of its defaults, which are a part of it: its own. null: it has none."`
	Defaults            apiKeyDefaults `json:"defaults"`
	AllowConfigOverride *bool          `json:"allow_config_override"`
	AlertEmails         []string       `json:"alert_emails"`
	ExpiresAt           *string        `json:"expires_at"`
	ExpiryEnforced      int            `json:"expiry_enforced" enum:"1" doc:"A key that has expired is refused."`
	LastUsedAt          *string        `json:"last_used_at" doc:"To the minute."`
	RotationPolicy      *shownRotation `json:"rotation_policy"`
	TransitionEndsAt    *string        `json:"key_transition_expires_at" doc:"When the secret before the last rotation stops working."`
	Object              string         `json:"object" enum:"api-key"`
}

type apiKeyDefaults struct {
	Metadata            json.RawMessage `json:"metadata,omitempty"`
	ConfigID            *string         `json:"config_id"`
	AllowConfigOverride *bool           `json:"allow_config_override"`
}

func showAPIKey(c *call, k *credentials.APIKey) APIKey {
	used, err := c.api.Keyring.LastUse(c, k.ID)
	if err != nil {
		c.api.Logger.Error("reading when an API key was last used", zap.String("key_id", k.ID), zap.Error(err))
	}
	transition := k.PreviousUntil
	if !k.InTransition(c.api.Now()) {
		transition = nil
	}
	limits := c.limitsOf(k.ID)
	var resets *string
	if limits.budget != nil {
		resets = limits.budget.NextUsageResetAt
	}
	var defaults *string
	if k.Metadata != nil || k.ConfigID != "" || k.AllowOverride != nil {
		defaults = &k.ID
	}
	return APIKey{
		DefaultsID: defaults, NextUsageResetAt: resets, ExpiryEnforced: 1,
		LastResetAt: limits.lastResetAt, RateLimits: limits.rates, UsageLimits: limits.budget,
		LastUsedAt: formatOptionalTime(used), RotationPolicy: showRotation(k.Rotation), TransitionEndsAt: formatOptionalTime(transition),
		ID: k.ID, Key: k.Hint, Name: k.Name, Type: string(k.Kind), OrganisationID: k.OrganisationID,
		Description: text(k.Description), WorkspaceID: text(k.WorkspaceID), UserID: text(k.UserID), Status: limits.statusOr(k.Status(c.api.Now())),
		CreatedAt: formatTime(k.CreatedAt), LastUpdatedAt: formatTime(k.UpdatedAt), CreationMode: k.CreationMode,
		Scopes: k.Scopes, AllowConfigOverride: k.AllowOverride, AlertEmails: k.AlertEmails,
		ExpiresAt: formatOptionalTime(k.ExpiresAt), Object: "api-key",
		Defaults: apiKeyDefaults{Metadata: k.Metadata, ConfigID: text(k.ConfigID), AllowConfigOverride: k.AllowOverride},
	}
}

type createdAPIKey struct {
	ID     string `json:"id" format:"uuid"`
	Key    string `json:"key" doc:"The key itself. It is shown this once."`
	Object string `json:"object" enum:"api-key"`
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// APIKeyFields are the fields of both create and update. Fields of features that are
// not implemented are rejected instead of ignored.
type APIKeyFields struct {
	CarriedFields
	Description    Optional[string]         `json:"description,omitempty"`
	Defaults       Optional[defaultsInput]  `json:"defaults,omitempty"`
	AlertEmails    []string                 `json:"alert_emails,omitempty" maxItems:"50" format:"email"`
	ExpiresAt      Optional[time.Time]      `json:"expires_at,omitempty"`
	RotationPolicy Optional[rotationPolicy] `json:"rotation_policy,omitempty"`
	Type           string                   `json:"type,omitempty" maxLength:"255" doc:"That of the key, which it has by the path of its creation and which one client repeats."`
	SubType        string                   `json:"sub-type,omitempty" maxLength:"255" doc:"The same: service or user."`

	may bool // whether the permissions of the key are changed
}

type defaultsInput struct {
	Metadata            map[string]any `json:"metadata,omitempty"`
	ConfigID            *string        `json:"config_id,omitempty"`
	AllowConfigOverride *flag          `json:"allow_config_override,omitempty"`
}

type createAPIKey struct {
	APIKeyFields
	Name           string   `json:"name" minLength:"1" maxLength:"255"`
	OrganisationID string   `json:"organisation_id,omitempty" format:"uuid"`
	WorkspaceID    string   `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
	UserID         string   `json:"user_id,omitempty" format:"uuid"`
	Scopes         []string `json:"scopes" minItems:"1" maxItems:"500"`
}

type updateAPIKey struct {
	APIKeyFields
	ID         string   `json:"id,omitempty" doc:"Sent by one client in addition to the path; ignored."`
	Name       *string  `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Scopes     []string `json:"scopes,omitempty" minItems:"1" maxItems:"500"`
	ResetUsage flag     `json:"reset_usage,omitempty" nullable:"true" doc:"Whether what was used of its budget becomes 0. null, as which it is shown: it stays."`
}

func keyScopes(action string) []string {
	var all []string
	for _, kind := range []credentials.Kind{credentials.OrganisationService, credentials.WorkspaceService, credentials.WorkspaceUser} {
		all = append(all, kind.Resource()+"."+action)
	}
	return all
}

// apiKeyFilter holds the query parameters of the list.
type apiKeyFilter struct {
	WorkspaceFilter
	IDs []string `query:"ids" maxItems:"1000" doc:"Only these ids, comma-separated."`
}

func (a *API) apiKeys() {
	keys := &resource[credentials.APIKey]{
		path: "/api-keys", param: "id", noun: "API key", kind: audit.APIKeys, scopes: keyScopes,
		rows:   func(c *call) []*credentials.APIKey { return c.api.Keyring.APIKeys() },
		rowsOf: func(c *call, workspace string) []*credentials.APIKey { return c.api.Keyring.APIKeysIn(workspace) },
		find: func(c *call, id string) (*credentials.APIKey, error) {
			return found(c.api.Keyring.APIKey(strings.ToLower(id)))
		},
		name: func(k *credentials.APIKey) string { return k.ID },
		secrets: func(_ *call, k *credentials.APIKey, is func(secret string, path ...string)) error {
			is(string(k.Digest[:]), "key")
			return nil
		},
		workspace: func(k *credentials.APIKey) string { return k.WorkspaceID },
		allow:     (*call).mayAct,
	}
	for path, kind := range map[string]credentials.Kind{
		"/api-keys/organisation/service": credentials.OrganisationService,
		"/api-keys/workspace/service":    credentials.WorkspaceService,
		"/api-keys/workspace/user":       credentials.WorkspaceUser,
	} {
		ofKind := *keys
		ofKind.shownAs, ofKind.path, ofKind.noun, ofKind.scope, ofKind.scopes = keys.path, path, "API key of kind "+string(kind), kind.Resource(), nil
		create(a, &ofKind, func(c *call, in *createAPIKey) (*credentials.APIKey, *createdAPIKey, error) {
			return c.createAPIKey(kind, in)
		})
	}
	listChosen(a, keys, func(c *call, workspace string, f *apiKeyFilter) (choice[credentials.APIKey], error) {
		for _, id := range f.IDs {
			if _, err := uuid.Parse(id); err != nil {
				return choice[credentials.APIKey]{}, invalid("ids", "expected UUIDs separated by commas, got %q", credentials.Clip(id))
			}
		}
		return c.chooseAPIKeys(keys.all(c, workspace), f.IDs), nil
	}, showAPIKey)
	get(a, keys, showAPIKey)
	update(a, keys, (*call).updateAPIKey)
	a.rotation(keys)
	remove(a, keys, "Revoke", func(c *call, k *credentials.APIKey) error { return c.revoke(k) })
}

// chooseAPIKeys limits a list to the kinds of keys that the caller may list, and to ids, unless there
// are none.
func (c *call) chooseAPIKeys(all choice[credentials.APIKey], ids []string) choice[credentials.APIKey] {
	if len(ids) > 0 {
		all.rows, all.foreign = nil, true
		for _, id := range ids {
			if k, ok := c.api.Keyring.APIKey(strings.ToLower(id)); ok {
				all.rows = append(all.rows, k)
			}
		}
		all.rows = inOrder(func(k *credentials.APIKey) string { return k.ID }, all.rows)
	}
	if slices.ContainsFunc(keyScopes("list"), func(scope string) bool { return !c.caller.May(scope) }) {
		all.only(func(k *credentials.APIKey) bool { return c.caller.May(k.Kind.Resource() + ".list") })
	}
	return all
}

func (c *call) updateAPIKey(k *credentials.APIKey, in *updateAPIKey) (err error) {
	if k.ID == c.caller.KeyID && (in.Scopes != nil || in.ExpiresAt.Set || in.Defaults.Set || in.RotationPolicy.Set || in.given() || bool(in.ResetUsage)) {
		return forbidden("A key cannot change its own scopes, expires_at, defaults, rotation_policy and limits")
	}
	if k.ID == c.caller.CountedAs && (in.given() || bool(in.ResetUsage)) {
		return forbidden("A key cannot change the limits that its own calls count against")
	}
	assign(&k.Name, in.Name)
	if in.Scopes != nil {
		in.may = true
		if k.Scopes, err = c.grant(k.Kind, in.Scopes); err != nil {
			return err
		}
	}
	if err := c.apply(k, &in.APIKeyFields); err != nil {
		return err
	}
	if err := c.setLimits(carriedBy(k), in.limits(), bool(in.ResetUsage)); err != nil {
		return err
	}
	return c.api.Keyring.ReplaceAPIKey(c.tx, k)
}

func (c *call) createAPIKey(kind credentials.Kind, in *createAPIKey) (*credentials.APIKey, *createdAPIKey, error) {
	k := &credentials.APIKey{
		Name: in.Name, Kind: kind, OrganisationID: c.caller.OrganisationID, UserID: strings.ToLower(in.UserID), CreationMode: "api",
	}
	if in.OrganisationID != "" && !strings.EqualFold(in.OrganisationID, c.caller.OrganisationID) {
		return nil, nil, forbidden("organisation_id: the %s belongs to another organisation", c.credential())
	}
	switch {
	case kind.Workspace():
		w, err := c.workspace(in.WorkspaceID)
		if err != nil {
			return nil, nil, err
		}
		k.WorkspaceID = w.ID
	case in.WorkspaceID != "":
		return nil, nil, invalid("workspace_id", "an organisation key belongs to no workspace")
	}
	if kind == credentials.WorkspaceUser && c.caller.Rights != nil && k.UserID == "" {
		k.UserID = c.caller.UserID
	}
	if in.UserID != "" {
		if kind != credentials.WorkspaceUser {
			return nil, nil, invalid("user_id", "only a key of kind workspace-user belongs to a user")
		}
		if _, err := uuid.Parse(in.UserID); err != nil {
			return nil, nil, invalid("user_id", "expected a UUID")
		}
		if err := c.ofUser(k.WorkspaceID, k.UserID); err != nil {
			return nil, nil, err
		}
	}
	if c.caller.Kind.Workspace() && c.caller.Rights == nil {
		k.CountedAs = c.caller.CountedAs // otherwise, creating more keys would raise the limits
	}
	var err error
	if k.Scopes, err = c.grant(kind, in.Scopes); err != nil {
		return nil, nil, err
	}
	if err = c.apply(k, &in.APIKeyFields); err != nil {
		return nil, nil, err
	}
	id := storage.NewID(c.api.Random)
	key, err := c.api.Keyring.Issue(c.tx, id, c.api.KeyPrefix, k)
	if err != nil {
		return nil, nil, err
	}
	return k, &createdAPIKey{id, key.Reveal(), "api-key"}, c.setLimits(carriedBy(k), in.limits(), false)
}

// carriedBy names a key as what has limits.
func carriedBy(k *credentials.APIKey) policies.Carried {
	return policies.Carried{Carrier: policies.KeyAPIKey, ID: k.ID, WorkspaceID: k.WorkspaceID, OrganisationID: k.OrganisationID}
}

// revoke removes a key. Its limits stay while they count the calls of other keys, which it has
// made: otherwise each of them could revoke it, and would have no limits any more.
func (c *call) revoke(k *credentials.APIKey) error {
	if err := c.api.Keyring.Revoke(c.tx, k.ID); err != nil {
		return err
	}
	for _, id := range []string{k.ID, k.CountedAs} {
		if c.countsCalls(id) {
			continue
		}
		if err := c.dropLimits(id); err != nil {
			return err
		}
	}
	return nil
}

// countsCalls reports whether the limits of a key count calls: it has some, and it is there, or
// keys are that count as it.
func (c *call) countsCalls(id string) bool {
	if _, has := c.carried().Get(id); !has {
		return false
	}
	return slices.ContainsFunc(c.api.Keyring.APIKeys(), func(k *credentials.APIKey) bool { return k.ID == id || k.CountedAs == id })
}

// checkKind refuses a kind that is said to be another one than that of the key.
func (in *APIKeyFields) checkKind(k *credentials.APIKey) error {
	of, sub, _ := strings.Cut(string(k.Kind), "-")
	switch {
	case in.Type != "" && in.Type != of && in.Type != string(k.Kind):
		return invalid("type", "the key is one of kind %s, which cannot change; make another key", k.Kind)
	case in.SubType != "" && in.SubType != sub:
		return invalid("sub-type", "the key is one of kind %s, which cannot change; make another key", k.Kind)
	}
	return nil
}

func (c *call) apply(k *credentials.APIKey, in *APIKeyFields) (err error) {
	if err := in.checkKind(k); err != nil {
		return err
	}
	if err := applyText("description", &in.Description, &k.Description); err != nil {
		return err
	}
	if in.Defaults.Set {
		if k.Metadata, err = encodeMetadata(in.Defaults.Value.Metadata); err != nil {
			return err
		}
		k.AllowOverride = (*bool)(in.Defaults.Value.AllowConfigOverride)
		k.ConfigID = ""
		if id := in.Defaults.Value.ConfigID; id != nil && *id != "" {
			s, ok := c.api.Configs.Get(*id)
			if !ok || s.WorkspaceID != k.WorkspaceID {
				return unknownReference("defaults.config_id", "there is no config %q in the key's workspace", credentials.Clip(*id))
			}
			k.ConfigID = s.ID
		}
	}
	if w, ok := c.api.Directory.Workspace(k.WorkspaceID); ok && k.ID == "" && k.Kind == credentials.WorkspaceUser && in.Defaults.Value.ConfigID == nil {
		k.ConfigID = w.UserKeyConfig
	}
	if in.AlertEmails != nil {
		k.AlertEmails = in.AlertEmails
	}
	if in.RotationPolicy.Set && !in.RotationPolicy.Null && in.RotationPolicy.Value.is(k.Rotation) {
		in.RotationPolicy = Optional[rotationPolicy]{} // written back as it was shown
	}
	if err := c.applyRotation(k, in.RotationPolicy); err != nil {
		return err
	}
	if k.ExpiresAt, err = expiry(in.ExpiresAt, k.ExpiresAt, c.api.Now()); err != nil {
		return err
	}
	if err := c.applyUserKeySettings(k, in); err != nil {
		return err
	}
	return c.bounded(k, in)
}

const maxMetadata = 16 << 10

func encodeMetadata(m map[string]any) (json.RawMessage, error) {
	if len(m) == 0 {
		return nil, nil
	}
	if err := identity.CheckMetadata(m); err != nil {
		return nil, invalid("defaults.metadata", "%v", err)
	}
	raw, err := json.Marshal(m)
	if err == nil && len(raw) > maxMetadata {
		return nil, invalid("defaults.metadata", "expected at most %d bytes", maxMetadata)
	}
	return raw, err
}

// Interface guards
var _ huma.SchemaProvider = Optional[string]{}
