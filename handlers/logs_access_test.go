package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestWhoMayReadRecords(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	newKey := func(scopes ...string) string {
		return g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "k", "scopes": scopes}).Get("key").Str
	}
	caller, reader, lister := newKey("completions.write"), newKey("logs.view", "logs.list"), newKey("logs.list")
	organisation := g.Admin("POST", "/v1/api-keys/organisation/service", map[string]any{"name": "o", "scopes": []string{"logs.view", "logs.list"}}).Get("key").Str
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+caller, "x-gw-provider: file")
	id := logOf(g, a).Get("_id").Str

	set := func(security string) {
		t.Helper()
		g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"security_settings": json.RawMessage(security)})
	}
	const on, off, unset = "true", "false", "null"
	// A switch that would change nothing is refused.
	if a := g.Do("PUT", "/v1/admin/workspaces/"+workspace, `{"security_settings":{"organisationAdminsViewLogMetadata":false}}`, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 400 || !strings.Contains(a.Body, "organisationAdminsViewLogs") {
		t.Errorf("metadata alone: %d %s", a.Status, a.Body)
	}
	for _, c := range []struct {
		name                  string
		key                   string
		logs, metadata        string
		view, list            int
		sees, seesBodies, all bool
	}{
		{name: "no key", key: "nope", logs: unset, metadata: unset, view: 401, list: 401},
		{name: "a caller", key: caller, logs: unset, metadata: unset, view: 403, list: 403},
		{name: "may list only", key: lister, logs: unset, metadata: unset, view: 403, list: 200, sees: true},
		{name: "the workspace's", key: reader, logs: unset, metadata: unset, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the workspace's own are its own", key: reader, logs: off, metadata: off, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the organisation's", key: organisation, logs: unset, metadata: unset, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the owner's", key: gatewaytest.OwnerKey, logs: unset, metadata: unset, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the organisation's, explicitly", key: organisation, logs: on, metadata: on, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the organisation's, metadata", key: organisation, logs: off, metadata: on, view: 200, list: 200, sees: true},
		{name: "the organisation's, metadata by default", key: organisation, logs: off, metadata: unset, view: 200, list: 200, sees: true},
		{name: "the organisation's, nothing", key: organisation, logs: off, metadata: off, view: 404, list: 200},
		{name: "the owner's, nothing", key: gatewaytest.OwnerKey, logs: off, metadata: off, view: 404, list: 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.T = t
			set(`{"organisationAdminsViewLogs":` + c.logs + `,"organisationAdminsViewLogMetadata":` + c.metadata + `}`)
			for _, path := range []string{"/v1/logs/" + id, "/v2/logs/" + a.Header.Get("x-gw-trace-id")} {
				view := g.Do("GET", path, "", "x-gw-api-key: "+c.key)
				if view.Status != c.view || view.Get("request.body").Exists() != c.seesBodies || view.Get("response.body").Exists() != c.seesBodies {
					t.Errorf("%d %s", view.Status, view.Body)
				}
			}
			list := g.Do("GET", "/v1/logs", "", "x-gw-api-key: "+c.key)
			if list.Status != c.list || c.list == 200 && (list.Get("total").Int() == 1) != c.sees || (list.Get("data.0.id").Str == id) != c.sees {
				t.Errorf("%d %s", list.Status, list.Body)
			}
			if named := g.Do("GET", "/v1/logs?workspace_id="+workspace, "", "x-gw-api-key: "+c.key); c.list == 200 && !c.sees && named.Status != 403 {
				t.Errorf("%d %s", named.Status, named.Body)
			}
		})
	}
	g.T = t
	set(`{"organisationAdminsViewLogs":false}`)
	if got := g.Admin("GET", "/v1/admin/workspaces/"+workspace, nil).Get("security_settings"); got.Get("organisationAdminsViewLogs").Raw != "false" || got.Get("organisationAdminsViewLogMetadata").Raw != "false" {
		t.Errorf("the settings are %s", got)
	}
}

// What the organisation says of its keys holds where a workspace says nothing of its own.
func TestOrganisationsSayWhatTheirKeysSee(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	key, _ := g.Key("k")
	organisation := g.Admin("POST", "/v1/api-keys/organisation/service", map[string]any{"name": "o", "scopes": []string{"logs.view", "logs.list", "organisation_settings.read"}}).Get("key").Str
	workspace := "/v1/admin/workspaces/" + g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	id := logOf(g, call(g, key)).Get("_id").Str
	set := func(path, logs, metadata string) {
		t.Helper()
		g.Admin("PUT", path, map[string]any{"security_settings": json.RawMessage(`{"organisationAdminsViewLogs":` + logs + `,"organisationAdminsViewLogMetadata":` + metadata + `}`)})
	}
	const on, off, unset = "true", "false", "null"
	for _, c := range []struct {
		organisation, workspace [2]string // logs, metadata
		bodies, sees            bool
	}{
		{[2]string{unset, unset}, [2]string{unset, unset}, true, true},
		{[2]string{off, unset}, [2]string{unset, unset}, false, true},
		{[2]string{off, off}, [2]string{unset, unset}, false, false},
		{[2]string{off, off}, [2]string{off, on}, false, true},
		{[2]string{off, off}, [2]string{on, unset}, true, true},
		{[2]string{on, on}, [2]string{off, unset}, false, true},
		{[2]string{on, on}, [2]string{off, off}, false, false},
		{[2]string{off, on}, [2]string{unset, off}, false, false},
	} {
		set("/v1/admin/organisation", c.organisation[0], c.organisation[1])
		set(workspace, c.workspace[0], c.workspace[1])
		view := g.Do("GET", "/v1/logs/"+id, "", "x-gw-api-key: "+organisation)
		if (view.Status == 200) != c.sees || view.Get("request.body").Exists() != c.bodies {
			t.Errorf("%+v: %d %s", c, view.Status, view.Body)
		}
		if shown := g.Admin("GET", workspace, nil).Get("security_settings"); shown.Get("organisationAdminsViewLogs").Bool() != c.bodies || shown.Get("organisationAdminsViewLogMetadata").Bool() != c.sees {
			t.Errorf("%+v: shown as %s", c, shown)
		}
		g.Load() // it is stored
	}
	for _, c := range []struct{ key, method, body, message string }{
		{gatewaytest.OwnerKey, "PUT", `{"security_settings":{"organisationAdminsViewLogs":true,"organisationAdminsViewLogMetadata":false}}`, "organisationAdminsViewLogMetadata"},
		{gatewaytest.OwnerKey, "PUT", `{"security_settings":{"organisationAdminsViewLogs":"no"}}`, "organisationAdminsViewLogs"},
		{gatewaytest.OwnerKey, "PUT", `{"name":""}`, "name"},
		{organisation, "PUT", `{"name":"mine"}`, "organisation_settings.update"},
		{key, "GET", ``, "organisation_settings.read"},
	} {
		if a := g.Do(c.method, "/v1/admin/organisation", c.body, "x-gw-api-key: "+c.key); a.Status != 400 && a.Status != 403 || !strings.Contains(a.Body, c.message) {
			t.Errorf("%s %s: %d %s", c.method, c.body, a.Status, a.Body)
		}
	}
	g.Admin("PUT", "/v1/admin/organisation", map[string]any{"name": "Acme"})
	if a := g.Do("GET", "/v1/admin/organisation", "", "x-gw-api-key: "+organisation); a.Get("name").Str != "Acme" || a.Get("object").Str != "organisation" || a.Get("security_settings.organisationAdminsViewLogs").Raw != "false" || a.Get("security_settings.organisationAdminsViewLogMetadata").Raw != "true" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestListsOfRecordsFilterAndPage(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file")+up.Provider("other"))
	key, id := g.Key("k")
	var last *gatewaytest.Answer
	begun := time.Now()
	for i := range 12 {
		provider, body := "file", strings.Replace(gatewaytest.Chat, `"m"`, fmt.Sprintf(`"m%d"`, i%3), 1)
		if i%4 == 0 {
			provider = "other"
		}
		last = g.Do("POST", "/v1/chat/completions", body, "x-gw-api-key: "+key, "x-gw-provider: "+provider, fmt.Sprintf(`x-gw-metadata: {"n":"%d"}`, i%2))
	}
	logOf(g, last)
	day := begun.Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for query, want := range map[string]int64{
		"": 12, "ai_org=other": 3, "ai_org=other,file": 12, "ai_org=nobody": 0, "ai_model=m1": 4, "ai_model=m1&ai_org=other": 1, "status_code=200": 12, "status_code=2xx": 12,
		"status_code=500,4xx": 0, "api_key_id=" + id: 12, "api_key_id=x": 0, "endpoint=chatComplete": 12, "cache_status=DISABLED": 12, "cache_status=HIT": 0,
		"time_of_generation_min=" + day: 0, "time_of_generation_max=" + day: 12, "metadata=" + `%7B%22n%22:%221%22%7D`: 6, "trace_id=" + last.Header.Get("x-gw-trace-id"): 1,
	} {
		a := g.Admin("GET", "/v1/logs?"+query, nil)
		if a.Get("total").Int() != want || int64(len(a.Get("data").Array())) != want || a.Get("has_more").Bool() || a.Get("next_cursor").Raw != "null" || a.Get("object").Str != "list" {
			t.Errorf("%s: want %d, got %.300s", query, want, a.Body)
		}
	}
	var byCursor, byPage []string
	cursor := ""
	for range 4 {
		a := g.Admin("GET", "/v1/logs?page_size=5"+cursor, nil)
		for _, r := range a.Get("data.#.id").Array() {
			byCursor = append(byCursor, r.Str)
		}
		if cursor = "&cursor=" + a.Get("next_cursor").Str; !a.Get("has_more").Bool() {
			break
		}
	}
	for page := range 4 {
		a := g.Admin("GET", fmt.Sprintf("/v1/logs?page_size=5&current_page=%d", page), nil)
		for _, r := range a.Get("data.#.id").Array() {
			byPage = append(byPage, r.Str)
		}
		if a.Get("total").Int() != 12 {
			t.Errorf("page %d: %s", page, a.Body)
		}
	}
	if strings.Join(byCursor, " ") != strings.Join(byPage, " ") || len(byPage) != 12 {
		t.Errorf("%v %v", byCursor, byPage)
	}
	for query, names := range map[string]string{
		"model=m1": "model: there is no such filter", "ai_model=100%": "query: expected name=value", "ai_model=m1;x": "query", "metadata=%7B%22a%22:%221%22,%22a%22:%222%22%7D": "metadata", "status_code=429&status_code=500": "status_code: it is given twice", "cost_min=NaN": "cost_min: expected cents", "status_code=6xx": "status_code", "status_code=20": "status_code", "metadata=1": "metadata", "metadata=%7B%22a%22:1%7D": "metadata", "cursor=x": "cursor",
		"cursor=0198d4f0-1234-7abc-8def-0123456789ab&current_page=1": "cursor", "time_of_generation_min=yesterday": "time_of_generation_min", "page_size=-1": "page_size", "workspace_id=nope": "workspace_id",
	} {
		a := g.Do("GET", "/v1/logs?"+query, "", "x-gw-api-key: "+gatewaytest.OwnerKey)
		if a.Status != 400 && a.Status != 404 || !strings.HasPrefix(a.Get("data.message").Str, names) {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	if a := g.Do("GET", "/v1/logs/nope", "", "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 404 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
