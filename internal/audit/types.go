package audit

import "slices"

// A Type is a kind of resource, as rows say it: the object member of its answers, in the plural and with underscores. The routes of the
// control plane, imports and jobs all take theirs from here.
type Type string

// The types of resources.
const (
	APIKeys          Type = "api_keys"
	AuditLogs        Type = "audit_logs"
	Batches          Type = "batches"
	Collections      Type = "collections"
	Configs          Type = "configs"
	Exclusions       Type = "workspace_exclusions"
	Guardrails       Type = "guardrails"
	Integrations     Type = "integrations"
	Invites          Type = "invites"
	Labels           Type = "labels"
	Logs             Type = "logs"
	Members          Type = "workspace_users"
	ModelAliases     Type = "model_aliases"
	Organisations    Type = "organisations"
	Partials         Type = "partials"
	Plugins          Type = "plugins"
	Prices           Type = "model_prices"
	Prompts          Type = "prompts"
	Providers        Type = "providers"
	RateLimits       Type = "policy_rate_limits"
	SecretReferences Type = "secret_references"
	UsageLimits      Type = "policy_usage_limits"
	Users            Type = "users"
	VirtualKeys      Type = "virtual_keys"
	Workspaces       Type = "workspaces"
)

// Types lists all types, sorted.
func Types() []Type {
	return []Type{
		APIKeys, AuditLogs, Batches, Collections, Configs, Guardrails, Integrations, Invites, Labels, Logs, ModelAliases, Prices, Organisations,
		Partials, Plugins, RateLimits, UsageLimits, Prompts, Providers, SecretReferences, Users, VirtualKeys, Exclusions, Members, Workspaces,
	}
}

// actions are what is done to resources.
var actions = []string{"create", "delete", "export", "invoke", "list", "manage", "publish", "read", "rotate", "update", "view", "write"}

// Actions lists what is done to resources, sorted.
func Actions() []string { return slices.Clone(actions) }
