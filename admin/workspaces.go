package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/storage"
)

// Workspace is a workspace as the control plane shows it.
type Workspace struct {
	ID            string             `json:"id" format:"uuid"`
	Slug          string             `json:"slug"`
	Name          string             `json:"name"`
	Description   *string            `json:"description"`
	CreatedAt     string             `json:"created_at" format:"date-time"`
	LastUpdatedAt string             `json:"last_updated_at" format:"date-time"`
	IsDefault     int                `json:"is_default" enum:"0,1"`
	Defaults      *workspaceDefaults `json:"defaults"`
	Settings      workspaceSettings  `json:"settings"`
	Security      securitySettings   `json:"security_settings"`
	UsageLimits   []empty            `json:"usage_limits"`
	RateLimits    []empty            `json:"rate_limits"`
	Object        string             `json:"object" enum:"workspace"`
}

type workspaceSettings struct {
	BlockInlineConfig bool `json:"block_inline_config" doc:"The workspace's own; the organisation's holds beside it."`
	DebugLog          int  `json:"debug_log" enum:"0,1" doc:"Whether the request log may keep bodies of the workspace's calls, where it keeps any."`
}

type securitySettings struct {
	ViewLogs        bool `json:"organisationAdminsViewLogs" doc:"Whether keys of the organisation see the records of a workspace's calls, bodies included."`
	ViewLogMetadata bool `json:"organisationAdminsViewLogMetadata" doc:"Whether they see them without bodies."`
}

type workspaceDefaults struct {
	Metadata map[string]string `json:"metadata,omitempty" doc:"What the calls of the workspace have as metadata, before that of keys and requests."`
}

// WorkspaceFields are what create and update share. What cannot be honoured yet is
// refused rather than stored and ignored.
type WorkspaceFields struct {
	Description Optional[string]            `json:"description,omitempty"`
	Defaults    Optional[workspaceDefaults] `json:"defaults,omitempty" doc:"Replaced as a whole; null clears."`
	Settings    *updateWorkspaceSettings    `json:"settings,omitempty"`
	Security    *updateSecuritySettings     `json:"security_settings,omitempty"`
	Users       Optional[[]any]             `json:"users,omitempty"`
	UsageLimits Optional[[]any]             `json:"usage_limits,omitempty"`
	RateLimits  Optional[[]any]             `json:"rate_limits,omitempty"`
}

type createWorkspace struct {
	WorkspaceFields
	Name string `json:"name" minLength:"1" maxLength:"255"`
	Slug string `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"Default: made of the name."`
}

type updateWorkspace struct {
	WorkspaceFields
	Name        *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	WorkspaceID string  `json:"workspace_id,omitempty" doc:"Sent by one client beside the path; ignored."`
}

type updateWorkspaceSettings struct {
	BlockInlineConfig *bool `json:"block_inline_config,omitempty"`
	DebugLog          *flag `json:"debug_log,omitempty"`
}

type updateSecuritySettings struct {
	ViewLogs        Optional[bool] `json:"organisationAdminsViewLogs,omitempty" doc:"null: as the organisation has it, and there true."`
	ViewLogMetadata Optional[bool] `json:"organisationAdminsViewLogMetadata,omitempty" doc:"null: as the organisation has it, and there true."`
}

// apply makes the changes to what is stored, over what the organisation has; only what is
// given changes.
func (s *updateSecuritySettings) apply(stored *directory.LogAccess, organisation directory.LogAccess) error {
	if s == nil {
		return nil
	}
	for _, f := range []struct {
		given  Optional[bool]
		stored **bool
	}{
		{s.ViewLogs, &stored.AdminsViewLogs},
		{s.ViewLogMetadata, &stored.AdminsViewLogMetadata},
	} {
		switch {
		case f.given.Null:
			*f.stored = nil
		case f.given.Set:
			*f.stored = &f.given.Value
		}
	}
	if logs, _ := stored.Over(organisation); logs && s.ViewLogMetadata.Set && !s.ViewLogMetadata.Null && !s.ViewLogMetadata.Value {
		return invalid("security_settings.organisationAdminsViewLogMetadata", "it cannot be off while organisationAdminsViewLogs is on, which shows all of a record")
	}
	return nil
}

// WorkspaceID is the path of one workspace.
type WorkspaceID struct {
	ID string `path:"workspace_id"`
}

// workspaceOf finds a workspace that the caller may know of.
func (c *call) workspaceOf(idOrSlug string) (*directory.Workspace, error) {
	c.record.Resource = credentials.Clip(idOrSlug)
	w, ok := c.api.Directory.Workspace(idOrSlug)
	if !ok || !c.sees(w.ID) {
		return nil, notFound("Workspace", idOrSlug)
	}
	return w, nil
}

func (c *call) showWorkspace(w *directory.Workspace) Workspace {
	logs, metadata := c.api.Directory.AdminsSee(w)
	out := Workspace{
		ID: w.ID, Slug: w.Slug, Name: w.Name,
		CreatedAt: formatTime(w.CreatedAt), LastUpdatedAt: formatTime(w.UpdatedAt),
		Settings:    workspaceSettings{BlockInlineConfig: w.BlockInline, DebugLog: 1},
		Security:    securitySettings{logs, metadata},
		UsageLimits: []empty{}, RateLimits: []empty{}, Object: "workspace",
	}
	if w.Description != "" {
		out.Description = &w.Description
	}
	if w.Default {
		out.IsDefault = 1
	}
	if w.Metadata != nil {
		out.Defaults = &workspaceDefaults{}
		_ = json.Unmarshal(w.Metadata, &out.Defaults.Metadata) // it was made of such a map
	}
	if w.NoBodies {
		out.Settings.DebugLog = 0
	}
	return out
}

// Bounds of a workspace's metadata, in characters: those of a request's.
const (
	maxMetadataMembers = 64
	maxMetadataText    = 128
)

func encodeTexts(m map[string]string) (json.RawMessage, error) {
	if len(m) > maxMetadataMembers {
		return nil, invalid("defaults.metadata", "expected at most %d members", maxMetadataMembers)
	}
	values := make(map[string]any, len(m))
	for key, v := range m {
		if utf8.RuneCountInString(key) > maxMetadataText || utf8.RuneCountInString(v) > maxMetadataText {
			return nil, invalid("defaults.metadata", "expected keys and values of at most %d characters", maxMetadataText)
		}
		values[key] = v
	}
	return encodeMetadata(values)
}

func (c *call) createWorkspace(in *createWorkspace) (*directory.Workspace, error) {
	w := &directory.Workspace{ID: directory.NewID(c.api.Random), Name: in.Name, Slug: in.Slug, OrganisationID: c.caller.OrganisationID}
	if _, err := uuid.Parse(w.Slug); err == nil {
		return nil, invalid("slug", "expected a name that is no UUID, by which workspaces are found too")
	}
	if w.Slug == "" {
		w.Slug = directory.NewSlug(c.api.Random, "ws", in.Name)
	}
	if err := c.applyWorkspace(w, &in.WorkspaceFields); err != nil {
		return nil, err
	}
	err := c.update(w.ID, func(tx *storage.Txn) error { return c.api.Directory.AddWorkspace(tx, w) })
	switch {
	case errors.Is(err, storage.ErrExists):
		return nil, failure(http.StatusConflict, "slug: %q is taken", w.Slug)
	case errors.Is(err, directory.ErrTooManyWorkspaces):
		return nil, failure(http.StatusConflict, "An organisation has at most %d workspaces", directory.MaxWorkspaces)
	}
	return w, err
}

// applyWorkspace makes the changes of a create or an update to a copy of a workspace.
func (c *call) applyWorkspace(w *directory.Workspace, in *WorkspaceFields) (err error) {
	switch {
	case len(in.Users.Value) > 0:
		return invalid("users", "not supported yet; leave it out")
	case len(in.RateLimits.Value) > 0:
		return invalid("rate_limits", "limits of a workspace itself are not supported yet; make a rate-limit policy with the condition workspace_id")
	case len(in.UsageLimits.Value) > 0:
		return invalid("usage_limits", "not supported yet; leave it out")
	case len(in.Description.Value) > 1024:
		return invalid("description", "expected at most 1024 bytes")
	}
	if in.Description.Set {
		w.Description = in.Description.Value
	}
	if in.Defaults.Set {
		if w.Metadata, err = encodeTexts(in.Defaults.Value.Metadata); err != nil {
			return err
		}
	}
	if in.Settings != nil && in.Settings.BlockInlineConfig != nil {
		if c.caller.WorkspaceID != "" && w.BlockInline && !*in.Settings.BlockInlineConfig {
			return forbidden("settings.block_inline_config: only an organisation key turns it off")
		}
		w.BlockInline = *in.Settings.BlockInlineConfig
	}
	if in.Settings != nil && in.Settings.DebugLog != nil {
		w.NoBodies = !bool(*in.Settings.DebugLog)
	}
	return in.Security.apply(&w.LogAccess, c.api.Directory.Organisation().LogAccess)
}

func (a *API) workspaces() {
	register(a, route{
		method: http.MethodPost, path: "/admin/workspaces", alias: "/v2/workspaces", scopes: []string{"workspaces.create"}, summary: "Create a workspace",
	}, func(c *call, in *struct {
		RawBody []byte
		Body    createWorkspace
	},
	) (*struct{ Body Workspace }, error) {
		c.fields(in.RawBody)
		w, err := c.createWorkspace(&in.Body)
		if err != nil {
			return nil, err
		}
		return &struct{ Body Workspace }{c.showWorkspace(w)}, nil
	})

	register(a, route{
		method: http.MethodGet, path: "/admin/workspaces", alias: "/v2/workspaces", scopes: []string{"workspaces.list"}, summary: "List workspaces",
	}, func(c *call, in *struct {
		Paging
		Name      string `query:"name" doc:"Only workspaces of this name."`
		ExactName string `query:"exact_name" doc:"Only workspaces of this name."`
		Status    string `query:"status" enum:"active,archived"`
	},
	) (*listOutput[Workspace], error) {
		return list(c.api.Directory.Workspaces(), in.Paging, func(w *directory.Workspace) bool {
			return c.sees(w.ID) && in.Status != "archived" &&
				(in.Name == "" || strings.EqualFold(in.Name, w.Name)) && (in.ExactName == "" || in.ExactName == w.Name)
		}, c.showWorkspace), nil
	})

	register(a, route{
		method: http.MethodGet, path: "/admin/workspaces/{workspace_id}", alias: "/v2/workspaces/{workspace_id}",
		scopes: []string{"workspaces.read"}, summary: "Get a workspace by its id or slug",
	}, func(c *call, in *WorkspaceID) (*struct{ Body Workspace }, error) {
		w, err := c.workspaceOf(in.ID)
		if err != nil {
			return nil, err
		}
		return &struct{ Body Workspace }{c.showWorkspace(w)}, nil
	})

	register(a, route{
		method: http.MethodPut, path: "/admin/workspaces/{workspace_id}", alias: "/v2/workspaces/{workspace_id}",
		scopes: []string{"workspaces.update"}, summary: "Update a workspace",
	}, func(c *call, in *struct {
		WorkspaceID
		RawBody []byte
		Body    updateWorkspace
	},
	) (*emptyOutput, error) {
		c.fields(in.RawBody)
		return &emptyOutput{}, c.update(in.ID, func(tx *storage.Txn) error {
			w, err := c.workspaceOf(in.ID)
			if err != nil {
				return err
			}
			changed := *w
			if in.Body.Name != nil {
				changed.Name = *in.Body.Name
			}
			if err := c.applyWorkspace(&changed, &in.Body.WorkspaceFields); err != nil {
				return err
			}
			return c.api.Directory.ReplaceWorkspace(tx, &changed)
		})
	})
}
