package admin_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/roles"
)

// What a role gave ends with it, also in keys that a user made meanwhile.
func TestKeysOfAUserHaveNoMoreThanTheUser(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	a.workspace("blue")
	userKey := func(token, workspace, scopes string) (key, path string) {
		t.Helper()
		out := a.as(token, "POST", "/v1/api-keys/workspace/user", `{"name":"k","workspace_id":"`+workspace+`","scopes":[`+scopes+`]}`)
		if out.status != 200 {
			t.Fatalf("%d %s", out.status, out.body)
		}
		return out.get("key").Str, "/v1/api-keys/" + out.get("id").Str
	}
	scopes := func(path string) string {
		t.Helper()
		return a.ok("GET", path, "").get("scopes").Raw
	}

	// What others gave a member beyond the role stays.
	eve, _ := a.member("eve@example.com", "red", roles.WorkspaceMember)
	granted := "/v1/api-keys/" + a.ok("POST", "/v1/api-keys/workspace/user", `{"name":"more","workspace_id":"red","user_id":"`+eve+`","scopes":["prompts.create"]}`).get("id").Str
	a.ok("PUT", "/v1/admin/workspaces/red/users/"+eve, `{"role":"manager"}`)
	if got := scopes(granted); got != `["prompts.create"]` {
		t.Errorf("the key of a member who is a manager now: %s", got)
	}

	bob, asBob := a.member("bob@example.com", "red", roles.WorkspaceManager)
	key, path := userKey(asBob, "red", `"completions.write","prompts.create","configs.list"`)
	_, only := userKey(asBob, "red", `"prompts.create"`)
	a.ok("PUT", "/v1/admin/workspaces/red/users/"+bob, `{"role":"member"}`)
	if got := scopes(path); got != `["completions.write","configs.list"]` {
		t.Errorf("the key of a manager who is a member now: %s", got)
	}
	a.refuses(ownerKey, "GET", only, "", 404, "")
	a.refuses(key, "POST", "/v1/prompts", `{}`, 403, "prompts.create")
	told := 0
	for _, row := range a.trail() {
		for _, change := range row.Changes {
			if strings.HasPrefix(change.Field, "api_keys.") {
				told++
			}
		}
	}
	if told == 0 {
		t.Error("the trail does not say what the keys lost")
	}

	ada := a.user("ada@example.com", roles.Admin)
	a.ok("POST", "/v1/admin/workspaces/red/users", `{"users":[{"id":"`+ada+`","role":"manager"}]}`)
	_, inRed := userKey("user:"+ada+"@red", "red", `"completions.write","workspaces.update","prompts.create"`)
	inBlue, _ := userKey("user:"+ada+"@blue", "blue", `"completions.write","configs.list"`)
	a.ok("PUT", "/v1/admin/users/"+ada, `{"role":"member"}`)
	a.refuses(inBlue, "GET", "/v1/configs", "", 401, "")
	if got := scopes(inRed); got != `["completions.write","prompts.create","workspaces.update"]` {
		t.Errorf("the key of an admin who is a manager of the workspace now: %s", got)
	}
}

// An invite does what the user who made it may do when it is accepted.
func TestAnInviteEndsWithTheInvitersRights(t *testing.T) {
	for name, change := range map[string]func(a *api, ada string){
		"removed": func(a *api, ada string) { a.ok("DELETE", "/v1/admin/users/"+ada, "") },
		"demoted": func(a *api, ada string) { a.ok("PUT", "/v1/admin/users/"+ada, `{"role":"member"}`) },
		"still there": func(*api, string) {
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			ada := a.user("ada@example.com", roles.Admin)
			out := a.as("user:"+ada, "POST", invitesPath, `{"email":"back@example.com","role":"admin","workspaces":[]}`)
			if out.status != 200 {
				t.Fatalf("%d %s", out.status, out.body)
			}
			_, token := a.linkOf(out)
			change(a, ada)
			if name == "still there" {
				if out := a.as("", "POST", acceptPath, accept(token)); out.status != 200 {
					t.Errorf("%d %s", out.status, out.body)
				}
				return
			}
			a.refuses("", "POST", acceptPath, accept(token), 403, "may not make it any more")
			if _, ok := a.s.Directory.UserByEmail("back@example.com"); ok {
				t.Error("the user was made")
			}
		})
	}
}

// A token of a person who was removed is not that of a program, which has the scopes that the token names.
func TestARemovedUserIsNoProgram(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	bob, _ := a.member("bob@example.com", "red", roles.WorkspaceMember)
	byID := a.jwt(map[string]any{"sub": bob, "gw_workspace": "red", "scope": "configs.list configs.create"})
	byMail := a.jwt(map[string]any{"sub": "Bob@example.com", "gw_workspace": "red", "scope": "configs.list configs.create"})
	if out := a.as(byID, "GET", "/v1/configs", ""); out.status != 200 {
		t.Fatalf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/admin/users/"+bob, "")
	for _, token := range []string{byID, byMail} {
		a.refuses(token, "GET", "/v1/configs", "", 403, "removed")
	}
	again, _ := a.member("bob@example.com", "red", roles.WorkspaceMember)
	if out := a.as(byMail, "GET", "/v1/configs", ""); out.status != 200 || again == bob {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// What the organisation has set for a workspace, its keys do not take away.
func TestPoliciesOfTheOrganisationForAWorkspace(t *testing.T) {
	a := newAPI(t)
	key, _ := a.key("workspace/service", `"policies.create","policies.update","policies.delete","policies.read"`)
	workspace := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
	for path, body := range map[string]string{
		"/v1/policies/usage-limits": `"type":"cost","credit_limit":10,"conditions":[{"key":"workspace_id","value":"` + workspace + `"}],"group_by":[{"key":"api_key"}]`,
		"/v1/policies/rate-limits":  `"type":"requests","unit":"rpm","value":10,"conditions":[{"key":"workspace_id","value":"` + workspace + `"}],"group_by":[{"key":"api_key"}]`,
	} {
		its := path + "/" + a.ok("POST", path, `{"workspace_id":"`+workspace+`",`+body+`}`).get("id").Str
		a.refuses(key, "PUT", its, `{"name":"mine"}`, 403, "the organisation's")
		a.refuses(key, "DELETE", its, "", 403, "the organisation's")
		if out := a.as(key, "GET", its, ""); out.status != 200 {
			t.Errorf("%d %s", out.status, out.body)
		}
		own := a.as(key, "POST", path, `{`+body+`}`)
		if out := a.as(key, "DELETE", path+"/"+own.get("id").Str, ""); out.status != 200 {
			t.Errorf("%s: %d %s", own.body, out.status, out.body)
		}
		a.ok("DELETE", its, "")
	}
}
