package credentials

import "github.com/caddy-gw/gateway/internal/roles"

// A RoleRow says which API keys those who have a role create, and in which workspaces.
type RoleRow struct {
	Role         string
	Organisation roles.Organisation
	Workspace    roles.Workspace // "": of the organisation
	AdminKeys    bool
	OwnWorkspace bool // workspace keys, of the workspaces in which they have the role
	AllOthers    bool // and of any other
}

// RoleTable is what [Rights.May] obeys (docs/identity.md). The admins of a workspace create what its
// managers create.
var RoleTable = []RoleRow{
	{"Organisation Owner", roles.Owner, "", true, true, true},
	{"Organisation Admin", roles.Admin, "", true, true, true},
	{"Workspace Admin", roles.Member, roles.WorkspaceAdmin, false, true, false},
	{"Workspace Manager", roles.Member, roles.WorkspaceManager, false, true, false},
	{"Workspace Member", roles.Member, roles.WorkspaceMember, false, false, false},
}

// mayCreate reports whether RoleTable lets a user have a scope, if it is one for creating API
// keys.
func mayCreate(o roles.Organisation, w roles.Workspace, scope string) bool {
	adminKeys := scope == "organisation_service_api_keys.create"
	if !adminKeys && scope != "workspace_service_api_keys.create" && scope != "workspace_user_api_keys.create" {
		return true
	}
	for i := range RoleTable {
		row := &RoleTable[i]
		if row.Organisation != o || row.Workspace != "" && row.Workspace != w {
			continue
		}
		if adminKeys {
			return row.AdminKeys
		}
		return row.OwnWorkspace
	}
	return false
}

// An OperationRow says which kinds of API keys may do an operation, and by which scopes.
type OperationRow struct {
	Operation     string
	AdminKeys     bool // in all workspaces
	WorkspaceKeys bool // in their own
	Scopes        []string
}

// OperationTable says which operations are for which kinds of API keys. No other kind than it names
// holds the scopes of an operation.
var OperationTable = []OperationRow{
	{"Manage organisation settings", true, false, []string{"organisation_settings.read", "organisation_settings.update"}},
	{"Create and manage workspaces", true, false, []string{"workspaces.create", "workspaces.delete"}},
	{"Manage users and permissions", true, false, all("organisation_users", crudl)},
	{"Create and manage configs", true, true, all("configs", crudl)},
	{"Create and manage providers", true, true, append(all("providers", crudl), all("virtual_keys", crudl)...)},
	{"Access analytics", true, true, []string{"analytics.view"}},
	{"Create and update feedback", false, true, []string{"feedbacks.write"}},
}

func all(resource string, actions []string) (scopes []string) {
	for _, action := range actions {
		scopes = append(scopes, resource+"."+action)
	}
	return scopes
}

// limitHolders removes from holders those that the table of operations does not name.
func limitHolders(holders map[string]holders) {
	for _, row := range OperationTable {
		for _, scope := range row.Scopes {
			if !row.AdminKeys {
				holders[scope] &^= organisation
			}
			if !row.WorkspaceKeys {
				holders[scope] &^= workspace
			}
		}
	}
}
