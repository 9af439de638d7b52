package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Config is a saved config as shown by the control plane. Lists omit the text.
type Config struct {
	ID             string  `json:"id" format:"uuid"`
	Slug           string  `json:"slug"`
	Name           string  `json:"name"`
	WorkspaceID    string  `json:"workspace_id"`
	OrganisationID string  `json:"organisation_id" format:"uuid"`
	IsDefault      int     `json:"is_default" enum:"0,1"`
	Status         string  `json:"status" enum:"active,archived"`
	OwnerID        *string `json:"owner_id"`
	UpdatedBy      *string `json:"updated_by"`
	CreatedAt      string  `json:"created_at" format:"date-time"`
	LastUpdatedAt  string  `json:"last_updated_at" format:"date-time"`
	Config         *string `json:"config,omitempty" doc:"The config as a string of JSON, its credentials masked."`
	Format         string  `json:"format,omitempty" enum:"json"`
	Type           string  `json:"type,omitempty" enum:"ORG_CONFIG"`
	VersionID      string  `json:"version_id" format:"uuid"`
	Version        int     `json:"version" doc:"Counted from 1; a call pins one with slug@version or x-gw-config-version."`
	Object         string  `json:"object" enum:"config"`
}

func showConfig(_ *call, s *routing.Saved) Config {
	out := Config{
		ID: s.ID, Slug: s.Slug, Name: s.Name, WorkspaceID: s.WorkspaceID, OrganisationID: s.OrganisationID, Status: "active",
		OwnerID: text(s.OwnerID), UpdatedBy: text(s.UpdatedBy), CreatedAt: formatTime(s.CreatedAt), LastUpdatedAt: formatTime(s.UpdatedAt),
		VersionID: s.Current().ID, Version: s.Current().Number, Object: "config",
	}
	if s.Default {
		out.IsDefault = 1
	}
	if s.Archived {
		out.Status = "archived"
	}
	return out
}

func (c *call) showVersion(s *routing.Saved, v *routing.Version) (*Config, error) {
	text, err := c.api.Configs.Text(v)
	if err != nil {
		return nil, err
	}
	if err := c.reserve(len(text)); err != nil {
		return nil, err
	}
	masked := routing.Mask(text)
	out := showConfig(c, s)
	out.Config, out.Format, out.Type, out.VersionID, out.Version = &masked, "json", "ORG_CONFIG", v.ID, v.Number
	return &out, nil
}

// showSavedVersion shows a version with who saved it, and when.
func (c *call) showSavedVersion(s *routing.Saved, v *routing.Version) (*Config, error) {
	out, err := c.showVersion(s, v)
	if err == nil {
		out.UpdatedBy, out.LastUpdatedAt = text(v.CreatedBy), formatTime(v.CreatedAt)
	}
	return out, err
}

// configText is a config, as an object or as a string that contains one.
type configText string

func (t *configText) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	*t = configText(b)
	return nil
}

func (configText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeObject, AdditionalProperties: true}, {Type: huma.TypeString}}}
}

type createConfig struct {
	Name         string     `json:"name" minLength:"1" maxLength:"255"`
	Config       configText `json:"config" doc:"A config object, or a string that holds one."`
	IsDefault    *flag      `json:"isDefault,omitempty"`
	DefaultSnake *flag      `json:"is_default,omitempty" doc:"The same as isDefault, in snake case, which some clients make of all members of a body."`
	AllowMissing flag       `json:"allow_missing,omitempty" doc:"Whether what the config names need not exist yet."`
	WorkspaceID  string     `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updateConfig struct {
	Slug         string      `json:"slug,omitempty" maxLength:"255" doc:"That of the path, which some clients repeat."`
	Name         *string     `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Config       *configText `json:"config,omitempty"`
	VersionID    string      `json:"version_id,omitempty" maxLength:"255" doc:"Rolls back: the text of this version, by its id or number, becomes the newest one. With config, it is the newest one, as it is shown."`
	IsDefault    *flag       `json:"isDefault,omitempty"`
	DefaultSnake *flag       `json:"is_default,omitempty" doc:"The same as isDefault."`
	Status       string      `json:"status,omitempty" enum:"active,archived"`
	AllowMissing flag        `json:"allow_missing,omitempty" doc:"Whether what the config names need not exist yet."`
}

// A flag is a boolean. Some clients send 0, 1 or a string.
type flag bool

func (f *flag) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true", "1", `"true"`, `"1"`:
		*f = true
	case "false", "0", `"false"`, `"0"`, "null":
		*f = false
	default:
		return errors.New("expected true or false")
	}
	return nil
}

func (flag) Schema(huma.Registry) *huma.Schema {
	return flagSchema(false, "")
}

// flagSchema describes a [flag], which may be null.
func flagSchema(nullable bool, doc string) *huma.Schema {
	s := &huma.Schema{Description: doc, Nullable: nullable, OneOf: []*huma.Schema{{Type: huma.TypeBoolean}, {Type: huma.TypeInteger}, {Type: huma.TypeString}}}
	return s
}

// savedConfig is the response to a write. Some clients read the outer level, and others
// data.
type savedConfig struct {
	Success bool `json:"success"`
	ConfigIDs
	Data ConfigIDs `json:"data"`
}

// ConfigIDs are the ids of a config and its version.
type ConfigIDs struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id" format:"uuid"`
	Object    string `json:"object" enum:"config"`
}

func saved(s *routing.Saved) *savedConfig {
	ids := ConfigIDs{s.ID, s.Slug, s.Current().ID, "config"}
	return &savedConfig{true, ids, ids}
}

func (a *API) configs() {
	configs := &resource[routing.Saved]{
		path: "/configs", param: "slug", noun: "config", kind: audit.Configs, scope: "configs",
		rows:   func(c *call) []*routing.Saved { return c.api.Configs.Listed("") },
		rowsOf: func(c *call, workspace string) []*routing.Saved { return c.api.Configs.Listed(workspace) },
		find:   func(c *call, slug string) (*routing.Saved, error) { return found(c.api.Configs.Get(slug)) },
		name:   func(s *routing.Saved) string { return s.Slug },
		secrets: func(c *call, s *routing.Saved, is func(secret string, path ...string)) error {
			text, err := c.api.Configs.Text(s.Current())
			is(text, "config")
			return err
		},
		workspace: func(s *routing.Saved) string { return s.WorkspaceID },
	}
	create(a, configs, (*call).createConfig)
	list[routing.Saved, WorkspaceFilter](a, configs, nil, showConfig)
	read(a, configs, "", "Get a config", func(c *call, s *routing.Saved) (*Config, error) { return c.showVersion(s, s.Current()) })
	versions(a, configs, func(s *routing.Saved) []routing.Version { return s.Versions }, each((*call).showSavedVersion))
	version(a, configs, (*routing.Saved).Version, (*call).showSavedVersion)
	act(a, configs, http.MethodPut, "", "update", "Update a config; a new text is a new version", (*call).updateConfig)
	remove(a, configs, "Delete", func(c *call, s *routing.Saved) error {
		if err := unused(c, "config", s, dependentsOfConfigs); err != nil {
			return err
		}
		return c.api.Configs.Delete(c.tx, s.ID)
	})
}

func (c *call) createConfig(in *createConfig) (*routing.Saved, *savedConfig, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	text, err := c.configText(string(in.Config), "{}", w.ID, bool(in.AllowMissing))
	if err != nil {
		return nil, nil, err
	}
	isDefault, err := defaultOf(in.IsDefault, in.DefaultSnake, false)
	if err != nil {
		return nil, nil, err
	}
	s := &routing.Saved{
		Slug: directory.NewSlug(c.api.Random, "pc", in.Name), Name: in.Name, WorkspaceID: w.ID,
		OrganisationID: c.caller.OrganisationID, OwnerID: c.caller.UserID, Default: isDefault,
	}
	if err := c.api.Configs.Put(c.tx, s, text, c.caller.KeyID); err != nil {
		return s, nil, err
	}
	return s, saved(s), nil
}

// defaultOf returns whether a config is a default: as one of the two names of that says, or as it was.
func defaultOf(camel, snake *flag, was bool) (bool, error) {
	switch {
	case camel != nil && snake != nil && *camel != *snake:
		return was, invalid("is_default", "it is the same as isDefault, which says otherwise; leave one of them out")
	case camel != nil:
		return bool(*camel), nil
	case snake != nil:
		return bool(*snake), nil
	}
	return was, nil
}

func (c *call) updateConfig(s *routing.Saved, in *updateConfig) (*savedConfig, error) {
	if in.Slug != "" && in.Slug != s.Slug && in.Slug != s.ID {
		return nil, invalid("slug", "expected that of the path, or none: it does not change")
	}
	assign(&s.Name, in.Name)
	var err error
	if s.Default, err = defaultOf(in.IsDefault, in.DefaultSnake, s.Default); err != nil {
		return nil, err
	}
	if in.Status != "" {
		if in.Status == "archived" && !s.Archived {
			if err := unused(c, "config", s, dependentsOfConfigs); err != nil {
				return nil, err
			}
		}
		s.Archived = in.Status == "archived"
	}
	text, err := c.nextText(s, in)
	if err != nil {
		return nil, err
	}
	if err := c.api.Configs.Put(c.tx, s, text, c.caller.KeyID); err != nil {
		return nil, err
	}
	return saved(s), nil
}

// nextText returns the text of the version that an update creates, or "" if it creates
// none.
func (c *call) nextText(s *routing.Saved, in *updateConfig) (string, error) {
	old := s.Current()
	switch {
	case in.Config != nil && in.VersionID != "" && in.VersionID != old.ID: // which a client sends back as it was shown
		return "", invalid("version_id", "expected either config or version_id, not both")
	case in.Config == nil && in.VersionID != "":
		var ok bool
		if old, ok = s.Version(in.VersionID); !ok {
			return "", unknownReference("version_id", "the config has no version %q", credentials.Clip(in.VersionID))
		}
	case in.Config == nil:
		return "", nil
	}
	text, err := c.api.Configs.Text(old)
	if err != nil {
		return "", err
	}
	if in.Config == nil { // rolled back
		return c.configText(text, text, s.WorkspaceID, bool(in.AllowMissing))
	}
	sent, err := c.configText(string(*in.Config), text, s.WorkspaceID, bool(in.AllowMissing))
	if err == nil && sent == text { // as it was shown
		return "", nil
	}
	return sent, err
}

// configText checks a config and returns its text, with masked secrets replaced by
// those in old. The error lists everything that is wrong. Everything that the config
// refers to must exist, unless allowMissing is set.
func (c *call) configText(text, old, workspace string, allowMissing bool) (string, error) {
	o := c.api.ParseOptions
	o.Workspace = workspace
	if !allowMissing {
		references := c.references()
		o.Missing = func(r routing.Reference) string {
			why := references.Missing(workspace, r)
			if why != "" {
				why += " (allow_missing saves the config all the same)"
			}
			return why
		}
	}
	// Errors are reported first, because the credentials of an invalid config cannot be
	// found reliably. Checks are made of the credentials, and not of their masks.
	masked := o
	masked.BrokenChecks = true
	if _, faults := routing.Parse([]byte(text), masked); len(faults) > 0 {
		_, faults = routing.Parse([]byte(text), o)
		return "", wrongConfig(faults)
	}
	whole, err := routing.Unmask(text, old)
	if err != nil {
		return "", invalid("config", "%s", err)
	}
	if _, faults := routing.Parse([]byte(whole), o); len(faults) > 0 {
		return "", wrongConfig(faults)
	}
	return whole, nil
}

func wrongConfig(faults routing.ConfigErrors) error {
	return failure(http.StatusBadRequest, "config: %s", strings.TrimPrefix(strings.Join(faults.Strings(), "; "), "config: "))
}
