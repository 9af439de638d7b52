package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// workspace creates a workspace and returns its id.
func (a *api) workspace(slug string) string {
	a.t.Helper()
	return a.ok("POST", "/v1/admin/workspaces", `{"name":"`+slug+`","slug":"`+slug+`"}`).get("id").Str
}

func TestWorkspacesAreMade(t *testing.T) {
	a := newAPI(t)
	for i, c := range []struct{ path, body, slug, description, metadata string }{
		{"/v1/admin/workspaces", `{"name":"Red team","slug":"red","description":"d","defaults":{"metadata":{"team":"red"}},"users":[],"usage_limits":null,"rate_limits":[]}`, "^red$", "d", `{"team":"red"}`},
		{"/v2/workspaces", `{"name":"Blue team"}`, "^ws-blue-team-[0-9a-f]{6}$", "", ""},
		{"/v2/admin/workspaces", `{"name":"Blue team","settings":{"debug_log":0},"security_settings":{"organisationAdminsViewLogs":false}}`, "^ws-blue-team-[0-9a-f]{6}$", "", ""},
	} {
		out := a.ok("POST", c.path, c.body)
		if _, err := uuid.Parse(out.get("id").Str); err != nil || !regexp.MustCompile(c.slug).MatchString(out.get("slug").Str) ||
			out.get("description").Str != c.description || out.get("defaults.metadata").Raw != c.metadata || out.get("object").Str != "workspace" ||
			out.get("is_default").Int() != 0 || out.get("created_at").Str != iso || out.get("last_updated_at").Str != iso || out.get("usage_limits").Raw != "[]" {
			t.Errorf("%s: %s", c.body, out.body)
		}
		if i == 2 && (out.get("settings.debug_log").Raw != "0" || out.get("security_settings.organisationAdminsViewLogs").Bool()) {
			t.Errorf("%s: %s", c.body, out.body)
		}
		for _, id := range []string{out.get("id").Str, strings.ToUpper(out.get("id").Str), out.get("slug").Str} {
			if one := a.ok("GET", "/v1/admin/workspaces/"+id, ""); strings.Replace(one.body, `,"users":[]`, "", 1) != out.body || one.get("users").Raw != "[]" {
				t.Errorf("%s: %s, made %s", id, one.body, out.body)
			}
		}
	}
	if list := a.ok("GET", "/v1/admin/workspaces", ""); list.get("total").Int() != 4 || list.get("data.#(is_default==1)#.slug").String() == "" {
		t.Errorf("%s", list.body)
	}
	trail := a.trail()
	made := trail[0]
	if made.Scope != "workspaces.create" || made.Status != 200 || made.Resource == "" || strings.Join(made.Fields, ",") != "name,security_settings,settings" {
		t.Errorf("the trail says %+v", made)
	}
}

func TestWorkspacesAreNotMadeOfBadInput(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	manages, _ := a.key("workspace/service", `"workspaces.update"`)
	reads, _ := a.key("organisation/service", `"workspaces.read"`)
	creates, _ := a.key("organisation/service", `"workspaces.create"`)
	for _, c := range []struct {
		key, body string
		status    int
		code, why string
	}{
		{ownerKey, `{}`, 400, "AB01", "name"},
		{ownerKey, `{"name":""}`, 400, "AB01", "name"},
		{ownerKey, `{"name":"` + strings.Repeat("x", 256) + `"}`, 400, "AB01", "name"},
		{ownerKey, `{"name":"n","slug":"a b"}`, 400, "AB01", "slug"},
		{ownerKey, `{"name":"n","slug":"` + strings.Repeat("x", 256) + `"}`, 400, "AB01", "slug"},
		{ownerKey, `{"name":"n","slug":"0191e7a3-0000-7000-8000-000000000000"}`, 400, "AB01", "slug: expected a name that is not a UUID"},
		{ownerKey, `{"name":"n","slug":"0191E7A3000070008000000000000000"}`, 400, "AB01", "slug"},
		{ownerKey, `{"name":"n","slug":"red"}`, 409, "AB07", `slug: "red" is taken`},
		{ownerKey, `{"name":"n","description":"` + strings.Repeat("x", 1025) + `"}`, 400, "AB01", "description"},
		{ownerKey, `{"name":"n","defaults":{"metadata":{"a":1}}}`, 400, "AB01", "defaults"},
		{ownerKey, `{"name":"n","defaults":{"metadata":{"a":"` + strings.Repeat("x", 129) + `"}}}`, 400, "AB01", "defaults.metadata"},
		{ownerKey, `{"name":"n","users":["0191e7a3-0000-7000-8000-000000000000"]}`, 404, "AB02", "users: there is no user"},
		{ownerKey, `{"name":"n","usage_limits":[{}]}`, 400, "AB01", "usage_limits[0].credit_limit: required"},
		{ownerKey, `{"name":"n","usage_limits":[{"credit_limit":1},{"credit_limit":2}]}`, 400, "AB01", "usage_limits: expected one budget at most"},
		{ownerKey, `{"name":"n","rate_limits":[{}]}`, 400, "AB01", "rate_limits"},
		{ownerKey, `{"name":"n","colour":"x"}`, 400, "AB01", "colour"},
		{ownerKey, `{"name":"n","security_settings":{"organisationAdminsViewLogMetadata":false}}`, 400, "AB01", "security_settings.organisationAdminsViewLogMetadata"},
		{manages, `{"name":"n"}`, 403, "AB03", "workspaces.create"},
		{reads, `{"name":"n"}`, 403, "AB03", "workspaces.create"},
		{creates, `{"name":"n"}`, 200, "", ""},
	} {
		out := a.as(c.key, "POST", "/v1/admin/workspaces", c.body)
		if out.status != c.status || out.code() != c.code || !strings.Contains(out.message(), c.why) {
			t.Errorf("%s: %d %s, want %d %q", c.body, out.status, out.body, c.status, c.why)
		}
	}
	if n := len(a.s.Directory.Workspaces()); n != 3 {
		t.Errorf("%d workspaces, want 3", n)
	}
}

// A workspace key can neither see nor change objects of another workspace.
func TestKeysOfAWorkspaceSeeNothingOfAnother(t *testing.T) {
	a := newAPI(t)
	red, blue := a.workspace("red"), a.workspace("blue")
	const all = `"workspaces.read","workspaces.update","workspaces.list","workspace_service_api_keys.create","workspace_service_api_keys.read","workspace_service_api_keys.update",
		"workspace_service_api_keys.delete","workspace_service_api_keys.list","virtual_keys.create","virtual_keys.read","virtual_keys.update","virtual_keys.delete","virtual_keys.list",
		"configs.create","configs.read","configs.update","configs.delete","configs.list","policies.create","policies.read","policies.update","policies.delete","policies.list"`
	made := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":[`+all+`],"workspace_id":"red"}`)
	own, ownID := made.get("key").Str, made.get("id").Str

	// One object of each kind in the other workspace, created by the organisation.
	in := func(path, body string) gjson.Result {
		return gjson.Parse(a.ok("POST", path, strings.Replace(body, "{", `{"workspace_id":"blue",`, 1)).body)
	}
	others := []struct{ list, create, item, body string }{
		{"/v1/api-keys", "/v1/api-keys/workspace/service", "/v1/api-keys/" + in("/v1/api-keys/workspace/service", `{"name":"k","scopes":["virtual_keys.list"]}`).Get("id").Str, `{"name":"n"}`},
		{"/v1/virtual-keys", "/v1/virtual-keys", "/v1/virtual-keys/" + in("/v1/virtual-keys", `{"name":"k","provider":"openai","key":"sk"}`).Get("data.slug").Str, `{"name":"n"}`},
		{"/v1/configs", "/v1/configs", "/v1/configs/" + in("/v1/configs", `{"name":"k","config":{"retry":{"attempts":1}}}`).Get("slug").Str, `{"name":"n"}`},
		{"/v1/policies/rate-limits", "/v1/policies/rate-limits", "/v1/policies/rate-limits/" + in("/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":3}`).Get("id").Str, `{"name":"n"}`},
		{"", "", "/v1/admin/workspaces/" + blue, `{"name":"n"}`},
		{"", "", "/v1/admin/workspaces/blue", `{"name":"n"}`},
	}
	bodies := map[string]string{
		"/v1/api-keys/workspace/service": `{"name":"k","scopes":["virtual_keys.list"],"workspace_id":"blue"}`,
		"/v1/virtual-keys":               `{"name":"k","provider":"openai","key":"sk","workspace_id":"blue"}`,
		"/v1/configs":                    `{"name":"k","config":{"retry":{"attempts":1}},"workspace_id":"blue"}`,
		"/v1/policies/rate-limits":       `{"type":"requests","unit":"rpm","value":3,"workspace_id":"blue"}`,
	}
	for _, o := range others {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			if method == "DELETE" && o.list == "" {
				continue // workspace keys delete no workspace
			}
			out := a.as(own, method, o.item, map[string]string{"PUT": o.body}[method])
			nowhere := a.as(own, method, o.item[:strings.LastIndexByte(o.item, '/')]+"/nope", map[string]string{"PUT": o.body}[method])
			if out.status != 404 || nowhere.status != 404 || strings.Replace(out.body, o.item[strings.LastIndexByte(o.item, '/')+1:], "nope", 1) != nowhere.body {
				t.Errorf("%s %s: %d %s; of what is not there: %d %s", method, o.item, out.status, out.body, nowhere.status, nowhere.body)
			}
		}
		if o.list == "" {
			continue
		}
		for _, query := range []string{"", "?page_size=1000"} {
			if out := a.as(own, "GET", o.list+query, ""); out.status != 200 || strings.Contains(out.body, blue) {
				t.Errorf("%s%s: %d %s", o.list, query, out.status, out.body)
			}
		}
		for _, named := range []string{"blue", blue, a.s.Directory.DefaultWorkspace().Slug, "nope"} {
			if out := a.as(own, "GET", o.list+"?workspace_id="+named, ""); out.status != 403 {
				t.Errorf("%s of %s: %d %s", o.list, named, out.status, out.body)
			}
		}
		if out := a.as(own, "POST", o.create, bodies[o.create]); out.status != 403 {
			t.Errorf("POST %s: %d %s", o.create, out.status, out.body)
		}
		// The organisation sees both workspaces, or either of them.
		if out := a.ok("GET", o.list+"?workspace_id="+blue, ""); out.get("total").Int() != 1 || out.get("data.0.workspace_id").Str != blue {
			t.Errorf("%s of blue: %s", o.list, out.body)
		}
	}
	if out := a.as(own, "GET", "/v1/admin/workspaces", ""); out.get("total").Int() != 1 || out.get("data.0.id").Str != red {
		t.Errorf("%s", out.body)
	}
	if out := a.as(own, "GET", "/v1/api-keys", ""); out.get("total").Int() != 1 || out.get("data.0.id").Str != ownID {
		t.Errorf("%s", out.body)
	}
}

// Conditions of policies reveal nothing about another workspace.
func TestConditionsConfirmNothingOfAnotherWorkspace(t *testing.T) {
	a := newAPI(t)
	a.workspace("red")
	blue := a.workspace("blue")
	own := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["policies.create","policies.update"],"workspace_id":"red"}`).get("key").Str
	theirs := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.view"],"workspace_id":"blue"}`).get("id").Str
	organisations := a.ok("POST", "/v1/api-keys/organisation/service", `{"name":"k","scopes":["logs.view"]}`).get("id").Str
	a.ok("POST", "/v1/virtual-keys", `{"name":"k","slug":"theirs","provider":"openai","key":"sk","workspace_id":"blue"}`)
	of := func(key, value string) string {
		return `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"` + key + `","value":"` + value + `"}]}`
	}
	for key, values := range map[string][]string{"api_key": {theirs, organisations}, "virtual_key": {"theirs"}, "provider": {"theirs", "@theirs"}, "workspace_id": {blue, "blue"}} {
		for _, value := range values {
			out, nowhere := a.as(own, "POST", "/v1/policies/rate-limits", of(key, value)), a.as(own, "POST", "/v1/policies/rate-limits", of(key, "nope"))
			if out.status != 404 || strings.Replace(out.body, value, "nope", 1) != nowhere.body {
				t.Errorf("%s %s: %d %s; of what is nowhere: %s", key, value, out.status, out.body, nowhere.body)
			}
			a.ok("POST", "/v1/policies/rate-limits", of(key, value))
		}
	}
}

// A key with restrictions cannot create or change a key without them.
func TestAKeyMakesNoTwinWithoutWhatHoldsIt(t *testing.T) {
	a := newAPI(t)
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}}}`).get("slug").Str
	const scopes = `"scopes":["workspace_service_api_keys.create","workspace_service_api_keys.update"]`
	made := func(body string) (key, id string) {
		t.Helper()
		out := a.ok("POST", "/v1/api-keys/workspace/service", body)
		return out.get("key").Str, out.get("id").Str
	}
	held, _ := made(`{"name":"held",` + scopes + `,"defaults":{"metadata":{"team":"red","n":1},"config_id":"` + config + `","allow_config_override":false}}`)
	_, free := made(`{"name":"free",` + scopes + `}`)
	counted, countedID := made(`{"name":"counted",` + scopes + `}`)
	a.ok("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"conditions":[{"key":"api_key","value":"`+countedID+`"}]}`)

	out := a.as(held, "POST", "/v1/api-keys/workspace/service", `{"name":"twin",`+scopes+`}`)
	if out.status != 200 {
		t.Fatal(out.body)
	}
	twin := out.get("id").Str
	shown := a.ok("GET", "/v1/api-keys/"+twin, "")
	if shown.get("defaults.metadata").Raw != `{"n":1,"team":"red"}` || shown.get("defaults.config_id").Str == "" || shown.get("allow_config_override").Raw != "false" {
		t.Errorf("a twin has %s", shown.body)
	}
	bound := `"config_id":"` + config + `","allow_config_override":false`
	for _, c := range []struct {
		key, method, id, body string
		status                int
		why                   string
	}{
		{held, "POST", "", `{"name":"n",` + scopes + `,"defaults":{"metadata":{"more":1}}}`, 200, ""},
		{held, "POST", "", `{"name":"n",` + scopes + `,"defaults":{"metadata":{"team":"blue"}}}`, 403, "defaults.metadata"},
		{held, "POST", "", `{"name":"n",` + scopes + `,"defaults":{"metadata":{"n":"1"}}}`, 403, "defaults.metadata"},
		{held, "POST", "", `{"name":"n",` + scopes + `,"defaults":{"allow_config_override":true}}`, 403, "defaults"},
		{held, "PUT", twin, `{"defaults":null}`, 403, "defaults"},
		{held, "PUT", twin, `{"defaults":{` + bound + `}}`, 403, "defaults.metadata"},
		{held, "PUT", twin, `{"defaults":{` + bound + `,"metadata":{"team":"red","n":1,"more":1}}}`, 200, ""},
		{held, "PUT", free, `{` + scopes + `}`, 403, "defaults"},
		{held, "PUT", free, `{"expires_at":null}`, 403, "defaults"},
		{held, "PUT", free, `{"name":"renamed"}`, 200, ""},
		{counted, "POST", "", `{"name":"n",` + scopes + `}`, 403, "A policy counts"},
		{counted, "PUT", free, `{` + scopes + `}`, 403, "A policy counts"},
	} {
		path := "/v1/api-keys/workspace/service"
		if c.id != "" {
			path = "/v1/api-keys/" + c.id
		}
		if out := a.as(c.key, c.method, path, c.body); out.status != c.status || !strings.Contains(out.message(), c.why) {
			t.Errorf("%s %s: %d %s, want %d %q", c.method, c.body, out.status, out.body, c.status, c.why)
		}
	}
}

// Two workspaces can have virtual keys with the same slug. Neither learns of the
// other's, and each uses its own.
func TestWorkspacesMayHaveVirtualKeysOfTheSameSlug(t *testing.T) {
	a := newAPI(t)
	keys, ids, made := map[string]string{}, map[string]string{}, map[string]string{}
	for _, w := range []string{"red", "blue"} {
		a.workspace(w)
		keys[w] = a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"`+w+`","scopes":["virtual_keys.create","virtual_keys.read","virtual_keys.update","virtual_keys.delete","virtual_keys.list","policies.create"]}`).get("key").Str
		for _, slug := range []string{"same", "free-" + w} {
			out := a.as(keys[w], "POST", "/v1/virtual-keys", `{"name":"of `+w+`","slug":"`+slug+`","provider":"openai","key":"sk-of-`+w+`"}`)
			id := out.get("data.id").Str
			if out.status != 200 || id == "" {
				t.Fatalf("%s in %s: %d %s", slug, w, out.status, out.body)
			}
			made[slug] = strings.NewReplacer(id, "id", slug, "slug").Replace(out.body)
			if slug == "same" {
				ids[w] = id
			}
		}
		if made["same"] != made["free-"+w] {
			t.Errorf("%s: a slug that others have is answered %s, a free one %s", w, made["same"], made["free-"+w])
		}
		again := a.as(keys[w], "POST", "/v1/virtual-keys", `{"name":"n","slug":"same","provider":"openai","key":"sk"}`)
		if again.status != 409 || !strings.Contains(again.body, `slug: \"same\" is taken`) {
			t.Errorf("twice in %s: %d %s", w, again.status, again.body)
		}
	}
	const path = "/v1/virtual-keys/"
	for w, key := range keys {
		if out := a.as(key, "GET", path+"same", ""); out.get("id").Str != ids[w] || out.get("name").Str != "of "+w {
			t.Errorf("%s gets %s", w, out.body)
		}
	}
	for _, name := range []string{ids["red"], "free-red"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			if out := a.as(keys["blue"], method, path+name, `{"name":"taken"}`); out.status != 404 {
				t.Errorf("%s %s: %d %s", method, name, out.status, out.body)
			}
		}
	}

	// A key of the organisation must name the workspace.
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if out := a.do(method, path+"same", `{"key":"sk-for-one-of-them"}`); out.status != 409 || !strings.Contains(out.body, "workspace_id") {
			t.Errorf("%s of one of two: %d %s", method, out.status, out.body)
		}
	}
	for _, name := range []string{"same?workspace_id=red", ids["red"], ids["red"] + "?workspace_id=red"} {
		if out := a.ok("GET", path+name, ""); out.get("id").Str != ids["red"] {
			t.Errorf("%s: %s", name, out.body)
		}
	}
	for _, name := range []string{ids["red"] + "?workspace_id=blue", "same?workspace_id=" + a.s.Directory.DefaultWorkspace().ID} {
		if out := a.do("GET", path+name, ""); out.status != 404 {
			t.Errorf("%s: %d %s", name, out.status, out.body)
		}
	}
	if out := a.as(keys["blue"], "GET", path+"same?workspace_id=red", ""); out.status != 403 {
		t.Errorf("another workspace's by name: %d %s", out.status, out.body)
	}

	// The same applies to policies of a workspace, whoever creates them.
	for value, want := range map[string]int{"same": 200, ids["blue"]: 200, ids["red"]: 404, "free-red": 404} {
		if out := a.do("POST", "/v1/policies/rate-limits", `{"type":"requests","unit":"rpm","value":1,"workspace_id":"blue","conditions":[{"key":"virtual_key","value":"`+value+`"}]}`); out.status != want {
			t.Errorf("a policy of blue on %s: %d %s", value, out.status, out.body)
		}
	}

	// Changing the virtual key of one workspace does not affect that of the other.
	before := a.as(keys["red"], "GET", path+"same", "").body
	a.as(keys["blue"], "PUT", path+"same", `{"name":"changed","key":"sk-other"}`)
	a.as(keys["blue"], "DELETE", path+"same", "")
	if out := a.as(keys["blue"], "GET", path+"same", ""); out.status != 404 {
		t.Errorf("deleted: %d %s", out.status, out.body)
	}
	if out := a.as(keys["red"], "GET", path+"same", ""); out.body != before {
		t.Errorf("red has %s, had %s", out.body, before)
	}
	if out := a.ok("GET", path+"same", ""); out.get("id").Str != ids["red"] {
		t.Errorf("the only one: %s", out.body)
	}
}

func TestWorkspacesListTheDefaultOne(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/v1/admin/workspaces", "/v2/workspaces", "/v2/admin/workspaces", "/v1/admin/workspaces?name=default%20workspace&status=active"} {
		out := a.ok("GET", path, "")
		w := out.get("data.0")
		if out.get("object").Str != "list" || out.get("total").Int() != 1 || len(w.Get("id").Str) != 36 || !strings.HasPrefix(w.Get("slug").Str, "ws-") ||
			w.Get("is_default").Int() != 1 || w.Get("object").Str != "workspace" || w.Get("created_at").Str != iso {
			t.Errorf("%s: %s", path, out.body)
		}
		for _, id := range []string{w.Get("id").Str, w.Get("slug").Str} {
			if one := a.ok("GET", "/v2/workspaces/"+id, ""); one.get("id").Str != w.Get("id").Str {
				t.Errorf("%s", one.body)
			}
		}
	}
	if out := a.ok("GET", "/v1/admin/workspaces?status=archived", ""); out.get("total").Int() != 0 || out.get("data").Raw != "[]" {
		t.Errorf("%s", out.body)
	}
}

// What workspaces and members say of where they come from, and names in lists.
func TestWorkspacesSayWhereTheyComeFrom(t *testing.T) {
	a := newAPI(t)
	key, id := a.key("organisation/service", `"workspaces.create","workspaces.read"`)
	made := a.as(key, "POST", "/v1/admin/workspaces", `{"name":"🚀 Red team","slug":"red"}`)
	if made.status != 200 || made.get("created_by").Str != id || made.get("creation_source").Str != "api" {
		t.Errorf("%d %s", made.status, made.body)
	}
	first := a.ok("GET", "/v1/admin/workspaces/"+a.s.Directory.DefaultWorkspace().ID, "")
	if first.get("created_by").Raw != "null" || first.get("creation_source").Str != "auto" {
		t.Errorf("%s", first.body)
	}
	for format, want := range map[string]string{"": "🚀 Red team", "?name_format=display": "🚀 Red team", "?name_format=plain": "Red team"} {
		for _, path := range []string{"/v1/admin/workspaces", "/v2/workspaces"} {
			if got := a.ok("GET", path+format, "").get("data.1.name").Str; got != want {
				t.Errorf("%s%s: %q", path, format, got)
			}
		}
	}
	if out := a.do("GET", "/v1/admin/workspaces?name_format=short", ""); out.status != 400 || !strings.Contains(out.message(), "name_format") {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.member("m@example.com", "red", "member")
	if out := a.ok("GET", "/v1/admin/workspaces/red/users", ""); out.get("data.0.settings").Raw != "null" {
		t.Errorf("%s", out.body)
	}
}

// Pages have the sizes of the reference where it says them.
func TestPagesHaveTheirOwnSizes(t *testing.T) {
	a := newAPI(t)
	for path, c := range map[string]struct {
		least string
		size  int
	}{
		"/v1/admin/workspaces/{workspace_id}/users": {"0", 50}, "/v1/secret-references": {"1", 20}, "/v1/guardrails": {"1", 100},
		"/v1/labels": {"1", 100}, "/v1/collections": {"1", 100}, "/v1/policies/rate-limits": {"0", 100}, "/v1/virtual-keys": {"0", 100},
	} {
		size := a.paths()[path].Get(`get.parameters.#(name=="page_size").schema`)
		if size.Get("default").Int() != int64(c.size) || size.Get("minimum").Raw != c.least {
			t.Errorf("%s: %s", path, size.Raw)
		}
		path = strings.Replace(path, "{workspace_id}", a.s.Directory.DefaultWorkspace().ID, 1)
		if out := a.do("GET", path+"?page_size=0", ""); (out.status == 200) != (c.least == "0") {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
	}
}

// A resync has what is cached of other systems fetched anew, by who may change settings of the organisation.
func TestAResyncFetchesAnewWhatIsCached(t *testing.T) {
	a := newAPI(t)
	n := 0
	a.s.Resync = func() { n++ }
	a.serve()
	id := a.s.Directory.Organisation().ID
	if out := a.do("POST", "/v1/organisation/0191e7a3-0000-7000-8000-000000000000/resync", ""); out.status != 404 || n != 0 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.ok("POST", "/v1/organisation/"+strings.ToUpper(id)+"/resync", ""); out.body != "{}" || n != 1 {
		t.Errorf("%s, %d times", out.body, n)
	}
}
