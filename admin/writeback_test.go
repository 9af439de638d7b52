package admin_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/audit"
)

// What a resource shows of the members that can be set, can be sent back: it is accepted, and changes nothing.
func TestWhatIsShownCanBeWrittenBack(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	user, _ := a.member("m@example.com", "red", "member")
	limits := `"rate_limits":[{"type":"requests","unit":"rpm","value":9}],`
	budget := `{"type":"cost","credit_limit":5,"alert_threshold":3,"periodic_reset":"monthly"}`
	made := func(path, body string) string { return path + "/" + a.ok("POST", path, body).get("id").Str }
	key := func(path, rest string) string {
		return "/v1/api-keys/" + a.ok("POST", "/v1/api-keys/"+path, `{"name":"k","scopes":["virtual_keys.list"]`+rest+`}`).get("id").Str
	}
	a.ok("PUT", "/v1/admin/organisation", `{"settings":{"user_api_key_ttl":86400,"user_key_metadata":{"a":"b"}},"export_settings":{"deniedFields":["request"]},
		"workspace_overrides":{"user_api_key_settings":true,"export_settings":true,"data_plane_security_settings":true},"auth_settings":{"session_settings":{"max_session_ttl":900},"disable_auto_provision_user":true,
		"email_domains":[{"domain":"example.com","allow_subdomains":true}]}}`)
	guardrail := a.ok("POST", "/v1/guardrails", `{"name":"g","organisation_id":"`+a.s.Directory.Organisation().ID+`","checks":[{"id":"default.notNull"}]}`).get("slug").Str
	enforced := key("workspace/user", `,"workspace_id":"red","user_id":"`+user+`"`)
	paths := []string{
		key("organisation/service", ""),
		key("workspace/service", `,`+limits+`"usage_limits":`+budget+`,"description":"d","expires_at":"2027-01-01T00:00:00Z","alert_emails":["a@example.com"],"defaults":{"metadata":{"a":"b"},"allow_config_override":false},"rotation_policy":{"rotation_period":"weekly"}`),
		key("workspace/service", `,"rotation_policy":{"rotation_period_days":9,"key_transition_period_ms":3600000}`),
		key("workspace/service", `,"rotation_policy":{"next_rotation_at":"2026-12-24T00:00:00Z"}`),
		enforced,
		made("/v1/admin/workspaces", `{"name":"🚀 New","description":"d","icon":"x","defaults":{"metadata":{"a":"b"},"input_guardrails":["`+guardrail+`"]},`+limits+`"usage_limits":[`+budget+`],"security_settings":{"membersViewLogs":false},"settings":{"debug_log":0}}`),
		"/v1/admin/workspaces/" + red,
		"/v1/admin/organisation", "/v1/admin/organisation/defaults",
		"/v1/workspace-exclusions/input-guardrails", "/v1/workspace-exclusions/output-guardrails",
	}
	savedObjects := map[string]string{
		"/v1/virtual-keys":      `{"name":"n","slug":"vk","provider":"bedrock","key":"sk-0123456789","note":"n","model_config":{"aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789"},` + limits + `"usage_limits":` + budget + `,"expires_at":"2027-01-01T00:00:00Z"}`,
		"/v1/integrations":      `{"name":"n","slug":"i","ai_provider_id":"openai","key":"sk-0123456789","description":"d","configurations":{"openai_project":"p"},"tags":{"a":"b"},"pricing_adjustments":{"multiplier":{"default":0.5}}}`,
		"/v1/secret-references": `{"name":"n","slug":"s","manager_type":"environment","secret_path":"TEAM_KEY","description":"d","tags":{"a":"b"}}`,
		"/v1/labels":            `{"name":"canary","description":"d"}`,
		"/v1/collections":       `{"name":"c"}`,
		"/v1/model-aliases":     `{"name":"a","model":"@local/m"}`,
		"/v1/prompts": `{"name":"p","string":"[{\"role\":\"user\",\"content\":\"Hi {{name}}\"}]","virtual_key":"@local","parameters":{"model":"m","temperature":0.50},"version_description":"d","template_metadata":{"a":"b"},
			"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","is_raw_template":false}`,
		"/v1/prompts/partials":      `{"name":"t","string":"Be kind, {{name}}.","version_description":"d"}`,
		"/v1/configs":               `{"name":"c","config":{"provider":"openai","api_key":"sk-0123456789","retry":{"attempts":2},"override_params":{"temperature":0.50}},"isDefault":true}`,
		"/v1/guardrails":            `{"name":"h","checks":[{"id":"default.webhook","parameters":{"webhookURL":"https://hook.example.com","headers":{"Authorization":"hook-0123456789"}}}],"actions":{"deny":true}}`,
		"/v1/policies/rate-limits":  `{"name":"r","type":"requests","unit":"rpm","value":3,"conditions":[{"key":"model","value":"m"}],"group_by":[{"key":"api_key"}]}`,
		"/v1/policies/usage-limits": `{"name":"u","type":"cost","credit_limit":3,"alert_threshold":1.5,"periodic_reset":"monthly","group_by":[{"key":"api_key"}]}`,
	}
	for path, body := range savedObjects {
		paths = append(paths, path+"/"+a.ok("POST", path, body).either("id", "data.id"))
	}
	bare := a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"bare","provider":"openai"}`).get("data.id").Str
	a.ok("PUT", "/v1/integrations/i/workspaces", `{"workspaces":[{"id":"red","enabled":true}]}`)
	a.ok("PUT", "/v1/integrations/i/models", `{"models":[{"slug":"gpt-4o","enabled":true},{"slug":"own","enabled":true,"is_custom":true,"base_model_slug":"gpt-4o","pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":1},"response_token":{"price":2}}}}]}`)
	paths = append(paths, "/v1/virtual-keys/"+bare, "/v1/providers/i", "/v1/integrations/i/workspaces", "/v1/integrations/i/models", "/v1/admin/users/"+user, "/v1/admin/workspaces/red/users/"+user)
	a.ok("PUT", "/v1/admin/workspaces/red", `{"settings":{"user_api_key_rotation_period":30}}`)
	a.ok("PUT", enforced, `{"rotation_policy":{"rotation_period":"monthly"}}`)
	for _, route := range a.readAndWritten() {
		if route == "/v1/prompts/{prompt_id}/versions/{version_id}" { // PUT gives it a label, and takes nothing of what it shows
			continue
		}
		if !slices.ContainsFunc(paths, func(path string) bool { return isOf(path, route) }) {
			t.Errorf("%s is not tried", route)
		}
	}
	for _, path := range paths {
		before := a.ok("GET", path, "")
		settable := a.settable(path)
		body := make(map[string]json.RawMessage)
		gjson.Parse(before.body).ForEach(func(name, value gjson.Result) bool {
			if settable[name.Str] {
				body[name.Str] = json.RawMessage(value.Raw)
			}
			return true
		})
		sent, err := json.Marshal(body)
		if err != nil || len(body) == 0 {
			t.Fatal(path, err)
		}
		if out := a.do("PUT", path, string(sent)); out.status != 200 {
			t.Errorf("%s %s: %d %s", path, sent, out.status, out.body)
			continue
		}
		strip := func(s string) string {
			for _, name := range []string{"last_updated_at", "last_used_at"} {
				s = strings.ReplaceAll(s, gjson.Get(s, name).Raw, "")
			}
			return s
		}
		if after := a.ok("GET", path, ""); strip(after.body) != strip(before.body) {
			t.Errorf("%s: it was\n%s\nand is\n%s", path, before.body, after.body)
		}
		versions := func(c audit.Change) bool { // a text that is sent is a new version, which is not in force
			return c.Field == "latest_version" || c.Field == "version" || c.Field == "version_id"
		}
		if row := a.trail()[0]; slices.ContainsFunc(row.Changes, func(c audit.Change) bool { return !versions(c) }) {
			t.Errorf("%s: recorded is %+v", path, row.Changes)
		}
	}
}

// isOf reports whether a path is one of a route's.
func isOf(path, route string) bool {
	parts, own := strings.Split(route, "/"), strings.Split(path, "/")
	if len(parts) != len(own) {
		return false
	}
	for i := range parts {
		if parts[i] != own[i] && !strings.HasPrefix(parts[i], "{") {
			return false
		}
	}
	return true
}

// readAndWritten are the routes that GET shows and PUT changes.
func (a *api) readAndWritten() (routes []string) {
	a.t.Helper()
	gjson.Get(a.do("GET", "/v1/openapi.json", "").body, "paths").ForEach(func(route, methods gjson.Result) bool {
		if methods.Get("get").Exists() && methods.Get("put").Exists() {
			routes = append(routes, route.Str)
		}
		return true
	})
	return routes
}

// settable returns the members of the body of PUT path.
func (a *api) settable(path string) map[string]bool {
	a.t.Helper()
	document := gjson.Parse(a.do("GET", "/v1/openapi.json", "").body)
	var found gjson.Result
	document.Get("paths").ForEach(func(at, methods gjson.Result) bool {
		if !isOf(path, at.Str) || !methods.Get("put").Exists() {
			return true
		}
		found = methods.Get("put")
		return false
	})
	schema := found.Get(`requestBody.content.application/json.schema`)
	if ref := schema.Get("$ref").Str; ref != "" {
		schema = document.Get("components.schemas." + ref[strings.LastIndexByte(ref, '/')+1:])
	}
	all := make(map[string]bool)
	schema.Get("properties").ForEach(func(name, _ gjson.Result) bool {
		all[name.Str] = true
		return true
	})
	return all
}
