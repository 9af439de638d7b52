package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
)

// Organisation is the organisation as shown by the control plane.
type Organisation struct {
	ID        string               `json:"id" format:"uuid"`
	Name      string               `json:"name"`
	CreatedAt string               `json:"created_at" format:"date-time"`
	Security  securitySettings     `json:"security_settings" doc:"Workspaces may have other values of their own, where workspace_overrides lets them."`
	Overrides workspaceOverrides   `json:"workspace_overrides" doc:"The sections of settings that workspaces decide themselves."`
	Settings  organisationSettings `json:"settings" doc:"Workspaces have their own, where workspace_overrides lets them."`
	Export    exportSettings       `json:"export_settings"`
	DataPlane dataPlaneSettings    `json:"data_plane_security_settings" doc:"Workspaces have their own, where workspace_overrides lets them."`
	Auth      authSettings         `json:"auth_settings" doc:"The rules of signing in."`
	Object    string               `json:"object" enum:"organisation"`
}

type organisationSettings struct {
	UserKeySettings
	AutoCreateInDefault bool `json:"default_workspace_user_api_key_auto_create" doc:"Whether a user key is made for each member who joins the default workspace."`
}

type updateOrganisationSettings struct {
	UpdateUserKeys
	AutoCreateInDefault *flag `json:"default_workspace_user_api_key_auto_create,omitempty"`
}

type updateOrganisation struct {
	Name      *string                     `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Security  updateSecuritySettings      `json:"security_settings,omitempty"`
	Overrides updateOverrides             `json:"workspace_overrides,omitempty"`
	Settings  *updateOrganisationSettings `json:"settings,omitempty" doc:"Those that are left out are kept."`
	Export    *exportSettings             `json:"export_settings,omitempty"`
	DataPlane *updateDataPlane            `json:"data_plane_security_settings,omitempty"`
	Auth      *updateAuth                 `json:"auth_settings,omitempty" doc:"Those that are left out are kept."`
}

// workspaceOverrides are sections that workspaces decide or not.
type workspaceOverrides map[string]bool

// updateOverrides are the same in a request.
type updateOverrides map[string]flag

// Schema describes the object.
func (workspaceOverrides) Schema(huma.Registry) *huma.Schema { return overridesSchema(false) }

// Schema describes the object.
func (updateOverrides) Schema(huma.Registry) *huma.Schema { return overridesSchema(true) }

func overridesSchema(update bool) *huma.Schema {
	properties := make(map[string]*huma.Schema, len(directory.Sections))
	for _, s := range directory.Sections {
		initial := "off"
		if s.Decided {
			initial = "on"
		}
		properties[s.Name] = &huma.Schema{Type: huma.TypeBoolean, Description: "Initially " + initial + "."}
		if update {
			properties[s.Name] = flagSchema(false, "Initially "+initial+".")
		}
	}
	schema := &huma.Schema{Type: huma.TypeObject, Properties: properties, AdditionalProperties: false}
	schema.PrecomputeMessages()
	return schema
}

func (a *API) organisation() {
	organisation := &resource[directory.Organisation]{
		path: "/admin/organisation", noun: "organisation", kind: audit.Organisations, scope: "organisation_settings",
		find: func(c *call, _ string) (*directory.Organisation, error) { return c.api.Directory.Organisation(), nil },
		name: func(o *directory.Organisation) string { return o.ID },
		secrets: func(_ *call, o *directory.Organisation, is func(secret string, path ...string)) error {
			var urls []string
			for _, i := range o.SignIn.Issuers {
				urls = append(urls, i.URLs...)
			}
			is(strings.Join(urls, "\n"), "auth_settings", "jwt")
			return nil
		},
	}
	get(a, organisation, func(c *call, o *directory.Organisation) Organisation {
		overrides := make(workspaceOverrides)
		for _, s := range directory.Sections {
			overrides[s.Name] = o.LetsDecide(s.Name)
		}
		return Organisation{
			ID: o.ID, Name: o.Name, CreatedAt: formatTime(o.CreatedAt), Security: showSecurity(o.IsOn), Overrides: overrides, Object: "organisation",
			Settings: organisationSettings{showUserKeys(o.UserKeys), o.AutoCreateInDefault}, Export: showExport(o.Export), DataPlane: c.showDataPlane(o.DataPlane), Auth: showSignIn(&o.SignIn),
		}
	})
	update(a, organisation, func(c *call, o *directory.Organisation, in *updateOrganisation) error {
		assign(&o.Name, in.Name)
		if err := in.applySettings(c, o); err != nil {
			return err
		}
		o.Overrides = maps.Clone(o.Overrides)
		for section, decide := range in.Overrides {
			o.LetDecide(section, bool(decide))
		}
		for _, name := range slices.Sorted(maps.Keys(in.Security)) {
			if _, ok := roles.Named(name); !ok {
				return invalid("security_settings."+credentials.Clip(name), "there is no such setting")
			}
		}
		in.Security.set(&o.Settings)
		err := consistent(in.Security, func(name string) bool {
			s, _ := roles.Named(name)
			return o.IsOn(s)
		})
		if err != nil {
			return err
		}
		return c.api.Directory.ReplaceOrganisation(c.tx, o)
	})
}

// resync adds the route that tells the gateway that what it caches may be old. What it has of its own store never is:
// that follows each change.
func (a *API) resync() {
	all := &resource[directory.Organisation]{
		path: "/organisation", shownAs: "/admin/organisation", param: "organisation_id", noun: "organisation", kind: audit.Organisations, scope: "organisation_settings",
		find: func(c *call, id string) (*directory.Organisation, error) {
			o := c.api.Directory.Organisation()
			return found(o, strings.EqualFold(o.ID, id))
		},
		name: func(o *directory.Organisation) string { return o.ID },
	}
	actBare(a, all, http.MethodPost, "/resync", "update", "Have this process fetch anew what it caches of other systems: the values of secret references", func(c *call, _ *directory.Organisation) error {
		if c.api.Resync != nil {
			c.committed(c.api.Resync)
		}
		return nil
	})
}

// applySettings applies settings that are not security settings.
func (in *updateOrganisation) applySettings(c *call, o *directory.Organisation) (err error) {
	if in.Settings != nil {
		if o.UserKeys, err = in.Settings.apply("settings.", o.UserKeys); err != nil {
			return err
		}
		if in.Settings.AutoCreateInDefault != nil {
			o.AutoCreateInDefault = bool(*in.Settings.AutoCreateInDefault)
		}
	}
	if in.Export != nil {
		if o.Export, err = in.Export.read(); err != nil {
			return err
		}
	}
	if in.DataPlane != nil {
		o.DataPlane = in.DataPlane.apply(o.DataPlane)
	}
	if in.Auth != nil {
		return in.Auth.apply(c, &o.SignIn)
	}
	return nil
}
