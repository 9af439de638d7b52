package directory

import (
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// A User is a person of the organisation.
type User struct {
	ID        string             `json:"id"`
	Email     string             `json:"email"` // in lower case
	FirstName string             `json:"first_name,omitempty"`
	LastName  string             `json:"last_name,omitempty"`
	Role      roles.Organisation `json:"role"`
	CreatedAt time.Time          `json:"created_at"`
	UpdatedAt time.Time          `json:"updated_at"`
}

// A Member is a user in a workspace.
type Member struct {
	WorkspaceID string          `json:"workspace_id"`
	UserID      string          `json:"user_id"`
	Role        roles.Workspace `json:"role"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

// Bounds of users and members, because all are in memory. One more is a [storage.FullError].
const (
	MaxUsers              = 100_000
	MaxMembersOfWorkspace = 10_000
	MaxWorkspacesOfUser   = 1_000
	MaxMembers            = 200_000
)

const (
	byEmail     = "email"
	byRole      = "role"      // counts
	ofWorkspace = "workspace" // counts
	ofUser      = "user"      // counts
)

func (d *Directory) openUsers(db *storage.DB) {
	d.users = storage.NewCached(db, storage.NewCollection("user", func(u *User) string { return u.ID },
		storage.Index[*User]{Name: byEmail, Unique: true, Keys: func(u *User) []string { return []string{u.Email} }},
		storage.Index[*User]{Name: byRole, Counted: true, Keys: func(u *User) []string { return []string{string(u.Role)} }},
		storage.Index[*User]{Name: inAll, Counted: true, Max: MaxUsers, Rows: "users", Keys: func(*User) []string { return []string{""} }}))
	d.members = storage.NewCached(db, storage.NewCollection("member", func(m *Member) string { return memberID(m.WorkspaceID, m.UserID) },
		storage.Index[*Member]{Name: ofWorkspace, Counted: true, Max: MaxMembersOfWorkspace, Rows: "members of a workspace", Keys: func(m *Member) []string { return []string{m.WorkspaceID} }},
		storage.Index[*Member]{Name: ofUser, Counted: true, Max: MaxWorkspacesOfUser, Rows: "workspaces of a user", Keys: func(m *Member) []string { return []string{m.UserID} }},
		storage.Index[*Member]{Name: inAll, Counted: true, Max: MaxMembers, Rows: "members of workspaces", Keys: func(*Member) []string { return []string{""} }}))
}

func memberID(workspace, user string) string { return workspace + "/" + user }

// User returns a user by id.
func (d *Directory) User(id string) (*User, bool) { return d.users.Get(strings.ToLower(id)) }

// UserByEmail returns the user with an e-mail address, whatever its case.
func (d *Directory) UserByEmail(email string) (*User, bool) {
	return d.users.Find(byEmail, strings.ToLower(email))
}

// Users returns all users in the order of their creation.
func (d *Directory) Users() []*User { return d.users.All() }

// UsersWith returns the users with a role in the order of their creation.
func (d *Directory) UsersWith(role roles.Organisation) []*User {
	return d.users.Where(byRole, string(role))
}

// PutUser stores a new user, if it has no id, or a changed copy. An error that wraps
// storage.ErrExists means that another user has the e-mail address.
func (d *Directory) PutUser(tx *storage.Txn, u *User) error {
	u.UpdatedAt = d.now().UTC()
	if u.ID == "" {
		u.ID, u.CreatedAt = storage.NewID(d.random), u.UpdatedAt
	}
	u.Email = strings.ToLower(u.Email)
	if err := d.returned(tx, u); err != nil {
		return err
	}
	return d.users.Put(tx, u)
}

// RemoveUser removes a user, who must be in no workspace. See [Directory.IsFormer].
func (d *Directory) RemoveUser(tx *storage.Txn, id string) error {
	if u, ok := d.users.Get(id); ok {
		if err := d.remember(tx, u); err != nil {
			return err
		}
	}
	return d.users.Delete(tx, id)
}

// LastOwner says why the role of a user does not change.
const LastOwner = "The last owner of the organisation cannot be removed, and stays an owner"

// Owners returns how many owners the organisation has, in a transaction (see [Directory.In]).
func (d *Directory) Owners() int { return d.users.Count(byRole, string(roles.Owner)) }

// Member returns a user's membership of a workspace, by their ids.
func (d *Directory) Member(workspace, user string) (*Member, bool) {
	return d.members.Get(memberID(workspace, strings.ToLower(user)))
}

// Members returns the memberships of a workspace, in the order of the ids of the users.
func (d *Directory) Members(workspace string) []*Member {
	return d.members.Where(ofWorkspace, workspace)
}

// Memberships returns those of a user, in the order of the ids of the workspaces.
func (d *Directory) Memberships(user string) []*Member { return d.members.Where(ofUser, user) }

// PutMember stores a new membership, or a changed copy.
func (d *Directory) PutMember(tx *storage.Txn, m *Member) error {
	m.UpdatedAt = d.now().UTC()
	if m.CreatedAt.IsZero() {
		m.CreatedAt = m.UpdatedAt
	}
	return d.members.Put(tx, m)
}

// RemoveMember removes a user from a workspace.
func (d *Directory) RemoveMember(tx *storage.Txn, workspace, user string) error {
	return d.members.Delete(tx, memberID(workspace, user))
}

// MembersOf returns the ids of at most limit users who are members of a workspace.
func (d *Directory) MembersOf(workspace string, limit int) []string {
	return storage.Some(d.members.Where(ofWorkspace, workspace), limit, func(m *Member) string { return m.UserID })
}
