package admin_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// clearable are the members of updates that null clears, of all routes or of one: a value that each may have before, and the
// path by which it is shown, if that is another.
var clearable = map[string]struct{ value, shown string }{
	"description": {value: `"d"`}, "note": {value: `"n"`}, "icon": {value: `"x"`}, "color_code": {value: `"#fff"`}, "tags": {value: `{"a":"b"}`}, "secret_key": {value: `"k"`},
	"custom_host": {value: `"https://a.example.com/v1"`}, "expires_at": {value: `"2099-01-01T00:00:00Z"`},
	"configurations": {value: `{"openai_project":"p"}`}, "model_config": {value: `{"openai_project":"p"}`},
	"secret_mappings":     {value: `[{"target_field":"key","secret_reference_id":"$reference"}]`},
	"pricing_adjustments": {value: `{"multiplier":{"default":2}}`},
	"usage_limits":        {value: `{"type":"cost","credit_limit":9}`}, "rate_limits": {value: `[{"type":"requests","unit":"rpm","value":9}]`},
	"parameters": {value: `{"temperature":0.5}`}, "functions": {value: `[{"name":"f"}]`}, "tools": {value: `[{"type":"function","function":{"name":"f"}}]`},
	"tool_choice": {value: `"auto"`}, "model": {value: `"m"`}, "version_description": {`"d"`, "prompt_version_description"},
	"template_metadata": {value: `{"a":1}`}, "prompt_metadata": {`{"a":1}`, "template_metadata"},
	"label_id":    {`"00000000-0000-4000-8000-000000000001"`, "prompt_version_label_id"},
	"start_hooks": {value: `["$start"]`}, "input_guardrails": {value: `["$guardrail"]`}, "output_guardrails": {value: `["$guardrail"]`},
	"mcp_input_guardrails": {value: `["$guardrail"]`}, "mcp_output_guardrails": {value: `["$guardrail"]`},
	"rotation_policy": {value: `{"rotation_period":"weekly"}`}, "defaults": {`{"metadata":{"a":"b"}}`, "defaults.metadata"},
	"name": {value: `"n"`}, "alert_threshold": {value: `1`}, "periodic_reset": {value: `"weekly"`}, "periodic_reset_days": {value: `3`},

	"/v1/prompts/partials/{prompt_partial_id} description":                    {`"d"`, "version_description"},
	"/v1/prompts/partials/{prompt_partial_id} version_description":            {value: `"d"`},
	"/v1/prompts/partials/{prompt_partial_id}/versions/{version_id} label_id": {`"00000000-0000-4000-8000-000000000001"`, "version_labels"},
	"/v1/admin/workspaces/{workspace_id} usage_limits":                        {value: `[{"type":"cost","credit_limit":9}]`},
}

// clearedElsewhere are members of which other tests clear a value: virtual keys of azure-openai have some
// (TestVirtualKeysKeepTheSettingsOfTheirProvider), without next_usage_reset_at a budget has the next reset of its period, and
// reset_usage is no value but an action, which null, as which it is shown, is not; a model alias has a model or a config (TestModelAliasesLiveAndDie).
var clearedElsewhere = []string{
	"apiVersion", "resourceName", "deploymentName", "deploymentConfig",
	"api_version", "resource_name", "deployment_name", "deployment_config", "next_usage_reset_at", "reset_usage", "config",
}

// Null of an optional member of an update clears it, or is refused with its name: it is not taken for a member that is left out.
func TestNullIsNotIgnored(t *testing.T) {
	a := newAPI(t)
	world := changeWorld(a)
	reference := a.ok("POST", "/v1/secret-references", `{"name":"n","slug":"of-nulls","manager_type":"environment","secret_path":"TEAM_KEY"}`).get("id").Str
	organisation := a.s.Directory.Organisation().ID
	start := a.ok("POST", "/v1/guardrails", `{"name":"s","organisation_id":"`+organisation+`","checks":[{"id":"default.jwt","parameters":{"jwksUri":"https://login.example.com/keys"}}]}`).get("slug").Str
	document, tried := a.do("GET", "/v1/openapi.json", ""), 0
	empty := func(v gjson.Result) bool {
		return !v.Exists() || slices.Contains([]string{"null", "false", `""`, "[]", "{}", "0"}, v.Raw)
	}
	for path, methods := range a.paths() {
		schema := methods.Get("put.requestBody.content.application/json.schema")
		if ref := schema.Get("$ref").Str; ref != "" {
			schema = document.get("components.schemas." + strings.TrimPrefix(ref, "#/components/schemas/"))
		}
		if !schema.Exists() || !schema.Get("properties").Exists() {
			continue
		}
		tried++
		target, sent := a.prepareIn(world, "PUT", path)
		with := func(name, value string) string {
			body := make(map[string]json.RawMessage)
			if err := json.Unmarshal([]byte(sent), &body); err != nil {
				t.Fatal(path, err)
			}
			if body[name] = json.RawMessage(value); name == "secret_mappings" { // which has the key
				delete(body, "key")
			}
			b, err := json.Marshal(body)
			if err != nil {
				t.Fatal(path, err)
			}
			return string(b)
		}
		for name := range schema.Get("properties").Map() {
			if strings.Contains(schema.Get("required").Raw, `"`+name+`"`) {
				continue
			}
			switch refused := a.do("PUT", target, with(name, "null")); {
			case refused.status == 400 && strings.Contains(refused.message(), name+": expected a value: null clears nothing here"):
				continue
			case refused.status != 200:
				t.Errorf("%s: %s: %d %s", path, name, refused.status, refused.body)
				continue
			}
			known, ok := clearable[path+" "+name]
			if !ok {
				known, ok = clearable[name]
			}
			if !ok {
				if !slices.Contains(clearedElsewhere, name) {
					t.Errorf("%s: null of %s is accepted; clearable has no value of it", path, name)
				}
				continue
			}
			shown := func() gjson.Result {
				at := target
				if strings.HasPrefix(path, "/v1/prompts/partials/") { // of whose versions one is shown as the partial is
					at, _, _ = strings.Cut(at, "/versions/")
				}
				return a.ok("GET", at+latestOf(path), "").get(cmp.Or(known.shown, name))
			}
			a.ok("PUT", target, with(name, strings.NewReplacer("$reference", reference, "$guardrail", world["$guardrail"], "$start", start).Replace(known.value)))
			if empty(shown()) {
				t.Errorf("%s: %s is not set by %s", path, name, known.value)
			}
			a.ok("PUT", target, with(name, "null"))
			if v := shown(); !empty(v) {
				t.Errorf("%s: null of %s was ignored; it is %s", path, name, v.Raw)
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d routes", tried)
	}
}

// latestOf is the query by which the newest version is read of what has versions.
func latestOf(route string) string {
	if strings.HasPrefix(route, "/v1/prompts/") && !strings.Contains(route, "versions") {
		return "?version=latest"
	}
	return ""
}

// Members of objects that are merged are as those around them; what is replaced as a whole is not.
func TestNullOfAMemberWithinAnother(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	for body, member := range map[string]string{
		`{"settings":null}`:                              "settings",
		`{"settings":{"debug_log":null}}`:                "settings.debug_log",
		`{"settings":{"user_api_key_auto_create":null}}`: "settings.user_api_key_auto_create",
		`{"security_settings":null}`:                     "security_settings",
	} {
		a.refuses(ownerKey, "PUT", "/v2/workspaces/blue", body, 400, member+": expected a value: null clears nothing here")
	}
	a.ok("PUT", "/v2/workspaces/blue", `{"settings":{"debug_log":1},"defaults":{"metadata":null}}`)
	a.ok("PUT", "/v2/workspaces/blue", `{"usage_limits":[{"type":"cost","credit_limit":9,"alert_threshold":null,"periodic_reset":null}]}`)
	a.refuses(ownerKey, "PUT", "/v2/workspaces/blue", `null`, 400, "body")
}
