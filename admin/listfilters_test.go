package admin_test

import "testing"

// Filters of several values are comma-separated; one without a value would be no filter, and a value that there is not would be an
// empty list.
func TestFiltersOfSeveralValues(t *testing.T) {
	a := newAPI(t)
	_, id := a.key("workspace/service", `"logs.view"`)
	a.key("workspace/service", `"logs.view"`)
	for path, want := range map[string]int64{
		"/v2/workspaces?status=active,archived": 1, "/v1/admin/workspaces?status=active": 1, "/v1/admin/workspaces?status=archived": 0, "/v1/admin/workspaces?status=archived,active": 1,
		"/v2/api-keys?ids=" + id: 1, "/v1/api-keys?ids=" + id + ",00000000-0000-4000-8000-000000000000": 1,
	} {
		if out := a.ok("GET", path, ""); out.get("total").Int() != want {
			t.Errorf("%s: %s, want %d", path, out.body, want)
		}
	}
	for path, message := range map[string]string{
		"/v1/api-keys?ids=":                           "ids: expected values separated by commas",
		"/v1/api-keys?ids=nope":                       "ids: expected UUIDs",
		"/v1/guardrails?ids=a,b%20c":                  "ids: expected ids or slugs separated by commas, got \"b c\"",
		"/v1/guardrails?ids=,":                        "ids: expected",
		"/v1/guardrails?id=%27":                       "id: expected",
		"/v1/admin/workspaces?status=":                "status: expected values separated by commas",
		"/v1/admin/workspaces?status=active,gone":     "status[1]",
		"/v1/admin/users?role=boss":                   "role",
		"/v1/admin/users/invites?status=lost":         "status",
		"/v1/admin/users/invites?role=owner":          "role",
		"/v1/admin/workspaces/nope/users?role=member": "",
	} {
		a.refuses(ownerKey, "GET", path, "", map[bool]int{true: 400, false: 404}[message != ""], message)
	}
}

// Flags are booleans, or 0 and 1, as they are shown.
func TestFlagsAreAlsoNumbers(t *testing.T) {
	a := newAPI(t)
	_, key := a.key("workspace/service", `"logs.view"`)
	workspace := "/v1/admin/workspaces/" + a.s.Directory.DefaultWorkspace().ID
	for _, value := range []string{"0", "1", "true", `"true"`} {
		on := value != "0"
		a.ok("PUT", "/v1/api-keys/"+key, `{"reset_usage":`+value+`,"defaults":{"allow_config_override":`+value+`}}`)
		a.ok("PUT", workspace, `{"reset_usage":`+value+`,"security_settings":{"membersViewLogs":`+value+`},"settings":{"debug_log":`+value+`}}`)
		a.ok("PUT", "/v1/admin/organisation", `{"security_settings":{"membersWritePrompts":`+value+`},"workspace_overrides":{"export_settings":`+value+`},"settings":{"default_workspace_user_api_key_auto_create":`+value+`}}`)
		organisation := a.ok("GET", "/v1/admin/organisation", "")
		for path, got := range map[string]bool{
			"allow_config_override": a.ok("GET", "/v1/api-keys/"+key, "").get("defaults.allow_config_override").Bool(),
			"membersViewLogs":       a.ok("GET", workspace, "").get("security_settings.membersViewLogs").Bool(),
			"membersWritePrompts":   organisation.get("security_settings.membersWritePrompts").Bool(),
			"export_settings":       organisation.get("workspace_overrides.export_settings").Bool(),
		} {
			if got != on {
				t.Errorf("%s: %s is %t", value, path, got)
			}
		}
	}
	for _, value := range []string{"2", `"on"`, "{}"} {
		a.refuses(ownerKey, "PUT", workspace, `{"security_settings":{"membersViewLogs":`+value+`}}`, 400, "security_settings.membersViewLogs: expected true or false")
		a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"workspace_overrides":{"export_settings":`+value+`}}`, 400, "workspace_overrides.export_settings: expected true or false")
		a.refuses(ownerKey, "PUT", "/v1/api-keys/"+key, `{"reset_usage":`+value+`}`, 400, "reset_usage: expected true or false")
	}
}
