package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
)

// The table of roles (docs/identity.md), row by row, against the running API.
func TestTheTableOfRolesHolds(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	a.workspace("blue")
	callers := map[string]string{
		"Organisation Owner": "user:" + a.user("owner@example.com", roles.Owner), "Organisation Admin": "user:" + a.user("admin@example.com", roles.Admin),
	}
	for name, role := range map[string]roles.Workspace{"Workspace Admin": roles.WorkspaceAdmin, "Workspace Manager": roles.WorkspaceManager, "Workspace Member": roles.WorkspaceMember} {
		_, callers[name] = a.member(string(role)+"@example.org", "red", role)
	}
	if len(callers) != len(credentials.RoleTable) {
		t.Fatalf("%d callers for %d rows", len(callers), len(credentials.RoleTable))
	}
	for _, row := range credentials.RoleTable {
		for path, want := range map[string]bool{
			"organisation/service": row.AdminKeys, "workspace/service red": row.OwnWorkspace, "workspace/user red": row.OwnWorkspace,
			"workspace/service blue": row.AllOthers, "workspace/user blue": row.AllOthers,
		} {
			path, workspace, _ := strings.Cut(path, " ")
			body := `{"name":"k","scopes":["virtual_keys.list"],"workspace_id":"` + workspace + `"}`
			out := a.as(callers[row.Role], "POST", "/v1/api-keys/"+path, body)
			if status := map[bool]int{true: 200, false: 403}[want]; out.status != status {
				t.Errorf("%s, %s of %q: %d %s, want %d", row.Role, path, workspace, out.status, out.body, status)
			}
		}
	}
}

// routesOfOperations has a route for each operation; "": its scopes are for later.
var routesOfOperations = map[string]string{
	"Manage organisation settings": "GET /v1/admin/organisation", "Create and manage workspaces": "POST /v1/admin/workspaces",
	"Manage users and permissions": "GET /v1/admin/users", "Create and manage configs": "GET /v1/configs", "Create and manage providers": "GET /v1/providers",
	"Access analytics": "", "Create and update feedback": "",
}

// The table of operations, row by row, against the running API: the kinds of keys that it
// names may have the scopes and use the routes, others are given neither.
func TestTheTableOfOperationsHolds(t *testing.T) {
	a := newAPI(t)
	scopesOf := map[string]string{"POST /v1/admin/workspaces": "workspaces.create"}
	for _, row := range credentials.OperationTable {
		route, ok := routesOfOperations[row.Operation]
		if !ok {
			t.Errorf("no route for %q", row.Operation)
		}
		for kind, may := range map[string]bool{"organisation/service": row.AdminKeys, "workspace/service": row.WorkspaceKeys, "workspace/user": row.WorkspaceKeys} {
			for _, scope := range row.Scopes {
				out := a.do("POST", "/v1/api-keys/"+kind, `{"name":"k","scopes":["`+scope+`"]}`)
				if may != (out.status == 200) {
					t.Errorf("%s: %s for a key of %s: %d %s", row.Operation, scope, kind, out.status, out.body)
				}
			}
			if route == "" {
				continue
			}
			method, path, _ := strings.Cut(route, " ")
			scope := scopesOf[route]
			if scope == "" {
				scope = row.Scopes[slices.IndexFunc(row.Scopes, func(s string) bool { return strings.HasSuffix(s, ".list") || strings.HasSuffix(s, "settings.read") })]
			}
			given := scope
			if !may {
				given = "virtual_keys.list"
			}
			key, _ := a.key(kind, `"`+given+`"`)
			if out := a.as(key, method, path, `{"name":"n"}`); (out.status == 200) != may || !may && out.status != 403 {
				t.Errorf("%s: %s by a key of %s: %d %s", row.Operation, route, kind, out.status, out.body)
			}
		}
	}
}

// scopesForLater are those of features that the gateway does not have yet: keys may hold them, and no route needs them. The feature that
// comes removes its own.
var scopesForLater = []string{
	"agent_integration_skills", "agent_server_skills", "agent_server_user_access", "agent_servers", "agents", "analytics", "deployments", "feedbacks", "mcp", "mcp_servers",
	"organisation_agent_integrations", "organisation_mcp_integrations", "virtual_keys.copy", "virtual_keys.duplicate", "workspace_agent_integrations", "workspace_mcp_integrations",
}

// scopesOfCalls are those of the data plane.
var scopesOfCalls = []string{credentials.ScopeCompletions, credentials.ScopeRender, "models.list", "logs.write"}

// Each scope is one of a route, of calls, or listed as one for later, so that none is forgotten.
func TestEachScopeIsOfARouteOrForLater(t *testing.T) {
	used := slices.Clone(scopesOfCalls)
	for _, methods := range newAPI(t).paths() {
		for _, operation := range methods.Map() {
			needs, _ := strings.CutPrefix(operation.Get("description").Str, "Needs the scope ")
			used = append(used, strings.Split(strings.TrimSuffix(needs, "."), " or ")...)
		}
	}
	unused := slices.Clone(scopesForLater)
	for _, scope := range credentials.Scopes() {
		resource, _, _ := strings.Cut(scope, ".")
		later := slices.Contains(scopesForLater, scope) || slices.Contains(scopesForLater, resource)
		if later == slices.Contains(used, scope) {
			t.Errorf("%s is of a route, or for later: %t", scope, later)
		}
		unused = slices.DeleteFunc(unused, func(s string) bool { return s == scope || s == resource })
	}
	if len(unused) > 0 {
		t.Errorf("there are no scopes %q", unused)
	}
	for _, row := range credentials.OperationTable {
		if resource, _, _ := strings.Cut(row.Scopes[0], "."); (routesOfOperations[row.Operation] == "") != slices.Contains(scopesForLater, resource) {
			t.Errorf("%s: it is tested with %q", row.Operation, routesOfOperations[row.Operation])
		}
	}
}

// Each security setting of a role gives its scopes, alone or with others, and nothing else.
func TestEachSecuritySettingGivesItsScopes(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	callers := map[roles.Workspace]string{}
	for _, role := range []roles.Workspace{roles.WorkspaceAdmin, roles.WorkspaceManager, roles.WorkspaceMember} {
		_, callers[role] = a.member(string(role)+"@example.com", "red", role)
	}
	may := func(role roles.Workspace) (scopes []string) {
		caller, refusal := a.s.Authenticator.Authenticate(a.token(callers[role]))
		if refusal != nil {
			t.Fatal(refusal)
		}
		for _, scope := range credentials.WorkspaceService.Scopes() {
			if caller.May(scope) {
				scopes = append(scopes, scope)
			}
		}
		return scopes
	}
	all := func(role roles.Workspace, on bool) string {
		var settings []string
		for _, s := range roles.Settings {
			if s.Role == role {
				settings = append(settings, fmt.Sprintf("%q:%t", s.Name, on))
			}
		}
		// What shows all of a record goes first.
		return `{"security_settings":{` + strings.Join(settings, ",") + `}}`
	}
	base := map[roles.Workspace][]string{}
	for role := range callers {
		a.ok("PUT", "/v1/admin/workspaces/red", all(role, false))
		base[role] = may(role)
	}
	for _, s := range roles.Settings {
		if s.Role == "" {
			continue
		}
		a.ok("PUT", "/v1/admin/workspaces/red", `{"security_settings":{"`+s.Name+`":true}}`)
		for role := range callers {
			want := slices.Clone(base[role])
			if role == s.Role {
				want = append(want, s.Scopes...)
				slices.Sort(want)
				want = slices.Compact(want)
			}
			if got := may(role); !slices.Equal(got, want) {
				t.Errorf("with %s, a %s may %v, want %v", s.Name, role, got, want)
			}
		}
		a.ok("PUT", "/v1/admin/workspaces/red", `{"security_settings":{"`+s.Name+`":false}}`)
	}
	if got := may(roles.WorkspaceAdmin); !slices.Equal(got, credentials.WorkspaceService.Scopes()) {
		t.Errorf("an admin may %v", got)
	}
}

func TestSecuritySettingsAreTheOrganisationsOrTheWorkspaces(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	a.workspace("blue")
	const setting = "membersViewConfigs"
	expect := func(organisation, red, blue bool) {
		t.Helper()
		for path, want := range map[string]bool{"/v1/admin/organisation": organisation, "/v1/admin/workspaces/red": red, "/v1/admin/workspaces/blue": blue} {
			if got := a.ok("GET", path, "").get("security_settings." + setting); got.Bool() != want || !got.Exists() {
				t.Errorf("%s: %s, want %t", path, got.Raw, want)
			}
		}
	}
	put := func(path, body string) { t.Helper(); a.ok("PUT", "/v1/admin/"+path, body) }
	expect(true, true, true)
	if got := len(a.ok("GET", "/v1/admin/organisation", "").get("security_settings").Map()); got != len(roles.Settings) || got != 35 {
		t.Errorf("%d settings are shown", got)
	}
	put("organisation", `{"security_settings":{"membersViewConfigs":false}}`)
	expect(false, false, false)
	put("workspaces/red", `{"security_settings":{"membersViewConfigs":true}}`)
	expect(false, true, false)
	// The organisation decides alone: what workspaces had of their own waits.
	put("organisation", `{"workspace_overrides":{"data_visibility":false}}`)
	expect(false, false, false)
	a.refuses(ownerKey, "PUT", "/v1/admin/workspaces/red", `{"security_settings":{"membersViewConfigs":true}}`, 400, "security_settings.membersViewConfigs: workspaces do not decide")
	a.refuses(ownerKey, "POST", "/v1/admin/workspaces", `{"name":"n","security_settings":{"organisationAdminsViewLogs":false}}`, 400, "data_visibility")
	put("workspaces/red", `{"security_settings":{"membersWriteConfigs":true}}`) // of another section
	put("organisation", `{"workspace_overrides":{"data_visibility":true}}`)
	expect(false, true, false)
	put("workspaces/red", `{"security_settings":{"membersViewConfigs":null}}`)
	put("organisation", `{"security_settings":{"membersViewConfigs":null}}`)
	expect(true, true, true)
	a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"security_settings":{"membersViewEverything":true}}`, 400, "membersViewEverything")
	a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"workspace_overrides":{"nothing":true}}`, 400, "nothing")
	a.refuses(ownerKey, "PUT", "/v1/admin/workspaces/red", `{"security_settings":{"membersViewLogMetadata":false}}`, 400, "membersViewLogMetadata")
	if n := len(directory.Sections); n != len(a.ok("GET", "/v1/admin/organisation", "").get("workspace_overrides").Map()) {
		t.Errorf("%d sections are not all shown", n)
	}
	// Who has a role does not say what it may do.
	_, manager := a.member("manager@example.com", "red", roles.WorkspaceManager)
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":["workspaces.update"]}`).get("key").Str
	for _, who := range []string{manager, key} {
		a.refuses(who, "PUT", "/v1/admin/workspaces/red", `{"security_settings":{"membersWriteConfigs":true}}`, 403, "only admins")
	}
}

// Members change the keys that are theirs, as long as the setting says so, and create none.
func TestMembersChangeTheirOwnKeysWhereTheSettingIsOn(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	id, member := a.member("member@example.com", "red", roles.WorkspaceMember)
	own := "/v1/api-keys/" + a.ok("POST", "/v1/api-keys/workspace/user", `{"name":"own","workspace_id":"red","user_id":"`+id+`","scopes":["completions.write"]}`).get("id").Str
	set := func(on string) {
		a.ok("PUT", "/v1/admin/workspaces/red", `{"security_settings":{"membersWriteApiKeys":`+on+`}}`)
	}
	for _, on := range []bool{true, false} {
		set(fmt.Sprint(on))
		for _, c := range [][3]string{{"PUT", own, `{"name":"mine"}`}, {"POST", own + "/rotate", `{}`}} {
			if out := a.as(member, c[0], c[1], c[2]); (out.status == 200) != on || !on && out.status != 403 {
				t.Errorf("with the setting %t: %s %s: %d %s", on, c[0], c[1], out.status, out.body)
			}
		}
		a.refuses(member, "POST", "/v1/api-keys/workspace/user", `{"name":"k","scopes":["completions.write"]}`, 403, "workspace_user_api_keys.create")
	}
	set("true")
	if out := a.as(member, "DELETE", own, ""); out.status != 200 {
		t.Errorf("revoking: %d %s", out.status, out.body)
	}
}
