package directory

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// An Invite lets a person become a user. Only a digest of its token is stored.
type Invite struct {
	ID         string             `json:"id"`
	Email      string             `json:"email"` // in lower case
	Role       roles.Organisation `json:"role"`
	Workspaces []Invitation       `json:"workspaces,omitempty"`
	Keys       *InviteKeys        `json:"keys,omitempty"` // nil: none are made
	Digest     [sha256.Size]byte  `json:"digest"`
	InvitedBy  string             `json:"invited_by,omitempty"` // id of a user
	CreatedAt  time.Time          `json:"created_at"`
	ExpiresAt  time.Time          `json:"expires_at"`
	AcceptedAt *time.Time         `json:"accepted_at,omitempty"`
	Cancelled  bool               `json:"cancelled,omitempty"`
	Replaced   bool               `json:"replaced,omitempty"` // by a later one, after it had expired
}

// InviteKeys are the user keys that are made in each workspace when an invite is accepted. What
// binds the key of whoever made the invite binds them too.
type InviteKeys struct {
	Scopes        []string        `json:"scopes"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	ConfigID      string          `json:"config_id,omitempty"`
	AllowOverride *bool           `json:"allow_override,omitempty"` // of the config; nil: the config is the workspace's
	ExpiresAt     *time.Time      `json:"expires_at,omitempty"`
}

// An Invitation is a workspace of an [Invite].
type Invitation struct {
	WorkspaceID string          `json:"workspace_id"`
	Role        roles.Workspace `json:"role"`
}

const (
	// InviteTTL is how long an invite can be accepted.
	InviteTTL = 7 * 24 * time.Hour

	// MaxInvites bounds the invites that are kept, because all are in memory.
	MaxInvites = 10_000
)

const (
	byToken = "token"
	byList  = "list" // see [Directory.InvitesWith]
)

func (d *Directory) openInvites(db *storage.DB) {
	open := func(i *Invite) bool { return i.AcceptedAt == nil && !i.Cancelled && !i.Replaced }
	d.invites = storage.NewCached(db, storage.NewCollection("invite", func(i *Invite) string { return i.ID },
		storage.Index[*Invite]{Name: byEmail, Unique: true, Keys: func(i *Invite) []string {
			if !open(i) {
				return nil
			}
			return []string{i.Email}
		}},
		storage.Index[*Invite]{Name: byToken, Unique: true, Keys: func(i *Invite) []string {
			if !open(i) {
				return nil // it works once
			}
			return []string{string(i.Digest[:])}
		}},
		storage.Index[*Invite]{Name: inAll, Counted: true, Max: MaxInvites, Rows: "invites", Keys: func(*Invite) []string { return []string{""} }},
		storage.Index[*Invite]{Name: byList, Memory: true, Keys: func(i *Invite) []string { return storage.Combinations(i.Email, string(i.Role)) }}))
}

// Status is the status of an invite as the control plane shows it.
func (i *Invite) Status(now time.Time) string {
	switch {
	case i.AcceptedAt != nil:
		return "accepted"
	case i.Cancelled:
		return "cancelled"
	case i.Replaced || !now.Before(i.ExpiresAt):
		return "expired"
	}
	return "pending"
}

// Invites returns all invites in the order of their creation.
func (d *Directory) Invites() []*Invite { return d.invites.All() }

// InvitesWith returns the invites of an e-mail address, whatever its case, and with a role, in the order of their
// creation; of "", those of all addresses, or with all roles.
func (d *Directory) InvitesWith(email string, role roles.Organisation) []*Invite {
	return d.invites.Where(byList, storage.Combined(strings.ToLower(email), string(role)))
}

// Invite returns an invite by its id.
func (d *Directory) Invite(id string) (*Invite, bool) { return d.invites.Get(strings.ToLower(id)) }

// OpenInvite returns the invite that was neither accepted nor cancelled, and that may have expired,
// of an e-mail address.
func (d *Directory) OpenInvite(email string) (*Invite, bool) {
	return d.invites.Find(byEmail, strings.ToLower(email))
}

// InviteOf returns the invite of a token that is neither accepted, cancelled nor expired.
func (d *Directory) InviteOf(token string) (*Invite, bool) {
	digest := sha256.Sum256([]byte(token))
	i, ok := d.invites.Find(byToken, string(digest[:]))
	if !ok || i.Status(d.now()) != "pending" {
		return nil, false
	}
	return i, true
}

// PutInvite stores a new invite, if it has no id, or a changed copy. With a token, it can be
// accepted with that, and with no other one, from now on.
func (d *Directory) PutInvite(tx *storage.Txn, i *Invite, token string) error {
	now := d.now().UTC()
	if i.ID == "" {
		i.ID, i.CreatedAt = storage.NewID(d.random), now
	}
	if token != "" {
		i.Digest, i.ExpiresAt = sha256.Sum256([]byte(token)), now.Add(InviteTTL)
	}
	i.Email = strings.ToLower(i.Email)
	return d.invites.Put(tx, i)
}

// RemoveInvite removes an invite.
func (d *Directory) RemoveInvite(tx *storage.Txn, id string) error { return d.invites.Delete(tx, id) }
