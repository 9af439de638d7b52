package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/storage"
)

// UserKeySettings are the settings of user keys as the control plane shows them.
type UserKeySettings struct {
	AutoCreate   bool  `json:"user_api_key_auto_create" doc:"Whether a user key is made for each member who joins."`
	RotationDays *int  `json:"user_api_key_rotation_period" doc:"Days after which every user key is rotated; null: as its own policy says."`
	TTL          int64 `json:"user_api_key_ttl" doc:"Seconds until a user key expires that is made without expires_at; 0: never."`
	MaxTTL       int64 `json:"user_api_key_max_ttl" doc:"Seconds until a user key expires at the latest; 0: never."`
	Count        int   `json:"user_api_key_count" doc:"User keys that a user has at most in a workspace; -1: any number."`

	Metadata         map[string]string `json:"user_key_metadata" doc:"What user keys have in the metadata of their defaults, from when they are made or their defaults are changed."`
	MetadataOverride bool              `json:"user_key_metadata_override" doc:"Whether user keys may have other values of it."`
}

func showUserKeys(u directory.UserKeys) UserKeySettings {
	out := UserKeySettings{AutoCreate: u.AutoCreate, TTL: u.TTL, MaxTTL: u.MaxTTL, Count: -1, Metadata: u.Metadata, MetadataOverride: u.MetadataOverride}
	if u.RotationDays != 0 {
		out.RotationDays = &u.RotationDays
	}
	if u.Count != nil {
		out.Count = *u.Count
	}
	return out
}

// UpdateUserKeys are settings of user keys in a request. Those that are left out are kept.
type UpdateUserKeys struct {
	AutoCreate   *flag                    `json:"user_api_key_auto_create,omitempty" doc:"Whether a user key is made for each member who joins. Its secret is got by rotating it."`
	RotationDays Optional[rotationPeriod] `json:"user_api_key_rotation_period,omitempty" doc:"Days from 1 to 365, weekly or monthly; null: as the policies of the keys say."`
	TTL          Optional[int64]          `json:"user_api_key_ttl,omitempty" doc:"Seconds until a user key expires that is made without expires_at; null or 0: never."`
	MaxTTL       Optional[int64]          `json:"user_api_key_max_ttl,omitempty" doc:"Seconds until a user key expires at the latest; null or 0: never."`
	Count        Optional[int]            `json:"user_api_key_count,omitempty" doc:"User keys that a user has at most in a workspace; null or -1: any number."`

	Metadata         Optional[map[string]string] `json:"user_key_metadata,omitempty" doc:"What user keys have in the metadata of their defaults, from when they are made or their defaults are changed; replaced as a whole. null: nothing."`
	MetadataOverride *flag                       `json:"user_key_metadata_override,omitempty" doc:"Whether user keys may have other values of it."`
}

func (in *UpdateUserKeys) given() bool {
	return in.AutoCreate != nil || in.RotationDays.Set || in.TTL.Set || in.MaxTTL.Set || in.Count.Set || in.Metadata.Set || in.MetadataOverride != nil
}

// rotationPeriod is a number of days, or a word for one.
type rotationPeriod int

// UnmarshalJSON reads either.
func (p *rotationPeriod) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"weekly"`:
		*p = 7
		return nil
	case `"monthly"`:
		*p = 30
		return nil
	}
	if json.Unmarshal(b, (*int)(p)) != nil {
		return errors.New("expected days from 1 to 365, weekly or monthly")
	}
	return nil
}

// Schema describes both.
func (rotationPeriod) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{AnyOf: []*huma.Schema{
		{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(credentials.MaxRotationDays))},
		{Type: huma.TypeString, Enum: []any{credentials.RotateWeekly, credentials.RotateMonthly}},
		{Type: "null"},
	}}
	for _, one := range s.AnyOf {
		one.PrecomputeMessages()
	}
	s.PrecomputeMessages()
	return s
}

// apply returns u with the changes of the request. at is where they are in it.
func (in *UpdateUserKeys) apply(at string, u directory.UserKeys) (directory.UserKeys, error) {
	if in.AutoCreate != nil {
		u.AutoCreate = bool(*in.AutoCreate)
	}
	if in.RotationDays.Set {
		if u.RotationDays = int(in.RotationDays.Value); !in.RotationDays.Null && u.RotationDays == 0 {
			u.RotationDays = -1 // which it may not be either
		}
	}
	if in.TTL.Set {
		u.TTL = in.TTL.Value
	}
	if in.MaxTTL.Set {
		u.MaxTTL = in.MaxTTL.Value
	}
	if in.Count.Set {
		u.Count = &in.Count.Value
		if in.Count.Null || in.Count.Value == -1 {
			u.Count = nil
		}
	}
	if in.Metadata.Set {
		u.Metadata = in.Metadata.Value
	}
	if in.MetadataOverride != nil {
		u.MetadataOverride = bool(*in.MetadataOverride)
	}
	return u, identity.CheckUserKeys(&u, func(field, format string, args ...any) error {
		switch field {
		case "metadata":
			field = "user_key_metadata"
		case "rotation_days":
			field = "user_api_key_rotation_period"
		default:
			field = "user_api_key_" + field
		}
		return invalid(at+field, format, args...)
	})
}

// ofUser checks the user of a user key: a member of its workspace, or an admin of the organisation,
// who belongs to all of them. The error does not show whether there are others.
func (c *call) ofUser(workspace, user string) error {
	d := c.api.Directory
	if u, ok := d.User(user); ok {
		if _, member := d.Member(workspace, user); member || u.Role.Administers() {
			return nil
		}
	}
	return unknownReference("user_id", "the workspace has no member %q", credentials.Clip(user))
}

// applyUserKeySettings applies the settings of the workspace to a user key that a request created or
// changed.
func (c *call) applyUserKeySettings(k *credentials.APIKey, in *APIKeyFields) error {
	w, ok := c.api.Directory.Workspace(k.WorkspaceID)
	if !ok || k.Kind != credentials.WorkspaceUser {
		return nil
	}
	created, now, settings := k.ID == "", c.api.Now(), c.api.Directory.UserKeysOf(w)
	if created && settings.Count != nil {
		if n := c.api.Keyring.CountAPIKeysOfUser(k.UserID, k.WorkspaceID); n >= *settings.Count {
			return invalid("user_id", "the user has %d user keys in the workspace, which is all that user_api_key_count allows", n)
		}
	}
	if created && !in.ExpiresAt.Set {
		k.ExpiresAt = settings.Expiry(now)
	}
	if most := settings.MaxTTL; most > 0 && (created || in.ExpiresAt.Set) {
		if latest := now.Add(time.Duration(most) * time.Second); k.ExpiresAt == nil || k.ExpiresAt.After(latest) {
			return invalid("expires_at", "expected a time within user_api_key_max_ttl, %s at the latest", formatTime(latest))
		}
	}
	if created || in.Defaults.Set {
		if err := addMetadata(k, settings.Metadata, settings.MetadataOverride); err != nil {
			return err
		}
	}
	return c.obeyCadence(k, settings.RotationDays, in.RotationPolicy)
}

// addMetadata adds what the user keys of a workspace have to the metadata of one, which may have other
// values or not.
func addMetadata(k *credentials.APIKey, metadata map[string]string, other bool) error {
	if len(metadata) == 0 {
		return nil
	}
	all := make(map[string]any, len(metadata))
	if k.Metadata != nil {
		if err := json.Unmarshal(k.Metadata, &all); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		has, ok := all[name]
		switch {
		case !ok:
			all[name] = metadata[name]
		case has != metadata[name] && !other:
			return invalid("defaults.metadata", "expected %s to be %q, as user_key_metadata of the workspace says; leave it out", name, metadata[name])
		}
	}
	var err error
	k.Metadata, err = encodeMetadata(all)
	return err
}

// obeyCadence makes a key be rotated as often as its workspace says; 0: as its own policy says.
func (c *call) obeyCadence(k *credentials.APIKey, days int, in Optional[rotationPolicy]) error {
	if days == 0 {
		return nil
	}
	if in.Set && !in.Null {
		switch {
		case in.Value.NextAt != nil:
			return invalid("rotation_policy.next_rotation_at", "user_api_key_rotation_period says when the key is rotated; leave it out")
		case k.Rotation.Cadence() != days:
			return invalid("rotation_policy", "expected a period of %d days, as user_api_key_rotation_period says", days)
		}
	}
	if k.Rotation != nil {
		return nil
	}
	k.Rotation = &credentials.Rotation{Days: days}
	return k.Rotation.Begin(c.api.Now())
}

// memberScopes are those of user keys that are made for members who join: what calls need.
var memberScopes = []string{"agents.invoke", "completions.write", "guardrails.invoke", "mcp.invoke", "models.list", "prompts.render"}

// joined makes a user key for a user who has become a member of a workspace, if its settings say
// so. Nobody gets its secret: whoever may rotate the key gets another one.
func (c *call) joined(w *directory.Workspace, u *directory.User) error {
	settings := c.api.Directory.UserKeysOf(w)
	if !settings.AutoCreate || settings.Count != nil && c.api.Keyring.CountAPIKeysOfUser(u.ID, w.ID) >= *settings.Count {
		return nil
	}
	k := &credentials.APIKey{
		Name: u.Email, Kind: credentials.WorkspaceUser, OrganisationID: c.api.Directory.Organisation().ID, WorkspaceID: w.ID, UserID: u.ID,
		Scopes: memberScopes, ConfigID: w.UserKeyConfig, CreationMode: "auto", ExpiresAt: settings.Expiry(c.api.Now()),
	}
	if err := addMetadata(k, settings.Metadata, false); err != nil {
		return err
	}
	if err := c.obeyCadence(k, settings.RotationDays, Optional[rotationPolicy]{}); err != nil {
		return err
	}
	_, err := c.api.Keyring.Issue(c.tx, storage.NewID(c.api.Random), c.api.KeyPrefix, k)
	return err
}

// applySections applies what a workspace decides of the sections that are not security settings.
func (c *call) applySections(w *directory.Workspace, keys *UpdateUserKeys, export *exportSettings, plane *updateDataPlane) error {
	o := c.api.Directory.Organisation()
	closed := func(field, section string) error {
		if o.LetsDecide(section) {
			return nil
		}
		return invalid(field, "workspaces do not decide the section %s; workspace_overrides of the organisation lets them", section)
	}
	if keys != nil && keys.given() {
		if err := closed("settings", directory.UserAPIKeys); err != nil {
			return err
		}
		if w.Default && keys.AutoCreate != nil {
			return invalid("settings.user_api_key_auto_create", "default_workspace_user_api_key_auto_create of the organisation decides it for the default workspace")
		}
		before := c.api.Directory.UserKeysOf(w)
		if w.Default {
			before.AutoCreate = false
		}
		u, err := keys.apply("settings.", before)
		if err != nil {
			return err
		}
		w.DecideUserKeys(o, u)
	}
	if export != nil {
		if err := closed("export_settings", directory.ExportSettings); err != nil {
			return err
		}
		e, err := export.read()
		if err != nil {
			return err
		}
		w.DecideExport(o, e)
	}
	if plane != nil {
		if err := closed(directory.DataPlaneSecurity, directory.DataPlaneSecurity); err != nil {
			return err
		}
		before := c.api.Directory.DataPlaneOf(w)
		p := plane.apply(before)
		if o.BlocksInline(before, nil) && !o.BlocksInline(p, nil) && !c.administers() {
			return forbidden("data_plane_security_settings.block_inline_config: only admins turn it off")
		}
		w.DecideDataPlane(o, p)
	}
	return nil
}
