package admin_test

import (
	"net/http"
	"strings"
	"testing"
)

// Each element that is refused costs memory and time, so that a list that is too long is refused for that, and few of its elements are looked at.
func TestListsOfBodiesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has nothing to say about allocations")
	}
	a := newAPI(t)
	for path, around := range map[string]string{
		"/v1/guardrails": `{"name":"n","actions":{},"checks":[%s]}`, "/v1/api-keys/workspace/service": `{"name":"n","scopes":[%s]}`,
		"/v1/policies/rate-limits": `{"name":"n","type":"requests","unit":"rpm","value":1,"group_by":[],"conditions":[%s]}`, "/v1/admin/users/invites": `{"email":"a@b.example","role":"member","workspaces":[%s]}`,
		"/v1/integrations": `{"name":"n","ai_provider_id":"openai","secret_mappings":[%s]}`, "/v1/logs": `[%s]`, "/v2/logs": `[%s]`,
		"/v1/prompts": `{"name":"n","collection_id":"c","string":"s","functions":[%s]}`, "/v1/admin/workspaces": `{"name":"n","defaults":{"input_guardrails":[%s]}}`,
	} {
		for _, element := range []string{"1", `""`, "{}"} {
			body := strings.Replace(around, "%s", strings.Repeat(element+",", 200_000)+element, 1)
			allocated := testing.AllocsPerRun(1, func() {
				if out := a.as(ownerKey, "POST", path, body); out.status != http.StatusBadRequest || len(out.body) > 8<<10 {
					t.Errorf("%s: %d %.300s", path, out.status, out.body)
				}
			})
			// A value that is decoded is one allocation or two.
			if allocated > 3*200_000 {
				t.Errorf("%s with %s: %v allocations", path, element, allocated)
			}
		}
	}
	words := strings.Repeat(`"abc",`, 9_000) + `"abc"` // free parameters are the check's
	a.ok("POST", "/v1/guardrails", `{"name":"n","actions":{},"checks":[{"id":"default.contains","parameters":{"words":[`+words+`]}}]}`)
}
