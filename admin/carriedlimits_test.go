package admin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/audit"
)

func TestAPIKeysHaveLimitsOfTheirOwn(t *testing.T) {
	a := newAPI(t)
	out := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"rpm","value":5}],
		"usage_limits":{"credit_limit":2.5,"alert_threshold":1,"periodic_reset":"weekly"}}`)
	id := out.get("id").Str
	path := "/v1/api-keys/" + id
	shows := func(want map[string]string) {
		t.Helper()
		read := a.ok("GET", path, "")
		for field, v := range want {
			if got := read.get(field).Raw; got != v {
				t.Errorf("%s: %s, want %s", field, got, v)
			}
		}
	}
	shows(map[string]string{
		"rate_limits": `[{"type":"requests","unit":"rpm","value":5}]`, "usage_limits.type": `"cost"`, "usage_limits.credit_limit": "2.5", "usage_limits.alert_threshold": "1",
		"usage_limits.periodic_reset": `"weekly"`, "usage_limits.current_usage": "0", "usage_limits.periodic_reset_days": "null", "status": `"active"`, "last_reset_at": "null",
	})
	if next := a.ok("GET", path, "").get("usage_limits.next_usage_reset_at").Str; !strings.HasSuffix(next, "T00:00:00.000Z") {
		t.Errorf("the next reset is at %q", next)
	}

	// Fields that are left out keep their value, null removes.
	a.ok("PUT", path, `{"name":"renamed"}`)
	a.ok("PUT", path, `{"usage_limits":{"credit_limit":5,"periodic_reset":null,"periodic_reset_days":10}}`)
	shows(map[string]string{
		"rate_limits.#": "1", "usage_limits.credit_limit": "5", "usage_limits.alert_threshold": "1", "usage_limits.periodic_reset": "null", "usage_limits.periodic_reset_days": "10",
	})
	a.ok("PUT", path, `{"usage_limits":{"on_unknown_price":"allow"}}`)
	shows(map[string]string{"usage_limits.credit_limit": "5", "usage_limits.on_unknown_price": `"allow"`})
	a.ok("PUT", path, `{"reset_usage":true}`)
	if at := a.ok("GET", path, "").get("last_reset_at"); at.Type != gjson.String {
		t.Errorf("reset at %s", at.Raw)
	}
	a.ok("PUT", path, `{"usage_limits":{"type":"tokens","credit_limit":1000}}`)
	shows(map[string]string{"usage_limits.type": `"tokens"`, "usage_limits.on_unknown_price": "", "usage_limits.alert_threshold": "null", "usage_limits.periodic_reset_days": "null"})
	a.ok("PUT", path, `{"usage_limits":null,"rate_limits":null}`)
	shows(map[string]string{"usage_limits": "null", "rate_limits": "[]"})

	for body, field := range map[string]string{
		`{"rate_limits":[{"type":"cost","unit":"rpm","value":5}]}`:                                                   "rate_limits[0].type",
		`{"rate_limits":[{"type":"requests","unit":"rpy","value":5}]}`:                                               "rate_limits[0].unit",
		`{"rate_limits":[{"type":"requests","unit":"rpm","value":-1}]}`:                                              "rate_limits[0].value",
		`{"rate_limits":[{"type":"requests","unit":"rpm"}]}`:                                                         "value",
		`{"rate_limits":[{"type":"requests","unit":"rpm","value":1},{"type":"requests","unit":"rph","value":1}]}`:    "rate_limits[1].type",
		`{"usage_limits":{"credit_limit":0.5}}`:                                                                      "usage_limits.credit_limit",
		`{"usage_limits":{"credit_limit":99,"type":"tokens"}}`:                                                       "usage_limits.credit_limit",
		`{"usage_limits":{"credit_limit":100.5,"type":"tokens"}}`:                                                    "usage_limits.credit_limit",
		`{"usage_limits":{"credit_limit":100,"type":"tokens","on_unknown_price":"allow"}}`:                           "usage_limits.on_unknown_price",
		`{"usage_limits":{"credit_limit":5,"on_unknown_price":"guess"}}`:                                             "usage_limits.on_unknown_price",
		`{"usage_limits":{"type":"requests"}}`:                                                                       "usage_limits.credit_limit",
		`{"usage_limits":{"credit_limit":5,"alert_threshold":5}}`:                                                    "usage_limits.alert_threshold",
		`{"usage_limits":{"credit_limit":5,"periodic_reset":"daily"}}`:                                               "usage_limits.periodic_reset",
		`{"usage_limits":{"credit_limit":5,"periodic_reset":"weekly","periodic_reset_days":3}}`:                      "usage_limits.periodic_reset_days",
		`{"usage_limits":{"credit_limit":5,"periodic_reset_days":366}}`:                                              "usage_limits.periodic_reset_days",
		`{"usage_limits":{"credit_limit":5,"periodic_reset":"weekly","next_usage_reset_at":"2020-01-01T00:00:00Z"}}`: "usage_limits.next_usage_reset_at",
		`{"usage_limits":{"credit_limit":5,"anything":1}}`:                                                           "anything",
	} {
		if out := a.do("PUT", path, body); out.status != 400 || !strings.Contains(out.body, field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	shows(map[string]string{"usage_limits": "null", "rate_limits": "[]"})
	if _, has := a.s.Limits.Carried.Get(id); has {
		t.Error("a key without limits has a row of them")
	}
	a.ok("PUT", path, `{"rate_limits":[{"type":"tokens","unit":"rpd","value":0}]}`)
	a.ok("DELETE", path, "")
	if _, has := a.s.Limits.Carried.Get(id); has {
		t.Error("the limits of a key survive it")
	}
}

// A key escapes its own limits by no other key that it makes or changes, nor by raising them.
func TestNoKeyEscapesItsOwnLimits(t *testing.T) {
	a := newAPI(t)
	const scopes = `"completions.write","workspace_service_api_keys.create","workspace_service_api_keys.update","workspace_service_api_keys.read"`
	key, id := a.key("workspace/service", scopes)
	_, other := a.key("workspace/service", `"completions.write"`)
	made := a.as(key, "POST", "/v1/api-keys/workspace/service", `{"name":"made","scopes":[`+scopes+`]}`)
	if made.status != 200 {
		t.Fatal(made.body)
	}
	a.ok("PUT", "/v1/api-keys/"+id, `{"rate_limits":[{"type":"requests","unit":"rpm","value":5}]}`)
	refused := func(as, method, path, body string) {
		t.Helper()
		if out := a.as(as, method, path, body); out.status != 403 {
			t.Errorf("%s %s %s: %d %s", method, path, body, out.status, out.body)
		}
	}
	refused(key, "PUT", "/v1/api-keys/"+id, `{"rate_limits":null}`)
	refused(key, "PUT", "/v1/api-keys/"+id, `{"reset_usage":true}`)
	refused(made.get("key").Str, "PUT", "/v1/api-keys/"+id, `{"rate_limits":null}`)
	refused(made.get("key").Str, "PUT", "/v1/api-keys/"+id, `{"reset_usage":true}`)
	refused(key, "PUT", "/v1/api-keys/"+other, `{"scopes":["completions.write"]}`)
	if again := a.as(key, "POST", "/v1/api-keys/workspace/service", `{"name":"again","scopes":["completions.write"]}`); again.status != 200 {
		t.Errorf("a key that is counted with its maker: %d %s", again.status, again.body)
	}
	a.ok("PUT", "/v1/api-keys/"+made.get("id").Str, `{"rate_limits":[{"type":"requests","unit":"rpm","value":2}]}`)
	refused(made.get("key").Str, "POST", "/v1/api-keys/workspace/service", `{"name":"x","scopes":["completions.write"]}`)
}

// Workspaces, virtual keys, providers and integrations in a workspace have limits of their own, which
// go with them.
func TestObjectsHaveLimitsOfTheirOwn(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	a.ok("POST", "/v1/integrations", `{"name":"main","slug":"main","ai_provider_id":"openai","key":"sk"}`)
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"red","enabled":true}]}`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk","workspace_id":"red"}`)
	const budget = `{"credit_limit":2.5,"alert_threshold":1,"periodic_reset":"weekly"}`
	const oneRate, twoRates = `[{"type":"requests","unit":"rpm","value":5}]`, `[{"type":"requests","unit":"rpm","value":5},{"type":"tokens","unit":"rpd","value":9}]`
	for name, c := range map[string]struct {
		path, in, out string // in: what stands around the limits
		lists         bool
		status        bool
	}{
		"workspace":   {"/v1/admin/workspaces/red", `%`, "", true, false},
		"virtual key": {"/v1/virtual-keys/vk", `%`, "", false, true},
		"provider":    {"/v1/providers/main", `%`, "", false, true},
		"integration": {"/v1/integrations/main/workspaces", `{"workspaces":[{"id":"red","enabled":true,%}]}`, `workspaces.#(slug=="red").`, true, false},
		"all of an integration": {
			"/v1/integrations/main/workspaces", `{"global_workspace_access":{"enabled":true,%}}`, "global_workspace_access.", true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, first, rates := budget, "", twoRates
			if strings.Contains(c.path, "integrations") { // whose workspaces have one
				rates = oneRate
				out := a.do("PUT", c.path, strings.Replace(c.in, "%", `"rate_limits":`+twoRates, 1))
				if out.status != 400 || !strings.Contains(out.message(), "rate_limits: expected one limit at most") {
					t.Errorf("%d %s", out.status, out.body)
				}
			}
			if c.lists {
				b, first = "["+budget+"]", "0."
			}
			put := func(limits string) {
				t.Helper()
				if c.in == "%" {
					limits = "{" + limits + "}"
				}
				a.ok("PUT", c.path, strings.Replace(c.in, "%", limits, 1))
			}
			shows := func(want map[string]string) {
				t.Helper()
				read := a.ok("GET", c.path, "")
				for field, v := range want {
					if got := read.get(c.out + field).Raw; got != v {
						t.Errorf("%s: %s, want %s in %s", field, got, v, read.body)
					}
				}
			}
			put(`"rate_limits":` + rates + `,"usage_limits":` + b)
			shows(map[string]string{
				"rate_limits": rates, "usage_limits." + first + "credit_limit": "2.5", "usage_limits." + first + "alert_threshold": "1",
				"usage_limits." + first + "periodic_reset": `"weekly"`, "usage_limits." + first + "current_usage": "0",
			})
			if c.status {
				shows(map[string]string{"status": `"active"`})
			}
			if !strings.HasPrefix(c.out, "global") {
				put(`"reset_usage":true`)
				if at := a.ok("GET", c.path, "").get(c.out + "last_reset_at"); at.Type != gjson.String {
					t.Errorf("reset at %s", at.Raw)
				}
			}
			put(`"rate_limits":null`)
			shows(map[string]string{"rate_limits": "[]", "usage_limits." + first + "credit_limit": "2.5"})
			none := map[bool]string{true: "[]", false: "null"}[c.lists]
			put(`"usage_limits":null`)
			shows(map[string]string{"rate_limits": "[]", "usage_limits": none})
			put(`"rate_limits":` + rates)
		})
	}

	// A provider takes one rate limit that is in no list.
	a.ok("PUT", "/v1/providers/main", `{"rate_limits":{"type":"requests","unit":"rph","value":7}}`)
	if got := a.ok("GET", "/v1/providers/main", "").get("rate_limits").Raw; got != `[{"type":"requests","unit":"rph","value":7}]` {
		t.Errorf("%s", got)
	}
	for body, field := range map[string]string{
		`{"rate_limits":[{"type":"cost","unit":"rpm","value":5}]}`:      "rate_limits[0].type",
		`{"rate_limits":{"type":"requests","unit":"rpy","value":5}}`:    "rate_limits.unit",
		`{"rate_limits":{"type":"requests","unit":"rpm"}}`:              "rate_limits.value: required",
		`{"rate_limits":{"type":"requests","unit":"rpm","value":1.5}}`:  "rate_limits.value: expected a whole number",
		`{"rate_limits":[{"kind":"requests","unit":"rpm","value":1}]}`:  "rate_limits[0].kind: unknown member",
		`{"rate_limits":[{"type":"requests","unit":"rpm"}]}`:            "rate_limits[0].value: required",
		`{"usage_limits":{"credit_limit":5,"alert_threshold":0}}`:       "usage_limits.alert_threshold",
		`{"rate_limits":"many"}`:                                        "rate_limits",
		`{"usage_limits":{"credit_limit":0.5}}`:                         "usage_limits.credit_limit",
		`{"usage_limits":[{"credit_limit":5}]}`:                         "usage_limits",
		`{"usage_limits":{"credit_limit":5,"periodic_reset":"yearly"}}`: "usage_limits.periodic_reset",
	} {
		for _, path := range []string{"/v1/providers/main", "/v1/virtual-keys/vk"} {
			if out := a.do("PUT", path, body); out.status != 400 || !strings.Contains(out.body, field) {
				t.Errorf("%s: %d %s", body, out.status, out.body)
			}
		}
	}

	// A key of the workspace raises none of the workspace's.
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["workspaces.update","workspaces.read"],"workspace_id":"red"}`).get("key").Str
	for _, body := range []string{`{"rate_limits":[]}`, `{"usage_limits":[{"credit_limit":100}]}`, `{"reset_usage":true}`} {
		if out := a.as(key, "PUT", "/v1/admin/workspaces/red", body); out.status != 403 {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	if out := a.as(key, "PUT", "/v1/admin/workspaces/red", `{"description":"its own"}`); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}

	// Limits go with what has them.
	left := func() int { return len(a.s.Limits.Carried.Of(red, 100)) }
	if n := left(); n != 4 {
		t.Errorf("%d objects of the workspace have limits, want 4", n)
	}
	a.ok("DELETE", "/v1/virtual-keys/vk", "")
	a.ok("DELETE", "/v1/providers/main", "")
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[],"override_existing_workspace_access":true}`)
	if n := left(); n != 1 {
		t.Errorf("%d objects of the workspace have limits, want its own", n)
	}
	id := a.ok("GET", "/v1/integrations/main", "").get("id").Str
	a.ok("DELETE", "/v1/integrations/main", "")
	if _, has := a.s.Limits.Carried.Get(id); has {
		t.Error("the limits of an integration survive it")
	}
}

// What a change shows of the limits of an object, in its answer and in the audit trail, is what it has
// stored.
func TestAChangeOfLimitsIsShownAndRecorded(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const limits = `"rate_limits":[{"type":"requests","unit":"rpm","value":5}]`
	recorded := func(what string) {
		t.Helper()
		if !slices.ContainsFunc(a.trail()[0].Changes, func(c audit.Change) bool { return c.Field == "rate_limits" && strings.Contains(c.To, `"value":5`) }) {
			t.Errorf("%s: recorded is %+v", what, a.trail()[0].Changes)
		}
	}
	id := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"]}`).get("id").Str
	a.ok("PUT", "/v1/api-keys/"+id, `{`+limits+`}`)
	recorded("an API key")
	if out := a.ok("POST", "/v1/admin/workspaces", `{"name":"w",`+limits+`}`); out.get("rate_limits.0.value").Int() != 5 {
		t.Errorf("a new workspace: %s", out.body)
	}
	recorded("a new workspace")
}
