package directory

import (
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A Removal is a workspace that was deleted, and may still have rows, which are removed in the
// background.
type Removal struct {
	WorkspaceID string    `json:"workspace_id"`
	At          time.Time `json:"at"`
}

// RemoveWorkspace removes a workspace, which no request finds from then on, and notes that its
// rows have to be removed.
func (d *Directory) RemoveWorkspace(tx *storage.Txn, id string) error {
	if err := d.workspaces.Delete(tx, id); err != nil {
		return err
	}
	return d.removals.Put(tx, &Removal{WorkspaceID: id, At: d.now().UTC()})
}

// Removals returns the workspaces whose rows have to be removed.
func (d *Directory) Removals() []*Removal { return d.removals.All() }

// Removed notes that a deleted workspace has no rows any more.
func (d *Directory) Removed(tx *storage.Txn, id string) error { return d.removals.Delete(tx, id) }

// HasWorkspace reports whether there is a workspace with an id.
func (d *Directory) HasWorkspace(id string) bool {
	_, ok := d.workspaces.Get(id)
	return ok
}
