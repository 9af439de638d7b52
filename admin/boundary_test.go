package admin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// No route reveals anything about another workspace to a workspace key, or changes
// anything in it, regardless of the key's scopes. The routes are taken from the OpenAPI
// document, so that new ones are tested, too. If their path has an id, it must be in
// the table of objects.
func TestNoRouteCrossesAWorkspace(t *testing.T) {
	a := newAPI(t)
	a.priced()
	a.workspace("red")
	blue := a.workspace("blue")
	scopes, err := json.Marshal(credentials.WorkspaceService.Scopes())
	if err != nil {
		t.Fatal(err)
	}
	red := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":`+string(scopes)+`}`).get("key").Str

	// The objects of the other workspace: bodies for creating (which may name a
	// workspace) and changing them. Each contains the mark, which must not appear in
	// any answer to the key.
	const mark = "bluemark"
	create := map[string]string{
		"/v1/api-keys/workspace/service": `{"name":"` + mark + `","scopes":["virtual_keys.list"],"workspace_id":"blue"}`,
		"/v1/api-keys/workspace/user":    `{"name":"` + mark + `","scopes":["virtual_keys.list"],"workspace_id":"blue"}`,
		"/v1/virtual-keys":               `{"name":"` + mark + `","provider":"openai","key":"sk-1","workspace_id":"blue"}`,
		"/v1/configs":                    `{"name":"` + mark + `","config":{"retry":{"attempts":1}},"workspace_id":"blue"}`,
		"/v1/model-aliases":              `{"name":"` + mark + `","model":"@local/m","workspace_id":"blue"}`,
		"/v1/secret-references":          `{"name":"` + mark + `","manager_type":"environment","secret_path":"TEAM_KEY","allowed_workspaces":["blue"]}`,
		"/v1/integrations":               `{"name":"` + mark + `","ai_provider_id":"openai","key":"sk-1","workspace_id":"blue"}`,
		"/v1/providers":                  `{"name":"` + mark + `","slug":"` + mark + `-2","integration_id":"` + mark + `","workspace_id":"blue"}`,
		"/v1/prompts":                    `{"name":"` + mark + `","string":"s","virtual_key":"@local","workspace_id":"blue"}`,
		"/v1/prompts/partials":           `{"name":"` + mark + `","string":"s","workspace_id":"blue"}`,
		"/v1/guardrails":                 `{"name":"` + mark + `","checks":[{"id":"default.notNull"}],"workspace_id":"blue"}`,
		"/v1/plugins":                    `{"plugin_id":"test","credentials":{"key":"` + mark + `","host":"` + mark + `"}}`,
		"/v1/labels":                     `{"name":"` + mark + `","workspace_id":"blue"}`,
		"/v1/collections":                `{"name":"` + mark + `","workspace_id":"blue"}`,
		"/v1/policies/rate-limits":       `{"name":"` + mark + `","type":"requests","unit":"rpm","value":3,"workspace_id":"blue"}`,
		"/v1/policies/usage-limits":      `{"name":"` + mark + `","type":"requests","credit_limit":3,"workspace_id":"blue"}`,
	}
	made := func(path, id string) string { return a.ok("POST", path, create[path]).get(id).Str }
	integration := made("/v1/integrations", "slug")
	create["/v1/providers"] = strings.Replace(create["/v1/providers"], `:"`+mark+`","workspace_id"`, `:"`+integration+`","workspace_id"`, 1)
	config := made("/v1/configs", "slug")
	prompt, partial := made("/v1/prompts", "slug"), made("/v1/prompts/partials", "slug")
	a.s.Records.Add(&reqlog.Record{TraceID: mark, At: a.s.Now(), WorkspaceID: blue, KeyID: mark, Status: 200})
	for deadline := time.Now().Add(20 * time.Second); a.ok("GET", "/v1/logs", "").get("total").Int() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no record is written")
		}
	}
	guardrail := made("/v1/guardrails", "slug")
	usageLimit := made("/v1/policies/usage-limits", "id")
	key := made("/v1/api-keys/workspace/service", "id")
	objects := map[string]string{
		"/v1/api-keys/{id}":                                              key,
		"/v1/api-keys/{id}/rotate":                                       key,
		"/v1/virtual-keys/{slug}":                                        made("/v1/virtual-keys", "data.slug"),
		"/v1/configs/{slug}":                                             config,
		"/v1/configs/{slug}/versions":                                    config,
		"/v1/configs/{slug}/versions/{version_id}":                       config,
		"/v1/integrations/{slug}":                                        integration,
		"/v1/integrations/{slug}/workspaces":                             integration,
		"/v1/providers/{slug}":                                           made("/v1/providers", "slug"),
		"/v1/secret-references/{secretReferenceId}":                      made("/v1/secret-references", "slug"),
		"/v1/model-aliases/{id}":                                         made("/v1/model-aliases", "id"),
		"/v1/policies/rate-limits/{id}":                                  made("/v1/policies/rate-limits", "id"),
		"/v1/policies/usage-limits/{id}":                                 usageLimit,
		"/v1/policies/usage-limits/{id}/entities":                        usageLimit,
		"/v1/policies/usage-limits/{id}/entities/reset":                  usageLimit,
		"/v1/policies/usage-limits/{id}/entities/{entity_id}/reset":      usageLimit,
		"/v1/admin/workspaces/{workspace_id}":                            blue,
		"/v1/logs/{log_id}":                                              mark,
		"/v1/prompts/{prompt_id}":                                        prompt,
		"/v1/prompts/{prompt_id}/versions":                               prompt,
		"/v1/prompts/{prompt_id}/versions/{version_id}":                  prompt,
		"/v1/prompts/{prompt_id}/makeDefault":                            prompt,
		"/v1/prompts/partials/{prompt_partial_id}":                       partial,
		"/v1/prompts/partials/{prompt_partial_id}/versions":              partial,
		"/v1/prompts/partials/{prompt_partial_id}/versions/{version_id}": partial,
		"/v1/prompts/partials/{prompt_partial_id}/makeDefault":           partial,
		"/v1/prompts/{prompt_id}/share":                                  prompt,
		"/v1/prompts/partials/{prompt_partial_id}/share":                 partial,
		"/v1/prompts/{prompt_id}/fork":                                   prompt,
		"/v1/prompts/partials/{prompt_partial_id}/fork":                  partial,
		"/v1/prompts/{prompt_id}/unshare":                                prompt,
		"/v1/prompts/partials/{prompt_partial_id}/unshare":               partial,
		"/v1/guardrails/{guardrailId}":                                   guardrail,
		"/v1/guardrails/{guardrailId}/versions":                          guardrail,
		"/v1/guardrails/{guardrailId}/versions/{version_id}":             guardrail,
		"/v1/guardrails/{guardrailId}/invoke":                            guardrail,
		"/v1/labels/{label_id}":                                          made("/v1/labels", "id"),
		"/v1/collections/{collection_id}":                                made("/v1/collections", "id"),
		"/v1/plugins/{plugin_id}":                                        made("/v1/plugins", "plugin_id"),
		"/v1/model-configs/pricing/{provider}/{model}":                   mark + "-2",
		"/v1/integrations/{slug}/models":                                 integration,
		"/v1/integrations/{slug}/integration-models":                     integration,
	}
	batch := &policies.Batch{BatchName: policies.BatchName{WorkspaceID: blue, Account: "account local", ID: mark}, Provider: "local"}
	if parked, err := a.s.Limits.Park(t.Context(), nil, batch); !parked || err != nil {
		t.Fatal(parked, err)
	}
	objects["/v2/batches/{batch_id}"] = mark
	objects["/v1/organisation/{organisation_id}/resync"] = mark
	stranger, _ := a.member(mark+"@example.com", "blue", "member")
	objects["/v1/admin/users/{user_id}"] = stranger
	invited, _ := a.invite(`{"email":"` + mark + `@example.org","role":"member","workspaces":[{"id":"blue","role":"member"}]}`)
	objects["/v1/admin/users/invites/{invite_id}"] = invited
	objects["/v1/admin/users/invites/{invite_id}/resend"] = invited
	objects["/v1/admin/workspaces/{workspace_id}/users"] = blue
	objects["/v1/admin/workspaces/{workspace_id}/users/{user_id}"] = blue
	change := map[string]string{"PUT": `{"name":"n"}`}

	// state returns everything that the organisation can see.
	state := func() string {
		var all strings.Builder
		for _, path := range []string{
			"/v1/api-keys", "/v1/virtual-keys", "/v1/integrations", "/v1/providers", "/v1/configs", "/v1/model-aliases", "/v1/policies/rate-limits", "/v1/policies/usage-limits", "/v1/admin/workspaces", "/v1/logs",
			"/v1/admin/users", "/v1/admin/users/invites", "/v1/admin/workspaces/blue/users", "/v1/secret-references", "/v1/prompts", "/v1/prompts/partials", "/v1/labels", "/v1/collections", "/v1/guardrails", "/v1/plugins",
		} {
			all.WriteString(a.ok("GET", path+"?page_size=100", "").body)
		}
		return all.String()
	}
	a.as(red, "GET", "/v1/virtual-keys", "") // which is when it was last used
	before := state()
	routes := 0
	for path, methods := range a.paths() {
		for method := range methods.Map() {
			method = strings.ToUpper(method)
			routes++
			id, known := objects[path]
			target, body := path, change[method]
			switch at := strings.IndexByte(path, '{'); {
			case at >= 0 && !known:
				t.Errorf("%s: the table has no object of the other workspace for it", path)
				continue
			case at >= 0:
				target = path[:at] + id + path[at+strings.IndexByte(path[at:], '}')+1:]
				target = strings.NewReplacer("{version_id}", "1", "{entity_id}", "1", "{user_id}", stranger, "{model}", "gpt-4o").Replace(target)
			case method == "POST":
				if body = create[path]; body == "" {
					body = `{"name":"` + mark + `","workspace_id":"blue"}`
				}
			}
			out := a.as(red, method, target, body)
			listed := method == "GET" && target == path
			shown := out.body
			if path == "/v1/audit-logs" { // the rows repeat what the caller sent; TestAWorkspaceSeesOnlyItsOwnAuditLogs
				shown = ""
			}
			if known { // names sent by the caller may be repeated
				shown = strings.ReplaceAll(shown, id, "")
			}
			if strings.Contains(shown, mark) || strings.Contains(shown, blue) {
				t.Errorf("%s %s: %d %s tells of the other workspace", method, target, out.status, out.body)
			}
			if !listed && out.status < 400 {
				t.Errorf("%s %s: %d %s", method, target, out.status, out.body)
			}
			if listed && out.status == 200 {
				if named := a.as(red, method, target+"?workspace_id=blue", ""); named.status == 200 && strings.Contains(named.body, mark) {
					t.Errorf("%s %s of blue: %s", method, target, named.body)
				}
			}
		}
	}
	// An organisation key says which workspace the object is expected to be of. Logs, users, plugins, pricing and what
	// belongs to the organisation are of none.
	named := 0
	for path, methods := range a.paths() {
		id, known := objects[path]
		at := strings.IndexByte(path, '{')
		if !known || !methods.Get("get").Exists() || !strings.Contains(methods.Get("get.parameters.#.name").Raw, `"workspace_id"`) || strings.Contains(path, "{workspace_id}") || strings.Contains(path, "{model}") {
			continue
		}
		named++
		target := strings.NewReplacer("{version_id}", "1", "{entity_id}", "1").Replace(path[:at] + id + path[at+strings.IndexByte(path[at:], '}')+1:])
		for workspace, want := range map[string]int{"blue": 200, blue: 200, "red": 404, "nowhere": 404} {
			if out := a.do("GET", target+"?workspace_id="+workspace, ""); out.status != want {
				t.Errorf("GET %s of %s: %d %s, expected %d", target, workspace, out.status, out.body, want)
			}
		}
		if out := a.do("PUT", target+"?workspace_id=red", change["PUT"]); methods.Get("put").Exists() && (out.status == 200 || out.status == 409) {
			t.Errorf("PUT %s of red: %d %s", target, out.status, out.body)
		}
	}
	if named < 18 {
		t.Errorf("%d routes for one object take workspace_id", named)
	}
	if after := state(); after != before || routes < 25 {
		t.Errorf("after %d routes there is\n%s\nbefore there was\n%s", routes, after, before)
	}
}
