package admin_test

import (
	"net/http"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Organisation keys may say whose an object has to be, as they do for lists.
func TestAnObjectIsAskedForInItsWorkspace(t *testing.T) {
	g := gatewaytest.Start(t, "")
	workspace := func(name string) string {
		return g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": name}).Get("id").Str
	}
	one, two := workspace("One"), workspace("Two")
	slug := g.Admin("GET", "/v1/admin/workspaces/"+one, nil).Get("slug").Str
	made := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": map[string]any{"retry": map[string]any{"attempts": 1}}, "workspace_id": one})
	config := "/v1/configs/" + made.Get("data.slug").Str
	limit := "/v1/policies/rate-limits/" + g.Admin("POST", "/v1/policies/rate-limits", map[string]any{
		"name": "p", "conditions": []any{map[string]any{"key": "workspace_id", "value": one}}, "group_by": []any{map[string]any{"key": "api_key"}},
		"type": "requests", "unit": "rpm", "value": 5, "workspace_id": one,
	}).Get("id").Str
	for _, path := range []string{config, limit} {
		for query, want := range map[string]int{
			"": 200, "?workspace_id=" + one: 200, "?workspace_id=" + slug: 200, "?workspace_id=" + two: 404, "?workspace_id=none": 404, "?workspace_id=" + one + "&workspace_id=" + two: 400,
		} {
			a := g.Do("GET", path+query, "", "x-gw-api-key: "+gatewaytest.OwnerKey)
			if a.Status != want {
				t.Errorf("%s%s: %d %s, want %d", path, query, a.Status, a.Body, want)
			}
		}
		if a := g.Do("DELETE", path+"?workspace_id="+two, "", "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != http.StatusNotFound {
			t.Errorf("%s: deleted in another workspace: %d", path, a.Status)
		}
		if a := g.Do("DELETE", path+"?workspace_id="+one, "", "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}
