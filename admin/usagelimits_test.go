package admin_test

import (
	"strings"
	"testing"
)

func TestUsageLimits(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", "/v1/policies/usage-limits", `{"name":"b","type":"cost","credit_limit":12.5,"alert_threshold":10,"periodic_reset":"monthly","conditions":[{"key":"provider","value":"*","excludes":["openai"]}],"group_by":[{"key":"api_key"}]}`)
	id := created.get("id").Str
	got := a.ok("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", "")
	for path, want := range map[string]string{
		"credit_limit": "12.5", "alert_threshold": "10", "periodic_reset": `"monthly"`, "periodic_reset_days": "null", "status": `"active"`,
		"on_unknown_price": `"refuse"`, "object": `"policy_usage_limits"`, "last_reset_at": "null", "value_key_usage_map": "{}", "conditions.0.excludes.0": `"openai"`, "group_by.0.key": `"api_key"`,
	} {
		if raw := got.get(path).Raw; raw != want {
			t.Errorf("%s is %s, want %s", path, raw, want)
		}
	}
	if got.get("next_usage_reset_at").Str == "" {
		t.Errorf("%s", got.body)
	}
	for body, fault := range map[string]string{
		`{"type":"cost","credit_limit":1,"periodic_reset":"weekly","periodic_reset_days":3}`: "periodic_reset_days",
		`{"type":"cost","credit_limit":1,"periodic_reset":"daily"}`:                          "periodic_reset",
		`{"type":"cost","credit_limit":1,"periodic_reset_days":366}`:                         "periodic_reset_days",
		`{"type":"cost","credit_limit":1,"periodic_reset_days":0}`:                           "periodic_reset_days",
		`{"type":"tokens","credit_limit":1.5}`:                                               "credit_limit",
		`{"type":"tokens","credit_limit":100,"alert_threshold":100}`:                         "alert_threshold",
		`{"type":"tokens","credit_limit":100,"on_unknown_price":"allow"}`:                    "on_unknown_price",
		`{"type":"tokens","credit_limit":100,"next_usage_reset_at":"2030-01-01T00:00:00Z"}`:  "next_usage_reset_at",
	} {
		if out := a.do("POST", "/v1/policies/usage-limits", body); out.status != 400 || !strings.Contains(out.body, fault) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	for _, condition := range []string{`{"key":"api_key","value":"nobody"}`, `{"key":"config","value":"pc-nobody"}`} {
		out := a.do("POST", "/v1/policies/usage-limits", `{"type":"tokens","credit_limit":1,"conditions":[`+condition+`]}`)
		if out.status != 404 || !strings.Contains(out.body, "conditions[0].value") {
			t.Errorf("%s: %d %s", condition, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/policies/usage-limits/"+id, `{"periodic_reset_days":7,"credit_limit":20,"alert_threshold":null,"next_usage_reset_at":"2099-03-04T15:16:17Z"}`)
	got = a.ok("GET", "/v1/policies/usage-limits/"+id, "")
	if got.get("periodic_reset").Raw != "null" || got.get("periodic_reset_days").Int() != 7 || got.get("credit_limit").Int() != 20 ||
		got.get("alert_threshold").Raw != "null" || got.get("next_usage_reset_at").Str != "2099-03-04T00:00:00.000Z" {
		t.Errorf("%s", got.body)
	}
	if list := a.ok("GET", "/v1/policies/usage-limits?type=cost", ""); list.get("total").Int() != 1 {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/policies/usage-limits/"+id+"/entities", ""); list.get("total").Int() != 0 {
		t.Errorf("%s", list.body)
	}
	a.ok("PUT", "/v1/policies/usage-limits/"+id+"/entities/reset", `{}`)
	if out := a.do("PUT", "/v1/policies/usage-limits/"+id+"/entities/nobody/reset", `{}`); out.status != 404 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.do("PUT", "/v1/policies/usage-limits/"+id, `{"reset_usage_for_value":"nobody"}`); out.status != 400 {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/policies/usage-limits/"+id, "")
	if out := a.do("GET", "/v1/policies/usage-limits/"+id, ""); out.status != 404 {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("GET", "/v1/policies/usage-limits/"+id+"?status=archived", "")
}
