package handlers_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A key of a deleted workspace stops with the next request, on both planes.
func TestAKeyOfADeletedWorkspaceStopsAtOnce(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("up"))
	for _, slug := range []string{"red", "blue"} {
		g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": slug, "slug": slug})
	}
	key := func(workspace string) string {
		return g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "k", "scopes": []string{"completions.write", "virtual_keys.list"}, "workspace_id": workspace}).Get("key").Str
	}
	red, blue := key("red"), key("blue")
	statuses := func(key string) (call, list int) {
		call = g.Do("POST", "/v1/chat/completions", `{"model":"@up/m","messages":[{"role":"user","content":"hi"}]}`, "x-gw-api-key: "+key).Status
		return call, g.Do("GET", "/v1/virtual-keys", "", "x-gw-api-key: "+key).Status
	}
	if call, list := statuses(red); call != 200 || list != 200 {
		t.Fatalf("before: %d, %d", call, list)
	}
	g.Admin("DELETE", "/v1/admin/workspaces/red", map[string]any{"name": "red", "force_delete": true})
	if call, list := statuses(red); call != 401 || list != 401 {
		t.Errorf("a key of the deleted workspace: %d, %d", call, list)
	}
	if call, list := statuses(blue); call != 200 || list != 200 {
		t.Errorf("a key of another one: %d, %d", call, list)
	}
}
