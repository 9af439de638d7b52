package admin_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
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
	a.ok("PUT", path, `{"reset_usage":true}`)
	if at := a.ok("GET", path, "").get("last_reset_at"); at.Type != gjson.String {
		t.Errorf("reset at %s", at.Raw)
	}
	a.ok("PUT", path, `{"usage_limits":{"type":"tokens","credit_limit":1000}}`)
	shows(map[string]string{"usage_limits.type": `"tokens"`, "usage_limits.alert_threshold": "null", "usage_limits.periodic_reset_days": "null"})
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
