package admin

import (
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
)

// exportSettings are the settings of exports of the request log.
type exportSettings struct {
	Denied []string `json:"deniedFields" maxItems:"64" nullable:"false" doc:"Fields of records that no export has, such as request."`
}

func showExport(e directory.Export) exportSettings {
	return exportSettings{append([]string{}, e.Denied...)}
}

func (in *exportSettings) read() (directory.Export, error) {
	e := directory.Export{Denied: append([]string{}, in.Denied...)}
	return e, identity.CheckExport(&e, func(field, format string, args ...any) error {
		return invalid("export_settings."+strings.Replace(field, "denied[", "deniedFields[", 1), format, args...)
	})
}

// FieldRestrictions are the fields that exports of a workspace, or of the organisation, may not have.
type FieldRestrictions struct {
	Object      string   `json:"object" enum:"field-restrictions"`
	WorkspaceID *string  `json:"workspace_id" doc:"Whose exports they are; null: those of the organisation."`
	Denied      []string `json:"denied_fields" nullable:"false" doc:"Fields of records, such as request."`
}

// fieldRestrictions adds GET /logs/exports/field-restrictions: the fields that are denied after the
// settings of the organisation and the workspace.
func (a *API) fieldRestrictions() {
	register(a, route{
		method: http.MethodGet, path: "/logs/exports/field-restrictions", kind: audit.Logs, scopes: []string{"logs.export"},
		summary: "Get the fields that exports of records may not have",
	}, func(c *call, in *InWorkspace) (*output[FieldRestrictions], error) {
		id, err := c.inWorkspace(in.WorkspaceID)
		if err != nil {
			return nil, err
		}
		out := FieldRestrictions{Object: "field-restrictions", Denied: showExport(c.api.Directory.Organisation().Export).Denied}
		if w, ok := c.api.Directory.Workspace(id); ok {
			out.WorkspaceID, out.Denied = &w.ID, showExport(c.api.Directory.ExportOf(w)).Denied
		}
		return &output[FieldRestrictions]{out}, nil
	})
}
