package admin_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/roles"
)

func TestSelfIsWhoSentAJWT(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	id, bob := a.member("bob@example.com", "red", roles.WorkspaceManager)
	out := a.as(bob, "GET", "/v1/auth/self", "")
	if out.status != 200 || out.get("user.id").Str != id || out.get("user.email").Str != "bob@example.com" || out.get("user.role").Str != "member" ||
		out.get("user.workspace_role").Str != "manager" || out.get("workspace_id").Str != red || out.get("workspace_slug").Str != "red" ||
		out.get("expires_at").Str == "" || out.get(`scopes.#(="configs.update")`).Str == "" || out.get(`scopes.#(="organisation_users.list")`).Exists() {
		t.Errorf("%d %s", out.status, out.body)
	}
	owner := "user:" + a.user("o@example.com", roles.Owner)
	if out := a.as(owner, "GET", "/v2/auth/self", ""); out.get("workspace_id").Raw != "null" || out.get("user.workspace_role").Raw != "null" || out.get("user.role").Str != "owner" {
		t.Errorf("%d %s", out.status, out.body)
	}
	program := a.jwt(map[string]any{"sub": "ci", "scope": "gw.configs.list", "workspace_slug": "red"})
	if out := a.as(program, "GET", "/v1/auth/self", ""); out.get("user").Raw != "null" || out.get("subject").Str != "ci" || out.get("scopes").Raw != `["configs.list"]` {
		t.Errorf("%d %s", out.status, out.body)
	}
	// A key alone is refused, of whatever kind.
	user := a.ok("POST", "/v1/api-keys/workspace/user", `{"name":"k","workspace_id":"red","user_id":"`+id+`","scopes":["configs.list"]}`).get("key").Str
	service, _ := a.key("workspace/service", `"configs.list"`)
	for _, key := range []string{ownerKey, user, service} {
		a.refuses(key, "GET", "/v1/auth/self", "", 401, "an API key alone")
	}
	a.refuses(systemToken, "GET", "/v1/auth/self", "", 403, "data-service token")
	a.refuses("", "GET", "/v1/auth/self", "", 401, "no API key")
}

// A JWT stands where a key does, and the error says what is wrong with it.
func TestAJWTInThePlaceOfAKey(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	program := a.jwt(map[string]any{"sub": "ci", "scope": "gw.configs.list gw.configs.create gw.workspace_service_api_keys.create", "gw_workspace": "red"})
	for _, header := range []string{"X-Gw-Api-Key", "X-Api-Key", "Authorization"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/configs", nil)
		r.Header.Set(header, map[bool]string{true: "Bearer "}[header == "Authorization"]+program)
		w := httptest.NewRecorder()
		if a.handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
	}
	// It is in the audit trail by its name, and is of one workspace alone.
	if out := a.as(program, "POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}}}`); out.status != 200 {
		t.Fatalf("%d %s", out.status, out.body)
	}
	if row := a.trail()[0]; row.KeyID != "jwt/ci" || row.KeyName != "ci" || row.UserID != "ci" {
		t.Errorf("%+v", row)
	}
	a.refuses(program, "GET", "/v1/configs?workspace_id="+a.s.Directory.DefaultWorkspace().Slug, "", 403, "another workspace")
	a.refuses(program, "GET", "/v1/prompts", "", 403, "The JWT lacks the scope")
	if _, refusal := a.s.Authenticator.(*credentials.Authenticator).AuthenticateCall(program, "completions.write"); refusal == nil || !strings.Contains(refusal.Message, "The JWT of ") || strings.Contains(refusal.Message, "API key") {
		t.Errorf("%v", refusal)
	}
	a.refuses(program, "POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["configs.list"]}`, 403, "names no user")
	a.refuses(a.jwt(map[string]any{"sub": "ci", "scope": "configs.list", "gw_workspace": "blue"}), "GET", "/v1/configs", "", 403, "workspace")
	a.refuses(a.jwt(map[string]any{"exp": 1}), "GET", "/v1/configs", "", 401, "expired")
	a.refuses(a.jwt(map[string]any{"aud": "x"}), "GET", "/v1/configs", "", 401, "aud")
	a.refuses(a.jwt(map[string]any{"iss": "x"}), "GET", "/v1/configs", "", 401, "unknown")
	signature := strings.LastIndexByte(program, '.') + 1
	other := map[bool]string{true: "B", false: "A"}[program[signature] == 'A']
	a.refuses(program[:signature]+other+program[signature+1:], "GET", "/v1/configs", "", 401, "signature")
	a.refuses(program+"x", "GET", "/v1/configs", "", 401, "base64url")
	a.refuses(ownerKey, "GET", "/v1/configs?a="+program, "", 400, "in the query")
	a.refuses(ownerKey, "GET", "/v1/configs/"+program, "", 400, "path")
	a.now.Add(int64(1001 * time.Hour))
	a.refuses(program, "GET", "/v1/configs", "", 401, "expired")
}

// A JWT with limits makes and rotates no keys, whose calls its limits would not count.
func TestAJWTWithLimitsMakesNoKeys(t *testing.T) {
	const key = `{"name":"k","scopes":["completions.write"]}`
	a := newAPI(t)
	a.workspace("red")
	ada := a.user("ada@example.com", roles.Admin)
	limited := a.jwt(map[string]any{"sub": ada, "gw_workspace": "red", "usage_limits": []any{map[string]any{"credit_limit": 1}}})
	free := a.jwt(map[string]any{"sub": ada, "gw_workspace": "red"})
	made := a.as(free, "POST", "/v1/api-keys/workspace/service", key)
	if made.status != 200 {
		t.Fatalf("%d %s", made.status, made.body)
	}
	a.refuses(limited, "POST", "/v1/api-keys/workspace/service", key, 403, "The JWT has limits of its own")
	a.refuses(limited, "POST", "/v1/api-keys/"+made.get("id").Str+"/rotate", "{}", 403, "The JWT has limits of its own")
	if out := a.as(limited, "GET", "/v1/api-keys/"+made.get("id").Str, ""); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(free, "POST", "/v1/api-keys/"+made.get("id").Str+"/rotate", "{}"); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// A key learns what it is and obeys, without a scope, and nothing of other workspaces.
func TestAKeyLearnsItsDetails(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	slug := a.ok("POST", "/v1/guardrails", `{"name":"g","workspace_id":"red","checks":[{"id":"default.contains","parameters":{"words":["x"],"operator":"none"}}],"actions":{}}`).get("slug").Str
	a.ok("PUT", "/v1/admin/workspaces/red", `{"defaults":{"input_guardrails":["`+slug+`"]}}`)
	made := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":["completions.write"],"usage_limits":{"type":"requests","credit_limit":5,"periodic_reset":"weekly"},"defaults":{"metadata":{"team":"a"}}}`)
	key := made.get("key").Str
	for _, path := range []string{"/v1/api-keys/self/details", "/v2/api-keys/self/details"} {
		out := a.as(key, "GET", path, "")
		if out.status != 200 || out.get("id").Str != made.get("id").Str || out.get("name").Str != "k" || out.get("scopes").Raw != `["completions.write"]` || out.get("key").Str == key ||
			out.get("organisation_id").Str == "" || out.get("organisation_details.id").Str != out.get("organisation_id").Str || !out.get("organisation_details.block_inline_config").IsBool() ||
			out.get("workspace_id").Str != red || out.get("workspace_details.slug").Str != "red" || out.get("workspace_details.input_guardrails").Raw != `["`+slug+`"]` ||
			out.get("workspace_details.excluded_from_input_guardrails").Raw != "false" || out.get("defaults.metadata.team").Str != "a" || out.get("status").Str != "active" ||
			out.get("next_usage_reset_at").Str != out.get("usage_limits.next_usage_reset_at").Str || out.get("next_usage_reset_at").Str == "" || out.get("expiry_enforced").Int() != 1 {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
	}
	organisation, _ := a.key("organisation/service", `"logs.view"`)
	if out := a.as(organisation, "GET", "/v1/api-keys/self/details", ""); out.status != 200 || out.get("workspace_details").Raw != "null" {
		t.Errorf("%d %s", out.status, out.body)
	}
	out := a.as(ownerKey, "GET", "/v1/api-keys/self/details", "") // of the configuration
	if out.status != 200 || out.get("id").Str != "admin_key" || out.get("type").Str != "organisation-service" || out.get("status").Str != "active" || out.get("workspace_details").Raw != "null" ||
		!strings.Contains(out.get("scopes").Raw, `"organisation_settings.update"`) || strings.Contains(out.body, ownerKey) {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.refuses(a.jwt(map[string]any{"sub": "ci", "scope": "gw.configs.list", "workspace_slug": "red"}), "GET", "/v1/api-keys/self/details", "", 401, "expected an API key")
	a.refuses(systemToken, "GET", "/v1/api-keys/self/details", "", 403, "data-service token")
	a.refuses("gw-unknown", "GET", "/v1/api-keys/self/details", "", 401, "")
}

// Programs that set a gateway up ask whether its control plane is there, with a key or without.
func TestTheControlPlaneSaysThatItIsThere(t *testing.T) {
	a := newAPI(t)
	for _, key := range []string{"", ownerKey} {
		if out := a.as(key, "GET", "/v1/admin/health", ""); out.status != 200 || out.get("status").Str != "success" {
			t.Errorf("%d %s", out.status, out.body)
		}
	}
}
