package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// The document lists the actions that the list filters by.
func TestAuditedActionsAreDocumented(t *testing.T) {
	a := newAPI(t)
	doc := a.do("GET", "/v1/openapi.json", "").get(`paths./v1/audit-logs.get.parameters.#(name=="action").description`).Str
	for _, action := range audit.Actions() {
		if !strings.Contains(doc, action) {
			t.Errorf("%s is not in %q", action, doc)
		}
	}
}

func TestAuditLogsSayWhoDidWhat(t *testing.T) {
	a := newAPI(t)
	key, keyID := a.key("organisation/service", `"virtual_keys.create","virtual_keys.update","virtual_keys.delete"`)
	body := `{"name":"Mine","slug":"vk","provider":"openai","key":"sk-canary-of-the-test","workspace_id":"` + a.s.Directory.DefaultWorkspace().ID + `"}`
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/virtual-keys?x=y", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gw-Api-Key", key)
	r.Header.Set("User-Agent", "curl")
	r.Header.Set("X-Gw-Trace-Id", "trace")
	r.Header.Set("Cf-Ipcountry", "NZ")
	vars := map[string]any{caddyhttp.ClientIPVarKey: "198.51.100.7", caddyhttp.TrustedProxyVarKey: true}
	w := httptest.NewRecorder()
	a.handler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars)))
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	id := a.ok("GET", "/v1/virtual-keys/vk", "").get("id").Str
	a.now.Add(int64(time.Hour))
	a.as(key, "PUT", "/v1/virtual-keys/vk", `{"name":"Yours","key":"sk-canary-of-another"}`)
	a.as(key, "DELETE", "/v1/virtual-keys/vk", "")
	a.as(key, "GET", "/v1/virtual-keys/vk", "") // no action, but it is refused
	list := a.ok("GET", "/v1/audit-logs?user_id="+keyID, "")
	if strings.Contains(list.body, "canary") || strings.Contains(list.body, key) {
		t.Errorf("secrets in %s", list.body)
	}
	if list.get("total").Int() != 4 || len(list.get("records").Array()) != 4 {
		t.Fatalf("%s", list.body)
	}
	created := list.get("records.3")
	for field, want := range map[string]string{
		"user_id": keyID, "user_name": "k", "user_type": "api_key", "method": "POST", "uri": "/v1/virtual-keys", "query_params": "x=y", "response_status_code": "200",
		"resource_type": "virtual_keys", "action": "create", "resource_id": id, "resource_name": "Mine", "client_ip": "198.51.100.7", "country": "NZ",
		"user_agent": "curl", "request_id": "trace", "timestamp": iso, "workspace_id": a.s.Directory.DefaultWorkspace().ID, "organisation_id": a.s.Directory.Organisation().ID,
	} {
		if got := created.Get(field).String(); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	sent := gjson.Parse(created.Get("request_body").Str)
	if sent.Get("name").Str != "Mine" || sent.Get("slug").Str != "vk" || sent.Get("key").Str != "*****" {
		t.Errorf("body %s", sent.Raw)
	}
	if name := list.get(`records.2.changes.#(field=="name")`); name.Get("from").Str != `"Mine"` || name.Get("to").Str != `"Yours"` {
		t.Errorf("changes %s", list.get("records.2.changes").Raw)
	}
	if gone := list.get("records.1"); gone.Get("action").Str != "delete" || gone.Get("resource_name").Str != "Yours" || gone.Get(`changes.#(field=="slug").from`).Str != `"vk"` || gone.Get(`changes.#(field=="slug").to`).Exists() {
		t.Errorf("%s", gone.Raw)
	}
	if refused := list.get("records.0"); refused.Get("response_status_code").Int() != 403 || refused.Get("action").Str != "read" {
		t.Errorf("%s", refused.Raw)
	}
	for filter, want := range map[string]int64{
		"user_id=" + keyID + "&method=POST": 1, "uri=/v1/virtual-keys/vk": 3, "request_id=trace": 1, "user_type=user": 0, "response_status_code=403": 1, "resource_type=virtual_keys": 4,
		"resource_id=" + id: 3, "action=delete": 1, "client_ip=198.51.100.7": 1, "country=NZ": 1, "country=AU": 0, "start_time=2026-11-27T12:30:00Z": 3, "end_time=2026-11-27T12:30:00Z": 2,
		"workspace_id=" + a.s.Directory.DefaultWorkspace().Slug: 3, "organisation_id=" + a.s.Directory.Organisation().ID: 5, "page_size=1": 5, "page_size=2&current_page=7": 5,
	} {
		out := a.ok("GET", "/v1/audit-logs?"+filter, "")
		if out.get("total").Int() != want {
			t.Errorf("%s: %s", filter, out.body)
		}
	}
	if first, second := a.ok("GET", "/v1/audit-logs?page_size=2", ""), a.ok("GET", "/v2/audit-logs?page_size=2&current_page=1", ""); first.get("records.1.number").Int() != 4 || second.get("records.0.number").Int() != 3 {
		t.Errorf("%s\n%s", first.body, second.body)
	}
	for filter, message := range map[string]string{
		"method=PATCH": "method", "page_size=101": "page_size", "start_time=soon": "start_time: expected a time", "response_status_code=7": "response_status_code",
		"start_time=2026-11-27T12:00:00Z&end_time=2026-11-27T11:00:00Z": "end_time", "user_type=person": "user_type",
		"resource_type=labelz": "resource_type: expected one of api_keys, ", "action=destroy": "action: expected one of create, delete, ",
	} {
		if out := a.do("GET", "/v1/audit-logs?"+filter, ""); out.status != 400 || !strings.Contains(out.message(), message) {
			t.Errorf("%s: %d %s", filter, out.status, out.body)
		}
	}
	if out := a.as(key, "GET", "/v1/audit-logs", ""); out.status != 403 {
		t.Errorf("without the scope: %d", out.status)
	}
	a.ok("PUT", "/v1/admin/organisation", `{"workspace_overrides":{"role_permissions":false}}`)
	if sent := gjson.Parse(a.ok("GET", "/v1/audit-logs?uri=/v1/admin/organisation&method=PUT", "").get("records.0.request_body").Str); sent.Get("workspace_overrides").Raw != `{"role_permissions":false}` {
		t.Errorf("body %s", sent.Raw)
	}
}

// Without a trusted proxy, the country would be what the client says.
func TestTheCountryIsThatOfATrustedProxy(t *testing.T) {
	a := newAPI(t)
	r := httptest.NewRequestWithContext(t.Context(), "DELETE", "/v1/virtual-keys/nope", nil)
	r.Header.Set("X-Gw-Api-Key", ownerKey)
	r.Header.Set("Cf-Ipcountry", "NZ")
	a.handler().ServeHTTP(httptest.NewRecorder(), r)
	if got := a.trail()[0].Country; got != "" {
		t.Errorf("%q", got)
	}
}

// An admin in a workspace sees what happened to the workspace, and what its keys tried; its keys see no rows.
func TestAWorkspaceSeesOnlyItsOwnAuditLogs(t *testing.T) {
	a := newAPI(t)
	red, blue := a.workspace("red"), a.workspace("blue")
	keyOf := func(workspace string) string {
		return a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"key of `+workspace+`","workspace_id":"`+workspace+`","scopes":["virtual_keys.create","virtual_keys.delete"]}`).get("key").Str
	}
	redKey, blueKey := keyOf("red"), keyOf("blue")
	a.as(redKey, "POST", "/v1/virtual-keys", `{"name":"red","slug":"red-vk","provider":"openai","key":"sk-1"}`)
	a.as(blueKey, "POST", "/v1/virtual-keys", `{"name":"blue","slug":"blue-vk","provider":"openai","key":"sk-1"}`)
	a.as(redKey, "DELETE", "/v1/virtual-keys/blue-vk", "")
	a.ok("DELETE", "/v1/virtual-keys/blue-vk?workspace_id=blue", "")
	reds, blues := "user:"+a.user("r@example.com", roles.Admin)+"@red", "user:"+a.user("b@example.com", roles.Admin)+"@blue"
	for key, want := range map[string]struct{ own, other string }{reds: {red, blue}, blues: {blue, red}} {
		for _, filter := range []string{"", "?workspace_id=" + want.own} {
			list := a.as(key, "GET", "/v1/audit-logs"+filter, "")
			if list.status != 200 || list.get("total").Int() < 3 {
				t.Fatalf("%d %s", list.status, list.body)
			}
			for _, r := range list.get("records").Array() {
				if r.Get("workspace_id").Str != want.own {
					t.Errorf("a row of %q: %s", r.Get("workspace_id").Str, r.Raw)
				}
			}
			if strings.Contains(list.body, want.other) {
				t.Errorf("%s", list.body)
			}
		}
		if out := a.as(key, "GET", "/v1/audit-logs?workspace_id="+want.other, ""); out.status != 403 || out.body != strings.ReplaceAll(a.as(key, "GET", "/v1/audit-logs?workspace_id=nope", "").body, "nope", want.other) {
			t.Errorf("%d %s", out.status, out.body)
		}
	}
	// What the organisation did to the workspace is there, what another workspace tried is not.
	rows := a.as(blues, "GET", "/v1/audit-logs?resource_type=virtual_keys", "")
	if rows.get("total").Int() != 2 || rows.get("records.0.user_name").Str != "admin_key" || rows.get("records.0.action").Str != "delete" {
		t.Errorf("%s", rows.body)
	}
	if out := a.as(redKey, "GET", "/v1/audit-logs", ""); out.status != 403 {
		t.Errorf("a workspace's key: %d %s", out.status, out.body)
	}
	if out := a.do("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["audit_logs.list"]}`); out.status != 400 || !strings.Contains(out.message(), "a key of kind workspace-service cannot hold") {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// A trail that refuses rows.
type brokenTrail struct{ *audit.Trail }

func (brokenTrail) Add(*storage.Txn, *audit.Record) error { return errors.New("no row is written") }

func TestAWriteWithoutItsAuditRowDoesNotHappen(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-1"}`)
	whole := a.handler()
	broken := a.s
	broken.Trail = brokenTrail{a.kept}
	a.served = admin.New(broken)
	for _, c := range [][3]string{
		{"POST", "/v1/virtual-keys", `{"name":"n","slug":"n","provider":"openai","key":"sk-1"}`},
		{"PUT", "/v1/virtual-keys/vk", `{"name":"n"}`},
		{"DELETE", "/v1/virtual-keys/vk", ""},
		{"POST", "/v1/admin/workspaces", `{"name":"w"}`},
		{"POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.view"]}`},
	} {
		if out := a.do(c[0], c[1], c[2]); out.status != 500 {
			t.Errorf("%v: %d %s", c, out.status, out.body)
		}
	}
	a.served = whole
	if out := a.ok("GET", "/v1/virtual-keys", ""); out.get("total").Int() != 1 || out.get("data.0.name").Str != "vk" {
		t.Errorf("%s", out.body)
	}
	if n := len(a.s.Directory.Workspaces()) + len(a.s.Keyring.APIKeys()); n != 1 {
		t.Errorf("%d workspaces and keys", n)
	}
}

// A workspace adds to the trail what its quota allows, in rows and in bytes: further changes do not happen, and further refusals are
// not recorded. Neither keeps the other from its rows, nor another workspace or the organisation from theirs.
func TestWhatAWorkspaceAddsToTheTrailIsBounded(t *testing.T) {
	const scopes = `"prompts.create","prompts.read","prompts.list","prompts.delete","workspace_service_api_keys.delete"`
	long := `{"name":"` + strings.Repeat("x", 200) + `-%d"}`
	for name, c := range map[string]struct {
		rows, bytes, want int
		body              string
		wait              time.Duration
	}{
		"rows":  {3, 1 << 20, 3, `{"name":"l-%d"}`, time.Second},
		"bytes": {100, 5 << 10, 2, long, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.ok("POST", "/v1/admin/workspaces", `{"name":"red","slug":"red"}`)
			a.ok("POST", "/v1/admin/workspaces", `{"name":"blue","slug":"blue"}`)
			key := func(workspace string) string {
				return a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":[`+scopes+`],"workspace_id":"`+workspace+`"}`).get("key").Str
			}
			red, blue := key("red"), key("blue")
			leaked := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"leaked","scopes":[`+scopes+`],"workspace_id":"red"}`).get("id").Str
			a.handler().SmallTrailQuotas(c.rows, c.bytes)
			for range 2 * c.rows {
				if out := a.as(red, "GET", "/v1/labels/nope", ""); out.status != 404 {
					t.Fatalf("%d %s", out.status, out.body)
				}
			}
			before := len(a.trail())
			made := 0
			var out answer
			for ; ; made++ {
				if out = a.as(red, "POST", "/v1/labels", fmt.Sprintf(c.body, made)); out.status != 200 {
					break
				}
			}
			if wait := out.header.Get("Retry-After"); out.status != 429 || out.code() != "AB06" || wait != fmt.Sprint(c.wait.Seconds()) || !strings.Contains(out.message(), "nothing was changed") || made != c.want {
				t.Errorf("after %d: %d %s, Retry-After %q", made, out.status, out.body, wait)
			}
			if n := int(a.as(red, "GET", "/v1/labels", "").get("total").Int()) - 3; n != made { // 3: those that each workspace has
				t.Errorf("%d labels are there, and %d were made", n, made)
			}
			if n := len(a.trail()) - before; n != made { // and none of the refusal: theirs are spent
				t.Errorf("%d rows of %d changes", n, made)
			}
			// What spends the quota is revoked all the same.
			if out := a.as(red, "DELETE", "/v1/api-keys/"+leaked, ""); out.status != 200 {
				t.Errorf("revoking a key: %d %s", out.status, out.body)
			}
			if out := a.as(blue, "POST", "/v1/labels", `{"name":"l"}`); out.status != 200 {
				t.Errorf("another workspace: %d %s", out.status, out.body)
			}
			a.ok("POST", "/v1/labels", `{"name":"l"}`)
			a.now.Add(int64(c.wait))
			if out := a.as(red, "POST", "/v1/labels", fmt.Sprintf(c.body, made)); out.status != 200 {
				t.Errorf("later: %d %s", out.status, out.body)
			}
		})
	}
}

func TestUnknownCallersAreCountedAndLeaveNoRow(t *testing.T) {
	a := newAPI(t)
	for range 3 {
		a.as("unknown", "DELETE", "/v1/virtual-keys/vk", "")
	}
	if n := a.kept.Unknowns(); n != 3 || len(a.trail()) != 0 {
		t.Errorf("%d are counted, and there are %d rows", n, len(a.trail()))
	}
}

// Each resource that has a view shows its changes, so that no resource is forgotten.
func TestEveryCreatedObjectTellsItsMembers(t *testing.T) {
	a := newAPI(t)
	for path, body := range map[string]string{
		"/v1/api-keys/workspace/service": `{"name":"the-name","scopes":["virtual_keys.list"]}`,
		"/v1/virtual-keys":               `{"name":"the-name","provider":"openai","key":"sk-1"}`,
		"/v1/configs":                    `{"name":"the-name","config":{"retry":{"attempts":1}}}`,
		"/v1/model-aliases":              `{"name":"the-name","model":"@local/m"}`,
		"/v1/secret-references":          `{"name":"the-name","manager_type":"environment","secret_path":"TEAM_KEY"}`,
		"/v1/integrations":               `{"name":"the-name","ai_provider_id":"openai","key":"sk-1"}`,
		"/v1/prompts":                    `{"name":"the-name","string":"s","virtual_key":"@local"}`,
		"/v1/prompts/partials":           `{"name":"the-name","string":"s"}`,
		"/v1/labels":                     `{"name":"the-name"}`,
		"/v1/collections":                `{"name":"the-name"}`,
		"/v1/policies/rate-limits":       `{"name":"the-name","type":"requests","unit":"rpm","value":3}`,
		"/v1/policies/usage-limits":      `{"name":"the-name","type":"requests","credit_limit":3}`,
		"/v1/admin/workspaces":           `{"name":"the-name"}`,
	} {
		a.ok("POST", path, body)
		r := a.trail()[0]
		named := false
		for _, change := range r.Changes {
			named = named || strings.HasPrefix(change.Field, "name") && change.To == `"the-name"` && change.From == ""
		}
		if !named || r.ResourceName != "the-name" || r.ResourceID == "" {
			t.Errorf("%s: %+v", path, r)
		}
	}
}
