package admin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/roles"
)

// What each resource's routes need, by the beginning of their paths below /v1: the longest one
// counts. Of several resources, one is enough.
var resourceOfPath = map[string][]string{
	"/admin/organisation": {"organisation_settings"}, "/organisation": {"organisation_settings"}, "/gateway/health": {"organisation_settings"}, "/admin/users": {"organisation_users"},
	"/admin/workspaces": {"workspaces"}, "/admin/workspaces/{workspace_id}/users": {"workspace_users"}, "/workspace-exclusions": {"organisation_exclusions"},
	"/api-keys":                      {"organisation_service_api_keys", "workspace_service_api_keys", "workspace_user_api_keys"},
	"/api-keys/organisation/service": {"organisation_service_api_keys"}, "/api-keys/workspace/service": {"workspace_service_api_keys"}, "/api-keys/workspace/user": {"workspace_user_api_keys"},
	"/audit-logs": {"audit_logs"}, "/collections": {"prompts"}, "/labels": {"prompts"}, "/prompts": {"prompts"}, "/configs": {"configs"}, "/model-aliases": {"configs"},
	"/guardrails": {"organisation_guardrails", "guardrails"}, "/integrations": {"organisation_integrations", "workspace_integrations"}, "/logs": {"logs"},
	"/model-configs/pricing": {"providers"}, "/policies": {"policies"}, "/v2/batches": {"completions"}, "/providers": {"providers"}, "/plugins": {"plugins"}, "/secret-references": {"secret_references"}, "/virtual-keys": {"virtual_keys"},
}

// typeOfPath says of which type in the audit trail what a route is about is, by the beginning of its path below /v1: the longest one
// counts.
var typeOfPath = map[string]audit.Type{
	"/admin/organisation": audit.Organisations, "/organisation": audit.Organisations, "/gateway/health": audit.Organisations, "/admin/users": audit.Users,
	"/admin/users/invites": audit.Invites, "/admin/workspaces": audit.Workspaces, "/admin/workspaces/{workspace_id}/users": audit.Members,
	"/workspace-exclusions": audit.Exclusions, "/api-keys": audit.APIKeys, "/audit-logs": audit.AuditLogs, "/collections": audit.Collections, "/labels": audit.Labels,
	"/prompts": audit.Prompts, "/prompts/partials": audit.Partials, "/configs": audit.Configs, "/model-aliases": audit.ModelAliases, "/guardrails": audit.Guardrails,
	"/integrations": audit.Integrations, "/logs": audit.Logs, "/model-configs/pricing": audit.Prices, "/policies/rate-limits": audit.RateLimits,
	"/policies/usage-limits": audit.UsageLimits, "/v2/batches": audit.Batches, "/providers": audit.Providers, "/plugins": audit.Plugins,
	"/secret-references": audit.SecretReferences, "/virtual-keys": audit.VirtualKeys,
}

func typeOf(path string) (of audit.Type) {
	path = strings.TrimPrefix(path, "/v1")
	longest := ""
	for begin, one := range typeOfPath {
		if strings.HasPrefix(path, begin) && len(begin) > len(longest) {
			longest, of = begin, one
		}
	}
	return of
}

// actionOf are the routes whose action is not that of their method.
var actionOf = map[string]string{
	"GET /admin/organisation": "read", "GET /admin/organisation/defaults": "read", "GET /gateway/health": "read", "GET /admin/workspaces/{workspace_id}/users": "list",
	"POST /admin/users/invites/{invite_id}/resend": "create", "POST /api-keys/{id}/rotate": "rotate", "POST /guardrails/{guardrailId}/invoke": "invoke",
	"GET /logs/{log_id}": "view", "GET /logs/exports/field-restrictions": "export", "POST /logs": "write", "DELETE /integrations/{slug}/models": "update",
	"PUT /v2/batches/{batch_id}": "write", "POST /organisation/{organisation_id}/resync": "update",
	"PUT /prompts/{prompt_id}/makeDefault": "publish", "PUT /prompts/{prompt_id}/versions/{version_id}": "publish", "PUT /prompts/partials/{prompt_partial_id}/makeDefault": "publish",
}

const (
	every = "*"
	reads = "read list"
)

// holderOf says which actions of a resource an API key of the organisation may have, one of a
// workspace, and, as settings are by default, its managers and members.
var holderOf = map[string]struct{ organisation, workspace, manager, member string }{
	"organisation_settings": {organisation: every}, "organisation_users": {organisation: every}, "organisation_exclusions": {organisation: every},
	"organisation_service_api_keys": {organisation: every}, "organisation_guardrails": {organisation: "create read update delete list"}, "secret_references": {organisation: every}, "plugins": {organisation: "create update list"},
	"organisation_integrations":  {every, "list", "list", "list"},
	"audit_logs":                 {organisation: every},
	"workspaces":                 {every, "read update list", "read update list", reads},
	"workspace_users":            {every, every, every, reads},
	"workspace_service_api_keys": {every, every, every, reads},
	"workspace_user_api_keys":    {every, every, every, "read list update delete rotate"},
	"prompts":                    {every, every, every, reads},
	"configs":                    {every, every, every, reads},
	"guardrails":                 {"create read update delete list", every, every, "read list invoke"},
	"virtual_keys":               {every, every, every, every},
	"providers":                  {every, every, every, every},
	"policies":                   {every, every, every, reads},
	"completions":                {"", every, every, every},
	"workspace_integrations":     {every, every, every, reads},
	"logs":                       {"list view export", every, every, every},
}

// Every route with every role and kind of key: allowed or not as the tables above say. Routes are
// those of the OpenAPI document, so that one without an entry fails.
func TestEveryRouteIsForWhoItIsFor(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	key := func(kind, path string) string {
		scopes := `"` + strings.Join(credentials.Kind(kind).Scopes(), `","`) + `"`
		return a.ok("POST", "/v1/api-keys/"+path, `{"name":"k","workspace_id":"`+map[bool]string{true: "red"}[strings.HasPrefix(path, "w")]+`","scopes":[`+scopes+`]}`).get("key").Str
	}
	type caller struct {
		token string
		holds func(resource string) string
	}
	all := func(string) string { return every }
	none := func(string) string { return "" }
	userKey := func(r string) string {
		if strings.HasSuffix(r, "_api_keys") {
			return ""
		}
		return holderOf[r].workspace
	}
	_, admin := a.member("wa@example.com", "red", roles.WorkspaceAdmin)
	_, manager := a.member("wm@example.com", "red", roles.WorkspaceManager)
	_, member := a.member("m@example.com", "red", roles.WorkspaceMember)
	less, _ := a.key("workspace/service", `"mcp.invoke"`)
	callers := map[string]caller{
		"the owner's key":           {ownerKey, all},
		"owner":                     {"user:" + a.user("o@example.com", roles.Owner), all},
		"admin":                     {"user:" + a.user("a@example.com", roles.Admin), all},
		"admin in the workspace":    {"user:" + a.user("aw@example.com", roles.Admin) + "@red", all},
		"workspace admin":           {admin, func(r string) string { return holderOf[r].workspace }},
		"workspace manager":         {manager, func(r string) string { return holderOf[r].manager }},
		"workspace member":          {member, func(r string) string { return holderOf[r].member }},
		"key of the organisation":   {key("organisation-service", "organisation/service"), func(r string) string { return holderOf[r].organisation }},
		"service key":               {key("workspace-service", "workspace/service"), func(r string) string { return holderOf[r].workspace }},
		"user key":                  {key("workspace-user", "workspace/user"), userKey},
		"key without those scopes":  {less, none},
		"a member, of no workspace": {"user:" + a.user("n@example.com", roles.Member), nil},
		"nobody":                    {"gw-unknown", nil},
	}
	cells := 0
	for path, methods := range a.paths() {
		path = strings.TrimPrefix(path, "/v1")
		for method := range methods.Map() {
			method = strings.ToUpper(method)
			if slices.Contains(keyless, method+" /v1"+path) {
				continue // without a key; for everyone without one
			}
			begin := ""
			for prefix := range resourceOfPath {
				if strings.HasPrefix(path, prefix) && len(prefix) > len(begin) {
					begin = prefix
				}
			}
			action, ok := actionOf[method+" "+path]
			if !ok {
				action = map[string]string{"POST": "create", "PUT": "update", "DELETE": "delete", "GET": "list"}[method]
				if method == "GET" && strings.Contains(path, "{") {
					action = "read"
				}
			}
			if begin == "" {
				t.Errorf("%s %s: the tables do not say who it is for", method, path)
				continue
			}
			target := strings.NewReplacer("{workspace_id}", "red").Replace(path)
			if !strings.HasPrefix(path, "/v2/") {
				target = "/v1" + target
			}
			for strings.Contains(target, "{") {
				target = target[:strings.IndexByte(target, '{')] + "nope" + target[strings.IndexByte(target, '}')+1:]
			}
			for name, c := range callers {
				a.now.Add(int64(time.Second)) // refusals are throttled
				cells++
				want := c.holds != nil && slices.ContainsFunc(resourceOfPath[begin], func(r string) bool {
					held := c.holds(r)
					return held == every || slices.Contains(strings.Fields(held), action)
				})
				if want && target == "/v1/admin/workspaces/red" && method == "DELETE" {
					continue // it would go
				}
				out := a.as(c.token, method, target, "{}")
				switch {
				case c.holds == nil:
					if status := map[bool]int{true: 403, false: 401}[strings.HasPrefix(c.token, "user:")]; out.status != status {
						t.Errorf("%s: %s %s: %d, want %d", name, method, path, out.status, status)
					}
				case out.status == 401 || out.status >= 500:
					t.Errorf("%s: %s %s: %d %s", name, method, path, out.status, out.body)
				default:
					lacks := out.status == 403 && (strings.Contains(out.message(), "lacks the scope") || strings.Contains(out.message(), "does not give the scope"))
					if lacks == want {
						t.Errorf("%s: %s %s: %d %s, want allowed: %t", name, method, path, out.status, out.body, want)
					}
				}
			}
		}
	}
	if cells < 1000 {
		t.Errorf("%d cells", cells)
	}
}
