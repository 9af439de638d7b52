package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// outbox keeps the mail that would be sent.
type outbox struct{ messages []*mail.Message }

func (o *outbox) Send(m *mail.Message) { o.messages = append(o.messages, m) }

const (
	invitesPath = "/v1/admin/users/invites"
	acceptPath  = invitesPath + "/accept"
)

// invite makes an invite and returns its id and token.
func (a *api) invite(body string) (id, token string) {
	a.t.Helper()
	return a.linkOf(a.ok("POST", invitesPath, body))
}

// linkOf returns the id of an invite and the token of its link.
func (a *api) linkOf(out answer) (id, token string) {
	a.t.Helper()
	link, token, ok := strings.Cut(out.get("invite_link").Str, "#")
	if !ok || link != "http://gw.test"+acceptPath || len(token) < 40 {
		a.t.Fatalf("%s", out.body)
	}
	return out.get("id").Str, token
}

func accept(token string) string { return `{"token":"` + token + `","first_name":"Ada"}` }

func TestAnInviteIsAcceptedOnce(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	blue := a.workspace("blue")
	id, token := a.invite(`{"email":"Ada@Example.com","role":"member","workspaces":[{"id":"red","role":"manager"},{"id":"` + blue + `","role":"ws-member"}],"workspace_api_key_details":{"scopes":["virtual_keys.list","completions.write"]}}`)
	shown := a.ok("GET", invitesPath+"/"+id, "")
	if shown.get("status").Str != "pending" || shown.get("email").Str != "ada@example.com" || shown.get("object").Str != "invite" || shown.get("workspaces.0.id").Str != red ||
		shown.get("expires_at").Str != "2026-12-04T12:00:00.000Z" || shown.get("accepted_at").Raw != "null" || strings.Contains(shown.body, token) {
		t.Errorf("%s", shown.body)
	}
	for _, path := range []string{"/v1/audit-logs?start_time=2026-01-01T00:00:00Z&end_time=2027-01-01T00:00:00Z&organisation_id=" + a.s.Directory.Organisation().ID, invitesPath} {
		if out := a.ok("GET", path, ""); strings.Contains(out.body, token) {
			t.Errorf("%s tells the token", path)
		}
	}
	err := a.store.View(t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			if strings.Contains(string(item.Value), token) || strings.Contains(string(item.Key), token) {
				t.Errorf("%q has the token", item.Key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.ok("DELETE", "/v1/admin/workspaces/blue", `{"name":"blue"}`) // what was deleted since is left out
	out := a.as("", "POST", acceptPath, `{"token":"`+token+`","first_name":"Ada","last_name":"L"}`)
	if out.status != 200 || out.get("email").Str != "ada@example.com" || out.get("api_keys.#").Int() != 1 || out.get("api_keys.0.workspace_id").Str != red {
		t.Fatalf("%d %s", out.status, out.body)
	}
	user := out.get("id").Str
	if u := a.ok("GET", "/v1/admin/users/"+user, ""); u.get("first_name").Str != "Ada" || u.get("last_name").Str != "L" || u.get("role").Str != "member" || u.get("workspace_ids").Raw != `["`+red+`"]` {
		t.Errorf("%s", u.body)
	}
	if m := a.ok("GET", "/v1/admin/workspaces/red/users/"+user, ""); m.get("role").Str != "manager" {
		t.Errorf("%s", m.body)
	}
	if k := a.ok("GET", "/v1/api-keys/"+out.get("api_keys.0.id").Str, ""); k.get("type").Str != "workspace-user" || k.get("user_id").Str != user || k.get("scopes").Raw != `["completions.write","virtual_keys.list"]` || k.get("creation_mode").Str != "auto" {
		t.Errorf("%s", k.body)
	}
	if list := a.as(out.get("api_keys.0.key").Str, "GET", "/v1/virtual-keys", ""); list.status != 200 {
		t.Errorf("the key: %d", list.status)
	}
	if r := a.trail()[0]; r.UserID != user || r.KeyName != "ada@example.com" || r.Status != 200 || r.Resource != id {
		t.Errorf("%+v", r)
	}
	a.refuses("", "POST", acceptPath, accept(token), 401, "token")
	if shown := a.ok("GET", invitesPath+"/"+id, ""); shown.get("status").Str != "accepted" || shown.get("accepted_at").Str != iso {
		t.Errorf("%s", shown.body)
	}
	a.refuses(ownerKey, "POST", invitesPath+"/"+id+"/resend", `{}`, 409, "accepted")
	a.refuses(ownerKey, "POST", invitesPath, `{"email":"ADA@example.com","role":"member","workspaces":[]}`, 409, "is a user")
}

func TestAnInviteEnds(t *testing.T) {
	a := newAPI(t)
	const body = `{"email":"ada@example.com","role":"admin","workspaces":[]}`
	id, first := a.invite(body)
	a.refuses(ownerKey, "POST", invitesPath, body, 409, id)
	again := a.ok("POST", invitesPath+"/"+id+"/resend", `{}`)
	_, second, _ := strings.Cut(again.get("inviteLink").Str, "#")
	if second == first || again.get("invite_link").Str != again.get("inviteLink").Str {
		t.Errorf("%s", again.body)
	}
	a.refuses("", "POST", acceptPath, accept(first), 401, "token")
	a.now.Add(int64(directory.InviteTTL))
	a.refuses("", "POST", acceptPath, accept(second), 401, "expired")
	if out := a.ok("GET", invitesPath+"?status=expired", ""); out.get("total").Int() != 1 {
		t.Errorf("%s", out.body)
	}
	third, token := a.invite(body) // in its place
	a.refuses(ownerKey, "POST", invitesPath+"/"+id+"/resend", `{}`, 409, "expired")
	a.ok("DELETE", invitesPath+"/"+third, "")
	a.refuses("", "POST", acceptPath, accept(token), 401, "cancelled")
	if out := a.ok("GET", invitesPath+"/"+third, ""); out.get("status").Str != "cancelled" {
		t.Errorf("%s", out.body)
	}
	a.ok("DELETE", invitesPath+"/"+third, "") // what has ended is removed
	a.refuses(ownerKey, "GET", invitesPath+"/"+third, "", 404, "Invite")
	fourth, _ := a.invite(body)
	a.ok("POST", invitesPath+"/"+fourth+"/resend", `{}`)
	for query, want := range map[string]int64{"": 2, "status=pending": 1, "status=accepted": 0, "role=member": 0, "role=admin": 2, "email=ADA@example.com&pageSize=1": 2, "email=x@example.com": 0} {
		if out := a.ok("GET", invitesPath+"?"+query, ""); out.get("total").Int() != want {
			t.Errorf("%s: %s", query, out.body)
		}
	}
	if n := len(a.s.Directory.Users()); n != 0 {
		t.Errorf("%d users", n)
	}
}

func TestAnInviteGivesNoMoreThanTheInviterHas(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	key, _ := a.key("organisation/service", `"organisation_users.create","virtual_keys.list","workspace_user_api_keys.create"`)
	with := func(scope string) string {
		return `{"email":"a@example.com","role":"member","workspaces":[{"id":"red","role":"member"}],"workspace_api_key_details":{"scopes":["` + scope + `"]}}`
	}
	for _, c := range []struct {
		who, body string
		status    int
		why       string
	}{
		{key, with("configs.list"), 403, "workspace_api_key_details.scopes[0]"},
		{key, with("nope.list"), 400, "workspace_api_key_details.scopes[0]"},
		{ownerKey, `{"email":"a@example.com","role":"owner","workspaces":[]}`, 400, "role"},
		{ownerKey, `{"email":"nobody","role":"member","workspaces":[]}`, 400, "email"},
		{ownerKey, `{"email":"a@example.com","role":"member"}`, 400, "workspaces"},
		{ownerKey, `{"email":"a@example.com","role":"member","workspaces":[{"id":"nope","role":"member"}]}`, 404, "workspaces[0].id"},
		{ownerKey, `{"email":"a@example.com","role":"member","workspaces":[{"id":"red","role":"owner"}]}`, 400, "workspaces[0].role"},
		{ownerKey, `{"email":"a@example.com","role":"member","workspaces":[{"id":"red","role":"member"},{"id":"red","role":"member"}]}`, 400, "workspaces[1].id"},
	} {
		a.refuses(c.who, "POST", invitesPath, c.body, c.status, c.why)
	}
	if n := len(a.s.Directory.Invites()); n != 0 {
		t.Errorf("%d invites", n)
	}
	if out := a.as(key, "POST", invitesPath, with("virtual_keys.list")); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	_, manager := a.member("m@example.com", "red", roles.WorkspaceManager)
	a.refuses(manager, "POST", invitesPath, with("virtual_keys.list"), 403, "organisation_users.create")
}

// Who guesses tokens is throttled by address, leaves no rows, and does not stop others.
func TestGuessedTokensAreThrottled(t *testing.T) {
	a := newAPI(t)
	_, token := a.invite(`{"email":"ada@example.com","role":"admin","workspaces":[]}`)
	rows, statuses := len(a.trail()), map[int]int{}
	for range 200 {
		out := a.as("", "POST", acceptPath, accept("guess"))
		statuses[out.status]++
	}
	if statuses[401] != 120 || statuses[429] != 80 || len(a.trail()) != rows {
		t.Errorf("%v, %d rows", statuses, len(a.trail())-rows)
	}
	a.ok("GET", invitesPath, "")
	a.now.Add(int64(time.Minute))
	if out := a.as("", "POST", acceptPath, accept(token)); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
}

func TestInvitesAreSentByMail(t *testing.T) {
	a := newAPI(t)
	sent := new(outbox)
	a.s.Mail = sent
	a.serve()
	a.ok("PUT", "/v1/admin/organisation", `{"name":"Acme"}`)
	id, token := a.invite(`{"email":"ada@example.com","role":"admin","workspaces":[]}`)
	a.refuses(ownerKey, "POST", invitesPath, `{"email":"ada@example.com","role":"admin","workspaces":[]}`, 409, id)
	a.ok("POST", invitesPath+"/"+id+"/resend", `{}`)
	if len(sent.messages) != 2 {
		t.Fatalf("%d mails", len(sent.messages))
	}
	if m := sent.messages[0]; m.To != "ada@example.com" || m.Subject != "Invitation to Acme" || !strings.HasSuffix(m.Link, "#"+token) || !strings.Contains(strings.Join(m.Paragraphs, " "), "4 December 2026, 12:00 UTC") {
		t.Errorf("%+v", m)
	}
}
