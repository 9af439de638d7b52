package credentials

import (
	"maps"
	"slices"
)

// A Kind is a kind of API key, as the control plane names it.
type Kind string

// The kinds of API key.
const (
	OrganisationService Kind = "organisation-service"
	WorkspaceService    Kind = "workspace-service"
	WorkspaceUser       Kind = "workspace-user"
)

// Workspace reports whether keys of this kind belong to one workspace.
func (k Kind) Workspace() bool { return k == WorkspaceService || k == WorkspaceUser }

// Resource is the resource in the scopes for managing keys of this kind.
func (k Kind) Resource() string {
	switch k {
	case OrganisationService:
		return "organisation_service_api_keys"
	case WorkspaceService:
		return "workspace_service_api_keys"
	case WorkspaceUser:
		return "workspace_user_api_keys"
	}
	panic("no kind of API key: " + string(k))
}

// ScopeCompletions is required for every inference call.
const ScopeCompletions = "completions.write"

// ScopeRender is required for rendering a prompt without calling a provider.
const ScopeRender = "prompts.render"

// Which kinds of keys may have the scopes of a resource.
type holders uint8

const (
	organisation holders = 1 << iota
	workspaceService
	workspaceUser

	workspace = workspaceService | workspaceUser
	anyone    = organisation | workspace
)

// scopes is the table of scopes: for each resource, the actions, and the kinds of keys that
// may have them. docs/reference.md lists them.
var scopes = []struct {
	resource string
	holders  holders
	actions  []string
}{
	{"organisation_users", organisation, crudl},
	{"organisation_service_api_keys", organisation, crudlRotate},
	{"organisation_settings", organisation, []string{"read", "update"}},
	{"organisation_guardrails", organisation, crudl},
	{"organisation_exclusions", organisation, []string{"update", "list"}},
	{"audit_logs", organisation, []string{"list"}},
	{"plugins", organisation, []string{"create", "update", "list"}},
	{"deployments", organisation, crudl},
	{"secret_references", organisation, crudl},
	{"workspaces", organisation, crudl},
	{"workspaces", workspace, []string{"read", "update", "list"}},
	{"workspace_service_api_keys", organisation | workspaceService, crudlRotate},
	{"workspace_user_api_keys", organisation | workspaceService, crudlRotate},
	{"workspace_users", anyone, crudl},
	{"prompts", anyone, append([]string{"publish"}, crudl...)},
	{"prompts", workspace, []string{"render"}},
	{"configs", anyone, crudl},
	{"guardrails", anyone, crudl},
	{"guardrails", workspace, []string{"invoke"}},
	{"virtual_keys", anyone, append([]string{"duplicate", "copy"}, crudl...)},
	{"providers", anyone, crudl},
	{"policies", anyone, crudl},
	{"organisation_integrations", organisation, crudl},
	{"organisation_integrations", workspace, []string{"list"}},
	{"organisation_mcp_integrations", organisation, crudl},
	{"organisation_mcp_integrations", workspace, []string{"list"}},
	{"organisation_agent_integrations", organisation, crudl},
	{"organisation_agent_integrations", workspace, []string{"list"}},
	{"workspace_integrations", anyone, crudl},
	{"workspace_mcp_integrations", anyone, crudl},
	{"workspace_agent_integrations", anyone, crudl},
	{"agent_servers", anyone, crudl},
	{"mcp_servers", anyone, crudl},
	{"agent_server_skills", anyone, crudl},
	{"agent_integration_skills", anyone, crudl},
	{"agent_server_user_access", anyone, crudl},
	{"analytics", anyone, []string{"view"}},
	{"logs", anyone, []string{"export", "list", "view"}},
	{"logs", workspace, []string{"write"}},
	{"completions", workspace, []string{"write"}},
	{"models", workspace, []string{"list"}},
	{"mcp", workspace, []string{"invoke"}},
	{"agents", workspace, []string{"invoke"}},
	{"feedbacks", workspace, []string{"read", "write"}},
}

var (
	crudl       = []string{"create", "read", "update", "delete", "list"}
	crudlRotate = []string{"create", "read", "update", "delete", "list", "rotate"}
)

var holdersOf = func() map[string]holders {
	m := make(map[string]holders)
	for _, row := range scopes {
		for _, action := range row.actions {
			m[row.resource+"."+action] |= row.holders
		}
	}
	limitHolders(m)
	return m
}()

// MayHold reports whether the scope exists and keys of kind k may have it.
func (k Kind) MayHold(scope string) bool {
	var h holders
	switch k {
	case OrganisationService:
		h = organisation
	case WorkspaceService:
		h = workspaceService
	case WorkspaceUser:
		h = workspaceUser
	}
	return holdersOf[scope]&h != 0
}

// IsScope reports whether there is such a scope.
func IsScope(scope string) bool { return holdersOf[scope] != 0 }

// Scopes lists all scopes, sorted.
func Scopes() []string { return slices.Sorted(maps.Keys(holdersOf)) }

// Scopes lists all scopes that keys of kind k may have, sorted.
func (k Kind) Scopes() []string {
	var all []string
	for scope := range holdersOf {
		if k.MayHold(scope) {
			all = append(all, scope)
		}
	}
	slices.Sort(all)
	return all
}
