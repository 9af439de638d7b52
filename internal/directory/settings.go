package directory

import "github.com/caddy-gw/gateway/internal/roles"

// Settings are the settings that the organisation has, and workspaces where it lets them.
type Settings struct {
	// Security has the security settings that were set, by the names in [roles.Settings].
	Security map[string]bool `json:"security,omitempty"`
}

// A Section is a group of settings that the organisation lets workspaces decide or not.
type Section struct {
	Name string
	// Decided: workspaces decide unless the organisation says otherwise.
	Decided bool
}

// The sections besides those of security settings.
const (
	UserAPIKeys       = "user_api_key_settings"
	ExportSettings    = "export_settings"
	DataPlaneSecurity = "data_plane_security_settings"
)

// Sections is the table of the sections.
var Sections = []Section{
	{roles.DataVisibility, true},
	{roles.RolePermissions, true},
	{UserAPIKeys, false},
	{ExportSettings, false},
	{DataPlaneSecurity, false},
}

// LetsDecide reports whether workspaces may decide a section themselves.
func (o *Organisation) LetsDecide(section string) bool {
	if decided, ok := o.Overrides[section]; ok {
		return decided
	}
	for _, s := range Sections {
		if s.Name == section {
			return s.Decided
		}
	}
	return false
}

// IsOn returns the value of a security setting in the organisation.
func (o *Organisation) IsOn(s *roles.Setting) bool {
	if on, ok := o.Security[s.Name]; ok {
		return on
	}
	return !s.Off
}

// IsOn returns the value of a security setting in a workspace: its own, if it has one and the
// organisation lets it decide, and otherwise the organisation's. It returns false if there is
// no such setting.
func (d *Directory) IsOn(w *Workspace, name string) bool {
	s, ok := roles.Named(name)
	o := d.Organisation()
	if !ok || o == nil {
		return false
	}
	if on, ok := w.Security[name]; ok && o.LetsDecide(s.Section) {
		return on
	}
	return o.IsOn(s)
}

// AdminsSee returns whether callers of the organisation see the records of a workspace's calls
// with their bodies, and whether they see them at all. Access to bodies implies access to the
// rest.
func (d *Directory) AdminsSee(w *Workspace) (logs, metadata bool) {
	logs = d.IsOn(w, roles.OrganisationViewsLogs)
	return logs, logs || d.IsOn(w, roles.OrganisationViewsMetadata)
}
