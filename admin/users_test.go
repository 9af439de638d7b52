package admin_test

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// signer signs the JWTs of users in tests.
var signer = sync.OnceValue(func() jose.Signer {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: signingKey}, new(jose.SignerOptions).WithType("JWT").WithHeader("kid", "tests"))
	if err != nil {
		panic(err)
	}
	return s
})

var signingKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// tokens verifies the JWTs of tests.
func tokens(t testing.TB, d *directory.Directory, now func() time.Time) credentials.Tokens {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: signingKey.Public(), KeyID: "tests"}}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := identity.ParseKeySet(raw, true)
	if err != nil {
		t.Fatal(err)
	}
	return identity.NewVerifier(identity.Options{
		Directory: d, Now: now, Logger: zap.NewNop(), Issuers: []identity.Issuer{{Name: "tests", Audience: []string{"gw"}, Keys: keys}},
		Limits: func(identity.LimitedToken) (any, error) { return new(policies.TokenLimits), nil },
	})
}

// jwt returns a JWT with claims besides those that it must have.
func (a *api) jwt(claims map[string]any) string {
	a.t.Helper()
	all := map[string]any{"iss": "tests", "aud": "gw", "exp": time.Unix(0, a.now.Load()).Add(1000 * time.Hour).Unix()}
	maps.Copy(all, claims)
	raw, err := json.Marshal(all)
	if err != nil {
		a.t.Fatal(err)
	}
	signed, err := signer().Sign(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		a.t.Fatal(err)
	}
	return token
}

// token returns what a caller sends: user:<id> and user:<id>@<workspace> stand for a JWT of the user.
func (a *api) token(caller string) string {
	a.t.Helper()
	id, ok := strings.CutPrefix(caller, "user:")
	if !ok {
		return caller
	}
	id, slug, _ := strings.Cut(id, "@")
	return a.jwt(map[string]any{"sub": id, "gw_workspace": slug})
}

// user makes a user and returns the id.
func (a *api) user(email string, role roles.Organisation) string {
	a.t.Helper()
	u := &directory.User{Email: email, FirstName: "F", LastName: "L", Role: role}
	if err := a.s.DB.Update(a.t.Context(), func(tx *storage.Txn) error { return a.s.Directory.PutUser(tx, u) }); err != nil {
		a.t.Fatal(err)
	}
	return u.ID
}

// member makes a user who is a member of a workspace, and returns the id and a token for requests
// in that workspace.
func (a *api) member(email, workspace string, role roles.Workspace) (id, token string) {
	a.t.Helper()
	id = a.user(email, roles.Member)
	a.ok("POST", "/v1/admin/workspaces/"+workspace+"/users", `{"users":[{"id":"`+id+`","role":"`+string(role)+`"}]}`)
	return id, "user:" + id + "@" + workspace
}

func (a *api) refuses(key, method, path, body string, status int, why string) {
	a.t.Helper()
	if out := a.as(key, method, path, body); out.status != status || !strings.Contains(out.message(), why) {
		a.t.Errorf("%s %s %s: %d %s, want %d %q", method, path, body, out.status, out.body, status, why)
	}
}

func TestUsersAreListedChangedAndDeleted(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	ada, bob := a.user("Ada@Example.com", roles.Admin), a.user("bob@example.com", roles.Member)
	a.ok("POST", "/v1/admin/workspaces/red/users", `{"users":[{"id":"`+bob+`","role":"WS-Manager"}]}`)
	if out := a.ok("GET", "/v1/admin/users", ""); out.get("total").Int() != 2 || out.get("data.0.email").Str != "ada@example.com" || out.get("data.0.workspace_ids").Raw != "[]" ||
		out.get("data.1.workspace_ids").Raw != `["`+red+`"]` || out.get("data.1.object").Str != "user" || out.get("data.1.created_at").Str != iso {
		t.Errorf("%s", out.body)
	}
	for query, want := range map[string]string{
		"role=admin": ada, "role=member": bob, "role=owner": "", "email=ADA@example.com": ada, "email=none@example.com": "",
		"pageSize=1": ada, "pageSize=1&currentPage=1": bob, "page_size=1&current_page=1": bob, "pageSize=1&currentPage=2": "",
	} {
		if out := a.ok("GET", "/v2/admin/users?"+query, ""); out.get("data.0.id").Str != want || len(out.get("data").Array()) > 1 {
			t.Errorf("%s: %s", query, out.body)
		}
	}
	a.ok("PUT", "/v1/admin/users/"+bob, `{"role":"member"}`) // as it is
	a.refuses(ownerKey, "PUT", "/v1/admin/users/"+bob, `{"role":"king"}`, 400, "role")
	a.refuses(ownerKey, "PUT", "/v1/admin/users/"+bob, `{}`, 400, "role")
	a.refuses(ownerKey, "GET", "/v1/admin/users/nope", "", 404, "User")
	a.ok("PUT", "/v1/admin/users/"+strings.ToUpper(bob), `{"role":"admin"}`)
	if out := a.ok("GET", "/v1/admin/users/"+bob, ""); out.get("role").Str != "admin" || out.get("id").Str != bob {
		t.Errorf("%s", out.body)
	}
	a.ok("DELETE", "/v1/admin/users/"+bob, "")
	a.refuses(ownerKey, "GET", "/v1/admin/users/"+bob, "", 404, "User")
	if out := a.ok("GET", "/v1/admin/workspaces/red/users", ""); out.get("total").Int() != 0 {
		t.Errorf("%s", out.body)
	}
	if out := a.as("user:"+bob, "GET", "/v1/admin/users", ""); out.status != 403 {
		t.Errorf("a deleted user: %d", out.status)
	}
}

// Owners alone make and unmake owners, and the last one stays.
func TestTheLastOwnerStays(t *testing.T) {
	a := newAPI(t)
	first, second, admin := a.user("first@example.com", roles.Owner), a.user("second@example.com", roles.Member), a.user("admin@example.com", roles.Admin)
	key, _ := a.key("organisation/service", `"organisation_users.update","organisation_users.delete","organisation_users.read"`)
	for _, who := range []string{"user:" + admin, key} {
		a.refuses(who, "PUT", "/v1/admin/users/"+second, `{"role":"owner"}`, 403, "Only owners")
		a.refuses(who, "PUT", "/v1/admin/users/"+first, `{"role":"member"}`, 403, "Only owners")
		a.refuses(who, "DELETE", "/v1/admin/users/"+first, "", 403, "Only owners")
	}
	for _, who := range []string{"user:" + first, ownerKey} {
		a.refuses(who, "PUT", "/v1/admin/users/"+first, `{"role":"admin"}`, 409, "last owner")
		a.refuses(who, "DELETE", "/v1/admin/users/"+first, "", 409, "last owner")
	}
	b := a.second() // which does not see what follows
	if out := a.as("user:"+first, "PUT", "/v1/admin/users/"+second, `{"role":"owner"}`); out.status != 200 {
		t.Fatal(out.body)
	}
	a.ok("PUT", "/v1/admin/users/"+first, `{"role":"member"}`)
	b.refuses(ownerKey, "DELETE", "/v1/admin/users/"+second, "", 409, "last owner")
	a.refuses(ownerKey, "DELETE", "/v1/admin/users/"+second, "", 409, "last owner")
	a.ok("DELETE", "/v1/admin/users/"+first, "")
}

func TestMembersOfWorkspaces(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	a.workspace("blue")
	ada, bob := a.user("ada@example.com", roles.Member), a.user("bob@example.com", roles.Member)
	const path = "/v1/admin/workspaces/red/users"
	for _, c := range []struct {
		body   string
		status int
		why    string
	}{
		{`{}`, 400, "users"},
		{`{"users":[]}`, 400, "users"},
		{`{"users":[{"id":"x","role":"member"}]}`, 400, "users[0].id"},
		{`{"users":[{"id":"` + ada + `","role":"owner"}]}`, 400, "users[0].role"},
		{`{"users":[{"id":"` + ada + `"}]}`, 400, "role"},
		{`{"users":[{"id":"` + ada + `","role":"member"},{"id":"0191e7a3-0000-7000-8000-000000000000","role":"member"}]}`, 404, "users[1]"},
		{`{"users":[{"id":"` + ada + `","role":"member"},{"id":"` + ada + `","role":"admin"}]}`, 409, "users[1]"},
	} {
		a.refuses(ownerKey, "POST", path, c.body, c.status, c.why)
	}
	if out := a.ok("GET", path, ""); out.get("total").Int() != 0 {
		t.Fatalf("a refused request added %s", out.body)
	}
	a.ok("POST", path, `{"users":[{"id":"`+ada+`","role":"admin"},{"id":"`+bob+`","role":"member"}]}`)
	for query, want := range map[string]string{"role=admin": ada, "role=member": bob, "email=BOB@example.com": bob, "page_size=1&current_page=1": bob, "role=manager": ""} {
		if out := a.ok("GET", "/v2/workspaces/red/users?"+query, ""); out.get("data.0.id").Str != want {
			t.Errorf("%s: %s", query, out.body)
		}
	}
	one := a.ok("GET", path+"/"+ada, "")
	if one.get("object").Str != "workspace-user" || one.get("org_role").Str != "member" || one.get("role").Str != "admin" || one.get("workspace_id").Str != red ||
		one.get("email").Str != "ada@example.com" || one.get("status").Str != "active" || one.get("first_name").Str != "F" {
		t.Errorf("%s", one.body)
	}
	if out := a.ok("GET", "/v1/admin/workspaces/red", ""); out.get("users.#").Int() != 2 {
		t.Errorf("%s", out.body)
	}
	a.ok("PUT", path+"/"+ada, `{"role":"admin"}`) // as it is
	a.refuses(ownerKey, "PUT", "/v1/admin/workspaces/blue/users/"+ada, `{"role":"admin"}`, 404, "Member")
	// What portkey-ai repeats of the path in bodies must be that of the path.
	a.refuses(ownerKey, "PUT", path+"/"+ada, `{"role":"manager","user_id":"`+bob+`"}`, 400, "user_id")
	a.refuses(ownerKey, "POST", path, `{"users":[{"id":"`+bob+`","role":"member"}],"workspace_id":"blue"}`, 400, "workspace_id")
	a.refuses(ownerKey, "DELETE", "/v1/admin/workspaces/red", `{"name":"red","force_delete":true,"workspace_id":"blue"}`, 400, "workspace_id")
	a.ok("PUT", path+"/"+ada, `{"role":"manager","user_id":"`+ada+`","workspace_id":"red"}`)
	if out := a.ok("POST", "/v1/admin/workspaces", `{"name":"green","slug":"green","users":["`+bob+`"]}`); out.get("users").Exists() {
		t.Errorf("%s", out.body)
	}
	if out := a.ok("GET", "/v1/admin/workspaces/green/users", ""); out.get("data.0.role").Str != "member" {
		t.Errorf("%s", out.body)
	}
	a.refuses(ownerKey, "POST", "/v1/admin/workspaces", `{"name":"n","users":["nope"]}`, 404, "users")

	// With the membership go the keys that the user has there.
	key := func(workspace, user string) string {
		return a.ok("POST", "/v1/api-keys/workspace/user", `{"name":"k","scopes":["virtual_keys.list"],"workspace_id":"`+workspace+`","user_id":"`+user+`"}`).get("key").Str
	}
	gone, elsewhere, other := key("red", bob), key("green", bob), key("red", ada)
	a.ok("DELETE", path+"/"+bob, "")
	for k, want := range map[string]int{gone: 401, elsewhere: 200, other: 200} {
		if out := a.as(k, "GET", "/v1/virtual-keys", ""); out.status != want {
			t.Errorf("%d, want %d", out.status, want)
		}
	}
	a.refuses(ownerKey, "DELETE", path+"/"+bob, "", 404, "Member")
	if r := a.trail()[1]; r.Scope != "workspace_users.delete" || r.Resource != bob || r.Path != path+"/"+bob {
		t.Errorf("%+v", r)
	}
	a.ok("DELETE", "/v1/admin/users/"+bob, "")
	if out := a.as(elsewhere, "GET", "/v1/virtual-keys", ""); out.status != 401 {
		t.Errorf("the key of a deleted user: %d", out.status)
	}
}

// Managers, and keys of the workspace, neither make nor change admins; and no member of one
// workspace reaches another.
func TestNobodyGivesARoleAboveTheirOwn(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	a.workspace("blue")
	admin, asAdmin := a.member("admin@example.com", "red", roles.WorkspaceAdmin)
	_, asManager := a.member("manager@example.com", "red", roles.WorkspaceManager)
	plain, asMember := a.member("member@example.com", "red", roles.WorkspaceMember)
	other := a.user("other@example.com", roles.Member)
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":["workspace_users.create","workspace_users.update","workspace_users.delete"]}`).get("key").Str
	const path = "/v1/admin/workspaces/red/users"
	for _, who := range []string{asManager, key} {
		a.refuses(who, "POST", path, `{"users":[{"id":"`+other+`","role":"admin"}]}`, 403, "only admins")
		a.refuses(who, "PUT", path+"/"+plain, `{"role":"admin"}`, 403, "only admins")
		a.refuses(who, "PUT", path+"/"+admin, `{"role":"member"}`, 403, "only admins")
		a.refuses(who, "DELETE", path+"/"+admin, "", 403, "only admins")
		a.refuses(who, "DELETE", "/v1/admin/workspaces/blue/users/"+admin, "", 404, "Workspace")
		for _, c := range [][3]string{
			{"POST", path, `{"users":[{"id":"` + other + `","role":"member"}]}`},
			{"PUT", path + "/" + other, `{"role":"manager"}`},
			{"DELETE", path + "/" + other, ""},
		} {
			if out := a.as(who, c[0], c[1], c[2]); out.status != 200 {
				t.Errorf("%s %s: %d %s", c[0], c[1], out.status, out.body)
			}
		}
	}
	a.refuses(asMember, "POST", path, `{"users":[{"id":"`+other+`","role":"member"}]}`, 403, "workspace_users.create")
	if out := a.as(asAdmin, "PUT", path+"/"+plain, `{"role":"admin"}`); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as("user:"+plain+"@blue", "GET", "/v1/virtual-keys", ""); out.status != 403 {
		t.Errorf("a member of another workspace: %d", out.status)
	}
	if out := a.as("user:"+plain, "GET", "/v1/virtual-keys", ""); out.status != 403 {
		t.Errorf("a member as a caller of the organisation: %d", out.status)
	}
}

// Records of others, and bodies, are seen as the settings of the role say.
func TestSettingsSayWhichRecordsMembersSee(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	a.s.Records.(*reqlog.Log).Configure(reqlog.Settings{Retention: time.Hour, Size: 1 << 20, Queue: 1 << 20, Bodies: true, MaxBody: 1000, BodyRetention: time.Hour, BodySize: 1 << 20})
	id, member := a.member("member@example.com", "red", roles.WorkspaceMember)
	for _, user := range []string{id, "another"} {
		a.s.Records.Add(&reqlog.Record{TraceID: "of-" + user, At: a.s.Now(), WorkspaceID: red, UserID: user, Status: 200, Request: &reqlog.Body{Size: 20, Kept: 20, Bytes: []byte(`{"said":"something"}`)}})
	}
	until(t, "the records are written", func() bool { return a.ok("GET", "/v1/logs", "").get("total").Int() == 2 })
	set := func(settings string) {
		t.Helper()
		a.ok("PUT", "/v1/admin/workspaces/red", `{"security_settings":{`+settings+`}}`)
	}
	seen := func() (total int64, body bool) {
		t.Helper()
		one := a.as(member, "GET", "/v1/logs/of-"+id, "")
		return a.as(member, "GET", "/v1/logs", "").get("total").Int(), strings.Contains(one.body, "something")
	}
	if n, body := seen(); n != 2 || !body {
		t.Errorf("by default: %d, %t", n, body)
	}
	set(`"membersViewAllData":false`)
	if n, body := seen(); n != 1 || !body {
		t.Errorf("their own: %d, %t", n, body)
	}
	if out := a.as(member, "GET", "/v1/logs/of-another", ""); out.status != 404 {
		t.Errorf("another's: %d %s", out.status, out.body)
	}
	set(`"membersViewLogs":false`)
	if n, body := seen(); n != 1 || body {
		t.Errorf("without bodies: %d, %t", n, body)
	}
	set(`"membersViewLogMetadata":false`)
	if out := a.as(member, "GET", "/v1/logs", ""); out.status != 403 {
		t.Errorf("none: %d", out.status)
	}
}
