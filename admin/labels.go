package admin

import (
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/storage"
)

// Label is a label as shown by the control plane.
type Label struct {
	ID             string  `json:"id" format:"uuid"`
	Name           string  `json:"name"`
	Description    *string `json:"description"`
	ColorCode      *string `json:"color_code"`
	OrganisationID string  `json:"organisation_id" format:"uuid"`
	WorkspaceID    *string `json:"workspace_id" doc:"null: every workspace has it."`
	IsUniversal    bool    `json:"is_universal"`
	CreatedAt      string  `json:"created_at" format:"date-time"`
	LastUpdatedAt  string  `json:"last_updated_at" format:"date-time"`
	Status         string  `json:"status" enum:"active"`
	Object         string  `json:"object" enum:"label"`
}

func showLabel(c *call, l *prompts.Label) Label {
	out := Label{
		ID: l.ID, Name: l.Name, Description: text(l.Description), ColorCode: text(l.Color), OrganisationID: c.caller.OrganisationID,
		WorkspaceID: text(l.WorkspaceID), IsUniversal: l.Universal(), Status: "active", Object: "label",
		CreatedAt: formatTime(l.CreatedAt), LastUpdatedAt: formatTime(l.UpdatedAt),
	}
	if l.Universal() {
		founded := formatTime(c.api.Directory.Organisation().CreatedAt)
		out.CreatedAt, out.LastUpdatedAt = founded, founded
	}
	return out
}

// LabelFields are the fields of both create and update.
type LabelFields struct {
	Description    Optional[string] `json:"description,omitempty" maxLength:"1024"`
	ColorCode      Optional[string] `json:"color_code,omitempty" maxLength:"32"`
	WorkspaceID    string           `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
	OrganisationID string           `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's, which it is anyway."`
}

type createLabel struct {
	LabelFields
	Name string `json:"name" minLength:"1" maxLength:"255"`
}

type updateLabel struct {
	LabelFields
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
}

type createdLabel struct {
	ID string `json:"id" format:"uuid"`
}

// labelList holds the query parameters of the list.
type labelList struct {
	WholePages
	InWorkspace
	OrganisationID string `query:"organisation_id" maxLength:"255" doc:"The caller's, which it is anyway."`
	Search         string `query:"search" maxLength:"255" doc:"Only labels with this in their name."`
}

func (a *API) labels() {
	all := &resource[prompts.Label]{
		path: "/labels", param: "label_id", noun: "label", kind: audit.Labels, scope: "prompts",
		find:      func(c *call, id string) (*prompts.Label, error) { return found(c.api.Prompts.Label(id)) },
		name:      func(l *prompts.Label) string { return l.Name },
		workspace: func(l *prompts.Label) string { return l.WorkspaceID },
		shared:    func(_ *call, _ string, l *prompts.Label, _ string) bool { return l.Universal() },
		allow:     (*call).mayChangeLabel,
	}
	create(a, all, (*call).createLabel)
	listChosen(a, all, func(c *call, workspace string, f *labelList) (chosen choice[prompts.Label], err error) {
		chosen.first, chosen.rows = prompts.UniversalLabels(), c.api.Prompts.Labels(workspace)
		chosen.search(f.Search, func(l *prompts.Label) []string { return []string{l.Name} })
		return chosen, nil
	}, showLabel)
	one := *all
	one.query = []*huma.Param{parameter("query", "organisation_id", "The caller's, which it is anyway.", huma.Schema{})}
	one.find = func(c *call, id string) (*prompts.Label, error) {
		l, ok := c.api.Prompts.Label(id)
		organisation := c.item.query["organisation_id"]
		return found(l, ok && (organisation == "" || organisation == c.caller.OrganisationID))
	}
	get(a, &one, showLabel)
	update(a, all, func(c *call, l *prompts.Label, in *updateLabel) error {
		if in.Name != nil && *in.Name != l.Name {
			if err := unused(c, "label", l, dependentsOfLabels); err != nil {
				return err
			}
			l.Name = *in.Name
		}
		return c.putLabel(l, &in.LabelFields)
	})
	remove(a, all, "Delete", func(c *call, l *prompts.Label) error {
		if err := unused(c, "label", l, dependentsOfLabels); err != nil {
			return err
		}
		return c.api.Prompts.DeleteLabel(c.tx, l)
	})
}

func (c *call) mayChangeLabel(l *prompts.Label, action string) error {
	if l.Universal() && action != "read" {
		return forbidden("The label %s is of every workspace, and cannot be changed", l.Name)
	}
	return nil
}

func (c *call) createLabel(in *createLabel) (*prompts.Label, *createdLabel, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	l := &prompts.Label{Name: in.Name, WorkspaceID: w.ID, OrganisationID: c.caller.OrganisationID}
	if err := c.putLabel(l, &in.LabelFields); err != nil {
		return l, nil, err
	}
	return l, &createdLabel{l.ID}, nil
}

// putLabel applies a request to a label, which is new or a copy, and stores it.
func (c *call) putLabel(l *prompts.Label, in *LabelFields) error {
	if !prompts.ValidLabel(l.Name) {
		return invalid("name", "%s", prompts.LabelNames)
	}
	if in.OrganisationID != "" && in.OrganisationID != c.caller.OrganisationID {
		return forbidden("organisation_id: the %s belongs to another organisation", c.credential())
	}
	in.Description.assign(&l.Description)
	in.ColorCode.assign(&l.Color)
	err := c.api.Prompts.PutLabel(c.tx, l)
	if errors.Is(err, storage.ErrExists) {
		return failure(http.StatusConflict, "name: %q is taken", credentials.Clip(l.Name))
	}
	return err
}
