package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// Workspace is a workspace as shown by the control plane.
type Workspace struct {
	ID             string             `json:"id" format:"uuid"`
	Slug           string             `json:"slug"`
	Name           string             `json:"name"`
	Icon           *string            `json:"icon" doc:"The one that was given, or else the emoji that the name begins with."`
	Description    *string            `json:"description"`
	CreatedAt      string             `json:"created_at" format:"date-time"`
	LastUpdatedAt  string             `json:"last_updated_at" format:"date-time"`
	IsDefault      int                `json:"is_default" enum:"0,1"`
	Defaults       *workspaceDefaults `json:"defaults"`
	Settings       workspaceSettings  `json:"settings"`
	Export         exportSettings     `json:"export_settings"`
	DataPlane      dataPlaneSettings  `json:"data_plane_security_settings"`
	Security       securitySettings   `json:"security_settings"`
	UsageLimits    []shownBudget      `json:"usage_limits"`
	RateLimits     []carriedRate      `json:"rate_limits"`
	LastResetAt    *string            `json:"last_reset_at" format:"date-time" doc:"Of its usage."`
	CreatedBy      *string            `json:"created_by" doc:"Id of the user or the API key."`
	CreationSource *string            `json:"creation_source" enum:"api,auto" doc:"auto: it came with the organisation. null: not known."`
	Users          []WorkspaceMember  `json:"users,omitzero" doc:"In the answer for one workspace only."`
	Object         string             `json:"object" enum:"workspace"`
}

type workspaceSettings struct {
	UserKeySettings
	DebugLog int `json:"debug_log" enum:"0,1" doc:"Whether the request log may keep bodies of the workspace's calls, where it keeps any."`
}

type workspaceDefaults struct {
	Metadata      map[string]string `json:"metadata,omitempty"`
	ConfigID      string            `json:"config_id,omitempty" doc:"A slug."`
	UserKeyConfig string            `json:"user_api_key_config,omitempty" doc:"A slug."`
	Start         []string          `json:"start_hooks,omitempty" doc:"Slugs."`
	Input         []string          `json:"input_guardrails,omitempty" doc:"Slugs."`
	Output        []string          `json:"output_guardrails,omitempty" doc:"Slugs."`
	MCPInput      []string          `json:"mcp_input_guardrails,omitempty" doc:"Slugs."`
	MCPOutput     []string          `json:"mcp_output_guardrails,omitempty" doc:"Slugs."`
}

type updateWorkspaceDefaults struct {
	Metadata      Optional[map[string]string] `json:"metadata,omitempty" doc:"What the calls of the workspace have as metadata, before that of keys and requests."`
	ConfigID      Optional[string]            `json:"config_id,omitempty" doc:"Slug or id of the config of calls that name none, and whose key has none: the workspace's default config."`
	UserKeyConfig Optional[string]            `json:"user_api_key_config,omitempty" doc:"Slug or id of the config that user keys of the workspace have as default where they name none."`
	GuardrailLists
}

// WorkspaceFields are the fields of both create and update.
type WorkspaceFields struct {
	ListedLimits
	Icon        Optional[string]                  `json:"icon,omitempty" doc:"At most 64 bytes; null: the emoji that the name begins with."`
	Description Optional[string]                  `json:"description,omitempty"`
	Defaults    Optional[updateWorkspaceDefaults] `json:"defaults,omitempty" doc:"Members that are left out are kept; null clears one, or all."`
	Settings    *updateWorkspaceSettings          `json:"settings,omitempty"`
	Export      *exportSettings                   `json:"export_settings,omitempty"`
	DataPlane   *updateDataPlane                  `json:"data_plane_security_settings,omitempty"`
	Security    updateSecuritySettings            `json:"security_settings,omitempty"`
}

type createWorkspace struct {
	WorkspaceFields
	Name string `json:"name" minLength:"1" maxLength:"255"`
	Slug string `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"Default: made of the name."`
	// Users are ids of users.
	Users []string `json:"users,omitempty" nullable:"true" maxItems:"100" doc:"Ids of users of the organisation, who become members."`
}

type updateWorkspace struct {
	WorkspaceFields
	Name        *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	WorkspaceID string  `json:"workspace_id,omitempty" doc:"Sent by one client in addition to the path; ignored."`
	ResetUsage  flag    `json:"reset_usage,omitempty" doc:"Whether what was used of its budget becomes 0."`
}

type updateWorkspaceSettings struct {
	UpdateUserKeys
	DebugLog *flag `json:"debug_log,omitempty"`
}

func showWorkspace(c *call, w *directory.Workspace) Workspace {
	limits := c.limitsOf(w.ID)
	out := Workspace{
		ID: w.ID, Slug: w.Slug, Name: w.Name,
		CreatedAt: formatTime(w.CreatedAt), LastUpdatedAt: formatTime(w.UpdatedAt),
		Settings:    workspaceSettings{UserKeySettings: showUserKeys(c.api.Directory.UserKeysOf(w)), DebugLog: 1},
		Export:      showExport(c.api.Directory.ExportOf(w)),
		DataPlane:   c.showDataPlane(c.api.Directory.DataPlaneOf(w)),
		Security:    showSecurity(func(s *roles.Setting) bool { return c.api.Directory.IsOn(w, s.Name) }),
		UsageLimits: limits.listed(), RateLimits: limits.rates, LastResetAt: limits.lastResetAt, Object: "workspace",
		CreatedBy: text(w.CreatedBy), CreationSource: text(w.CreationSource),
	}
	if w.Description != "" {
		out.Description = &w.Description
	}
	if w.Default {
		out.IsDefault = 1
	}
	if icon := cmp.Or(w.Icon, directory.IconOf(w.Name)); icon != "" {
		out.Icon = &icon
	}
	defaults := workspaceDefaults{ConfigID: c.defaultConfig(w.ID)}
	if w.Metadata != nil {
		_ = json.Unmarshal(w.Metadata, &defaults.Metadata) // was created from such a map
	}
	if s, ok := c.api.Configs.Get(w.UserKeyConfig); ok {
		defaults.UserKeyConfig = s.Slug
	}
	defaults.Start = c.guardrailSlugs(w.Guardrails.Start)
	defaults.Input, defaults.Output = c.guardrailSlugs(w.Guardrails.Input), c.guardrailSlugs(w.Guardrails.Output)
	defaults.MCPInput, defaults.MCPOutput = c.guardrailSlugs(w.Guardrails.MCPInput), c.guardrailSlugs(w.Guardrails.MCPOutput)
	if !reflect.ValueOf(defaults).IsZero() {
		out.Defaults = &defaults
	}
	if w.NoBodies {
		out.Settings.DebugLog = 0
	}
	return out
}

func encodeTexts(m map[string]string) (json.RawMessage, error) {
	if err := checkTexts("defaults.metadata", m); err != nil {
		return nil, err
	}
	values := make(map[string]any, len(m))
	for key, v := range m {
		values[key] = v
	}
	return encodeMetadata(values)
}

// checkTexts checks metadata in a field.
func checkTexts(field string, m map[string]string) error {
	if err := identity.CheckTexts(m); err != nil {
		return invalid(field, "%v", err)
	}
	return nil
}

func (c *call) createWorkspace(in *createWorkspace) (*directory.Workspace, *Workspace, error) {
	w := &directory.Workspace{ID: storage.NewID(c.api.Random), Name: in.Name, Slug: in.Slug, OrganisationID: c.caller.OrganisationID, CreatedBy: cmp.Or(c.caller.UserID, c.caller.KeyID), CreationSource: "api"}
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
	for _, id := range in.Users {
		if err := c.addMember(w, "users", id, roles.WorkspaceMember); err != nil {
			return w, nil, err
		}
	}
	if err := c.setWorkspaceLimits(w, &in.ListedLimits, false); err != nil {
		return w, nil, err
	}
	v := showWorkspace(c, w)
	return w, &v, nil
}

// setWorkspaceLimits changes the limits of a workspace. Its own keys do not: they would be limited by
// themselves.
func (c *call) setWorkspaceLimits(w *directory.Workspace, in *ListedLimits, reset bool) error {
	limits, err := in.limits("")
	if err != nil || !limits.given() && !reset {
		return err
	}
	if _, has := c.carried().Get(w.ID); c.caller.WorkspaceID != "" && (has || reset || len(in.RateLimits.Value) > 0 || len(in.UsageLimits.Value) > 0) {
		return forbidden("rate_limits, usage_limits: only the organisation changes the limits of a workspace")
	}
	return c.setLimits(policies.Carried{
		Carrier: policies.KeyWorkspace, ID: w.ID, WorkspaceID: w.ID, OrganisationID: w.OrganisationID,
	}, limits, reset)
}

// applyWorkspace applies a create or update request to a copy of a workspace.
func (c *call) applyWorkspace(w *directory.Workspace, in *WorkspaceFields) error {
	if err := applyText("description", &in.Description, &w.Description); err != nil {
		return err
	}
	if len(in.Icon.Value) > directory.MaxIcon {
		return invalid("icon", "expected at most %d bytes", directory.MaxIcon)
	}
	in.Icon.assign(&w.Icon)
	if err := c.applyDefaults(w, &in.Defaults); err != nil {
		return err
	}
	if in.Settings != nil && in.Settings.DebugLog != nil {
		w.NoBodies = !bool(*in.Settings.DebugLog)
	}
	var keys *UpdateUserKeys
	if in.Settings != nil {
		keys = &in.Settings.UpdateUserKeys
	}
	if err := c.applySections(w, keys, in.Export, in.DataPlane); err != nil {
		return err
	}
	return c.applySecurity(w, in.Security)
}

// applyDefaults applies the defaults in a request. Its default config is the one that has
// is_default.
func (c *call) applyDefaults(w *directory.Workspace, in *Optional[updateWorkspaceDefaults]) (err error) {
	given := &in.Value
	if in.Null {
		given.Metadata.Set, given.ConfigID.Set, given.UserKeyConfig.Set = true, true, true
		given.clear()
	}
	if err := c.applyGuardrails(&w.Guardrails, w.ID, "defaults.", &given.GuardrailLists); err != nil {
		return err
	}
	if given.Metadata.Set {
		if w.Metadata, err = encodeTexts(given.Metadata.Value); err != nil {
			return err
		}
	}
	if given.UserKeyConfig.Set {
		s, err := c.configOf(w, "defaults.user_api_key_config", given.UserKeyConfig.Value)
		if err != nil {
			return err
		}
		w.UserKeyConfig = ""
		if s != nil {
			w.UserKeyConfig = s.ID
		}
	}
	if !given.ConfigID.Set {
		return nil
	}
	s, err := c.configOf(w, "defaults.config_id", given.ConfigID.Value)
	if err != nil {
		return err
	}
	isDefault := s != nil
	if s == nil {
		s = c.api.Configs.DefaultOf(w.ID)
	}
	if s == nil || s.Default == isDefault {
		return nil
	}
	changed := *s
	changed.Default = isDefault
	return c.api.Configs.Put(c.tx, &changed, "", c.caller.UserID)
}

// configOf returns the config of a workspace that a field names; nil: it names none.
func (c *call) configOf(w *directory.Workspace, field, named string) (*routing.Saved, error) {
	if named == "" {
		return nil, nil //nolint:nilnil // no config is no error
	}
	s, ok := c.api.Configs.Get(named)
	if !ok || s.Archived || s.WorkspaceID != w.ID {
		return nil, unknownReference(field, "the workspace has no config %q", credentials.Clip(named))
	}
	return s, nil
}

// defaultConfig returns the slug of a workspace's default config, or "".
func (c *call) defaultConfig(workspace string) string {
	if s := c.api.Configs.DefaultOf(workspace); s != nil {
		return s.Slug
	}
	return ""
}

// workspaceList holds the query parameters of the list.
type workspaceList struct {
	Paging
	Name      string   `query:"name" doc:"Only workspaces of this name, whatever its case, with or without the emoji that it begins with."`
	ExactName string   `query:"exact_name" doc:"Only workspaces of this name in this case, with or without the emoji."`
	Status    []string `query:"status" enum:"active,archived" doc:"Of these, comma-separated. Archived ones are gone, so that there are none."`
	Format    string   `query:"name_format" enum:"display,plain" default:"display" doc:"Whether names are shown with the emoji that they begin with."`
}

func (a *API) workspaces() {
	workspaces := &resource[directory.Workspace]{
		path: "/admin/workspaces", alias: "/v2/workspaces", param: "workspace_id", noun: "workspace", kind: audit.Workspaces, scope: "workspaces",
		rows: func(c *call) []*directory.Workspace { return c.api.Directory.Workspaces() },
		rowsOf: func(c *call, id string) []*directory.Workspace {
			w, ok := c.api.Directory.Workspace(id)
			if !ok {
				return nil
			}
			return []*directory.Workspace{w}
		},
		find:      func(c *call, id string) (*directory.Workspace, error) { return found(c.api.Directory.Workspace(id)) },
		name:      func(w *directory.Workspace) string { return w.ID },
		workspace: func(w *directory.Workspace) string { return w.ID },
	}
	create(a, workspaces, (*call).createWorkspace)
	listChosen(a, workspaces, func(c *call, workspace string, f *workspaceList) (chosen choice[directory.Workspace], err error) {
		c.item = &item{query: map[string]string{nameFormat: f.Format}}
		switch {
		case len(f.Status) > 0 && !slices.Contains(f.Status, "active"):
			return chosen, nil
		case f.ExactName != "" || f.Name != "":
			chosen.rows, chosen.foreign = c.api.Directory.WorkspacesNamed(cmp.Or(f.ExactName, f.Name)), true
		default:
			chosen = workspaces.all(c, workspace)
		}
		if f.ExactName != "" {
			chosen.only(func(w *directory.Workspace) bool {
				exact := f.ExactName == w.Name || f.ExactName == directory.PlainName(w.Name)
				return exact && (f.Name == "" || directory.SameName(f.Name, w.Name))
			})
		}
		return chosen, nil
	}, showNamed)
	one := *workspaces
	one.query = []*huma.Param{parameter("query", nameFormat, "Whether the name is shown with the emoji that it begins with, which is the default, or without.", huma.Schema{Enum: []any{"display", "plain"}})}
	get(a, &one, func(c *call, w *directory.Workspace) Workspace {
		out := showNamed(c, w)
		if c.caller.May("workspace_users.list") {
			out.Users = c.membersOf(w)
		}
		return out
	})
	update(a, workspaces, func(c *call, w *directory.Workspace, in *updateWorkspace) error {
		assign(&w.Name, in.Name)
		if err := c.applyWorkspace(w, &in.WorkspaceFields); err != nil {
			return err
		}
		if err := c.setWorkspaceLimits(w, &in.ListedLimits, bool(in.ResetUsage)); err != nil {
			return err
		}
		return c.api.Directory.ReplaceWorkspace(c.tx, w)
	})
	act(a, workspaces, http.MethodDelete, "", "delete", "Delete a workspace", (*call).deleteWorkspace)
	a.members(workspaces)
}

const nameFormat = "name_format"

// showNamed shows a workspace with its name as the request asks for it.
func showNamed(c *call, w *directory.Workspace) Workspace {
	out := showWorkspace(c, w)
	if c.item.query[nameFormat] == "plain" {
		out.Name = directory.PlainName(w.Name)
	}
	return out
}

type deleteWorkspace struct {
	Name  string `json:"name" maxLength:"255" doc:"The name of the workspace, so that no other one is deleted by mistake."`
	Force flag   `json:"force_delete,omitempty" doc:"Whether everything that it has is deleted with it."`
	Repeated
}

// deleteWorkspace deletes a workspace. What it has is removed afterwards: its keys are refused
// from now on.
func (c *call) deleteWorkspace(w *directory.Workspace, in *deleteWorkspace) (*empty, error) {
	if err := in.check(w, ""); err != nil {
		return nil, err
	}
	switch {
	case in.Name != w.Name && in.Name != directory.PlainName(w.Name):
		return nil, invalid("name", "expected the name of the workspace, %q", credentials.Clip(w.Name))
	case w.Default:
		return nil, failure(http.StatusConflict, "The default workspace cannot be deleted")
	}
	if by := c.sharedBy(w.ID); len(by) > 0 {
		return nil, failure(http.StatusConflict, "The workspace shares %s with others; unshare them first", strings.Join(by[:min(len(by), maxListed)], ", "))
	}
	if has := c.api.Removals.Has(c.tx, w.ID); len(has) > 0 && !bool(in.Force) {
		return nil, failure(http.StatusConflict, "The workspace still has %s; delete them first, or all of it with force_delete", strings.Join(has, ", "))
	}
	c.committed(c.api.Removals.Wake)
	return &empty{}, c.api.Directory.RemoveWorkspace(c.tx, w.ID)
}
