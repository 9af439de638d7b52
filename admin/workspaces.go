package admin

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/storage"
)

// Workspace is a workspace as shown by the control plane.
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
	Metadata      map[string]string `json:"metadata,omitempty" doc:"What the calls of the workspace have as metadata, before that of keys and requests."`
	UserKeyConfig string            `json:"user_api_key_config,omitempty" maxLength:"255" doc:"The config that user keys of the workspace have as default where they name none: shown as its slug, taken as its slug or id."`
}

// WorkspaceFields are the fields of both create and update. Fields of features that are
// not implemented are rejected instead of ignored.
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

// apply applies a request to stored settings, with those of the organisation as the
// defaults. Omitted fields do not change.
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

func showWorkspace(c *call, w *directory.Workspace) Workspace {
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
	if w.Metadata != nil || w.UserKeyConfig != "" {
		out.Defaults = &workspaceDefaults{}
	}
	if w.Metadata != nil {
		_ = json.Unmarshal(w.Metadata, &out.Defaults.Metadata) // was created from such a map
	}
	if s, ok := c.api.Configs.Get(w.UserKeyConfig); ok {
		out.Defaults.UserKeyConfig = s.Slug
	}
	if w.NoBodies {
		out.Settings.DebugLog = 0
	}
	return out
}

// Bounds of a workspace's metadata in characters, which are those of a request's
// metadata.
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

func (c *call) createWorkspace(in *createWorkspace) (*directory.Workspace, *Workspace, error) {
	w := &directory.Workspace{ID: storage.NewID(c.api.Random), Name: in.Name, Slug: in.Slug, OrganisationID: c.caller.OrganisationID}
	if _, err := uuid.Parse(w.Slug); err == nil {
		return nil, nil, invalid("slug", "expected a name that is not a UUID, by which workspaces are found too")
	}
	if w.Slug == "" {
		w.Slug = directory.NewSlug(c.api.Random, "ws", in.Name)
	}
	if err := c.applyWorkspace(w, &in.WorkspaceFields); err != nil {
		return nil, nil, err
	}
	if err := c.api.Directory.AddWorkspace(c.tx, w); err != nil {
		return w, nil, slugTaken(err, w.Slug)
	}
	v := showWorkspace(c, w)
	return w, &v, nil
}

// applyWorkspace applies a create or update request to a copy of a workspace.
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
		w.UserKeyConfig = ""
		if named := in.Defaults.Value.UserKeyConfig; named != "" {
			s, ok := c.api.Configs.Get(named)
			if !ok || s.Archived || s.WorkspaceID != w.ID {
				return unknownReference("defaults.user_api_key_config", "the workspace has no config %q", credentials.Clip(named))
			}
			w.UserKeyConfig = s.ID
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

// workspaceList holds the query parameters of the list.
type workspaceList struct {
	Paging
	Name      string `query:"name" doc:"Only workspaces of this name."`
	ExactName string `query:"exact_name" doc:"Only workspaces of this name."`
	Status    string `query:"status" enum:"active,archived"`
}

func (a *API) workspaces() {
	workspaces := &resource[directory.Workspace]{
		path: "/admin/workspaces", alias: "/v2/workspaces", param: "workspace_id", noun: "workspace", scope: "workspaces",
		rows:      func(c *call) []*directory.Workspace { return c.api.Directory.Workspaces() },
		find:      func(c *call, id string) (*directory.Workspace, error) { return found(c.api.Directory.Workspace(id)) },
		name:      func(w *directory.Workspace) string { return w.ID },
		workspace: func(w *directory.Workspace) string { return w.ID },
	}
	create(a, workspaces, (*call).createWorkspace)
	list(a, workspaces, func(_ *call, w *directory.Workspace, f *workspaceList) bool {
		return f.Status != "archived" && (f.Name == "" || strings.EqualFold(f.Name, w.Name)) && (f.ExactName == "" || f.ExactName == w.Name)
	}, showWorkspace)
	get(a, workspaces, showWorkspace)
	update(a, workspaces, func(c *call, w *directory.Workspace, in *updateWorkspace) error {
		if in.Name != nil {
			w.Name = *in.Name
		}
		if err := c.applyWorkspace(w, &in.WorkspaceFields); err != nil {
			return err
		}
		return c.api.Directory.ReplaceWorkspace(c.tx, w)
	})
}
