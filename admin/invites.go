package admin

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// Invite is an invite as shown by the control plane.
type Invite struct {
	ID         string            `json:"id" format:"uuid"`
	Email      string            `json:"email" format:"email"`
	Role       string            `json:"role" enum:"admin,member"`
	Workspaces []InviteWorkspace `json:"workspaces"`
	CreatedAt  string            `json:"created_at" format:"date-time"`
	ExpiresAt  string            `json:"expires_at" format:"date-time"`
	AcceptedAt *string           `json:"accepted_at" format:"date-time"`
	Status     string            `json:"status" enum:"pending,cancelled,accepted,expired"`
	InvitedBy  *string           `json:"invited_by" format:"uuid"`
	Object     string            `json:"object" enum:"invite"`
}

// InviteWorkspace is a workspace of an invite.
type InviteWorkspace struct {
	ID   string        `json:"id" minLength:"1" maxLength:"255" doc:"Id or slug."`
	Role workspaceRole `json:"role" maxLength:"16" doc:"admin, manager or member."`
}

func showInvite(c *call, i *directory.Invite) Invite {
	out := Invite{
		ID: i.ID, Email: i.Email, Role: string(i.Role), Workspaces: []InviteWorkspace{}, CreatedAt: formatTime(i.CreatedAt), ExpiresAt: formatTime(i.ExpiresAt),
		AcceptedAt: formatOptionalTime(i.AcceptedAt), Status: i.Status(c.api.Now()), InvitedBy: text(i.InvitedBy), Object: "invite",
	}
	for _, w := range i.Workspaces {
		out.Workspaces = append(out.Workspaces, InviteWorkspace{w.WorkspaceID, workspaceRole(w.Role)})
	}
	return out
}

type createInvite struct {
	Email      string            `json:"email" format:"email" maxLength:"320"`
	Role       string            `json:"role" enum:"admin,member"`
	Workspaces []InviteWorkspace `json:"workspaces" maxItems:"100"`
	Keys       *inviteKeys       `json:"workspace_api_key_details,omitempty" doc:"A user key is made in each of the workspaces when the invite is accepted."`
}

type inviteKeys struct {
	Scopes []string `json:"scopes" minItems:"1" maxItems:"500"`
}

type createdInvite struct {
	ID   string `json:"id" format:"uuid"`
	Link string `json:"invite_link" doc:"What the invited person opens. It works once, until the invite expires, and is shown this once."`
}

type resentInvite struct {
	Link    string `json:"invite_link" doc:"The new link; the old one does not work any more."`
	LinkToo string `json:"inviteLink" doc:"The same."`
}

type acceptInvite struct {
	Token     string `json:"token" minLength:"1" maxLength:"255" doc:"What follows # in the link."`
	FirstName string `json:"first_name" minLength:"1" maxLength:"255"`
	LastName  string `json:"last_name,omitempty" maxLength:"255"`
}

type acceptedInvite struct {
	ID     string        `json:"id" format:"uuid" doc:"Of the new user."`
	Email  string        `json:"email" format:"email"`
	Keys   []AcceptedKey `json:"api_keys" doc:"The user's keys, which are shown this once."`
	Object string        `json:"object" enum:"user"`
}

// AcceptedKey is an API key that was made for a user.
type AcceptedKey struct {
	ID          string `json:"id" format:"uuid"`
	Key         string `json:"key"`
	WorkspaceID string `json:"workspace_id" format:"uuid"`
}

type inviteFilter struct {
	CamelPaging
	Role   string `query:"role" enum:"admin,member"`
	Email  string `query:"email" maxLength:"320" doc:"Whatever its case."`
	Status string `query:"status" enum:"pending,cancelled,accepted,expired"`
}

// acceptPath is where invites are accepted, below /v1.
const acceptPath = "/admin/users/invites/accept"

func (a *API) invites() {
	invites := &resource[directory.Invite]{
		path: "/admin/users/invites", param: "invite_id", noun: "invite", kind: audit.Invites, scope: "organisation_users",
		rows: func(c *call) []*directory.Invite { return c.api.Directory.Invites() },
		find: func(c *call, id string) (*directory.Invite, error) { return found(c.api.Directory.Invite(id)) },
		name: func(i *directory.Invite) string { return i.ID },
	}
	create(a, invites, (*call).createInvite)
	listChosen(a, invites, func(c *call, _ string, f *inviteFilter) (chosen choice[directory.Invite], err error) {
		chosen.rows = c.api.Directory.InvitesWith(f.Email, roles.Organisation(f.Role))
		if f.Status != "" {
			chosen.only(func(i *directory.Invite) bool { return f.Status == i.Status(c.api.Now()) })
		}
		return chosen, nil
	}, showInvite)
	get(a, invites, showInvite)
	remove(a, invites, "Cancel", func(c *call, i *directory.Invite) error {
		if i.Status(c.api.Now()) != "pending" {
			return c.api.Directory.RemoveInvite(c.tx, i.ID)
		}
		i.Cancelled = true
		return c.api.Directory.PutInvite(c.tx, i, "")
	})
	change(a, invites.routeOfOne(http.MethodPost, "/resend", "create", "Send an invite again"), func(c *call, in *optionalBodyInput[noMembers]) (out *resentInvite, e edit, err error) {
		e, err = invites.edit(c, &in.item, "create", func(i *directory.Invite) (err error) {
			out, err = c.resendInvite(i)
			return err
		})
		return out, e, err
	})
	change(a, route{
		method: http.MethodPost, path: acceptPath, kind: audit.Invites, scopes: []string{"organisation_users.create"}, summary: "Accept an invite", open: true,
	}, (*call).acceptInvite)
}

func (c *call) createInvite(in *createInvite) (*directory.Invite, *createdInvite, error) {
	i := &directory.Invite{Email: in.Email, Role: roles.Organisation(in.Role), InvitedBy: c.caller.UserID}
	if _, ok := c.api.Directory.UserByEmail(in.Email); ok {
		return nil, nil, failure(http.StatusConflict, "email: %q is a user of the organisation already", credentials.Clip(in.Email))
	}
	seen := make(map[string]bool)
	for n, named := range in.Workspaces {
		field := element("workspaces", n, "")
		w, ok := c.api.Directory.Workspace(named.ID)
		if !ok {
			return nil, nil, unknownReference(field+".id", "there is no workspace %q", credentials.Clip(named.ID))
		}
		role, err := named.Role.role(field + ".role")
		switch {
		case err != nil:
			return nil, nil, err
		case seen[w.ID]:
			return nil, nil, invalid(field+".id", "the workspace is named twice")
		}
		seen[w.ID] = true
		i.Workspaces = append(i.Workspaces, directory.Invitation{WorkspaceID: w.ID, Role: role})
	}
	if in.Keys != nil {
		i.Keys = &directory.InviteKeys{Scopes: in.Keys.Scopes, ExpiresAt: c.caller.ExpiresAt}
	}
	if err := c.mayInvite(i); err != nil {
		return nil, nil, err
	}
	if old, ok := c.api.Directory.OpenInvite(in.Email); ok {
		if old.Status(c.api.Now()) == "pending" {
			return nil, nil, failure(http.StatusConflict, "email: %q has an invite already, %s; resend or cancel that", credentials.Clip(in.Email), old.ID)
		}
		replaced := *old
		replaced.Replaced = true
		if err := c.api.Directory.PutInvite(c.tx, &replaced, ""); err != nil {
			return nil, nil, err
		}
	}
	link, err := c.invite(i)
	if err != nil {
		return nil, nil, err
	}
	return i, &createdInvite{i.ID, link}, nil
}

// mayInvite returns an error if the caller may not make an invite, because the roles or the keys
// that it gives may do more. It binds the keys as the caller's is.
func (c *call) mayInvite(i *directory.Invite) (err error) {
	if i.Role.Administers() {
		if err := c.mayMakeAdmins("role"); err != nil {
			return err
		}
	}
	for n, w := range i.Workspaces {
		if err := c.mayGive("workspaces["+strconv.Itoa(n)+"].role", w.Role); err != nil {
			return err
		}
	}
	if i.Keys == nil {
		return nil
	}
	defer func() {
		var refused *Error
		if errors.As(err, &refused) {
			refused.Data.Message = "workspace_api_key_details." + refused.Data.Message
		}
	}()
	if !c.caller.May(credentials.WorkspaceUser.Resource() + ".create") {
		return forbidden("scopes: the %s lacks the scope %s.create", c.credential(), credentials.WorkspaceUser.Resource())
	}
	if i.Keys.Scopes, err = c.grant(credentials.WorkspaceUser, i.Keys.Scopes); err != nil {
		return err
	}
	k := inviteKey(i.Keys)
	if err := c.bounded(k, new(APIKeyFields)); err != nil {
		return err
	}
	i.Keys.Metadata, i.Keys.ConfigID, i.Keys.AllowOverride = k.Metadata, k.ConfigID, k.AllowOverride
	return nil
}

// invite stores an invite with a new token, and returns the link with it, which is also sent to
// the person if mail is configured.
func (c *call) invite(i *directory.Invite) (link string, err error) {
	token, err := credentials.NewToken(c.api.Random, "invite-")
	if err != nil {
		return "", err
	}
	if err := c.api.Directory.PutInvite(c.tx, i, token.Reveal()); err != nil {
		return "", err
	}
	// After # it is in no log of a server.
	link = c.api.BaseURL + "/v1" + acceptPath + "#" + token.Reveal()
	if c.api.Mail != nil {
		m := inviteMail(i, c.api.Directory.Organisation().Name, link)
		c.committed(func() { c.api.Mail.Send(m) })
	}
	return link, nil
}

func inviteMail(i *directory.Invite, organisation, link string) *mail.Message {
	return &mail.Message{
		To: i.Email, Subject: "Invitation to " + organisation,
		Paragraphs: []string{
			"You are invited to the AI gateway of " + organisation + ".",
			"This link works once, until " + i.ExpiresAt.Format("2 January 2006, 15:04") + " UTC:",
		},
		Link: link,
	}
}

// acceptInvite makes the user of an invite.
func (c *call) acceptInvite(in *bodyInput[acceptInvite]) (*acceptedInvite, edit, error) {
	stored, ok := c.api.Directory.InviteOf(in.Body.Token)
	if !ok {
		return nil, edit{}, failure(http.StatusUnauthorized, "token: there is no invite with it; it may have been used, cancelled or replaced, or have expired")
	}
	i, now := *stored, c.api.Now().UTC()
	if err := c.stillInvites(&i); err != nil {
		return nil, edit{}, err
	}
	before, err := membersOf(showInvite(c, &i), nil)
	if err != nil {
		return nil, edit{}, err
	}
	u := &directory.User{Email: i.Email, FirstName: in.Body.FirstName, LastName: in.Body.LastName, Role: i.Role}
	if err := c.api.Directory.PutUser(c.tx, u); err != nil {
		if errors.Is(err, storage.ErrExists) {
			return nil, edit{}, failure(http.StatusConflict, "email: %q is a user of the organisation already", credentials.Clip(i.Email))
		}
		return nil, edit{}, err
	}
	c.record.KeyID, c.record.UserID, c.record.KeyName, c.record.Resource = u.ID, u.ID, u.Email, i.ID
	out := &acceptedInvite{ID: u.ID, Email: u.Email, Keys: []AcceptedKey{}, Object: "user"}
	for _, w := range i.Workspaces {
		joined, ok := c.api.Directory.Workspace(w.WorkspaceID)
		if !ok {
			continue // it was deleted since
		}
		if err := c.api.Directory.PutMember(c.tx, &directory.Member{WorkspaceID: w.WorkspaceID, UserID: u.ID, Role: w.Role}); err != nil {
			return nil, edit{}, err
		}
		if i.Keys == nil {
			if err := c.joined(joined, u); err != nil {
				return nil, edit{}, err
			}
			continue
		}
		key, err := c.keyOf(u, w.WorkspaceID, i.Keys)
		if err != nil {
			return nil, edit{}, err
		}
		out.Keys = append(out.Keys, *key)
	}
	c.also(edit{nil, map[string]any{"user": map[string]any{"id": u.ID, "email": u.Email, "role": u.Role}}})
	i.AcceptedAt = &now
	after, err := membersOf(showInvite(c, &i), nil)
	if err != nil {
		return nil, edit{}, err
	}
	return out, edit{before, after}, c.api.Directory.PutInvite(c.tx, &i, "")
}

// stillInvites returns an error if the user who made an invite may not make it any more.
func (c *call) stillInvites(i *directory.Invite) error {
	if i.InvitedBy == "" {
		return nil
	}
	if by, ok := c.api.Directory.User(i.InvitedBy); ok {
		copied := *i
		as := &call{Context: c.Context, api: c.api, tx: c.tx, caller: identity.UserCaller(c.api.Directory, by, nil)}
		if as.caller != nil && as.mayInvite(&copied) == nil {
			return nil
		}
	}
	return forbidden("The user who made the invite may not make it any more; ask for another one")
}

// inviteKey is what the user keys of an invite have in common.
func inviteKey(keys *directory.InviteKeys) *credentials.APIKey {
	return &credentials.APIKey{
		Kind: credentials.WorkspaceUser, Scopes: keys.Scopes, Metadata: keys.Metadata, ConfigID: keys.ConfigID, AllowOverride: keys.AllowOverride,
		ExpiresAt: keys.ExpiresAt, CreationMode: "auto",
	}
}

// keyOf makes a user key.
func (c *call) keyOf(u *directory.User, workspace string, keys *directory.InviteKeys) (*AcceptedKey, error) {
	k := inviteKey(keys)
	k.Name, k.OrganisationID, k.WorkspaceID, k.UserID = u.Email, c.api.Directory.Organisation().ID, workspace, u.ID
	if w, ok := c.api.Directory.Workspace(workspace); ok {
		if k.AllowOverride == nil {
			k.ConfigID = w.UserKeyConfig
		}
		settings := c.api.Directory.UserKeysOf(w)
		if by := settings.Expiry(c.api.Now()); by != nil && (k.ExpiresAt == nil || settings.MaxTTL > 0 && k.ExpiresAt.After(*by)) {
			k.ExpiresAt = by
		}
		if err := addMetadata(k, settings.Metadata, true); err != nil { // what binds the inviter's key counts
			return nil, err
		}
		if err := c.obeyCadence(k, settings.RotationDays, Optional[rotationPolicy]{}); err != nil {
			return nil, err
		}
	}
	key, err := c.api.Keyring.Issue(c.tx, storage.NewID(c.api.Random), c.api.KeyPrefix, k)
	if err != nil {
		return nil, err
	}
	return &AcceptedKey{k.ID, key.Reveal(), workspace}, nil
}

// noMembers is the body of a call that has none.
type noMembers struct{}

// resendInvite gives an invite a new link, and sends it.
func (c *call) resendInvite(i *directory.Invite) (*resentInvite, error) {
	if i.AcceptedAt != nil || i.Cancelled || i.Replaced {
		return nil, failure(http.StatusConflict, "The invite is %s; make another", i.Status(c.api.Now()))
	}
	// The caller gets the link, and could accept it.
	if err := c.mayInvite(i); err != nil {
		return nil, err
	}
	link, err := c.invite(i)
	if err != nil {
		return nil, err
	}
	return &resentInvite{link, link}, nil
}
