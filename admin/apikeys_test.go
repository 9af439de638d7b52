package admin_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

func TestAPIKeysLiveAndDie(t *testing.T) {
	a := newAPI(t)
	user := a.user("u@example.com", roles.Admin)
	out := a.ok("POST", "/v1/api-keys/workspace/user", `{"type":"workspace","sub-type":"user","name":"k","description":"d","user_id":"`+strings.ToUpper(user)+`",
		"scopes":["logs.view","completions.write","logs.view"],"defaults":{"metadata":{"team":"red"},"allow_config_override":false},
		"alert_emails":["a@example.com"],"expires_at":"2026-12-01T00:00:00Z","rate_limits":[],"usage_limits":null,"rotation_policy":null}`)
	key, id := out.get("key").Str, out.get("id").Str
	if !strings.HasPrefix(key, "gw-") || len(key) < 50 || out.get("object").Str != "api-key" {
		t.Fatal(out.body)
	}
	read := a.ok("GET", "/v2/api-keys/"+id, "")
	want := map[string]string{
		"id": id, "key": key[:2] + "*****" + key[len(key)-3:], "name": "k", "description": "d", "type": "workspace-user", "status": "active",
		"user_id": user, "scopes": `["completions.write","logs.view"]`, "defaults.metadata": `{"team":"red"}`,
		"allow_config_override": "false", "expires_at": "2026-12-01T00:00:00.000Z", "created_at": iso, "creation_mode": "api", "rate_limits": "[]",
		"usage_limits": "", "object": "api-key", "workspace_id": a.s.Directory.DefaultWorkspace().ID, "alert_emails.0": "a@example.com",
	}
	for path, v := range want {
		if got := read.get(path).String(); got != v {
			t.Errorf("%s: %q, want %q", path, got, v)
		}
	}
	a.ok("PUT", "/v1/api-keys/"+id, `{"id":"`+id+`","name":"renamed","expires_at":null,"description":null}`)
	read = a.ok("GET", "/v1/api-keys/"+id, "")
	if read.get("name").Str != "renamed" || read.get("expires_at").Type != gjson.Null || read.get("description").Type != gjson.Null || len(read.get("scopes").Array()) != 2 {
		t.Errorf("after the update: %s", read.body)
	}
	other, _ := a.key("organisation/service", `"logs.view"`)
	if list := a.ok("GET", "/v1/api-keys?ids="+id, ""); list.get("total").Int() != 1 || list.get("data.0.id").Str != id {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/api-keys?page_size=1&current_page=1", ""); list.get("total").Int() != 2 || list.get("data.#").Int() != 1 || list.get("data.0.type").Str != "organisation-service" {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/api-keys?page_size=0", ""); list.get("total").Int() != 2 || list.get("data").Raw != "[]" {
		t.Errorf("%s", list.body)
	}
	a.ok("DELETE", "/v1/api-keys/"+id, `{"id":"`+id+`"}`)
	if out := a.do("GET", "/v1/api-keys/"+id, ""); out.status != 404 || out.code() != "AB08" {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(key, "GET", "/v1/api-keys", ""); out.status != 401 {
		t.Errorf("the revoked key: %d", out.status)
	}
	if strings.Contains(a.ok("GET", "/v1/api-keys", "").body, other) {
		t.Error("a key is listed in the clear")
	}
}

func TestScopesDenyByDefault(t *testing.T) {
	a := newAPI(t)
	lists, _ := a.key("workspace/service", `"virtual_keys.list"`)
	manages, _ := a.key("workspace/service", `"workspace_user_api_keys.create","virtual_keys.create"`)
	organisation, _ := a.key("organisation/service", `"workspace_service_api_keys.create","organisation_service_api_keys.create"`)
	for name, c := range map[string]struct {
		key, method, path, body string
		status                  int
	}{
		"no key":                                  {"", "GET", "/v1/virtual-keys", "", 401},
		"unknown key":                             {"nope", "GET", "/v1/virtual-keys", "", 401},
		"its scope":                               {lists, "GET", "/v1/virtual-keys", "", 200},
		"another action":                          {lists, "POST", "/v1/virtual-keys", `{}`, 403},
		"another resource":                        {lists, "GET", "/v2/policies/rate-limits", "", 403},
		"scopes come before validation":           {lists, "POST", "/v1/policies/rate-limits", `nonsense`, 403},
		"grants what it holds":                    {manages, "POST", "/v1/api-keys/workspace/user", `{"name":"n","scopes":["virtual_keys.create"]}`, 200},
		"grants more than it holds":               {manages, "POST", "/v1/api-keys/workspace/user", `{"name":"n","scopes":["completions.write"]}`, 403},
		"another kind of key":                     {manages, "POST", "/v1/api-keys/workspace/service", `{"name":"n","scopes":["virtual_keys.create"]}`, 403},
		"an organisation key for a workspace":     {organisation, "POST", "/v1/api-keys/workspace/service", `{"name":"n","scopes":["completions.write"]}`, 200},
		"an organisation key gives what it lacks": {organisation, "POST", "/v1/api-keys/organisation/service", `{"name":"n","scopes":["policies.create"]}`, 403},
		"a workspace key of an organisation's":    {lists, "POST", "/v1/api-keys/organisation/service", `{"name":"n","scopes":["policies.create"]}`, 403},
	} {
		t.Run(name, func(t *testing.T) {
			out := a.as(c.key, c.method, c.path, c.body)
			if out.status != c.status {
				t.Fatalf("%d %s", out.status, out.body)
			}
			code := map[int]string{401: "AB05", 403: "AB03"}[c.status]
			if c.status != 200 && (out.get("success").Raw != "false" || out.code() != code || out.message() == "") {
				t.Errorf("%s", out.body)
			}
		})
	}
}

func TestNobodyChangesAKeyThatMayDoMore(t *testing.T) {
	a := newAPI(t)
	_, strong := a.key("organisation/service", `"organisation_service_api_keys.update","organisation_service_api_keys.delete","policies.create"`)
	weak, weakID := a.key("organisation/service", `"organisation_service_api_keys.update","organisation_service_api_keys.delete"`)
	var owner string
	if err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
		owner = storage.NewID(rand.Reader)
		_, err := a.s.Keyring.Issue(tx, owner, "gw-", &credentials.APIKey{Name: "Owner", Kind: credentials.OrganisationService, Owner: true, Scopes: []string{"logs.view"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{strong, owner} {
		for _, c := range []struct{ method, body string }{
			{"PUT", `{"name":"mine"}`}, {"PUT", `{"expires_at":"2026-11-28T00:00:00Z"}`}, {"DELETE", ""},
		} {
			if out := a.as(weak, c.method, "/v1/api-keys/"+id, c.body); out.status != 403 {
				t.Errorf("%s %s: %d %s", c.method, c.body, out.status, out.body)
			}
		}
	}
	for _, body := range []string{`{"expires_at":null}`, `{"scopes":["organisation_service_api_keys.update"]}`, `{"defaults":{"metadata":{"a":"b"}}}`} {
		if out := a.as(weak, "PUT", "/v1/api-keys/"+weakID, body); out.status != 403 {
			t.Errorf("%s of itself: %d %s", body, out.status, out.body)
		}
	}
	if out := a.as(weak, "PUT", "/v1/api-keys/"+weakID, `{"name":"renamed"}`); out.status != 200 {
		t.Errorf("its own name: %d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/api-keys/"+owner, "")
}

// Otherwise a key that ends, or that is bound to its config, could make itself one that
// does not and is not.
func TestAKeyMakesNoKeyOfMoreThanItself(t *testing.T) {
	a := newAPI(t)
	const scopes = `"scopes":["workspace_service_api_keys.create","workspace_service_api_keys.update","completions.write"]`
	make := func(as, fields string) answer {
		body := `{"name":"n",` + scopes + fields + `}`
		if as == "" {
			return a.ok("POST", "/v1/api-keys/workspace/service", body)
		}
		return a.as(as, "POST", "/v1/api-keys/workspace/service", body)
	}
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}}}`).get("slug").Str
	locked := `,"defaults":{"config_id":"` + config + `","allow_config_override":false}`
	ends := make("", `,"expires_at":"2026-12-01T00:00:00Z"`)
	bound := make("", locked)
	for _, c := range []struct {
		as, fields string
		want       int
	}{
		{ends.get("key").Str, ``, 403},
		{ends.get("key").Str, `,"expires_at":null`, 403},
		{ends.get("key").Str, `,"expires_at":"2026-12-01T00:00:01Z"`, 403},
		{ends.get("key").Str, `,"expires_at":"2026-12-01T00:00:00Z"`, 200},
		{bound.get("key").Str, ``, 200}, // it has the same
		{bound.get("key").Str, `,"defaults":{"config_id":"` + config + `"}`, 403},
		{bound.get("key").Str, `,"defaults":{"allow_config_override":false}`, 403},
		{bound.get("key").Str, locked, 200},
	} {
		if out := make(c.as, c.fields); out.status != c.want {
			t.Errorf("%s: %d %s", c.fields, out.status, out.body)
		}
	}
	other := make("", locked).get("id").Str
	if out := a.as(bound.get("key").Str, "PUT", "/v1/api-keys/"+other, `{"defaults":{}}`); out.status != 403 {
		t.Errorf("unbinding another: %d %s", out.status, out.body)
	}
	other = make("", `,"expires_at":"2026-11-30T00:00:00Z"`).get("id").Str
	if out := a.as(ends.get("key").Str, "PUT", "/v1/api-keys/"+other, `{"expires_at":null}`); out.status != 403 {
		t.Errorf("more time for another: %d %s", out.status, out.body)
	}
}
