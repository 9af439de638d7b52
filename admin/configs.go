package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// Config is a saved config as the control plane shows it. Lists leave the text out.
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
	VersionID      string  `json:"version_id,omitempty" format:"uuid"`
	Version        int     `json:"version,omitempty" doc:"Counted from 1; a call pins one with slug@version or x-gw-config-version."`
	Object         string  `json:"object" enum:"config"`
}

func showConfig(c *routing.Saved) Config {
	out := Config{
		ID: c.ID, Slug: c.Slug, Name: c.Name, WorkspaceID: c.WorkspaceID, OrganisationID: c.OrganisationID, Status: "active",
		OwnerID: text(c.OwnerID), UpdatedBy: text(c.UpdatedBy), CreatedAt: formatTime(c.CreatedAt), LastUpdatedAt: formatTime(c.UpdatedAt),
		Object: "config",
	}
	if c.Default {
		out.IsDefault = 1
	}
	if c.Archived {
		out.Status = "archived"
	}
	return out
}

func showVersion(c *routing.Saved, v *routing.Version, text string) Config {
	out := showConfig(c)
	masked := routing.Mask(text)
	out.Config, out.Format, out.Type, out.VersionID, out.Version = &masked, "json", "ORG_CONFIG", v.ID, v.Number
	return out
}

// configText is a config, as an object or as a string that holds one.
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
	Name        string     `json:"name" minLength:"1" maxLength:"255"`
	Config      configText `json:"config" doc:"A config object, or a string that holds one."`
	IsDefault   flag       `json:"isDefault,omitempty"`
	WorkspaceID string     `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updateConfig struct {
	Name      *string     `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Config    *configText `json:"config,omitempty"`
	IsDefault *flag       `json:"isDefault,omitempty"`
	Status    string      `json:"status,omitempty" enum:"active,archived"`
}

// A flag is a boolean that clients also send as 0, 1 or a string.
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
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeBoolean}, {Type: huma.TypeInteger}, {Type: huma.TypeString}}}
}

// savedConfig is the answer to a write: some clients read the outer level, others
// data.
type savedConfig struct {
	Body struct {
		Success bool `json:"success"`
		configIDs
		Data configIDs `json:"data"`
	}
}

type configIDs struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id" format:"uuid"`
	Object    string `json:"object" enum:"config"`
}

func saved(c *routing.Saved) *savedConfig {
	out := &savedConfig{}
	out.Body.Success = true
	out.Body.Data = configIDs{c.ID, c.Slug, c.Current().ID, "config"}
	out.Body.configIDs = out.Body.Data
	return out
}

// ConfigSlug is the path of one config.
type ConfigSlug struct {
	Slug string `path:"slug"`
}

func (a *API) configs() {
	register(a, route{
		method: http.MethodPost, path: "/configs", scopes: []string{"configs.create"}, summary: "Save a config",
	}, func(c *call, in *struct {
		RawBody []byte
		Body    createConfig
	},
	) (*savedConfig, error) {
		c.fields(in.RawBody)
		w, err := c.workspace(in.Body.WorkspaceID)
		if err != nil {
			return nil, err
		}
		text, err := c.configText(string(in.Body.Config), "{}")
		if err != nil {
			return nil, err
		}
		s := &routing.Saved{
			Slug: directory.NewSlug(c.api.Random, "pc", in.Body.Name), Name: in.Body.Name, WorkspaceID: w.ID,
			OrganisationID: c.caller.OrganisationID, OwnerID: c.caller.UserID, Default: bool(in.Body.IsDefault),
		}
		err = c.update(s.Slug, func(tx *storage.Txn) error {
			return c.api.Configs.Put(tx, s, text, c.caller.KeyID)
		})
		if err != nil {
			return nil, err
		}
		return saved(s), nil
	})

	register(a, route{
		method: http.MethodGet, path: "/configs", scopes: []string{"configs.list"}, summary: "List saved configs",
	}, func(c *call, in *struct {
		Paging
		WorkspaceID string `query:"workspace_id" doc:"Id or slug."`
	},
	) (*listOutput[Config], error) {
		only, err := c.inWorkspace(in.WorkspaceID)
		if err != nil {
			return nil, err
		}
		return list(c.api.Configs.All(), in.Paging, func(s *routing.Saved) bool {
			return !s.Archived && (only == "" || s.WorkspaceID == only)
		}, showConfig), nil
	})

	register(a, route{
		method: http.MethodGet, path: "/configs/{slug}", scopes: []string{"configs.read"}, summary: "Get a saved config by its slug or id",
	}, func(c *call, in *ConfigSlug) (*struct{ Body Config }, error) {
		s, err := c.config(in.Slug)
		if err != nil {
			return nil, err
		}
		text, err := c.api.Configs.Text(s.Current())
		if err != nil {
			return nil, err
		}
		return &struct{ Body Config }{showVersion(s, s.Current(), text)}, nil
	})

	register(a, route{
		method: http.MethodGet, path: "/configs/{slug}/versions", scopes: []string{"configs.read"}, summary: "List the versions of a config",
	}, func(c *call, in *struct {
		ConfigSlug
		Paging
	},
	) (*listOutput[Config], error) {
		s, err := c.config(in.Slug)
		if err != nil {
			return nil, err
		}
		versions := make([]*Config, len(s.Versions))
		for i := range s.Versions {
			text, err := c.api.Configs.Text(&s.Versions[i])
			if err != nil {
				return nil, err
			}
			shown := showVersion(s, &s.Versions[i], text)
			versions[i] = &shown
		}
		return list(versions, in.Paging, func(*Config) bool { return true }, func(v *Config) Config { return *v }), nil
	})

	register(a, route{
		method: http.MethodPut, path: "/configs/{slug}", scopes: []string{"configs.update"}, summary: "Update a config; a new text is a new version",
	}, func(c *call, in *struct {
		ConfigSlug
		RawBody []byte
		Body    updateConfig
	},
	) (*savedConfig, error) {
		c.fields(in.RawBody)
		var out *savedConfig
		err := c.update(in.Slug, func(tx *storage.Txn) error {
			s, err := c.config(in.Slug)
			if err != nil {
				return err
			}
			changed, text := *s, ""
			if in.Body.Name != nil {
				changed.Name = *in.Body.Name
			}
			if in.Body.IsDefault != nil {
				changed.Default = bool(*in.Body.IsDefault)
			}
			if in.Body.Status != "" {
				changed.Archived = in.Body.Status == "archived"
			}
			if in.Body.Config != nil {
				old, err := c.api.Configs.Text(s.Current())
				if err != nil {
					return err
				}
				if text, err = c.configText(string(*in.Body.Config), old); err != nil {
					return err
				}
			}
			if err := c.api.Configs.Put(tx, &changed, text, c.caller.KeyID); err != nil {
				return err
			}
			out = saved(&changed)
			return nil
		})
		return out, err
	})

	register(a, route{
		method: http.MethodDelete, path: "/configs/{slug}", scopes: []string{"configs.delete"}, summary: "Delete a config with all its versions",
	}, func(c *call, in *ConfigSlug) (*emptyOutput, error) {
		return &emptyOutput{}, c.update(in.Slug, func(tx *storage.Txn) error {
			s, err := c.config(in.Slug)
			if err != nil {
				return err
			}
			for _, k := range c.api.Keyring.APIKeys() {
				if k.ConfigID == s.ID {
					return failure(http.StatusConflict, "The config is the default of API key %q; clear that first", k.Name)
				}
			}
			return c.api.Configs.Delete(tx, s.ID)
		})
	})
}

// config finds a config that the caller may know of.
func (c *call) config(slug string) (*routing.Saved, error) {
	c.record.Resource = credentials.Clip(slug)
	s, ok := c.api.Configs.Get(slug)
	if !ok || !c.sees(s.WorkspaceID) {
		return nil, notFound("Config", slug)
	}
	return s, nil
}

// configText is the text of a config that was sent, with what is masked in it as old has
// it. A config is refused with every fault in it.
func (c *call) configText(text, old string) (string, error) {
	// The faults come first: what is read of a config for its credentials is the same then.
	if _, faults := routing.Parse([]byte(text), c.api.ParseOptions); len(faults) > 0 {
		return "", failure(http.StatusBadRequest, "config: %s", strings.Join(faults.Strings(), "; "))
	}
	whole, err := routing.Unmask(text, old)
	if err != nil {
		return "", invalid("config", "%s", err)
	}
	return whole, nil
}
