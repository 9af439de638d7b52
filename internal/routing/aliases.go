package routing

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// An Alias is a workspace's name for a model of a saved provider, or for a saved config.
type Alias struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Model          string    `json:"model,omitempty"`     // @slug/model
	ConfigID       string    `json:"config_id,omitempty"` // instead of a model
	WorkspaceID    string    `json:"workspace_id"`
	OrganisationID string    `json:"organisation_id"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// MaxAliases is how many aliases a workspace has at most: memory holds all.
const MaxAliases = 1000

// Aliases are the model aliases of a store. It reads from memory and writes through. It is
// safe for concurrent use.
type Aliases struct {
	rows   *storage.Cached[*Alias]
	now    func() time.Time
	random io.Reader
}

const (
	byName      = "name"
	byWorkspace = "workspace" // counts
)

// OpenAliases loads the aliases of a store.
func OpenAliases(ctx context.Context, db *storage.DB, now func() time.Time, random io.Reader) (*Aliases, error) {
	a := &Aliases{
		rows: storage.NewCached(db, storage.NewCollection("model-alias", func(a *Alias) string { return a.ID },
			storage.Index[*Alias]{Name: byName, Unique: true, Keys: func(a *Alias) []string { return []string{a.WorkspaceID + "/" + a.Name} }},
			storage.Index[*Alias]{Name: byWorkspace, Counted: true, Max: MaxAliases, Rows: "model aliases of a workspace", Keys: func(a *Alias) []string { return []string{a.WorkspaceID} }})),
		now: now, random: random,
	}
	return a, a.rows.Load(ctx)
}

// In returns the aliases as tx sees them.
func (a *Aliases) In(tx *storage.Txn) *Aliases {
	in := *a
	in.rows = a.rows.In(tx)
	return &in
}

// Get returns an alias by its id.
func (a *Aliases) Get(id string) (*Alias, bool) { return a.rows.Get(id) }

// All returns all aliases in the order of their creation.
func (a *Aliases) All() []*Alias { return a.rows.All() }

// OfWorkspace returns the aliases of a workspace in the order of their creation.
func (a *Aliases) OfWorkspace(workspace string) []*Alias { return a.rows.Where(byWorkspace, workspace) }

// Target returns what a name stands for in a workspace: @slug/model, the id of a saved
// config, or "" if it is not an alias.
func (a *Aliases) Target(workspace, name string) string {
	if name == "" {
		return ""
	}
	if alias, ok := a.rows.Find(byName, workspace+"/"+name); ok {
		return cmp.Or(alias.Model, alias.ConfigID)
	}
	return ""
}

// Put stores an alias, which is new if it has no id. An error that wraps storage.ErrExists
// means that its workspace has one of this name; a [storage.FullError], that there is no room
// for a new one.
func (a *Aliases) Put(tx *storage.Txn, alias *Alias) error {
	now := a.now().UTC()
	if alias.ID == "" {
		alias.ID, alias.CreatedAt = storage.NewID(a.random), now
	}
	alias.UpdatedAt = now
	return a.rows.Put(tx, alias)
}

// Delete removes an alias.
func (a *Aliases) Delete(tx *storage.Txn, id string) error { return a.rows.Delete(tx, id) }
