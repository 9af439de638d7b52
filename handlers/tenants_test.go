package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Two workspaces share a gateway and a provider: the policies of one neither count nor limit
// the calls of the other, and its records are in no answer to the other's keys.
func TestTwoWorkspacesDoNotMeet(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	type tenant struct{ id, key string }
	tenants := map[string]*tenant{}
	for _, slug := range []string{"red", "blue"} {
		w := g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": slug, "slug": slug})
		k := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": slug, "workspace_id": slug, "scopes": []string{"completions.write", "logs.list", "logs.view", "policies.create"}})
		tenants[slug] = &tenant{w.Get("id").Str, k.Get("key").Str}
	}
	red, blue := tenants["red"], tenants["blue"]
	made := g.Do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":2}`, "x-gw-api-key: "+red.key)
	if made.Status != 200 {
		t.Fatal(made.Body)
	}
	var last *gatewaytest.Answer
	for i, c := range []struct {
		by     *tenant
		status int
	}{{blue, 200}, {blue, 200}, {blue, 200}, {red, 200}, {red, 200}, {red, 429}, {blue, 200}} {
		if last = call(g, c.by.key, `x-gw-metadata: {"of":"`+c.by.id+`"}`); last.Status != c.status {
			t.Errorf("call %d: %d %s, want %d", i, last.Status, last.Body, c.status)
		}
		if limited := last.Header.Get("x-ratelimit-limit-requests") != ""; limited != (c.by == red) {
			t.Errorf("call %d has limits of a policy: %v", i, limited)
		}
	}
	record := logOf(g, last)
	id, trace := record.Get("_id").Str, last.Header.Get("x-gw-trace-id")
	eventually(t, "the records", func() bool { return g.Admin("GET", "/v1/logs?workspace_id=blue", nil).Get("total").Int() == 4 })
	for _, path := range []string{"/v1/logs/" + id, "/v1/logs/" + trace, "/v1/logs?workspace_id=blue", "/v1/logs?workspace_id=" + blue.id} {
		if a := g.Do("GET", path, "", "x-gw-api-key: "+red.key); a.Status != 404 && a.Status != 403 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a := g.Do("GET", path, "", "x-gw-api-key: "+blue.key); a.Status != 200 || strings.Contains(a.Body, red.id) {
			t.Errorf("%s of its own: %d %s", path, a.Status, a.Body)
		}
	}
	for _, query := range []string{"", "?trace_id=" + trace, "?metadata=%7B%22of%22:%22" + blue.id + "%22%7D"} {
		if a := g.Do("GET", "/v1/logs"+query, "", "x-gw-api-key: "+red.key); a.Status != 200 || strings.Contains(a.Body, blue.id) || strings.Contains(a.Body, trace) {
			t.Errorf("logs%s: %d %s", query, a.Status, a.Body)
		}
	}
}
