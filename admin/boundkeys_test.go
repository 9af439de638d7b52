package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/roles"
)

const (
	makesKeys = `"completions.write","workspace_service_api_keys.create","workspace_service_api_keys.delete","workspace_service_api_keys.rotate"`
	oneAnHour = `"rate_limits":[{"type":"requests","unit":"rph","value":1}]`
)

// Whoever revokes a key, by whatever route, its limits go on to count the calls of the keys that
// it has made.
func TestLimitsOutliveTheKeyWhileTheyCountOthers(t *testing.T) {
	a := newAPI(t)
	made := func(as, name, more string) (key, id string) {
		t.Helper()
		out := a.as(as, "POST", workspaceKeys, `{"name":"`+name+`","scopes":[`+makesKeys+`]`+more+`}`)
		if out.status != 200 {
			t.Fatalf("%d %s", out.status, out.body)
		}
		return out.get("key").Str, out.get("id").Str
	}
	parent, parentID := made(ownerKey, "parent", ","+oneAnHour)
	child, childID := made(parent, "child", "")
	a.refuses(child, "PUT", "/v1/api-keys/"+parentID, `{"rate_limits":null}`, 403, "workspace_service_api_keys.update")
	if out := a.as(child, "DELETE", "/v1/api-keys/"+parentID, ""); out.status != 200 {
		t.Fatalf("%d %s", out.status, out.body)
	}
	counts := func(want bool) {
		t.Helper()
		if _, has := a.s.Limits.Carried.Get(parentID); has != want {
			t.Errorf("the limits are there: %t", has)
		}
	}
	counts(true)
	_, grandchildID := made(child, "grandchild", "") // it is counted, too
	if k, ok := a.s.Keyring.APIKey(grandchildID); !ok || k.CountedAs != parentID {
		t.Errorf("%+v", k)
	}
	a.refuses(parent, "POST", workspaceKeys, `{"name":"n","scopes":["completions.write"]}`, 401, "unknown or was deleted")
	a.ok("DELETE", "/v1/api-keys/"+childID, "")
	counts(true)
	a.ok("DELETE", "/v1/api-keys/"+grandchildID, "")
	counts(false)

	// A key alone takes its limits along.
	_, alone := made(ownerKey, "alone", ","+oneAnHour)
	a.ok("DELETE", "/v1/api-keys/"+alone, "")
	if _, has := a.s.Limits.Carried.Get(alone); has {
		t.Error("the limits are left")
	}
}

// Who rotates a key gets its secret, and so must not get more than it may give to a key that it
// makes.
func TestABoundKeyRotatesNoneThatIsNot(t *testing.T) {
	a := newAPI(t)
	_, free := a.key("workspace/service", `"completions.write"`)
	bind := func(more string) string {
		t.Helper()
		return a.ok("POST", workspaceKeys, `{"name":"bound","scopes":[`+makesKeys+`],`+more+`}`).get("key").Str
	}
	for name, c := range map[string]struct{ key, why string }{
		"limits":   {bind(oneAnHour), "limits of its own"},
		"metadata": {bind(`"defaults":{"metadata":{"team":"red"}}`), "defaults.metadata"},
		"config":   {bind(`"defaults":{"allow_config_override":false}`), "defaults"},
		"expiry":   {bind(`"expires_at":"` + time.Unix(0, a.now.Load()).Add(time.Hour).UTC().Format(time.RFC3339) + `"`), "expires_at"},
	} {
		before, _ := a.s.Keyring.APIKey(free)
		a.refuses(c.key, "POST", "/v1/api-keys/"+free+"/rotate", `{}`, 403, c.why)
		if after, _ := a.s.Keyring.APIKey(free); after.Digest != before.Digest {
			t.Errorf("%s: the key was rotated", name)
		}
	}
	policed, id := a.key("workspace/service", makesKeys)
	a.ok("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"api_key","value":"`+id+`"}]}`)
	a.refuses(policed, "POST", "/v1/api-keys/"+free+"/rotate", `{}`, 403, "A policy counts")

	// Its own secret, and that of a key that is bound as it is, are no more than it has.
	own := a.ok("POST", workspaceKeys, `{"name":"own","scopes":[`+makesKeys+`],`+oneAnHour+`}`)
	child := a.as(own.get("key").Str, "POST", workspaceKeys, `{"name":"child","scopes":["completions.write"]}`)
	for _, id := range []string{own.get("id").Str, child.get("id").Str} {
		if out := a.as(own.get("key").Str, "POST", "/v1/api-keys/"+id+"/rotate", `{}`); out.status != 200 {
			t.Errorf("%d %s", out.status, out.body)
		}
	}
}

// The keys of an invite are bound as the inviter's key, and are made only by who makes keys.
func TestKeysOfInvitesAreBound(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	const with = `,"role":"member","workspaces":[{"id":"red","role":"member"}],"workspace_api_key_details":{"scopes":["completions.write"]}}`
	inviter := func(scopes, more string) string {
		t.Helper()
		return a.ok("POST", "/v1/api-keys/organisation/service", `{"name":"hr","scopes":["organisation_users.create"`+scopes+`]`+more+`}`).get("key").Str
	}
	a.refuses(inviter("", ""), "POST", invitesPath, `{"email":"a@example.com"`+with, 403, "workspace_user_api_keys.create")

	ends := time.Unix(0, a.now.Load()).Add(2 * 24 * time.Hour).UTC().Truncate(time.Second)
	const may = `,"workspace_user_api_keys.create"`
	bound := inviter(may, `,"expires_at":"`+ends.Format(time.RFC3339)+`","defaults":{"metadata":{"team":"red"}}`)
	out := a.as(bound, "POST", invitesPath, `{"email":"a@example.com"`+with)
	if out.status != 200 {
		t.Fatalf("%d %s", out.status, out.body)
	}
	_, token, _ := strings.Cut(out.get("invite_link").Str, "#")
	accepted := a.as("", "POST", acceptPath, accept(token))
	id := accepted.get("api_keys.0.id").Str
	k, ok := a.s.Keyring.APIKey(id)
	if !ok || k.ExpiresAt == nil || !k.ExpiresAt.Equal(ends) || string(k.Metadata) != `{"team":"red"}` {
		t.Errorf("%+v", k)
	}
	a.refuses(inviter(may, ","+oneAnHour), "POST", invitesPath, `{"email":"b@example.com"`+with, 403, "limits of its own")

	// Sending it again gives the link, and with it what the invite gives.
	invite, _ := a.invite(`{"email":"c@example.com","role":"admin","workspaces":[],"workspace_api_key_details":{"scopes":["configs.create"]}}`)
	a.refuses(bound, "POST", invitesPath+"/"+invite+"/resend", `{}`, 403, "an admin has")
	invite, _ = a.invite(`{"email":"d@example.com"` + with)
	if out := a.as(inviter("", ""), "POST", invitesPath+"/"+invite+"/resend", `{}`); out.status != 403 || !strings.Contains(out.body, "workspace_user_api_keys.create") {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// Admins are made, changed and removed by those alone who may do what an admin may.
func TestAdminsAreMadeByWhoMayAsMuch(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	bob, admin := a.user("bob@example.com", roles.Member), a.user("admin@example.com", roles.Admin)
	key, _ := a.key("organisation/service", `"organisation_users.create","organisation_users.update","organisation_users.delete","workspace_users.create"`)
	for _, c := range []struct{ method, path, body string }{
		{"POST", invitesPath, `{"email":"e@example.com","role":"admin","workspaces":[]}`},
		{"POST", invitesPath, `{"email":"e@example.com","role":"member","workspaces":[{"id":"red","role":"admin"}]}`},
		{"PUT", "/v1/admin/users/" + bob, `{"role":"admin"}`},
		{"PUT", "/v1/admin/users/" + admin, `{"role":"member"}`},
		{"DELETE", "/v1/admin/users/" + admin, ""},
		{"POST", "/v1/admin/workspaces/red/users", `{"users":[{"id":"` + bob + `","role":"admin"}]}`},
	} {
		a.refuses(key, c.method, c.path, c.body, 403, "an admin has the scope")
	}
	for _, role := range []string{"manager", "member"} {
		if out := a.as(key, "POST", invitesPath, `{"email":"`+role+`@example.com","role":"member","workspaces":[{"id":"red","role":"`+role+`"}]}`); out.status != 200 {
			t.Errorf("%d %s", out.status, out.body)
		}
	}
	if out := a.as("user:"+admin, "PUT", "/v1/admin/users/"+bob, `{"role":"admin"}`); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
}
