package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEveryAdministrativeActionIsInTheAuditTrail(t *testing.T) {
	a := newAPI(t)
	key, keyID := a.key("workspace/service", `"virtual_keys.list"`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-canary"}`)
	a.do("POST", "/v1/virtual-keys", `{"name":"vk","slug":"vk","provider":"openai","key":"sk-canary"}`)
	a.do("POST", "/v1/virtual-keys", `{"name":1,"key":{"sk-canary":1}}`)
	a.as(key, "DELETE", "/v1/virtual-keys/vk", "")
	a.do("DELETE", "/v1/virtual-keys/nope", "")
	a.ok("DELETE", "/v2/virtual-keys/vk", "")
	a.as("unknown", "DELETE", "/v1/virtual-keys/vk", "")
	var got []string
	for _, r := range a.trail() {
		got = append(got, r.Scope+" "+r.Resource+" "+http.StatusText(r.Status)+" "+r.KeyID[:5])
		if r.At.IsZero() || r.IP == "" || r.Method == "" || !strings.HasPrefix(r.Path, "/v") || r.OrganisationID == "" || strings.Contains(strings.Join(r.Fields, " "), "canary") {
			t.Errorf("%+v", r)
		}
	}
	want := []string{ // newest first
		"virtual_keys.delete vk OK admin",
		"virtual_keys.delete nope Not Found admin",
		"virtual_keys.delete vk Forbidden " + keyID[:5],
		"virtual_keys.create  Bad Request admin",
		"virtual_keys.create vk Conflict admin",
		"virtual_keys.create vk OK admin",
		"workspace_service_api_keys.create " + keyID + " OK admin",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if fields := a.trail()[5].Fields; strings.Join(fields, " ") != "key name provider slug" {
		t.Errorf("fields %q", fields)
	}
}

func TestARefusedRequestWhoseClientLeftIsStillRecorded(t *testing.T) {
	a := newAPI(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("left"))
	r := httptest.NewRequestWithContext(ctx, "DELETE", "/v1/virtual-keys/nope", nil)
	r.Header.Set("Authorization", "Bearer "+ownerKey)
	a.handler().ServeHTTP(httptest.NewRecorder(), r)
	if trail := a.trail(); len(trail) != 1 || trail[0].Status < 400 {
		t.Errorf("%d records", len(trail))
	}
}
