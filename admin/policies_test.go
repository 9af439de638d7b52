package admin_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/storage"
)

func TestPoliciesHaveDescriptions(t *testing.T) {
	a := newAPI(t)
	for path, body := range map[string]string{
		"/v1/policies/rate-limits":  `{"name":"n","type":"requests","unit":"rpm","value":3`,
		"/v1/policies/usage-limits": `{"name":"n","type":"requests","credit_limit":3`,
	} {
		if out := a.ok("POST", path, body+"}"); out.get("description").Raw != "null" {
			t.Errorf("%s without a description: %s", path, out.body)
		}
		longest := strings.Repeat("é", 500)
		created := a.ok("POST", path, body+`,"description":"`+longest+`"}`)
		if created.get("description").Str != longest {
			t.Errorf("%s: %s", path, created.body)
		}
		one := path + "/" + created.get("id").Str
		a.ok("PUT", one, `{"name":"m"}`)
		if out := a.ok("GET", one, ""); out.get("description").Str != longest || out.get("name").Str != "m" {
			t.Errorf("%s: %s", one, out.body)
		}
		for method, at := range map[string]string{"POST": path, "PUT": one} {
			of := `{"description":"` + longest + `e"}`
			if method == "POST" {
				of = body + `,"description":"` + longest + `e"}`
			}
			if out := a.do(method, at, of); out.status != 400 || !strings.Contains(out.body, "description") {
				t.Errorf("%s %s of 501 characters: %d %s", method, at, out.status, out.body)
			}
		}
		a.ok("PUT", one, `{"description":null}`)
		if out := a.ok("GET", one, ""); out.get("description").Raw != "null" {
			t.Errorf("cleared: %s", out.body)
		}
	}
}

// What the answer for one object always has is there also if it is empty.
func TestEmptyPartsOfAnswersAreShown(t *testing.T) {
	a := newAPI(t)
	budget := a.ok("POST", "/v1/policies/usage-limits", `{"type":"requests","credit_limit":3}`).get("id").Str
	if out := a.ok("GET", "/v1/policies/usage-limits/"+budget+"?include_usage=true", ""); out.get("value_key_usage_map").Raw != "{}" {
		t.Errorf("nothing is used: %s", out.body)
	}
	if out := a.ok("GET", "/v1/policies/usage-limits/"+budget, ""); out.get("value_key_usage_map").Exists() {
		t.Errorf("without include_usage: %s", out.body)
	}
	a.workspace("red")
	if out := a.ok("GET", "/v1/admin/workspaces/red", ""); out.get("users").Raw != "[]" {
		t.Errorf("no members: %s", out.body)
	}
}

func TestRateLimitPoliciesAreListedFilteredAndArchived(t *testing.T) {
	a := newAPI(t)
	workspace := a.s.Directory.DefaultWorkspace()
	created := a.ok("POST", "/v2/policies/rate-limits", `{"name":"n","type":"requests","unit":"rpm","value":3,"workspace_id":"`+workspace.Slug+`",
		"conditions":[{"key":"workspace_id","value":"`+workspace.Slug+`"},{"key":"model","value":["a","b"]}],"group_by":[{"key":"api_key"}]}`)
	id := created.get("id").Str
	read := a.ok("GET", "/v1/policies/rate-limits/"+strings.ToUpper(id), "")
	if read.body != created.body {
		t.Errorf("created %s\nread %s", created.body, read.body)
	}
	for path, want := range map[string]string{
		"name": "n", "type": "requests", "unit": "rpm", "value": "3", "status": "active", "workspace_id": workspace.ID, "object": "policy_rate_limits",
		"organisation_id": a.s.Directory.Organisation().ID, "created_at": iso, "last_updated_at": iso, "group_by": `[{"key":"api_key"}]`,
		"conditions": `[{"key":"workspace_id","value":"` + workspace.Slug + `"},{"key":"model","value":["a","b"]}]`,
	} {
		if got := read.get(path).String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	bare := a.ok("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpd","value":0}`)
	if bare.get("conditions").Raw != "[]" || bare.get("group_by").Raw != "[]" || bare.get("name").Type != gjson.Null {
		t.Errorf("%s", bare.body)
	}
	for query, want := range map[string]int64{
		"": 2, "unit=rpm": 1, "unit=rph": 0, "type=requests": 2, "type=tokens": 0, "status=archived": 0, "workspace_id=" + workspace.ID: 2,
		"workspace_id=" + workspace.Slug: 2, "page_size=1&current_page=7": 2,
	} {
		out := a.ok("GET", "/v1/policies/rate-limits?"+query, "")
		if out.get("total").Int() != want || out.get("object").Str != "list" {
			t.Errorf("%q: %s", query, out.body)
		}
	}
	a.ok("PUT", "/v1/policies/rate-limits/"+id, `{"value":5,"unit":"rph","conditions":[]}`)
	if out := a.ok("GET", "/v1/policies/rate-limits/"+id, ""); out.get("value").Int() != 5 || out.get("unit").Str != "rph" || out.get("conditions").Raw != "[]" || out.get("name").Str != "n" {
		t.Errorf("%s", out.body)
	}
	if out := a.ok("DELETE", "/v1/policies/rate-limits/"+id, ""); out.body != "{}" {
		t.Errorf("%s", out.body)
	}
	if out := a.do("GET", "/v1/policies/rate-limits/"+id, ""); out.status != 404 {
		t.Errorf("%d", out.status)
	}
	if out := a.ok("GET", "/v1/policies/rate-limits/"+id+"?status=archived", ""); out.get("status").Str != "archived" {
		t.Errorf("%s", out.body)
	}
	if out := a.do("PUT", "/v1/policies/rate-limits/"+id, `{"value":1}`); out.status != 404 {
		t.Errorf("an archived policy was changed: %d", out.status)
	}
}

func TestConditionsThatCouldNeverHoldAreRefused(t *testing.T) {
	a := newAPI(t)
	_, id := a.key("workspace/service", `"logs.view"`)
	virtualKey := a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk"}`).get("data.id").Str
	for value, status := range map[string]int{
		"openai": 200, "@openai": 200, "local": 200, "@local": 200, "vk": 200, "@vk": 200, "*": 200,
		"opnai": 404, "@opnai": 404, "OpenAI": 404, "@": 404, "@@openai": 404, "@*": 404, virtualKey: 404,
	} {
		out := a.do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"provider","value":["openai","`+value+`"]}]}`)
		if out.status != status || status == 404 && (!strings.Contains(out.body, "conditions[0].value") || !strings.Contains(out.body, "there is no provider")) {
			t.Errorf("provider %s: %d %s", value, out.status, out.body)
		}
	}
	organisation := a.s.Directory.Organisation().ID
	prompt := a.ok("POST", "/v1/prompts", `{"name":"p","string":"s","virtual_key":"@local","parameters":{"model":"m"}}`)
	for value, status := range map[[2]string]int{
		{"model", "gpt-4o"}: 200, {"model", "org/gpt-4o"}: 200, {"model", "@vk/gpt-4o"}: 200, {"model", "@vk/*"}: 200, {"model", "@openai/org/gpt-4o"}: 200, {"model", "*"}: 200,
		{"model", "@nonesuch/gpt-4o"}: 404, {"model", "@nonesuch/*"}: 404, {"organisation_id", organisation}: 200, {"organisation_id", "*"}: 200, {"organisation_id", "nonesuch"}: 404,
		{"endpoint_type", "chatComplete"}: 200, {"endpoint_type", "finetuneControl"}: 200, {"endpoint_type", "proxy"}: 200, {"endpoint_type", "*"}: 200, {"endpoint_type", "chatcomplete"}: 404,
		{"prompt", prompt.get("slug").Str}: 200, {"prompt", "*"}: 200, {"prompt", prompt.get("id").Str}: 404, {"prompt", "nonesuch"}: 404, {"metadata.team", "anything"}: 200,
	} {
		for field, given := range map[string]string{"value": `"value":"` + value[1] + `"`, "excludes": `"value":"*","excludes":["` + value[1] + `"]`} {
			out := a.do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"`+value[0]+`",`+given+`}]}`)
			if out.status != status || status == 404 && !strings.Contains(out.body, "conditions[0]."+field) {
				t.Errorf("%v in %s: %d %s", value, field, out.status, out.body)
			}
		}
	}
	for value, status := range map[string]int{strings.ToUpper(id): 200, "nobody": 404, "*": 200} {
		out := a.do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"api_key","value":"`+value+`"}]}`)
		if out.status != status {
			t.Errorf("%s: %d %s", value, out.status, out.body)
		}
		if out.status == 200 && value != "*" && out.get("conditions.0.value").Str != id {
			t.Errorf("kept as %s", out.get("conditions").Raw)
		}
	}
}

func TestPoliciesOfAWorkspaceAreBounded(t *testing.T) {
	a := newAPI(t)
	w := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
	err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
		for i := range policies.MaxOfWorkspace {
			p := &policies.RateLimit{Policy: policies.Policy{ID: strconv.Itoa(i), Type: policies.Requests, WorkspaceID: w}, Unit: "rpm"}
			if err := a.s.RateLimits.Put(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const path, limit = "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":3`
	out := a.do("POST", path, limit+`,"workspace_id":"`+w+`"}`)
	if out.status != 409 || !strings.Contains(out.body, "A workspace has at most 200 rate-limit policies; archive one first") {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("POST", path, limit+`}`)
	a.ok("DELETE", path+"/0", "")
	a.ok("POST", path, limit+`,"workspace_id":"`+w+`"}`)
}
