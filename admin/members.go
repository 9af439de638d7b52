package admin

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
)

// WorkspaceMember is a member of a workspace as shown by the control plane.
type WorkspaceMember struct {
	ID            string   `json:"id" format:"uuid" doc:"The user's."`
	FirstName     string   `json:"first_name"`
	LastName      string   `json:"last_name"`
	OrgRole       string   `json:"org_role" enum:"owner,admin,member"`
	Role          string   `json:"role" enum:"admin,manager,member"`
	CreatedAt     string   `json:"created_at" format:"date-time"`
	LastUpdatedAt string   `json:"last_updated_at" format:"date-time"`
	Status        string   `json:"status" enum:"active"`
	WorkspaceID   string   `json:"workspace_id" format:"uuid"`
	Email         string   `json:"email" format:"email"`
	Scopes        []string `json:"scopes" doc:"Always empty: what a member may do follows from the role."`
	Settings      any      `json:"settings" doc:"Always null: members have no settings of their own; those of their role are in security_settings of the workspace."`
	Object        string   `json:"object" enum:"workspace-user"`
}

func showMember(m *directory.Member, u *directory.User) WorkspaceMember {
	return WorkspaceMember{
		ID: u.ID, FirstName: u.FirstName, LastName: u.LastName, OrgRole: string(u.Role), Role: string(m.Role), Email: u.Email,
		CreatedAt: formatTime(m.CreatedAt), LastUpdatedAt: formatTime(m.UpdatedAt), Status: "active", WorkspaceID: m.WorkspaceID,
		Scopes: []string{}, Object: "workspace-user",
	}
}

// membersOf returns the members of a workspace.
func (c *call) membersOf(w *directory.Workspace) []WorkspaceMember {
	all := []WorkspaceMember{}
	for _, m := range c.api.Directory.Members(w.ID) {
		if u, ok := c.api.Directory.User(m.UserID); ok {
			all = append(all, showMember(m, u))
		}
	}
	return all
}

type memberList struct {
	item
	PageSize    int    `query:"page_size" minimum:"0" maximum:"1000" default:"50" doc:"Items a page."`
	CurrentPage int    `query:"current_page" minimum:"0" doc:"The page, counted from 0."`
	Role        string `query:"role" enum:"admin,manager,member"`
	Email       string `query:"email" maxLength:"320" doc:"Whatever its case."`
}

// chooseMembers implements the filters of the list of members.
func (c *call) chooseMembers(w *directory.Workspace, f *memberList) *choice[directory.Member] {
	chosen := new(choice[directory.Member])
	if f.Email == "" {
		chosen.rows = c.api.Directory.Members(w.ID)
	} else if u, ok := c.api.Directory.UserByEmail(f.Email); ok {
		if m, ok := c.api.Directory.Member(w.ID, u.ID); ok {
			chosen.rows = []*directory.Member{m}
		}
	}
	if f.Role != "" {
		chosen.only(func(m *directory.Member) bool { return f.Role == string(m.Role) })
	}
	return chosen
}

// workspaceRole is a role in a workspace, which some clients write with ws- before it.
type workspaceRole string

func (r workspaceRole) role(field string) (roles.Workspace, error) {
	role := roles.Workspace(strings.TrimPrefix(strings.ToLower(string(r)), "ws-"))
	if !role.Valid() {
		return "", invalid(field, "expected admin, manager or member, got %q", credentials.Clip(string(r)))
	}
	return role, nil
}

type addMembers struct {
	Users []struct {
		ID   string        `json:"id" format:"uuid"`
		Role workspaceRole `json:"role" maxLength:"16" doc:"admin, manager or member."`
	} `json:"users" minItems:"1" maxItems:"100"`
	Repeated
}

type updateMember struct {
	Role workspaceRole `json:"role" maxLength:"16" doc:"admin, manager or member."`
	Repeated
}

// Repeated are parameters of the path that portkey-ai repeats in bodies.
type Repeated struct {
	Workspace string `json:"workspace_id,omitempty" maxLength:"255" doc:"That of the path, which some clients repeat."`
	User      string `json:"user_id,omitempty" maxLength:"255" doc:"That of the path, which some clients repeat."`
}

// check refuses a body that is about others than the path.
func (in *Repeated) check(w *directory.Workspace, user string) error {
	switch {
	case in.Workspace != "" && in.Workspace != w.ID && in.Workspace != w.Slug:
		return invalid("workspace_id", "expected the workspace of the path, or none")
	case in.User != "" && in.User != user:
		return invalid("user_id", "expected the user of the path, or none")
	}
	return nil
}

// members adds the routes for the members of workspaces.
func (a *API) members(workspaces *resource[directory.Workspace]) {
	members := *workspaces
	members.scope, members.kind = "workspace_users", audit.Members
	members.inner, members.identity = "user_id", (*call).memberIdentity
	// The list of users that a workspace shows may be longer than what the audit trail keeps of it.
	members.details = func(c *call, w *directory.Workspace) (any, error) {
		of := make(map[string]string) // their roles, by their ids
		for _, m := range c.membersOf(w) {
			of[m.ID] = m.Role
		}
		return map[string]any{"members": of}, nil
	}
	register(a, members.routeOfOne(http.MethodGet, "/users", "list", "List the members of a workspace"), func(c *call, in *memberList) (*listOutput[WorkspaceMember], error) {
		w, err := members.one(c, &in.item, "list")
		if err != nil {
			return nil, err
		}
		return pageOf(c.chooseMembers(w, in), Paging{in.PageSize, in.CurrentPage}, func(m *directory.Member) WorkspaceMember {
			u, ok := c.api.Directory.User(m.UserID)
			if !ok { // was just removed
				u = &directory.User{ID: m.UserID}
			}
			return showMember(m, u)
		}), nil
	})
	act(a, &members, http.MethodPost, "/users", "create", "Add users to a workspace", func(c *call, w *directory.Workspace, in *addMembers) (*empty, error) {
		if err := in.check(w, ""); err != nil {
			return nil, err
		}
		for i, u := range in.Users {
			field := "users[" + strconv.Itoa(i) + "]"
			role, err := u.Role.role(field + ".role")
			if err == nil {
				err = c.addMember(w, field, u.ID, role)
			}
			if err != nil {
				return nil, err
			}
		}
		return &empty{}, nil
	})
	read(a, &members, "/users/{user_id}", "Get a member of a workspace", func(c *call, w *directory.Workspace) (*WorkspaceMember, error) {
		m, u, err := c.member(w)
		if err != nil {
			return nil, err
		}
		out := showMember(m, u)
		return &out, nil
	})
	act(a, &members, http.MethodPut, "/users/{user_id}", "update", "Change the role of a member of a workspace", func(c *call, w *directory.Workspace, in *updateMember) (*empty, error) {
		m, u, err := c.member(w)
		if err != nil {
			return nil, err
		}
		if err := in.check(w, m.UserID); err != nil {
			return nil, err
		}
		role, err := in.Role.role("role")
		switch {
		case err != nil:
			return nil, err
		case role == m.Role:
			return &empty{}, nil // as it was shown
		}
		for _, r := range []roles.Workspace{role, m.Role} {
			if err := c.mayGive("role", r); err != nil {
				return nil, err
			}
		}
		keys, err := c.heldBy(u, w.ID)
		if err != nil {
			return nil, err
		}
		changed := *m
		changed.Role = role
		if err := c.api.Directory.PutMember(c.tx, &changed); err != nil {
			return nil, err
		}
		return &empty{}, c.narrow(u, keys)
	})
	actBare(a, &members, http.MethodDelete, "/users/{user_id}", "delete", "Remove a member from a workspace", func(c *call, w *directory.Workspace) error {
		m, _, err := c.member(w)
		if err != nil {
			return err
		}
		if err := c.mayGive("user_id", m.Role); err != nil {
			return err
		}
		if err := c.revokeKeysOf(m.UserID, w.ID); err != nil {
			return err
		}
		return c.api.Directory.RemoveMember(c.tx, w.ID, m.UserID)
	})
}

// member returns the member of a workspace that a request names.
func (c *call) member(w *directory.Workspace) (*directory.Member, *directory.User, error) {
	id := c.item.query["user_id"]
	m, ok := c.api.Directory.Member(w.ID, id)
	if !ok {
		return nil, nil, notFound("Member", id)
	}
	u, ok := c.api.Directory.User(m.UserID)
	if !ok {
		return nil, nil, notFound("Member", id)
	}
	return m, u, nil
}

// memberIdentity returns the id of the user that a request names, and the address by which people know them, if they are
// of the organisation.
func (c *call) memberIdentity(*directory.Workspace) (id, name string) {
	id = c.item.query["user_id"]
	if u, ok := c.api.Directory.User(id); ok {
		return u.ID, u.Email
	}
	return "", ""
}

// addMember adds a user of the organisation to a workspace.
func (c *call) addMember(w *directory.Workspace, field, user string, role roles.Workspace) error {
	u, ok := c.api.Directory.User(user)
	if !ok {
		return unknownReference(field, "there is no user %q in the organisation", credentials.Clip(user))
	}
	if err := c.mayGive(field, role); err != nil {
		return err
	}
	if _, ok := c.api.Directory.Member(w.ID, u.ID); ok {
		return failure(http.StatusConflict, "%s: %s is a member of the workspace already", field, u.Email)
	}
	if err := c.api.Directory.PutMember(c.tx, &directory.Member{WorkspaceID: w.ID, UserID: u.ID, Role: role}); err != nil {
		return err
	}
	return c.joined(w, u)
}

// mayMakeAdmins returns an error if the caller may not make admins of the organisation or of a
// workspace. They may do everything there, so it takes a caller who may do all that as well.
func (c *call) mayMakeAdmins(field string) error {
	if r := c.caller.Rights; c.caller.Owner || r != nil && r.Organisation.Administers() {
		return nil
	}
	for _, scope := range credentials.OrganisationService.Scopes() {
		if !c.caller.May(scope) {
			return forbidden("%s: an admin has the scope %s, which the %s lacks", field, scope, c.credential())
		}
	}
	return nil
}

// mayGive returns an error if the caller may not give or take a role in a workspace: managers, and
// API keys of the workspace, do not make or change admins.
func (c *call) mayGive(field string, role roles.Workspace) error {
	own := roles.WorkspaceManager
	switch r := c.caller.Rights; {
	case r != nil && r.Organisation.Administers():
		return nil
	case r == nil && c.caller.WorkspaceID == "":
		if role != roles.WorkspaceAdmin {
			return nil
		}
		return c.mayMakeAdmins(field)
	case r != nil:
		own = r.Workspace
	}
	if role.Above(own) {
		return forbidden("%s: only admins make, change and remove an %s of a workspace", field, role)
	}
	return nil
}
