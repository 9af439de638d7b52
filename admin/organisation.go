package admin

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/storage"
)

// Organisation is the organisation as the control plane shows it.
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
	const path = "/admin/organisation"
	register(a, route{
		method: http.MethodGet, path: path, scopes: []string{"organisation_settings.read"}, summary: "Get the organisation and its settings",
	}, func(c *call, _ *struct{}) (*struct{ Body Organisation }, error) {
		o := c.api.Directory.Organisation()
		logs, metadata := o.Over(directory.LogAccess{})
		return &struct{ Body Organisation }{Organisation{
			ID: o.ID, Name: o.Name, CreatedAt: formatTime(o.CreatedAt), Security: securitySettings{logs, metadata}, Object: "organisation",
		}}, nil
	})

	register(a, route{
		method: http.MethodPut, path: path, scopes: []string{"organisation_settings.update"}, summary: "Update the organisation's settings",
	}, func(c *call, in *struct {
		RawBody []byte
		Body    updateOrganisation
	},
	) (*emptyOutput, error) {
		c.fields(in.RawBody)
		return &emptyOutput{}, c.update(c.caller.OrganisationID, func(tx *storage.Txn) error {
			changed := *c.api.Directory.Organisation()
			if in.Body.Name != nil {
				changed.Name = *in.Body.Name
			}
			if err := in.Body.Security.apply(&changed.LogAccess, directory.LogAccess{}); err != nil {
				return err
			}
			return c.api.Directory.ReplaceOrganisation(tx, &changed)
		})
	})
}
