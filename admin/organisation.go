package admin

import "github.com/caddy-gw/gateway/internal/directory"

// Organisation is the organisation as shown by the control plane.
type Organisation struct {
	ID        string           `json:"id" format:"uuid"`
	Name      string           `json:"name"`
	CreatedAt string           `json:"created_at" format:"date-time"`
	Security  securitySettings `json:"security_settings" doc:"Workspaces may have other values of their own."`
	Object    string           `json:"object" enum:"organisation"`
}

type updateOrganisation struct {
	Name     *string                 `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Security *updateSecuritySettings `json:"security_settings,omitempty"`
}

func (a *API) organisation() {
	organisation := &resource[directory.Organisation]{
		path: "/admin/organisation", noun: "organisation", scope: "organisation_settings",
		find: func(c *call, _ string) (*directory.Organisation, error) { return c.api.Directory.Organisation(), nil },
		name: func(o *directory.Organisation) string { return o.ID },
	}
	get(a, organisation, func(_ *call, o *directory.Organisation) Organisation {
		logs, metadata := o.Over(directory.LogAccess{})
		return Organisation{
			ID: o.ID, Name: o.Name, CreatedAt: formatTime(o.CreatedAt), Security: securitySettings{logs, metadata}, Object: "organisation",
		}
	})
	update(a, organisation, func(c *call, o *directory.Organisation, in *updateOrganisation) error {
		if in.Name != nil {
			o.Name = *in.Name
		}
		if err := in.Security.apply(&o.LogAccess, directory.LogAccess{}); err != nil {
			return err
		}
		return c.api.Directory.ReplaceOrganisation(c.tx, o)
	})
}
