// Package identity turns who makes a request into a caller: users, by their roles.
package identity

import (
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
)

// UserCaller returns the caller for a request of a user in a workspace, or, where the workspace is
// nil, in the organisation. Owners and admins of the organisation may do everything in every
// workspace; others need to be members. It returns nil if the user has no part in the workspace.
func UserCaller(d *directory.Directory, u *directory.User, w *directory.Workspace) *credentials.Caller {
	organisation := d.Organisation()
	c := &credentials.Caller{
		KeyID: u.ID, KeyName: u.Email, CountedAs: u.ID, UserID: u.ID, Kind: credentials.OrganisationService, OrganisationID: organisation.ID,
		Rights: &credentials.Rights{Organisation: u.Role},
	}
	if w == nil {
		if !u.Role.Administers() {
			return nil
		}
		return c
	}
	m, ok := d.Member(w.ID, u.ID)
	switch {
	case ok:
		c.Rights.Workspace = m.Role
	case !u.Role.Administers():
		return nil
	}
	if u.Role.Administers() {
		c.Rights.Workspace = roles.WorkspaceAdmin
	}
	c.WorkspaceID, c.Kind = w.ID, credentials.WorkspaceUser
	c.Rights.On = func(setting string) bool { return d.IsOn(w, setting) }
	return c
}
