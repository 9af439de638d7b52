package admin_test

import (
	"strings"
	"testing"
	"time"
)

// A version has several labels, which it loses one by one, and those of partials are given like those of prompts.
func TestLabelsAreGivenAndTakenOneByOne(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	one := a.ok("POST", "/v1/labels", `{"name":"one"}`).get("id").Str
	point := a.ok("POST", "/v1/labels", `{"name":"v1.2"}`).get("id").Str
	for _, bad := range []string{"", "a b", "a@b", "1.2.3", "latest", "default", "12", "a\\tb"} {
		if out := a.do("POST", "/v1/labels", `{"name":"`+bad+`"}`); out.status != 400 {
			t.Errorf("%q: %d %s", bad, out.status, out.body)
		}
	}
	partial := a.ok("POST", "/v1/prompts/partials", `{"name":"p","string":"first"}`).get("slug").Str
	for path, names := range map[string]string{
		"/v1/prompts/" + a.ok("POST", "/v1/prompts", `{"name":"n","string":"{{>`+partial+`}}","virtual_key":"@local"}`).get("slug").Str: "prompt_version_labels.#.name",
		"/v1/prompts/partials/" + partial: "version_labels.#.name",
	} {
		labels := func() string { return a.ok("GET", path, "").get(names).Raw }
		a.ok("PUT", path+"/versions/1", `{"label_id":"`+one+`"}`)
		a.ok("PUT", path+"/versions/1", `{"label_id":"`+point+`"}`)
		if got := labels(); got != `["one","v1.2"]` {
			t.Errorf("%s: %s", path, got)
		}
		if out := a.ok("GET", path+"@v1.2", ""); out.get(names).Raw != `["one","v1.2"]` {
			t.Errorf("%s@v1.2: %s", path, out.body)
		}
		a.ok("PUT", path+"/versions/1", `{"label_id":"`+one+`","remove":true}`)
		if got := labels(); got != `["v1.2"]` {
			t.Errorf("%s: %s", path, got)
		}
		a.refuses(ownerKey, "PUT", path+"/versions/1", `{"label_id":"`+one+`","remove":true}`, 404, "label_id: the version has no label")
		a.refuses(ownerKey, "PUT", path+"/versions/1", `{"remove":true}`, 400, "label_id: expected the label")
		if path != "/v1/prompts/partials/"+partial {
			a.ok("PUT", path+"/versions/1", `{"label_id":null}`)
			if got := labels(); got != `[]` {
				t.Errorf("%s: %s", path, got)
			}
		}
	}
	a.ok("POST", "/v1/prompts", `{"name":"m","string":"{{>`+partial+`@v1.2}}","virtual_key":"@local"}`)
}

// A reference with @ names a version.
func TestAnEmptyVersionIsNone(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	slug := a.ok("POST", "/v1/prompts", `{"name":"n","string":"s","virtual_key":"@local"}`).get("slug").Str
	partial := a.ok("POST", "/v1/prompts/partials", `{"name":"p","string":"s"}`).get("slug").Str
	a.refuses(ownerKey, "GET", "/v1/prompts/"+slug+"@", "", 404, "No version is named behind @")
	a.refuses(ownerKey, "POST", "/v1/configs", `{"name":"c","config":{"prompt_id":"`+slug+`@"}}`, 400, "prompt_id: the workspace has no such prompt, or no such version of it")
	a.refuses(ownerKey, "POST", "/v1/prompts", `{"name":"n","string":"{{>`+partial+`@}}","virtual_key":"@local"}`, 400, "no such version of it")
}

// What contradicts another part of a request, or the object, is refused and not ignored.
func TestContradictionsAreRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.workspace("red")
	config := func(workspace string) string {
		return `{"name":"c",` + workspace + `"config":{"retry":{"attempts":1}}}`
	}
	a.refuses(ownerKey, "POST", "/v1/configs?workspace_id=red", config(`"workspace_id":"blue",`), 400, "workspace_id: the query names a workspace")
	a.refuses(ownerKey, "POST", "/v1/configs?workspace_id=red", config(""), 400, "workspace_id: the query names a workspace")
	a.ok("POST", "/v1/configs?workspace_id=red", config(`"workspace_id":"red",`))
	a.refuses(ownerKey, "POST", "/v1/virtual-keys?workspace_id=red", `{"name":"n","provider":"openai","key":"k"}`, 400, "workspace_id: the query names a workspace")

	_, id := a.key("workspace/service", `"logs.view"`)
	for _, same := range []string{`{"type":"workspace","sub-type":"service"}`, `{"type":"workspace-service"}`, `{"name":"n"}`} {
		a.ok("PUT", "/v1/api-keys/"+id, same)
	}
	a.refuses(ownerKey, "PUT", "/v1/api-keys/"+id, `{"type":"organisation"}`, 400, "type: the key is one of kind workspace-service")
	a.refuses(ownerKey, "PUT", "/v1/api-keys/"+id, `{"sub-type":"user"}`, 400, "sub-type: the key is one of kind workspace-service")
	a.refuses(ownerKey, "POST", "/v1/api-keys/workspace/user", `{"name":"k","type":"organisation","scopes":["logs.view"]}`, 400, "type: the key is one of kind workspace-user")
}

// The metadata of a key has the bounds of what calls send.
func TestMetadataOfKeysIsBounded(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	make := func(metadata string) answer {
		return a.do("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.view"],"defaults":{"metadata":`+metadata+`}}`)
	}
	long, longer := strings.Repeat("é", 128), strings.Repeat("é", 129)
	for _, good := range []string{`{"a":1,"b":{"c":[true]}}`, `{"` + long + `":"` + long + `"}`, strings.Repeat(`{"a":`, 8) + "1" + strings.Repeat("}", 8)} {
		if out := make(good); out.status != 200 {
			t.Errorf("%s: %d %s", good, out.status, out.body)
		}
	}
	for _, bad := range []string{
		`{"a":"` + longer + `"}`, `{"` + longer + `":1}`, `{"a":[{"b":"` + longer + `"}]}`, strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9),
		`{"first":1` + manyMembers(64) + `}`,
	} {
		if out := make(bad); out.status != 400 || !strings.HasPrefix(out.message(), "defaults.metadata: expected") {
			t.Errorf("%s: %d %s", bad, out.status, out.body)
		}
	}
}

// manyMembers returns so many members of an object, each after a comma.
func manyMembers(n int) (members string) {
	for i := range n {
		members += `,"m` + strings.Repeat("x", i) + `":1`
	}
	return members
}

func TestAnExpiredKeyIsNotRotated(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	_, id := a.key("workspace/service", `"logs.view"`)
	a.ok("PUT", "/v1/api-keys/"+id, `{"expires_at":"2026-11-28T12:00:00Z"}`)
	a.now.Add(int64(48 * time.Hour))
	a.refuses(ownerKey, "POST", "/v1/api-keys/"+id+"/rotate", "", 409, "The key expired at 2026-11-28")
	a.ok("PUT", "/v1/api-keys/"+id, `{"expires_at":"2026-12-28T12:00:00Z"}`)
	a.ok("POST", "/v1/api-keys/"+id+"/rotate", "")
}

// A workspace is found by its name with or without the emoji that it begins with.
func TestWorkspacesAreFoundWithoutTheirEmoji(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.ok("POST", "/v1/admin/workspaces", `{"name":"🚀 Ship"}`)
	a.ok("POST", "/v1/admin/workspaces", `{"name":"Shipping"}`)
	for query, want := range map[string]int64{
		"name=Ship": 1, "name=ship": 1, "exact_name=Ship": 1, "exact_name=ship": 0, "name=%F0%9F%9A%80%20ship": 1, "exact_name=%F0%9F%9A%80%20Ship": 1,
		"name=Ship&exact_name=%F0%9F%9A%80%20Ship": 1, "name=Shipping&exact_name=Ship": 0, "name=Ship&name_format=plain": 1,
	} {
		if got := a.ok("GET", "/v1/admin/workspaces?"+query, "").get("total").Int(); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

func TestTheDocumentIsBelowBothVersions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, form := range []string{"json", "yaml"} {
		if one, other := a.as("", "GET", "/v1/openapi."+form, ""), a.as("", "GET", "/v2/openapi."+form, ""); one.status != 200 || one.body != other.body {
			t.Errorf("%s: %d and %d", form, one.status, other.status)
		}
	}
}
