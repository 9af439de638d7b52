package admin

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
)

// User is a user as shown by the control plane.
type User struct {
	ID            string   `json:"id" format:"uuid"`
	FirstName     string   `json:"first_name"`
	LastName      string   `json:"last_name"`
	Role          string   `json:"role" enum:"owner,admin,member"`
	Email         string   `json:"email" format:"email"`
	CreatedAt     string   `json:"created_at" format:"date-time"`
	LastUpdatedAt string   `json:"last_updated_at" format:"date-time"`
	WorkspaceIDs  []string `json:"workspace_ids"`
	Object        string   `json:"object" enum:"user"`
}

func showUser(c *call, u *directory.User) User {
	workspaces := c.workspacesOf(u.ID)
	if workspaces == nil {
		workspaces = []string{}
	}
	return User{
		ID: u.ID, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), Email: u.Email, WorkspaceIDs: workspaces,
		CreatedAt: formatTime(u.CreatedAt), LastUpdatedAt: formatTime(u.UpdatedAt), Object: "user",
	}
}

// workspacesOf returns the ids of the workspaces of a user.
func (c *call) workspacesOf(user string) (workspaces []string) {
	for _, m := range c.api.Directory.Memberships(user) {
		if c.maySee(m.WorkspaceID) {
			workspaces = append(workspaces, m.WorkspaceID)
		}
	}
	return workspaces
}

// CamelPaging is Paging with the names that lists of users have in some clients.
type CamelPaging struct {
	Paging
	PageSizeToo    int `query:"pageSize" minimum:"1" maximum:"1000" doc:"The same as page_size."`
	CurrentPageToo int `query:"currentPage" minimum:"0" doc:"The same as current_page."`
}

func (p CamelPaging) page() Paging {
	if p.PageSizeToo > 0 {
		p.PageSize = p.PageSizeToo
	}
	p.CurrentPage = max(p.CurrentPage, p.CurrentPageToo)
	return p.Paging
}

type userFilter struct {
	CamelPaging
	Role  string `query:"role" enum:"owner,admin,member"`
	Email string `query:"email" maxLength:"320" doc:"Whatever its case."`
}

type updateUser struct {
	Role string `json:"role" enum:"owner,admin,member" doc:"Only owners make and unmake owners."`
}

func (a *API) users() {
	users := &resource[directory.User]{
		path: "/admin/users", param: "user_id", noun: "user", kind: audit.Users, scope: "organisation_users",
		rows: func(c *call) []*directory.User { return c.api.Directory.Users() },
		find: func(c *call, id string) (*directory.User, error) { return found(c.api.Directory.User(id)) },
		name: func(u *directory.User) string { return u.ID },
	}
	listChosen(a, users, func(c *call, _ string, f *userFilter) (chosen choice[directory.User], err error) {
		switch {
		case f.Email != "":
			if u, ok := c.api.Directory.UserByEmail(f.Email); ok && (f.Role == "" || f.Role == string(u.Role)) {
				chosen.rows = []*directory.User{u}
			}
		case f.Role != "":
			chosen.rows = c.api.Directory.UsersWith(roles.Organisation(f.Role))
		default:
			chosen.rows = c.api.Directory.Users()
		}
		return chosen, nil
	}, showUser)
	get(a, users, showUser)
	update(a, users, func(c *call, u *directory.User, in *updateUser) error {
		role := roles.Organisation(in.Role)
		if role == u.Role {
			return nil // as it was shown
		}
		if err := c.changesOwner(u, role == roles.Owner); err != nil {
			return err
		}
		if role.Administers() || u.Role.Administers() {
			if err := c.mayMakeAdmins("role"); err != nil {
				return err
			}
		}
		keys, err := c.heldBy(u, "")
		if err != nil {
			return err
		}
		u.Role = role
		if err := c.api.Directory.PutUser(c.tx, u); err != nil {
			return err
		}
		return c.narrow(u, keys)
	})
	remove(a, users, "Delete", func(c *call, u *directory.User) error {
		if err := c.changesOwner(u, false); err != nil {
			return err
		}
		if u.Role.Administers() {
			if err := c.mayMakeAdmins("user_id"); err != nil {
				return err
			}
		}
		workspaces := c.workspacesOf(u.ID)
		if len(workspaces) > maxRemovedWith {
			return failure(http.StatusConflict, "The user is in more than %d workspaces; remove the user from some first", maxRemovedWith)
		}
		if err := c.revokeKeysOf(u.ID, ""); err != nil {
			return err
		}
		for _, w := range workspaces {
			if err := c.api.Directory.RemoveMember(c.tx, w, u.ID); err != nil {
				return err
			}
		}
		return c.api.Directory.RemoveUser(c.tx, u.ID)
	})
}

// changesOwner returns an error if a user becomes an owner, or is one and will not be, and the
// caller may not do that, or no owner would be left.
func (c *call) changesOwner(u *directory.User, owner bool) error {
	switch r := c.caller.Rights; {
	case !owner && u.Role != roles.Owner:
		return nil
	case !c.caller.Owner && (r == nil || r.Organisation != roles.Owner):
		return forbidden("Only owners make and unmake owners")
	case !owner && c.api.Directory.Owners() <= 1:
		return failure(http.StatusConflict, directory.LastOwner)
	}
	return nil
}

// maxRemovedWith bounds what is removed together with a user, in one transaction.
const maxRemovedWith = 1000

// revokeKeysOf revokes the API keys of a user, in one workspace or, for "", in all.
func (c *call) revokeKeysOf(user, workspace string) error {
	keys := c.api.Keyring.APIKeysOfUser(user, workspace)
	if len(keys) > maxRemovedWith {
		return failure(http.StatusConflict, "The user has more than %d API keys; revoke some first", maxRemovedWith)
	}
	for _, k := range keys {
		if err := c.revoke(k); err != nil {
			return err
		}
	}
	return nil
}
