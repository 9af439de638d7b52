// Package roles says what users are: their roles in the organisation and in workspaces, and the
// settings that say what those who have a role see and change.
package roles

import "slices"

// An Organisation is a user's role in the organisation.
type Organisation string

// The roles in the organisation. Owners and admins may do everything in every workspace; only
// owners make and unmake owners. Members may do what their roles in workspaces allow.
const (
	Owner  Organisation = "owner"
	Admin  Organisation = "admin"
	Member Organisation = "member"
)

// Administers reports whether the role is that of an owner or an admin.
func (o Organisation) Administers() bool { return o == Owner || o == Admin }

// Valid reports whether there is such a role.
func (o Organisation) Valid() bool { return o.Administers() || o == Member }

// A Workspace is a user's role in a workspace.
type Workspace string

// The roles in a workspace. A manager is an admin whose rights settings limit. A member reads
// and calls models, as far as settings allow.
const (
	WorkspaceAdmin   Workspace = "admin"
	WorkspaceManager Workspace = "manager"
	WorkspaceMember  Workspace = "member"
)

// ranks are the roles in a workspace, the least one first.
var ranks = []Workspace{WorkspaceMember, WorkspaceManager, WorkspaceAdmin}

// Valid reports whether there is such a role.
func (w Workspace) Valid() bool { return slices.Contains(ranks, w) }

// Above reports whether the role may do more than another one.
func (w Workspace) Above(other Workspace) bool {
	return slices.Index(ranks, w) > slices.Index(ranks, other)
}
