package admin_test

import (
	"net/http"
	"strings"
	"testing"
)

// Errors of guardrails, labels and collections have an envelope of their own, whatever is wrong; those of all other
// resources have the same one.
func TestEachPathHasItsEnvelopeOfErrors(t *testing.T) {
	a := newAPI(t)
	none, _ := a.key("organisation/service", `"logs.view"`)
	a.ok("POST", "/v1/labels", `{"name":"taken"}`)
	for _, path := range []string{"/v1/guardrails", "/v2/guardrails", "/v1/labels", "/v1/collections", "/v1/virtual-keys", "/v1/configs", "/v2/prompts"} {
		fault := !strings.HasSuffix(path, "keys") && !strings.HasSuffix(path, "configs") && !strings.HasSuffix(path, "prompts")
		for _, c := range []struct {
			key, method, path, body string
			status                  int
			code, param, kind       string
		}{
			{ownerKey, "POST", path, `{"name":7}`, 400, "AB01", "name", "invalid_request_error"},
			{ownerKey, "POST", path, `{`, 400, "AB01", "body", "invalid_request_error"},
			{ownerKey, "GET", path + "?nope=1", ``, 400, "AB01", "nope", "invalid_request_error"},
			{ownerKey, "GET", path + "?workspace_id=nope", ``, 404, "AB02", "workspace_id", "not_found_error"},
			{"gw-unknown", "GET", path, ``, 401, "AB05", "", "authentication_error"},
			{none, "GET", path, ``, 403, "AB03", "", "permission_error"},
			{ownerKey, "GET", path + "/0191e7a3-0000-7000-8000-000000000000", ``, 404, "AB08", "", "not_found_error"},
			{ownerKey, "PATCH", path, ``, 405, "AB01", "", "invalid_request_error"},
			{ownerKey, "GET", path + "/a/b/c/d", ``, 404, "AB08", "", "not_found_error"},
		} {
			out := a.as(c.key, c.method, c.path, c.body)
			if out.status != c.status || out.code() != c.code || out.message() == "" {
				t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, out.status, out.body, c.status, c.code)
			}
			if !fault {
				if out.get("success").Raw != "false" || out.get("error").Exists() {
					t.Errorf("%s %s: %s", c.method, c.path, out.body)
				}
				continue
			}
			if out.get("data").Exists() || out.get("error.type").Str != c.kind || out.get("error.param").Str != c.param || !out.get("error.param").Exists() {
				t.Errorf("%s %s: %s, want %s of %q", c.method, c.path, out.body, c.kind, c.param)
			}
		}
	}
	if out := a.do("POST", "/v1/labels", `{"name":"taken"}`); out.status != http.StatusConflict || out.get("error.type").Str != "conflict_error" {
		t.Errorf("%d %s", out.status, out.body)
	}

	for _, c := range [][3]string{
		{"/v1/guardrails", `{"name":"a","checks":[]}`, "checks"},
		{"/v1/guardrails", `{"name":"a","checks":[{"id":"default.regexMatch","parameters":{"rule":"("}}],"actions":{}}`, "checks[0].parameters.rule"},
		{"/v1/labels", `{"name":"production"}`, "name"},
	} {
		if out := a.as(ownerKey, "POST", c[0], c[1]); out.status < 400 || out.get("error.param").Str != c[2] {
			t.Errorf("%s %s: %s, want %s", c[0], c[1], out.body, c[2])
		}
	}
}
