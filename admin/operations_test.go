package admin_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/policies"
)

// operationSecret must not be in any answer.
const operationSecret = "sk-0123456789abcdef"

// bodies that the operations succeed with; ids of objects are replaced.
var operationBodies = map[string]string{
	"POST /v1/virtual-keys":                                              `{"name":"n","provider":"openai","key":"` + operationSecret + `"}`,
	"PUT /v1/virtual-keys/{slug}":                                        `{"name":"m","key":"` + operationSecret + `"}`,
	"POST /v1/providers":                                                 `{"name":"n","integration_id":"main"}`,
	"PUT /v1/providers/{slug}":                                           `{"name":"m"}`,
	"POST /v1/integrations":                                              `{"name":"n","ai_provider_id":"openai","key":"` + operationSecret + `"}`,
	"PUT /v1/integrations/{slug}":                                        `{"key":"` + operationSecret + `","pricing_adjustments":{"multiplier":{"default":0.8}}}`,
	"PUT /v1/integrations/{slug}/models":                                 `{"models":[{"slug":"m","enabled":true,"custom_headers":{"X-Key":"` + operationSecret + `"}}]}`,
	"PUT /v1/integrations/{slug}/integration-models":                     `{"models":[{"slug":"m","enabled":false}]}`,
	"PUT /v1/integrations/{slug}/workspaces":                             `{"workspaces":[{"id":"$workspace","enabled":true}]}`,
	"POST /v1/secret-references":                                         `{"name":"n","manager_type":"environment","secret_path":"TEAM_KEY"}`,
	"PUT /v1/secret-references/{secretReferenceId}":                      `{"name":"m"}`,
	"POST /v1/plugins":                                                   `{"plugin_id":"test.judge","credentials":{"key":"` + operationSecret + `"}}`,
	"PUT /v1/plugins/{plugin_id}":                                        `{"credentials":{"key":"` + operationSecret + `"}}`,
	"POST /v1/configs":                                                   `{"name":"n","config":{"provider":"openai","api_key":"` + operationSecret + `"}}`,
	"PUT /v1/configs/{slug}":                                             `{"name":"m","config":{"provider":"openai","api_key":"` + operationSecret + `","retry":{"attempts":1}}}`,
	"POST /v1/model-aliases":                                             `{"name":"n","model":"@local/m"}`,
	"PUT /v1/model-aliases/{id}":                                         `{"name":"m"}`,
	"POST /v1/prompts":                                                   `{"name":"n","string":"s","virtual_key":"@local"}`,
	"PUT /v1/prompts/{prompt_id}":                                        `{"name":"m","string":"t"}`,
	"PUT /v1/prompts/{prompt_id}/versions/{version_id}":                  `{"label_id":"00000000-0000-4000-8000-000000000001"}`,
	"PUT /v1/prompts/{prompt_id}/makeDefault":                            `{"version":1}`,
	"POST /v1/prompts/partials":                                          `{"name":"n","string":"s"}`,
	"PUT /v1/prompts/partials/{prompt_partial_id}":                       `{"name":"m","string":"t"}`,
	"PUT /v1/prompts/partials/{prompt_partial_id}/versions/{version_id}": `{"label_id":"00000000-0000-4000-8000-000000000001"}`,
	"PUT /v1/prompts/partials/{prompt_partial_id}/makeDefault":           `{"version":1}`,
	"PUT /v2/batches/{batch_id}":                                         `{"internal_output_file_id":"file-1"}`,
	"POST /v1/labels":                                                    `{"name":"n"}`,
	"PUT /v1/labels/{label_id}":                                          `{"name":"m"}`,
	"POST /v1/collections":                                               `{"name":"n"}`,
	"PUT /v1/collections/{collection_id}":                                `{"name":"m"}`,
}

// operationWorld makes one object of each resource, and returns where those in paths are.
func operationWorld(a *api) map[string]string {
	a.priced()
	workspace := a.s.Directory.DefaultWorkspace().ID
	made := func(path, id string) string {
		return a.ok("POST", path, strings.NewReplacer(`"name":"n"`, `"name":"first"`, `"name":"n","ai_provider_id"`, `"name":"first","slug":"main","ai_provider_id"`).
			Replace(operationBodies["POST "+path])).get(id).Str
	}
	a.ok("POST", "/v1/integrations", `{"name":"first","slug":"main","ai_provider_id":"openai","key":"`+operationSecret+`"}`)
	a.ok("POST", "/v1/integrations", `{"name":"free","slug":"free","ai_provider_id":"openai","key":"`+operationSecret+`"}`)
	for _, slug := range []string{"main", "free"} {
		a.ok("PUT", "/v1/integrations/"+slug+"/workspaces", `{"workspaces":[{"id":"`+workspace+`","enabled":true,"create_default_provider":false}]}`)
		a.ok("PUT", "/v1/integrations/"+slug+"/models", `{"models":[{"slug":"gpt-4o","enabled":true}]}`)
	}
	batch := &policies.Batch{BatchName: policies.BatchName{WorkspaceID: workspace, Account: "account local", ID: "batch_1"}, Provider: "local"}
	if parked, err := a.s.Limits.Park(a.t.Context(), nil, batch); !parked || err != nil {
		a.t.Fatal(parked, err)
	}
	return map[string]string{
		"/v2/batches/{batch_id}":             batch.ID,
		"$workspace":                         workspace,
		"/v1/organisation/{organisation_id}": a.s.Directory.Organisation().ID,
		"/v1/virtual-keys/{slug}":            made("/v1/virtual-keys", "data.slug"), "/v1/providers/{slug}": made("/v1/providers", "slug"), "/v1/integrations/{slug}": "free",
		"/v1/secret-references/{secretReferenceId}": made("/v1/secret-references", "slug"), "/v1/configs/{slug}": made("/v1/configs", "slug"),
		"/v1/plugins/{plugin_id}": a.ok("POST", "/v1/plugins", `{"plugin_id":"test","credentials":{"key":"`+operationSecret+`"}}`).get("id").Str,
		"/v1/model-aliases/{id}":  made("/v1/model-aliases", "id"), "/v1/prompts/{prompt_id}": made("/v1/prompts", "slug"),
		"/v1/prompts/partials/{prompt_partial_id}": made("/v1/prompts/partials", "slug"), "/v1/labels/{label_id}": made("/v1/labels", "id"),
		"/v1/collections/{collection_id}": made("/v1/collections", "id"), "/v1/model-configs/pricing/{provider}": "openai",
	}
}

// callBodies are bodies for routes that change nothing of what the control plane stores, or that a key
// with a single scope could not use as changeBodies has them.
var callBodies = map[string]string{
	"POST /v1/logs": `{"request":{"url":"https://models.example.com/v1/chat/completions","method":"POST","headers":{},"body":{"model":"m","messages":[{"role":"user","content":"Hello"}]}},"response":{"status":200,"headers":{},"body":{"choices":[{"message":{"role":"assistant","content":"Hi"}}]},"response_time":250},"metadata":{"team":"search"}}`,
	"POST /v1/guardrails/{guardrailId}/invoke": `{"text":"Is this all right?"}`,
}

// keyless are the routes that no scope decides about.
var keyless = []string{"POST " + acceptPath, "GET /v1/admin/health", "GET /v1/auth/self", "GET /v1/api-keys/self/details"}

// Every operation, as it is registered, is allowed with one of its scopes and with no other; a
// body that it does not know is refused in the envelope; what it changes has a row in the audit
// trail; and no answer has a secret. That answers are as the OpenAPI document says, every request
// of these tests checks, and TestNoRouteCrossesAWorkspace is about other workspaces.
func TestEveryOperationIsAllowedRefusedAndRecorded(t *testing.T) {
	answered := newAnswers(t)
	everyRoute(t, 120, func(r *routeCase) bool {
		return !slices.Contains(keyless, r.name)
	}, func(t *testing.T, r *routeCase) {
		_, needs, _ := strings.Cut(r.operation.Get("description").Str, "Needs the scope ")
		scopes := strings.Split(strings.TrimSuffix(needs, "."), " or ")
		with := func(scope string) string {
			// Keys that are made or changed have logs.view, which their makers need, too; and admins
			// are made by who may all that they may.
			has := []string{scope}
			switch {
			case r.name == "PUT /v1/admin/users/{user_id}" && scope != "mcp.invoke":
				has = credentials.OrganisationService.Scopes()
			case scope != "mcp.invoke" && scope != "logs.view":
				has = append(has, "logs.view")
			}
			for _, kind := range []string{"organisation/service", "workspace/service"} {
				if out := r.do("POST", "/v1/api-keys/"+kind, `{"name":"k","scopes":["`+strings.Join(has, `","`)+`"]}`); out.status == 200 {
					return out.get("key").Str
				}
			}
			t.Fatalf("no key may have the scope %q", scope)
			return ""
		}
		sent, _, _ := strings.Cut(r.target, "?")
		sent, _ = url.PathUnescape(sent)
		newest := func() *audit.Record {
			rows := r.trail()
			newest := rows[0]
			for _, row := range rows {
				if row.Number > newest.Number {
					newest = row
				}
			}
			return newest
		}
		last := func() (action, path string, status int) {
			row := newest()
			return row.Scope, row.Path, row.Status
		}
		about := func(what string) {
			row, key := newest(), ""
			if _, rest, ok := strings.Cut(r.path, "{"); ok {
				key = strings.Split(sent, "/")[strings.Count(r.path[:len(r.path)-len(rest)], "/")]
			}
			if strings.Contains(r.path, "{user_id}") {
				key = sent[strings.LastIndexByte(sent, '/')+1:]
			}
			if want := typeOf(r.path); row.Type != want || key != "" && row.Resource != key {
				t.Errorf("%s: recorded is %q %q, want %q %q", what, row.Type, row.Resource, want, key)
			}
			// Prices and what providers have are not the gateway's, and have no ids of it.
			if key != "" && row.ResourceID == "" && !slices.Contains([]audit.Type{audit.Batches, audit.Prices, audit.Logs}, row.Type) {
				t.Errorf("%s: recorded is no id of %q", what, key)
			}
		}
		lacking := r.as(with("mcp.invoke"), r.method, r.target, r.sent)
		if action, at, status := last(); lacking.status != 403 || lacking.code() != "AB03" || at != sent || status != 403 || !slices.Contains(scopes, action) {
			t.Errorf("without its scope: %d %s; recorded is %s %s %d", lacking.status, lacking.body, action, at, status)
		}
		if row := newest(); row.Type != typeOf(r.path) || strings.Contains(r.path, "{") && row.Resource == "" {
			t.Errorf("without its scope: recorded is %q %q", row.Type, row.Resource)
		}
		if r.operation.Get("requestBody").Exists() {
			for _, bad := range []string{`{"nope":1}`, `7`, `{"name":`, `{"name":"a","name":"b"}`, strings.Repeat(`{"name":`, 10_000)} {
				if out := r.do(r.method, r.target, bad); out.status != 400 || out.message() == "" || out.code() != "AB01" {
					t.Errorf("%.40s: %d %s", bad, out.status, out.body)
				}
			}
			about("refused")
		}
		out, scope := answer{}, ""
		for _, scope = range scopes { // an object of the organisation, or of a workspace, may need another of them
			if out = r.as(with(scope), r.method, r.target, r.sent); out.status != 403 {
				break
			}
		}
		if out.status != 200 || strings.Contains(out.body, operationSecret) {
			t.Fatalf("%v: %d %s", scopes, out.status, out.body)
		}
		answered.add(r.name, out)
		if action, at, status := last(); r.method != "GET" && notStored[r.name] == "" && (action != scope || at != sent || status != 200) {
			t.Errorf("recorded is %s %s %d", action, at, status)
		}
		if r.method != "GET" && notStored[r.name] == "" {
			about("done")
			if row := newest(); !slices.Contains(audit.Types(), row.Type) || !slices.Contains(audit.Actions(), row.Scope[strings.LastIndexByte(row.Scope, '.')+1:]) {
				t.Errorf("the filters of the list do not know %q %q", row.Type, row.Scope)
			}
		}
	})
}
