package credentials

import (
	"slices"
	"testing"
)

// Rows picked by hand from the control plane's table of scopes, most of them where
// the kinds of key differ.
func TestKindMayHold(t *testing.T) {
	for _, c := range []struct {
		scope              string
		org, service, user bool
	}{
		{"organisation_users.create", true, false, false},
		{"organisation_users.list", true, false, false},
		{"organisation_service_api_keys.rotate", true, false, false},
		{"organisation_service_api_keys.read", true, false, false},
		{"organisation_settings.read", true, false, false},
		{"organisation_settings.update", true, false, false},
		{"organisation_settings.delete", false, false, false},
		{"organisation_settings.list", false, false, false},
		{"organisation_guardrails.delete", true, false, false},
		{"organisation_exclusions.update", true, false, false},
		{"organisation_exclusions.create", false, false, false},
		{"audit_logs.list", true, false, false},
		{"audit_logs.read", false, false, false},
		{"plugins.create", true, false, false},
		{"plugins.delete", false, false, false},
		{"deployments.update", true, false, false},
		{"secret_references.delete", true, false, false},
		{"workspaces.create", true, false, false},
		{"workspaces.delete", true, false, false},
		{"workspaces.read", true, true, true},
		{"workspaces.update", true, true, true},
		{"workspaces.list", true, true, true},
		{"workspace_service_api_keys.create", true, true, false},
		{"workspace_service_api_keys.rotate", true, true, false},
		{"workspace_user_api_keys.create", true, true, false},
		{"workspace_user_api_keys.delete", true, true, false},
		{"workspace_users.create", true, true, true},
		{"prompts.publish", true, true, true},
		{"prompts.render", false, true, true},
		{"configs.update", true, true, true},
		{"configs.rotate", false, false, false},
		{"guardrails.list", true, true, true},
		{"guardrails.invoke", false, true, true},
		{"virtual_keys.copy", true, true, true},
		{"virtual_keys.duplicate", true, true, true},
		{"virtual_keys.create", true, true, true},
		{"virtual_keys.rotate", false, false, false},
		{"providers.list", true, true, true},
		{"policies.delete", true, true, true},
		{"organisation_integrations.create", true, false, false},
		{"organisation_integrations.list", true, true, true},
		{"organisation_mcp_integrations.update", true, false, false},
		{"organisation_agent_integrations.list", true, true, true},
		{"workspace_mcp_integrations.create", true, true, true},
		{"agent_servers.delete", true, true, true},
		{"mcp_servers.read", true, true, true},
		{"analytics.view", true, true, true},
		{"analytics.list", false, false, false},
		{"logs.export", true, true, true},
		{"logs.view", true, true, true},
		{"logs.write", false, true, true},
		{"logs.read", false, false, false},
		{"completions.write", false, true, true},
		{"completions.read", false, false, false},
		{"mcp.invoke", false, true, true},
		{"agents.invoke", false, true, true},
		{"", false, false, false},
		{".", false, false, false},
		{"*", false, false, false},
		{"policies", false, false, false},
		{"policies.*", false, false, false},
		{"Policies.List", false, false, false},
		{" policies.list", false, false, false},
	} {
		for kind, want := range map[Kind]bool{OrganisationService: c.org, WorkspaceService: c.service, WorkspaceUser: c.user, "": false, "organisation-user": false} {
			if got := kind.MayHold(c.scope); got != want {
				t.Errorf("%q may hold %q: got %v, want %v", kind, c.scope, got, want)
			}
		}
	}
}

func TestKindScopesListsWhatItMayHoldSorted(t *testing.T) {
	for _, kind := range []Kind{OrganisationService, WorkspaceService, WorkspaceUser} {
		all := kind.Scopes()
		if len(all) == 0 || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("%s: %d scopes, not sorted or not unique", kind, len(all))
		}
		for _, scope := range all {
			if !kind.MayHold(scope) {
				t.Errorf("%s lists %s, which it may not hold", kind, scope)
			}
		}
	}
	if slices.Contains(OrganisationService.Scopes(), ScopeCompletions) {
		t.Error("an organisation key may make inference calls")
	}
	if got := Kind("other").Scopes(); got != nil {
		t.Errorf("an unknown kind has scopes: %v", got)
	}
}

func TestKindKnowsWorkspaceKeys(t *testing.T) {
	for kind, want := range map[Kind]bool{OrganisationService: false, WorkspaceService: true, WorkspaceUser: true, "": false} {
		if kind.Workspace() != want {
			t.Errorf("%q: got %v", kind, !want)
		}
	}
}
