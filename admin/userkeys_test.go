package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/roles"
)

const userKeys = "/v1/api-keys/workspace/user"

// A user key is that of a member of its workspace. Errors do not show what others there are.
func TestAUserKeyIsOfAMember(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	a.workspace("blue")
	bob, asBob := a.member("bob@example.com", "red", roles.WorkspaceManager)
	eve, _ := a.member("eve@example.com", "blue", roles.WorkspaceMember)
	admin := a.user("a@example.com", roles.Admin)
	service := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"red","scopes":["configs.list","workspace_user_api_keys.create"]}`).get("key").Str
	body := func(user string) string {
		return `{"name":"k","workspace_id":"red","scopes":["configs.list"],"user_id":"` + user + `"}`
	}
	for _, who := range []string{ownerKey, asBob, service} {
		answers := make(map[string]bool)
		for _, user := range []string{eve, "0191e7a3-0000-7000-8000-000000000000"} {
			out := a.as(who, "POST", userKeys, body(user))
			if out.status != 404 || out.code() != "AB02" {
				t.Errorf("%d %s", out.status, out.body)
			}
			answers[strings.ReplaceAll(out.body, user, "")] = true
		}
		if len(answers) != 1 {
			t.Errorf("a user of another workspace is told from one that there is not: %v", answers)
		}
		for _, user := range []string{bob, admin} {
			if out := a.as(who, "POST", userKeys, body(user)); out.status != 200 {
				t.Errorf("%d %s", out.status, out.body)
			}
		}
	}
	// A user who makes one without saying whose makes it for himself.
	id := a.as(asBob, "POST", userKeys, `{"name":"k","scopes":["configs.list"]}`).get("id").Str
	if k := a.ok("GET", "/v1/api-keys/"+id, ""); k.get("user_id").Str != bob {
		t.Errorf("%s", k.body)
	}
}

func TestUserKeysObeyTheSettings(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	bob, _ := a.member("bob@example.com", "red", roles.WorkspaceMember)
	make := func(more string) answer {
		return a.do("POST", userKeys, `{"name":"k","workspace_id":"red","scopes":["configs.list"],"user_id":"`+bob+`"`+more+`}`)
	}
	read := func(out answer) answer {
		t.Helper()
		if out.status != 200 {
			t.Fatalf("%d %s", out.status, out.body)
		}
		return a.ok("GET", "/v1/api-keys/"+out.get("id").Str, "")
	}
	settings := func(s string) { t.Helper(); a.ok("PUT", "/v1/admin/organisation", `{"settings":{`+s+`}}`) }
	refused := func(out answer, field string) {
		t.Helper()
		if out.status != 400 || !strings.HasPrefix(out.message(), field+": ") {
			t.Errorf("%d %s, want %s", out.status, out.body, field)
		}
	}
	if k := read(make("")); k.get("expires_at").Raw != "null" || k.get("rotation_policy").Raw != "null" {
		t.Errorf("%s", k.body)
	}
	settings(`"user_api_key_ttl":3600,"user_api_key_max_ttl":7200`)
	first := read(make(""))
	if first.get("expires_at").Str != "2026-11-27T13:00:00.000Z" {
		t.Errorf("%s", first.body)
	}
	if k := read(make(`,"expires_at":"2026-11-27T14:00:00Z"`)); k.get("expires_at").Str != "2026-11-27T14:00:00.000Z" {
		t.Errorf("%s", k.body)
	}
	refused(make(`,"expires_at":"2026-11-27T14:00:01Z"`), "expires_at")
	refused(make(`,"expires_at":null`), "expires_at")
	refused(a.do("PUT", "/v1/api-keys/"+first.get("id").Str, `{"expires_at":null}`), "expires_at")
	a.ok("PUT", "/v1/api-keys/"+first.get("id").Str, `{"name":"n"}`)
	settings(`"user_api_key_ttl":0`) // the longest time is then that of keys without one
	if k := read(make("")); k.get("expires_at").Str != "2026-11-27T14:00:00.000Z" {
		t.Errorf("%s", k.body)
	}
	settings(`"user_api_key_max_ttl":null,"user_api_key_count":5`)
	read(make(""))
	refused(make(""), "user_id")
	settings(`"user_api_key_count":0`)
	refused(make(""), "user_id")
	if out := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"s","workspace_id":"red","scopes":["configs.list"]}`); out.get("key").Str == "" {
		t.Errorf("%s", out.body)
	}
	settings(`"user_api_key_count":-1,"user_api_key_rotation_period":"weekly"`)
	if s := a.ok("GET", "/v1/admin/organisation", "").get("settings"); s.Get("user_api_key_rotation_period").Int() != 7 || s.Get("user_api_key_count").Int() != -1 {
		t.Errorf("%s", s.Raw)
	}
	// Condition 5: an explicit policy has the cadence; keys without one get it.
	k := read(make(""))
	if k.get("rotation_policy.rotation_period_days").Int() != 7 || k.get("rotation_policy.next_rotation_at").Str != "2026-12-04T00:00:00.000Z" {
		t.Errorf("%s", k.body)
	}
	for _, policy := range []string{`{"rotation_period":"weekly"}`, `{"rotation_period_days":7,"key_transition_period_ms":3600000}`} {
		read(make(`,"rotation_policy":` + policy))
	}
	for _, policy := range []string{`{"rotation_period":"monthly"}`, `{"rotation_period_days":8}`} {
		refused(make(`,"rotation_policy":`+policy), "rotation_policy")
		refused(a.do("PUT", "/v1/api-keys/"+k.get("id").Str, `{"rotation_policy":`+policy+`}`), "rotation_policy")
	}
	refused(make(`,"rotation_policy":{"rotation_period":"weekly","next_rotation_at":"2026-12-01T00:00:00Z"}`), "rotation_policy.next_rotation_at")
	a.ok("PUT", "/v1/api-keys/"+k.get("id").Str, `{"rotation_policy":null}`)
	if k := a.ok("GET", "/v1/api-keys/"+k.get("id").Str, ""); k.get("rotation_policy.rotation_period_days").Int() != 7 {
		t.Errorf("the cadence is gone: %s", k.body)
	}
	for s, field := range map[string]string{
		`"user_api_key_ttl":-1`: "settings.user_api_key_ttl", `"user_api_key_ttl":9,"user_api_key_max_ttl":8`: "settings.user_api_key_ttl",
		`"user_api_key_count":-2`: "settings.user_api_key_count", `"user_api_key_max_ttl":1000000000000`: "settings.user_api_key_max_ttl",
	} {
		refused(a.do("PUT", "/v1/admin/organisation", `{"settings":{`+s+`}}`), field)
	}
	for _, s := range []string{`"user_api_key_rotation_period":0`, `"user_api_key_rotation_period":366`, `"user_api_key_rotation_period":"daily"`, `"nope":1`} {
		out := a.do("PUT", "/v1/admin/organisation", `{"settings":{`+s+`}}`)
		if out.status != 400 || strings.Contains(s, "rotation") && !strings.Contains(out.message(), "user_api_key_rotation_period: expected days from 1 to 365, weekly or monthly") {
			t.Errorf("%s: %d %s", s, out.status, out.body)
		}
	}
}

// A key is made for each member who joins, whose secret is got by rotating it.
func TestUserKeysOfMembersWhoJoin(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	def := a.s.Directory.DefaultWorkspace().Slug
	of := func(user string) (keys []string) {
		for _, k := range a.s.Keyring.APIKeys() {
			if k.UserID == user {
				keys = append(keys, k.ID)
			}
		}
		return keys
	}
	before, _ := a.member("before@example.com", "red", roles.WorkspaceMember)
	a.ok("PUT", "/v1/admin/organisation", `{"settings":{"user_api_key_auto_create":true}}`)
	bob, asBob := a.member("bob@example.com", "red", roles.WorkspaceMember)
	ada, _ := a.member("ada@example.com", def, roles.WorkspaceMember)
	a.ok("PUT", "/v1/admin/organisation", `{"settings":{"default_workspace_user_api_key_auto_create":true,"user_api_key_auto_create":false}}`)
	eve, _ := a.member("eve@example.com", def, roles.WorkspaceMember)
	dan, _ := a.member("dan@example.com", "red", roles.WorkspaceMember)
	for user, want := range map[string]int{before: 0, bob: 1, ada: 0, eve: 1, dan: 0} {
		if got := of(user); len(got) != want {
			t.Errorf("%d keys of %s, want %d", len(got), user, want)
		}
	}
	id := of(bob)[0]
	if k := a.ok("GET", "/v1/api-keys/"+id, ""); k.get("creation_mode").Str != "auto" || k.get("type").Str != "workspace-user" || !strings.Contains(k.get("scopes").Raw, "completions.write") {
		t.Errorf("%s", k.body)
	}
	out := a.as(asBob, "POST", "/v1/api-keys/"+id+"/rotate", "")
	if out.status != 200 {
		t.Fatalf("%d %s", out.status, out.body)
	}
	c, refusal := a.s.Authenticator.(*credentials.Authenticator).AuthenticateCall(out.get("key").Str, credentials.ScopeCompletions)
	if refusal != nil || c.UserID != bob {
		t.Errorf("%+v, %v", c, refusal)
	}
	// Accepting an invite is joining, too.
	invite := a.ok("POST", "/v1/admin/users/invites", `{"email":"new@example.com","role":"member","workspaces":[{"id":"`+def+`","role":"member"}]}`)
	_, token, _ := strings.Cut(invite.get("invite_link").Str, "#")
	accepted := a.as("", "POST", acceptPath, `{"token":"`+token+`","first_name":"N","last_name":"W"}`)
	if keys := of(accepted.get("id").Str); len(keys) != 1 {
		t.Errorf("%s: %v", accepted.body, keys)
	}
}

// Condition 3: a section that is not enabled for override is refused; enabling it copies the
// values of the organisation down.
func TestSectionsOfSettingsAreOverriddenWhereTheyMay(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	org := func(body string) { t.Helper(); a.ok("PUT", "/v1/admin/organisation", body) }
	workspace := func(slug, path, want string) {
		t.Helper()
		if got := a.ok("GET", "/v1/admin/workspaces/"+slug, "").get(path); got.Raw != want {
			t.Errorf("%s of %s is %s, want %s", path, slug, got.Raw, want)
		}
	}
	const ttl, denied = "settings.user_api_key_ttl", "export_settings.deniedFields"
	org(`{"settings":{"user_api_key_ttl":10},"export_settings":{"deniedFields":["request"]}}`)
	for _, body := range []string{`{"settings":{"user_api_key_ttl":20}}`, `{"export_settings":{"deniedFields":[]}}`} {
		a.refuses(ownerKey, "PUT", "/v1/admin/workspaces/red", body, 400, "workspaces do not decide the section")
		a.refuses(ownerKey, "POST", "/v1/admin/workspaces", `{"name":"n",`+body[1:], 400, "workspaces do not decide the section")
	}
	workspace("red", ttl, "10")
	workspace("red", denied, `["request"]`)
	org(`{"workspace_overrides":{"user_api_key_settings":true,"export_settings":true}}`)
	org(`{"settings":{"user_api_key_ttl":11},"export_settings":{"deniedFields":["response"]}}`)
	workspace("red", ttl, "10") // what was copied down
	workspace("red", denied, `["request"]`)
	a.workspace("blue")
	workspace("blue", ttl, "11")
	a.ok("PUT", "/v1/admin/workspaces/red", `{"settings":{"user_api_key_ttl":20},"export_settings":{"deniedFields":["metadata","cost"]}}`)
	workspace("red", ttl, "20")
	workspace("red", denied, `["metadata","cost"]`)
	org(`{"workspace_overrides":{"user_api_key_settings":true}}`) // it is enabled already
	workspace("red", ttl, "20")
	org(`{"workspace_overrides":{"user_api_key_settings":false,"export_settings":false}}`)
	workspace("red", ttl, "11")
	workspace("red", denied, `["response"]`)
	org(`{"workspace_overrides":{"user_api_key_settings":true}}`)
	workspace("red", ttl, "11") // copied down again
	org(`{"settings":{"user_api_key_ttl":12}}`)
	workspace("red", ttl, "11")
	workspace("blue", ttl, "11")
	workspace("red", denied, `["response"]`)
	a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"export_settings":{"deniedFields":["nope"]}}`, 400, "export_settings.deniedFields[0]")
	a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"export_settings":{"deniedFields":["id","id"]}}`, 400, "export_settings.deniedFields[1]")
	a.refuses(ownerKey, "PUT", "/v1/admin/workspaces/"+a.s.Directory.DefaultWorkspace().Slug, `{"settings":{"user_api_key_auto_create":true}}`, 400, "default_workspace_user_api_key_auto_create")
}

const restrictionsPath = "/v1/logs/exports/field-restrictions"

// The fields that exports may not have are those of the organisation, or of the workspace where it
// decides itself.
func TestTheFieldsThatExportsMayNotHaveAreTold(t *testing.T) {
	a := newAPI(t)
	red := a.workspace("red")
	a.ok("PUT", "/v1/admin/organisation", `{"export_settings":{"deniedFields":["request"]},"workspace_overrides":{"export_settings":true}}`)
	a.ok("PUT", "/v1/admin/workspaces/red", `{"export_settings":{"deniedFields":["metadata","cost"]}}`)
	for _, path := range []string{restrictionsPath, "/v2" + strings.TrimPrefix(restrictionsPath, "/v1")} {
		if out := a.ok("GET", path, ""); out.body != `{"object":"field-restrictions","workspace_id":null,"denied_fields":["request"]}` {
			t.Errorf("%s", out.body)
		}
	}
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":["logs.export"]}`).get("key").Str
	want := `{"object":"field-restrictions","workspace_id":"` + red + `","denied_fields":["metadata","cost"]}`
	for _, out := range []answer{a.ok("GET", restrictionsPath+"?workspace_id=red", ""), a.as(key, "GET", restrictionsPath, ""), a.as(key, "GET", restrictionsPath+"?workspace_id="+red, "")} {
		if out.body != want {
			t.Errorf("%d %s, want %s", out.status, out.body, want)
		}
	}
	a.refuses(key, "GET", restrictionsPath+"?workspace_id="+a.s.Directory.DefaultWorkspace().Slug, "", 403, "another workspace")
	a.refuses(ownerKey, "GET", restrictionsPath+"?workspace_id=nope", "", 404, "workspace_id")
	a.ok("PUT", "/v1/admin/organisation", `{"workspace_overrides":{"export_settings":false}}`)
	if out := a.as(key, "GET", restrictionsPath, ""); out.get("denied_fields").Raw != `["request"]` {
		t.Errorf("%d %s", out.status, out.body)
	}
	for _, name := range []string{"mode", "is_success"} { // every export has them
		a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"export_settings":{"deniedFields":["`+name+`"]}}`, 400, "export_settings.deniedFields[0]")
	}
}

// laterRules are the settings that nothing can violate yet, because what obeys them is not built:
// exports of the request log, and signing in. They must be obeyed from the first day of those.
var laterRules = map[string]string{
	"export_settings.deniedFields":                   "exports of the request log have none of these fields (condition 2); " + restrictionsPath + " tells them",
	"auth_settings.disable_auto_provision_user":      "signing in makes no users",
	"auth_settings.session_settings.max_session_ttl": "older sessions are refused",
	"auth_settings.email_domains":                    "only users of these domains sign in",
	"defaults.mcp_input_guardrails":                  "arguments of MCP tools are judged by these guardrails, of the organisation and of the workspace",
	"defaults.mcp_output_guardrails":                 "results of MCP tools are, too",
}

func TestRulesForLaterAreStoredAndShown(t *testing.T) {
	a := newAPI(t)
	for _, path := range a.handler().Paths() {
		if strings.Contains(path, "/mcp") || strings.Contains(path, "/exports") && path != restrictionsPath || strings.Contains(path, "/auth/") && path != "/v1/auth/self" {
			t.Errorf("%s is there now: it must obey its settings, and a test must say so: %v", path, laterRules)
		}
	}
	body := `{"export_settings":{"deniedFields":["request"]},"auth_settings":{"disable_auto_provision_user":true,"session_settings":{"max_session_ttl":900},` +
		`"email_domains":[{"domain":"Example.com","allow_subdomains":true},{"domain":"dev.example.org"}]}}`
	a.ok("PUT", "/v1/admin/organisation", body)
	out := a.ok("GET", "/v1/admin/organisation", "")
	for path, want := range map[string]string{
		"export_settings.deniedFields": `["request"]`, "auth_settings.disable_auto_provision_user": "true", "auth_settings.session_settings.max_session_ttl": "900",
		"auth_settings.email_domains": `[{"domain":"example.com","allow_subdomains":true},{"domain":"dev.example.org","allow_subdomains":false}]`,
	} {
		if got := out.get(path).Raw; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if laterRules[path] == "" {
			t.Errorf("%s is not in the list", path)
		}
	}
	a.ok("PUT", "/v1/admin/organisation", `{"auth_settings":{"session_settings":{"max_session_ttl":null}}}`)
	if s := a.ok("GET", "/v1/admin/organisation", "").get("auth_settings"); s.Get("session_settings.max_session_ttl").Raw != "null" || !s.Get("disable_auto_provision_user").Bool() {
		t.Errorf("%s", s.Raw)
	}
	// Guardrails of MCP tools, of the organisation and of a workspace.
	g := a.ok("POST", "/v1/guardrails", `{"name":"g","organisation_id":"`+a.s.Directory.Organisation().ID+`","checks":[{"id":"default.notNull"}]}`)
	a.workspace("red")
	for path, at := range map[string]string{"/v1/admin/organisation/defaults": "", "/v1/admin/workspaces/red": "defaults."} {
		for _, field := range []string{"mcp_input_guardrails", "mcp_output_guardrails"} {
			send := func(value string) string {
				if at == "" {
					return `{"` + field + `":` + value + `}`
				}
				return `{"defaults":{"` + field + `":` + value + `}}`
			}
			a.ok("PUT", path, send(`["`+g.get("slug").Str+`"]`))
			if got := a.ok("GET", path, "").get(at + field); len(got.Array()) != 1 || !strings.Contains(got.Raw, g.get("slug").Str) || laterRules["defaults."+field] == "" {
				t.Errorf("%s: %s is %s", path, field, got.Raw)
			}
			a.refuses(ownerKey, "PUT", path, send(`["nope"]`), 404, at+field+"[0]")
			a.refuses(ownerKey, "DELETE", "/v1/guardrails/"+g.get("id").Str, "", 409, field)
			a.ok("PUT", path, send("null"))
		}
	}
	for rule, field := range map[string]string{
		`"session_settings":{"max_session_ttl":899}`: "max_session_ttl", `"email_domains":[{"domain":"com"}]`: "email_domains[0].domain", `"email_domains":[{"domain":"a@b.com"}]`: "email_domains[0].domain",
		`"email_domains":[{"domain":"dev.example.com","allow_subdomains":true}]`: "email_domains[0].allow_subdomains", `"email_domains":[{"domain":"co.uk"}]`: "public suffix",
		`"email_domains":[{"domain":"a.com"},{"domain":"A.com"}]`: "email_domains[1].domain",
	} {
		a.refuses(ownerKey, "PUT", "/v1/admin/organisation", `{"auth_settings":{`+rule+`}}`, 400, field)
	}
}

// 64 clients call while their key rotates ten times: no request fails within the transition, and
// none passes after it.
func TestRotationUnderLoad(t *testing.T) {
	a := newAPI(t)
	server := httptest.NewServer(a.handler())
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	status := func(key string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/virtual-keys", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("X-Gw-Api-Key", key)
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	// during calls with keys from 64 clients, each of them some times, until what happens meanwhile
	// has ended.
	during := func(meanwhile func(), want map[string]int) {
		t.Helper()
		var stop atomic.Bool
		var clients, calling sync.WaitGroup
		calling.Add(64)
		for range 64 {
			clients.Go(func() {
				for n := 0; n < 3 || !stop.Load(); n++ {
					for key, expected := range want {
						if got := status(key); got != expected {
							t.Errorf("%d, want %d", got, expected)
							stop.Store(true)
						}
					}
					if n == 0 {
						calling.Done()
					}
				}
			})
		}
		calling.Wait()
		meanwhile()
		stop.Store(true)
		clients.Wait()
	}
	key, id := a.key("workspace/service", `"virtual_keys.list"`)
	for range 10 {
		var next string
		during(func() {
			out := a.do("POST", "/v1/api-keys/"+id+"/rotate", "")
			if next = out.get("key").Str; out.status != 200 {
				t.Errorf("%d %s", out.status, out.body)
			}
		}, map[string]int{key: 200})
		during(func() {
			a.now.Add(int64(credentials.MinTransition / 2))
			if out := a.do("POST", "/v1/api-keys/"+id+"/rotate", ""); out.status != 409 {
				t.Errorf("a third secret: %d", out.status)
			}
			a.now.Add(int64(credentials.MinTransition/2) - 1)
		}, map[string]int{key: 200, next: 200})
		a.now.Add(1)
		during(func() { a.now.Add(int64(time.Hour)) }, map[string]int{key: 401, next: 200})
		key = next
	}
}

func TestSettingsOfTheSpecificationAreThere(t *testing.T) {
	a := newAPI(t)
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(a.do("GET", "/v1/openapi.json", "").body), &document); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"deniedFields", "data_plane_security_settings", "block_inline_config", "user_api_key_auto_create", "default_workspace_user_api_key_auto_create", "user_api_key_rotation_period", "rotation_period_days",
		"disable_auto_provision_user", "allow_subdomains", roles.OrganisationViewsLogs, roles.OrganisationViewsMetadata,
	} {
		found := false
		for _, s := range document.Components.Schemas {
			_, here := s.Properties[name]
			found = found || here || strings.Contains(string(s.Properties["security_settings"]), `"`+name+`"`)
		}
		if !found {
			t.Errorf("%s is in no request and no answer", name)
		}
	}
}

// What the settings of a workspace say of the metadata of user keys, each has that is made, or whose defaults are
// changed; another value is refused unless the settings let keys have one.
func TestUserKeysHaveTheMetadataOfTheirWorkspace(t *testing.T) {
	a := newAPI(t)
	const organisation, keys = "/v1/admin/organisation", "/v1/api-keys/workspace/user"
	for _, body := range []string{`{"settings":{"user_key_metadata":{"a":7}}}`, `{"settings":{"user_key_metadata":{"a":"` + strings.Repeat("x", 129) + `"}}}`, `{"settings":{"user_key_metadata_override":"maybe"}}`} {
		if out := a.do("PUT", organisation, body); out.status != 400 || !strings.Contains(out.message(), "user_key_metadata") {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("PUT", organisation, `{"settings":{"user_key_metadata":{"team":"red","tier":"1"},"user_api_key_auto_create":true}}`)
	if out := a.ok("GET", organisation, ""); out.get("settings.user_key_metadata.team").Str != "red" || out.get("settings.user_key_metadata_override").Raw != "false" {
		t.Errorf("%s", out.body)
	}
	metadataOf := func(id string) string { return a.ok("GET", "/v1/api-keys/"+id, "").get("defaults.metadata").Raw }
	made := func(defaults string) string {
		return a.ok("POST", keys, `{"name":"k","scopes":["completions.write"]`+defaults+`}`).get("id").Str
	}
	id := made("")
	for name, c := range map[string]struct{ id, want string }{
		"without defaults": {id, `{"team":"red","tier":"1"}`},
		"with others":      {made(`,"defaults":{"metadata":{"app":"x","tier":"1"}}`), `{"app":"x","team":"red","tier":"1"}`},
	} {
		if got := metadataOf(c.id); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", keys, `{"name":"k","scopes":["completions.write"],"defaults":{"metadata":{"team":"blue"}}}`},
		{"PUT", "/v1/api-keys/" + id, `{"defaults":{"metadata":{"team":"blue"}}}`},
	} {
		if out := a.do(c.method, c.path, c.body); out.status != 400 || !strings.Contains(out.message(), `defaults.metadata: expected team to be "red"`) {
			t.Errorf("%s: %d %s", c.method, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/api-keys/"+id, `{"defaults":{}}`) // they cannot be taken away
	if got := metadataOf(id); got != `{"team":"red","tier":"1"}` {
		t.Errorf("%s", got)
	}
	service := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"]}`).get("id").Str
	if got := metadataOf(service); got != "" {
		t.Errorf("a service key has %s", got)
	}
	red := a.workspace("red")
	user, _ := a.member("m@example.com", "red", "member")
	joined := ""
	for _, k := range a.s.Keyring.APIKeysIn(red) {
		if k.UserID == user {
			joined = string(k.Metadata)
		}
	}
	if joined != `{"team":"red","tier":"1"}` {
		t.Errorf("the key of who joined has %s", joined)
	}
	a.ok("PUT", organisation, `{"settings":{"user_key_metadata_override":true}}`)
	if got := metadataOf(made(`,"defaults":{"metadata":{"team":"blue"}}`)); got != `{"team":"blue","tier":"1"}` {
		t.Errorf("%s", got)
	}
	a.ok("PUT", organisation, `{"settings":{"user_key_metadata":null}}`)
	if got := metadataOf(made("")); got != "" {
		t.Errorf("%s", got)
	}
}
