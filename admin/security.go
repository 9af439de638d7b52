package admin

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/roles"
)

// securitySettings are the values of all settings in [roles.Settings], in its order.
type securitySettings []bool

func showSecurity(isOn func(*roles.Setting) bool) securitySettings {
	values := make(securitySettings, len(roles.Settings))
	for i := range roles.Settings {
		s := &roles.Settings[i]
		values[i] = isOn(s)
		for _, pair := range identity.Included {
			if whole, ok := roles.Named(pair[1]); ok && pair[0] == s.Name {
				values[i] = values[i] || isOn(whole)
			}
		}
	}
	return values
}

// MarshalJSON returns an object.
func (s securitySettings) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, on := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(roles.Settings[i].Name))
		b.WriteByte(':')
		b.WriteString(strconv.FormatBool(on))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema describes the object.
func (securitySettings) Schema(huma.Registry) *huma.Schema { return securitySchema(false) }

// updateSecuritySettings are values by name; null stands for that of the organisation or, there,
// the default.
type updateSecuritySettings map[string]*flag

// Schema describes the object.
func (updateSecuritySettings) Schema(huma.Registry) *huma.Schema { return securitySchema(true) }

func securitySchema(update bool) *huma.Schema {
	properties := make(map[string]*huma.Schema, len(roles.Settings))
	for i := range roles.Settings {
		s := &roles.Settings[i]
		properties[s.Name] = &huma.Schema{Type: huma.TypeBoolean, Description: settingDoc(s)}
		if update {
			properties[s.Name] = flagSchema(true, settingDoc(s))
		}
	}
	schema := &huma.Schema{Type: huma.TypeObject, Properties: properties, AdditionalProperties: false}
	if !update {
		schema.Required = slices.Sorted(maps.Keys(properties))
	}
	schema.PrecomputeMessages()
	return schema
}

// settingDoc describes a setting.
func settingDoc(s *roles.Setting) string {
	of := "callers of the organisation"
	if s.Role != "" {
		of = string(s.Role) + "s of a workspace"
	}
	initial := "on"
	if s.Off {
		initial = "off"
	}
	return "For " + of + ", in the section " + s.Section + "; " + initial + " by default."
}

// set sets the values of a request.
func (in updateSecuritySettings) set(stored *directory.Settings) {
	stored.Security = maps.Clone(stored.Security)
	for name, on := range in {
		if on == nil {
			delete(stored.Security, name)
			continue
		}
		if stored.Security == nil {
			stored.Security = make(map[string]bool)
		}
		stored.Security[name] = bool(*on)
	}
}

// applySecurity sets security settings of a workspace. Those in sections that the organisation
// decides are refused.
func (c *call) applySecurity(w *directory.Workspace, in updateSecuritySettings) error {
	if len(in) == 0 {
		return nil
	}
	o := c.api.Directory.Organisation()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		s, ok := roles.Named(name)
		switch {
		case !ok:
			return invalid("security_settings."+credentials.Clip(name), "there is no such setting")
		case !o.LetsDecide(s.Section):
			return invalid("security_settings."+name, "workspaces do not decide the section %s; workspace_overrides of the organisation lets them", s.Section)
		case s.Role != "" && !c.administers():
			return forbidden("security_settings.%s: only admins change what those who have a role may do", name)
		}
	}
	in.set(&w.Settings)
	return consistent(in, func(name string) bool { return c.api.Directory.IsOn(w, name) })
}

// administers reports whether the caller is the organisation's, or an admin of the workspace.
func (c *call) administers() bool {
	if r := c.caller.Rights; r != nil {
		return r.Organisation.Administers() || r.Workspace == roles.WorkspaceAdmin
	}
	return c.caller.WorkspaceID == ""
}

// consistent returns an error for a request that turns metadata off while all of a record is
// shown.
func consistent(in updateSecuritySettings, isOn func(name string) bool) error {
	set := make(map[string]bool)
	for name, on := range in {
		if on != nil {
			set[name] = bool(*on)
		}
	}
	return identity.CheckSecurity(set, func(s *roles.Setting) bool { return isOn(s.Name) }, func(field, format string, args ...any) error {
		return invalid(strings.Replace(field, "security.", "security_settings.", 1), format, args...)
	})
}
