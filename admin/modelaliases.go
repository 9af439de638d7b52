package admin

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// ModelAlias is a model alias as shown by the control plane.
type ModelAlias struct {
	ID             string  `json:"id" format:"uuid"`
	Name           string  `json:"name" doc:"What calls have as their model."`
	Model          *string `json:"model" doc:"What it stands for: @slug/model of a saved provider."`
	Config         *string `json:"config" doc:"Or the slug of the config that the call then has."`
	WorkspaceID    string  `json:"workspace_id"`
	OrganisationID string  `json:"organisation_id" format:"uuid"`
	CreatedAt      string  `json:"created_at" format:"date-time"`
	LastUpdatedAt  string  `json:"last_updated_at" format:"date-time"`
	Object         string  `json:"object" enum:"model-alias"`
}

func showModelAlias(c *call, a *routing.Alias) ModelAlias {
	out := ModelAlias{
		ID: a.ID, Name: a.Name, Model: text(a.Model), WorkspaceID: a.WorkspaceID, OrganisationID: a.OrganisationID,
		CreatedAt: formatTime(a.CreatedAt), LastUpdatedAt: formatTime(a.UpdatedAt), Object: "model-alias",
	}
	if s, ok := c.api.Configs.Get(a.ConfigID); ok {
		out.Config = &s.Slug
	}
	return out
}

// ModelAliasFields are the fields of both create and update.
type ModelAliasFields struct {
	Model        Optional[string] `json:"model,omitempty" maxLength:"510" doc:"@slug/model of a saved provider; either this or config."`
	Config       Optional[string] `json:"config,omitempty" maxLength:"255" doc:"Slug or id of a config."`
	AllowMissing flag             `json:"allow_missing,omitempty" doc:"Whether the provider need not exist yet."`
}

type createModelAlias struct {
	ModelAliasFields
	Name        string `json:"name" minLength:"1" maxLength:"255"`
	WorkspaceID string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updateModelAlias struct {
	ModelAliasFields
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
}

func (a *API) modelAliases() {
	aliases := &resource[routing.Alias]{
		path: "/model-aliases", param: "id", noun: "model alias", kind: audit.ModelAliases, scope: "configs",
		rows:      func(c *call) []*routing.Alias { return c.api.Aliases.All() },
		rowsOf:    func(c *call, workspace string) []*routing.Alias { return c.api.Aliases.OfWorkspace(workspace) },
		find:      func(c *call, id string) (*routing.Alias, error) { return found(c.api.Aliases.Get(strings.ToLower(id))) },
		name:      func(a *routing.Alias) string { return a.Name },
		workspace: func(a *routing.Alias) string { return a.WorkspaceID },
	}
	create(a, aliases, (*call).createModelAlias)
	list[routing.Alias, WorkspaceFilter](a, aliases, nil, showModelAlias)
	get(a, aliases, showModelAlias)
	update(a, aliases, func(c *call, a *routing.Alias, in *updateModelAlias) error {
		assign(&a.Name, in.Name)
		return c.putModelAlias(a, &in.ModelAliasFields)
	})
	remove(a, aliases, "Delete", func(c *call, a *routing.Alias) error { return c.api.Aliases.Delete(c.tx, a.ID) })
}

func (c *call) createModelAlias(in *createModelAlias) (*routing.Alias, *ModelAlias, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	a := &routing.Alias{Name: in.Name, WorkspaceID: w.ID, OrganisationID: c.caller.OrganisationID}
	if in.Model.Value == "" && in.Config.Value == "" {
		return a, nil, invalid("model", "required, or else config: what the alias stands for")
	}
	if err := c.putModelAlias(a, &in.ModelAliasFields); err != nil {
		return a, nil, err
	}
	v := showModelAlias(c, a)
	return a, &v, nil
}

// putModelAlias applies a request to an alias, which is new or a copy, and stores it.
func (c *call) putModelAlias(a *routing.Alias, in *ModelAliasFields) error {
	if err := credentials.CheckAlias(a.Name); err != nil {
		return invalid("name", "%s", err)
	}
	model, config := in.Model.Value, in.Config.Value
	switch {
	case in.Model.Null && a.Model != "" && config == "":
		return invalid("model", "expected a value: null clears nothing here unless config comes in its place")
	case in.Config.Null && a.ConfigID != "" && model == "":
		return invalid("config", "expected a value: null clears nothing here unless model comes in its place")
	case model != "" && config != "":
		return invalid("config", "not allowed with model: an alias stands for one of them")
	case model != "":
		slug, _, err := credentials.ParseModel(model)
		if err != nil {
			return invalid("model", "%s", err)
		}
		if !bool(in.AllowMissing) && !c.saves(a.WorkspaceID, slug) {
			return unknownReference("model", "the workspace has no provider %q", credentials.Clip(slug))
		}
		a.Model, a.ConfigID = model, ""
	case config != "":
		s, ok := c.api.Configs.Get(config)
		if !ok || s.WorkspaceID != a.WorkspaceID {
			return unknownReference("config", "the workspace has no config %q", credentials.Clip(config))
		}
		a.Model, a.ConfigID = "", s.ID
	}
	err := c.api.Aliases.Put(c.tx, a)
	if errors.Is(err, storage.ErrExists) {
		return failure(http.StatusConflict, "name: %q is taken", credentials.Clip(a.Name))
	}
	return err
}
