package roles

// A Setting is a security setting of the organisation or a workspace: a right that those who
// have a role in the workspace have while it is on.
type Setting struct {
	Name string

	// Role is the role in the workspace; "" stands for callers of the organisation.
	Role Workspace

	// Section is what the organisation lets workspaces decide or not, with others.
	Section string

	// Off: it is off unless it is turned on.
	Off bool

	// Scopes are those that it gives. A scope in several settings of a role needs one of them;
	// one in no setting depends on the role alone.
	Scopes []string
}

// The sections of settings, by the names that the organisation's workspace_overrides has for them.
const (
	DataVisibility  = "data_visibility"  // what is seen
	RolePermissions = "role_permissions" // what is changed
)

// The names of the settings that are more than scopes.
const (
	OrganisationViewsLogs     = "organisationAdminsViewLogs"        // with bodies
	OrganisationViewsMetadata = "organisationAdminsViewLogMetadata" // without
	MembersViewLogs           = "membersViewLogs"                   // with bodies
	ManagersViewLogs          = "managersViewLogs"
	MembersViewAllData        = "membersViewAllData" // records of others, too
	ManagersViewAllData       = "managersViewAllData"
)

// Settings is the table of all security settings.
var Settings = append([]Setting{
	{Name: OrganisationViewsLogs, Section: DataVisibility},
	{Name: OrganisationViewsMetadata, Section: DataVisibility},
	{Name: "managersUpdateWs", Role: WorkspaceManager, Section: RolePermissions, Scopes: []string{"workspaces.update"}},
	{Name: "managersWriteWsUsers", Role: WorkspaceManager, Section: RolePermissions, Scopes: writes("workspace_users")},
	{Name: "managersWriteWsIntegrations", Role: WorkspaceManager, Section: RolePermissions, Scopes: writes("workspace_integrations")},
	{Name: "managersWriteWsMcpIntegrations", Role: WorkspaceManager, Section: RolePermissions, Scopes: writes("workspace_mcp_integrations")},
	{Name: "managersWriteMcpServers", Role: WorkspaceManager, Section: RolePermissions, Scopes: writes("mcp_servers")},
}, append(ofRole("members", WorkspaceMember), ofRole("managers", WorkspaceManager)...)...)

// ofRole are the settings that managers and members both have.
func ofRole(prefix string, role Workspace) []Setting {
	view := func(name string, scopes ...string) Setting {
		return Setting{Name: prefix + "View" + name, Role: role, Section: DataVisibility, Scopes: scopes}
	}
	write := func(name string, scopes ...string) Setting {
		return Setting{Name: prefix + "Write" + name, Role: role, Section: RolePermissions, Scopes: scopes}
	}
	all := []Setting{
		view("Logs", "logs.list", "logs.view", "logs.export"),
		view("LogMetadata", "logs.list", "logs.view"),
		view("AllData"),
		view("Analytics", "analytics.view"),
		view("ApiKeys", reads("workspace_service_api_keys", "workspace_user_api_keys")...),
		write("ApiKeys", append(writes("workspace_service_api_keys", "workspace_user_api_keys"), "workspace_service_api_keys.rotate", "workspace_user_api_keys.rotate")...),
		view("Configs", reads("configs")...),
		write("Configs", writes("configs")...),
		view("Prompts", reads("prompts")...),
		write("Prompts", append(writes("prompts"), "prompts.publish")...),
		view("Guardrails", reads("guardrails")...),
		write("Guardrails", writes("guardrails")...),
		view("VirtualKeys", reads("virtual_keys", "providers")...),
		write("VirtualKeys", append(writes("virtual_keys", "providers"), "virtual_keys.duplicate", "virtual_keys.copy")...),
	}
	for i := range all {
		s := &all[i]
		switch s.Name {
		case "membersWriteApiKeys":
			// Members create no keys, and change their own alone, which are user keys.
			s.Scopes = []string{"workspace_user_api_keys.update", "workspace_user_api_keys.delete", "workspace_user_api_keys.rotate"}
		case "membersWriteConfigs", "membersWriteGuardrails", "membersWritePrompts":
			s.Off = true
		}
	}
	return all
}

func reads(resources ...string) (scopes []string) {
	for _, r := range resources {
		scopes = append(scopes, r+".read", r+".list")
	}
	return scopes
}

func writes(resources ...string) (scopes []string) {
	for _, r := range resources {
		scopes = append(scopes, r+".create", r+".update", r+".delete")
	}
	return scopes
}

var byName = func() map[string]*Setting {
	all := make(map[string]*Setting, len(Settings))
	for i := range Settings {
		all[Settings[i].Name] = &Settings[i]
	}
	return all
}()

// Named returns a setting by its name.
func Named(name string) (*Setting, bool) {
	s, ok := byName[name]
	return s, ok
}

type gate struct {
	role  Workspace
	scope string
}

var gates = func() map[gate][]string {
	all := make(map[gate][]string)
	for _, s := range Settings {
		for _, scope := range s.Scopes {
			at := gate{s.Role, scope}
			all[at] = append(all[at], s.Name)
		}
	}
	return all
}()

// Gates returns the names of the settings of which one must be on for a role to have a scope;
// none: it depends on the role alone.
func Gates(role Workspace, scope string) []string { return gates[gate{role, scope}] }
