// Package directory stores the organisation and its workspaces.
package directory

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// An Organisation owns everything in a store; a store holds one.
type Organisation struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	Settings
	// Overrides says which sections of settings workspaces may decide themselves, where it is not
	// as by default.
	Overrides map[string]bool `json:"overrides,omitempty"`

	UserKeys            UserKeys  `json:"user_keys,omitzero"`
	AutoCreateInDefault bool      `json:"auto_create_in_default,omitempty"` // instead of AutoCreate, in the default workspace
	Export              Export    `json:"export,omitzero"`
	DataPlane           DataPlane `json:"data_plane,omitzero"`
	SignIn              SignIn    `json:"sign_in,omitzero"`
	// What workspaces begin with that decide themselves; nil: they never did.
	UserKeysBegin  *Decided[UserKeys]  `json:"user_keys_begin,omitempty"`
	ExportBegin    *Decided[Export]    `json:"export_begin,omitempty"`
	DataPlaneBegin *Decided[DataPlane] `json:"data_plane_begin,omitempty"`

	Guardrails Guardrails `json:"guardrails,omitzero"` // of the calls of all workspaces that are not excluded
}

// Guardrails are the guardrails that apply to all calls, by their ids, in order.
type Guardrails struct {
	Start  []string `json:"start,omitempty"` // of calls to all endpoints; no workspace is excluded
	Input  []string `json:"input,omitempty"`
	Output []string `json:"output,omitempty"`
	// Of the arguments and the results of MCP tools, which the gateway does not call yet.
	MCPInput  []string `json:"mcp_input,omitempty"`
	MCPOutput []string `json:"mcp_output,omitempty"`
}

// A GuardrailList is one of the lists of [Guardrails].
type GuardrailList struct {
	Field  string // its name in the API
	Member string // its name in JSON
	IDs    *[]string
}

// Lists returns all lists.
func (g *Guardrails) Lists() [5]GuardrailList {
	return [...]GuardrailList{
		{"start_hooks", "start", &g.Start},
		{"input_guardrails", "input", &g.Input},
		{"output_guardrails", "output", &g.Output},
		{"mcp_input_guardrails", "mcp_input", &g.MCPInput},
		{"mcp_output_guardrails", "mcp_output", &g.MCPOutput},
	}
}

// Exclusions says whether a workspace is excluded from the organisation's guardrails.
type Exclusions struct {
	Input  bool `json:"input,omitempty"`
	Output bool `json:"output,omitempty"`
}

// A Workspace is a part of an organisation with its own keys and limits.
type Workspace struct {
	ID             string          `json:"id"`
	Slug           string          `json:"slug"`
	Name           string          `json:"name"`
	Icon           string          `json:"icon,omitempty"`
	Description    string          `json:"description,omitempty"`
	OrganisationID string          `json:"organisation_id"`
	Default        bool            `json:"default,omitempty"`
	NoBodies       bool            `json:"no_bodies,omitempty"`       // the request log keeps no bodies of its calls
	Metadata       json.RawMessage `json:"metadata,omitempty"`        // defaults.metadata of its calls, an object
	UserKeyConfig  string          `json:"user_key_config,omitempty"` // id of the config that user keys made without one have as default
	CreatedBy      string          `json:"created_by,omitempty"`      // id of a user or an API key
	CreationSource string          `json:"creation_source,omitempty"` // api, or auto: it came with the organisation; "": not known
	Settings

	Guardrails Guardrails `json:"guardrails,omitzero"` // of all its calls
	Excluded   Exclusions `json:"excluded,omitzero"`

	UserKeys  *Decided[UserKeys]  `json:"user_keys,omitempty"`
	Export    *Decided[Export]    `json:"export,omitempty"`
	DataPlane *Decided[DataPlane] `json:"data_plane,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// A Directory reads from memory and writes through to the store. It is safe for concurrent
// use.
type Directory struct {
	organisations *storage.Cached[*Organisation]
	workspaces    *storage.Cached[*Workspace]
	removals      *storage.Cached[*Removal]
	users         *storage.Cached[*User]
	former        *storage.Cached[*former]
	members       *storage.Cached[*Member]
	invites       *storage.Cached[*Invite]
	now           func() time.Time
	random        io.Reader
}

const (
	bySlug = "slug"
	inAll  = "all" // counts
	byName = "name"
)

// Open loads the directory of a store.
func Open(ctx context.Context, db *storage.DB, now func() time.Time, random io.Reader) (*Directory, error) {
	d := &Directory{
		organisations: storage.NewCached(db, storage.NewCollection("organisation", func(o *Organisation) string { return o.ID })),
		workspaces: storage.NewCached(db, storage.NewCollection("workspace", func(w *Workspace) string { return w.ID },
			storage.Index[*Workspace]{Name: bySlug, Unique: true, Keys: func(w *Workspace) []string { return []string{w.Slug} }},
			storage.Index[*Workspace]{Name: inAll, Counted: true, Max: MaxWorkspaces, Rows: "workspaces of an organisation", Keys: func(*Workspace) []string { return []string{""} }},
			storage.Index[*Workspace]{Name: byName, Memory: true, Keys: (*Workspace).names})),
		removals: storage.NewCached(db, storage.NewCollection("workspace-removal", func(r *Removal) string { return r.WorkspaceID })),
		now:      now,
		random:   random,
	}
	d.openUsers(db)
	d.openFormer(db)
	d.openInvites(db)
	return d, errors.Join(d.organisations.Load(ctx), d.removals.Load(ctx), d.users.Load(ctx), d.former.Load(ctx), d.members.Load(ctx), d.invites.Load(ctx), d.workspaces.Load(ctx))
}

// In returns the directory as tx sees it.
func (d *Directory) In(tx *storage.Txn) *Directory {
	in := *d
	in.organisations, in.workspaces, in.removals = d.organisations.In(tx), d.workspaces.In(tx), d.removals.In(tx)
	in.users, in.members = d.users.In(tx), d.members.In(tx)
	in.invites, in.former = d.invites.In(tx), d.former.In(tx)
	return &in
}

// Organisation returns the organisation, or nil if the store is empty.
func (d *Directory) Organisation() *Organisation {
	for _, o := range d.organisations.All() {
		return o
	}
	return nil
}

// Create creates the organisation and its default workspace.
func (d *Directory) Create(tx *storage.Txn) (*Organisation, *Workspace, error) {
	now := d.now().UTC()
	o := &Organisation{ID: storage.NewID(d.random), Name: "Organisation", CreatedAt: now}
	w := &Workspace{
		ID: storage.NewID(d.random), Slug: NewSlug(d.random, "ws", "default"), Name: "Default workspace",
		OrganisationID: o.ID, Default: true, CreationSource: "auto", CreatedAt: now, UpdatedAt: now,
	}
	if err := d.organisations.Put(tx, o); err != nil {
		return nil, nil, err
	}
	return o, w, d.workspaces.Put(tx, w)
}

// MaxWorkspaces bounds the number of workspaces of an organisation, because all are in
// memory.
const MaxWorkspaces = 10_000

// MaxIcon is the maximum size of a workspace's icon, in bytes. Emojis of families take some 40.
const MaxIcon = 64

// AddWorkspace stores a new workspace, whose ID and slug are set. An error that wraps
// storage.ErrExists means that the slug is taken; a [storage.FullError], that there are
// MaxWorkspaces already.
func (d *Directory) AddWorkspace(tx *storage.Txn, w *Workspace) error {
	w.CreatedAt = d.now().UTC()
	if o := d.Organisation(); o != nil {
		if w.UserKeys == nil && o.UserKeysBegin != nil && o.LetsDecide(UserAPIKeys) {
			w.DecideUserKeys(o, o.UserKeys)
		}
		if w.Export == nil && o.ExportBegin != nil && o.LetsDecide(ExportSettings) {
			w.DecideExport(o, o.Export)
		}
		if w.DataPlane == nil && o.DataPlaneBegin != nil && o.LetsDecide(DataPlaneSecurity) {
			w.DecideDataPlane(o, o.DataPlane)
		}
	}
	return d.ReplaceWorkspace(tx, w)
}

// Workspace returns a workspace by its id or slug.
func (d *Directory) Workspace(idOrSlug string) (*Workspace, bool) {
	if w, ok := d.workspaces.Get(strings.ToLower(idOrSlug)); ok {
		return w, true
	}
	return d.workspaces.Find(bySlug, idOrSlug)
}

// ReplaceOrganisation stores a changed copy of the organisation.
func (d *Directory) ReplaceOrganisation(tx *storage.Txn, o *Organisation) error {
	return d.organisations.Put(tx, o)
}

// ReplaceWorkspace stores a changed copy of a workspace.
func (d *Directory) ReplaceWorkspace(tx *storage.Txn, w *Workspace) error {
	w.UpdatedAt = d.now().UTC()
	return d.workspaces.Put(tx, w)
}

// DefaultWorkspace returns the workspace that is used if none is named, or nil if the store
// is empty.
func (d *Directory) DefaultWorkspace() *Workspace {
	for _, w := range d.workspaces.Memory().All() { // it is always the same one
		if w.Default {
			w, _ = d.workspaces.Get(w.ID)
			return w
		}
	}
	return nil
}

// Workspaces returns all workspaces in the order of their creation.
func (d *Directory) Workspaces() []*Workspace { return d.workspaces.All() }

// WorkspacesNamed returns the workspaces of a name, whatever its case, in the order of their creation.
func (d *Directory) WorkspacesNamed(name string) []*Workspace {
	return d.workspaces.Where(byName, fold(name))
}

// SameName reports whether a is the name b of a workspace, whatever its case, with or without the emoji that that begins with.
func SameName(a, b string) bool { return fold(a) == fold(b) || fold(a) == fold(PlainName(b)) }

// names returns what the workspace is found by: its name, and that without the emoji.
func (w *Workspace) names() []string {
	all := []string{fold(w.Name)}
	if plain := fold(PlainName(w.Name)); plain != all[0] {
		all = append(all, plain)
	}
	return all
}

func fold(name string) string { return strings.ToLower(name) }

const slugName = 10 // characters of the name that go into a slug

// NewSlug generates a slug of the form prefix-name-6hex. The name is its kebab form, cut to
// ten characters.
func NewSlug(random io.Reader, prefix, name string) string {
	var b [3]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		panic(fmt.Sprintf("no randomness: %v", err))
	}
	parts := []string{hex.EncodeToString(b[:])}
	if kebab := Kebab(name); kebab != "" {
		parts = append([]string{strings.Trim(kebab[:min(len(kebab), slugName)], "-")}, parts...)
	}
	if prefix != "" {
		parts = append([]string{prefix}, parts...)
	}
	return strings.Join(parts, "-")
}

// Kebab returns name in lower case, with each run of characters other than ASCII letters
// and digits replaced by a hyphen.
func Kebab(name string) string {
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(fields, "-")
}
