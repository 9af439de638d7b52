package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/tidwall/gjson"
)

func TestAConfigIsRolledBackToAVersion(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"openai","api_key":"sk-0123456789abcdef"}}`).get("slug").Str
	a.ok("PUT", "/v1/configs/"+slug, `{"config":{"provider":"openai","api_key":"sk-fedcba9876543210"}}`)
	versions := "/v1/configs/" + slug + "/versions"
	first := a.ok("GET", versions, "").get("data.0.version_id").Str
	for _, which := range []string{first, "1"} {
		if out := a.ok("GET", versions+"/"+which, ""); out.get("version_id").Str != first || out.get("version").Int() != 1 || out.get("config").Str != `{"provider":"openai","api_key":"sk*****def"}` {
			t.Errorf("%s: %s", which, out.body)
		}
	}
	for _, which := range []string{"3", "0", "nope"} {
		if out := a.do("GET", versions+"/"+which, ""); out.status != 404 || out.code() != "AB08" {
			t.Errorf("%s: %d %s", which, out.status, out.body)
		}
	}
	for body, status := range map[string]int{
		`{"version_id":"3"}`: 404,
		`{"version_id":"1","config":{"provider":"openai"}}`: 400,
		`{"version_id":1}`: 400,
	} {
		if out := a.do("PUT", "/v1/configs/"+slug, body); out.status != status || !strings.Contains(out.body, "version_id") {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/configs/"+slug, `{"version_id":"`+first+`"}`)
	s, _ := a.s.Configs.Get(slug)
	if text, err := a.s.Configs.Text(s.Current()); err != nil || text != `{"provider":"openai","api_key":"sk-0123456789abcdef"}` || s.Current().Number != 3 {
		t.Errorf("rolled back to %s, version %d, %v", text, s.Current().Number, err)
	}
}

// Objects that a version refers to may have been deleted since.
func TestARollbackIsCheckedAsAnyText(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"mine","provider":"openai","key":"sk-1"}`)
	slug := a.ok("POST", "/v1/configs", `{"name":"c","config":{"virtual_key":"mine"}}`).get("slug").Str
	a.ok("PUT", "/v1/configs/"+slug, `{"config":{"provider":"@local"}}`)
	a.ok("DELETE", "/v1/virtual-keys/mine", "")
	if out := a.do("PUT", "/v1/configs/"+slug, `{"version_id":"1"}`); out.status != 400 || !strings.Contains(out.body, "virtual_key") {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/configs/"+slug, `{"version_id":"1","allow_missing":true}`)
}

func TestAWorkspaceHasAConfigForItsUserKeys(t *testing.T) {
	a := newAPI(t)
	blue := a.workspace("blue")
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"blue"}`)
	slug, id := config.get("slug").Str, config.get("id").Str
	other := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}}}`).get("slug").Str
	for _, unknown := range []string{"nope", other} {
		if out := a.do("PUT", "/v2/workspaces/blue", `{"defaults":{"user_api_key_config":"`+unknown+`"}}`); out.status != 404 || !strings.Contains(out.body, "defaults.user_api_key_config") {
			t.Errorf("%s: %d %s", unknown, out.status, out.body)
		}
	}
	for _, named := range []string{slug, id} {
		a.ok("PUT", "/v2/workspaces/blue", `{"defaults":{"user_api_key_config":"`+named+`"}}`)
		if out := a.ok("GET", "/v2/workspaces/"+blue, ""); out.get("defaults.user_api_key_config").Str != slug {
			t.Errorf("%s: %s", named, out.body)
		}
	}
	for kind, want := range map[string]string{"user": id, "service": ""} {
		key := a.ok("POST", "/v1/api-keys/workspace/"+kind, `{"name":"k","workspace_id":"blue","scopes":["completions.write"]}`).get("id").Str
		if out := a.ok("GET", "/v1/api-keys/"+key, ""); out.get("defaults.config_id").Str != want {
			t.Errorf("%s: %s", kind, out.body)
		}
		a.ok("DELETE", "/v1/api-keys/"+key, "")
	}
	if out := a.do("DELETE", "/v1/configs/"+slug, ""); out.status != 409 || !strings.Contains(out.body, "workspace blue") {
		t.Errorf("deleted while the workspace names it: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v2/workspaces/blue", `{"defaults":null}`)
	a.ok("DELETE", "/v1/configs/"+slug, "")
}

func TestTheDataServiceTokenReadsSavedResourcesAndNothingElse(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"openai","api_key":"sk-0123456789abcdef"},"workspace_id":"blue"}`).get("slug").Str
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"mine","provider":"openai","key":"sk-0123456789abcdef","workspace_id":"blue"}`)
	for path, methods := range a.paths() {
		for method := range methods.Map() {
			method = strings.ToUpper(method)
			if path == acceptPath || path == "/v1/admin/health" {
				continue // no key opens it, and none closes it
			}
			target := strings.NewReplacer("{slug}/versions/{version_id}", config+"/versions/1").Replace(path)
			if strings.HasPrefix(target, "/v1/configs/") {
				target = strings.ReplaceAll(target, "{slug}", config)
			}
			target = strings.ReplaceAll(target, "{slug}", "mine")
			a.now.Add(int64(time.Second)) // refusals are throttled
			out := a.as(systemToken, method, target, "{}")
			reads := false
			for _, p := range []string{"configs", "prompts", "guardrails", "providers", "virtual-keys"} {
				reads = reads || method == "GET" && (target == "/v1/"+p || strings.HasPrefix(target, "/v1/"+p+"/"))
			}
			if reads != (out.status != 403) || strings.Contains(out.body, "0123456789") {
				t.Errorf("%s %s: %d %s", method, target, out.status, out.body)
			}
		}
	}
	if out := a.as(systemToken, "GET", "/v2/configs", ""); out.get("data.0.slug").Str != config {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(systemToken, "GET", "/v2/virtual-keys", ""); out.get("data.0.slug").Str != "mine" {
		t.Errorf("%d %s", out.status, out.body)
	}
	for _, scope := range []string{credentials.ScopeCompletions, credentials.ScopeRender} {
		if c, refusal := a.s.Authenticator.(*credentials.Authenticator).AuthenticateCall(systemToken, scope); refusal == nil {
			t.Errorf("it makes calls that need %s as %v", scope, c)
		}
	}
}

func TestConfigsAreSavedInVersionsWithTheirSecretsMasked(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", "/v1/configs", `{"name":"My config","config":{"provider":"openai","api_key":"sk-0123456789abcdef"},"isDefault":1}`)
	slug := created.get("slug").Str
	if !strings.HasPrefix(slug, "pc-my-config-") || created.get("data.slug").Str != slug || created.get("version_id").Str == "" {
		t.Fatal(created.body)
	}
	read := a.ok("GET", "/v1/configs/"+slug, "")
	if read.get("config").Str != `{"provider":"openai","api_key":"sk*****def"}` || read.get("is_default").Int() != 1 || read.get("format").Str != "json" {
		t.Errorf("%s", read.body)
	}
	a.ok("PUT", "/v1/configs/"+slug, `{"config":"{\"provider\":\"openai\",\"api_key\":\"sk*****def\",\"retry\":{\"attempts\":1}}"}`)
	versions := a.ok("GET", "/v2/configs/"+slug+"/versions", "")
	if versions.get("total").Int() != 2 || versions.get("data.1.version").Int() != 2 || strings.Contains(versions.body, "0123456789") {
		t.Errorf("%s", versions.body)
	}
	s, _ := a.s.Configs.Get(slug)
	if text, err := a.s.Configs.Text(s.Current()); err != nil || !strings.Contains(text, "sk-0123456789abcdef") {
		t.Errorf("a masked credential that was sent back replaced the stored one: %s %v", text, err)
	}
	out := a.do("POST", "/v1/configs", `{"name":"n","config":{"retry":{"attempts":9},"nope":1,"strategy":{"mode":"x"},"targets":[]}}`)
	for _, path := range []string{"retry.attempts", "nope", "strategy.mode"} {
		if out.status != 400 || !strings.Contains(out.message(), path) {
			t.Errorf("%s is missing in %d %s", path, out.status, out.body)
		}
	}
	if out := a.do("POST", "/v1/configs", `{"name":"n","config":{"virtual_key":"a","input_guardrails":["x"]}}`); out.status != 400 || !strings.Contains(out.body, "input_guardrails[0]: the workspace has no such guardrail") {
		t.Errorf("%d %s", out.status, out.body)
	}
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"],"defaults":{"config_id":"`+slug+`"}}`).get("id").Str
	if out := a.do("DELETE", "/v1/configs/"+slug, ""); out.status != 409 || out.code() != "AB07" {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/api-keys/"+key, "")
	a.ok("PUT", "/v1/configs/"+slug, `{"isDefault":0}`)
	a.ok("DELETE", "/v1/configs/"+slug, "")
	if list := a.ok("GET", "/v1/configs", ""); list.get("total").Int() != 0 {
		t.Errorf("%s", list.body)
	}
}

func TestAWorkspaceCanBlockInlineConfigs(t *testing.T) {
	a := newAPI(t)
	slug := a.s.Directory.DefaultWorkspace().Slug
	key, _ := a.key("workspace/service", `"workspaces.update"`)
	a.refuses(key, "PUT", "/v2/workspaces/"+slug, `{"data_plane_security_settings":{"block_inline_config":false}}`, 400, "workspaces do not decide the section data_plane_security_settings")
	const inline = "data_plane_security_settings.block_inline_config"
	organisation := func(body, want string) {
		t.Helper()
		a.ok("PUT", "/v1/admin/organisation", body)
		for _, path := range []string{"/v1/admin/organisation", "/v1/admin/workspaces/" + slug} {
			if got := a.ok("GET", path, "").get(inline).Raw; got != want {
				t.Errorf("%s: %s is %s, want %s", path, inline, got, want)
			}
		}
	}
	organisation(`{}`, "true") // it is new
	organisation(`{"data_plane_security_settings":{"block_inline_config":0}}`, "false")
	organisation(`{"workspace_overrides":{"data_plane_security_settings":true}}`, "false")
	if out := a.as(key, "PUT", "/v2/workspaces/"+slug, `{"name":"Renamed","description":"d","data_plane_security_settings":{"block_inline_config":true}}`); out.status != 200 || out.body != "{}" {
		t.Fatalf("%d %s", out.status, out.body)
	}
	w := a.ok("GET", "/v1/admin/workspaces/"+slug, "")
	if w.get(inline).Raw != "true" || w.get("name").Str != "Renamed" || w.get("description").Str != "d" {
		t.Errorf("%s", w.body)
	}
	if out := a.as(key, "PUT", "/v1/admin/workspaces/"+slug, `{"data_plane_security_settings":{"block_inline_config":false}}`); out.status != 403 {
		t.Errorf("a workspace key turned it off: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"data_plane_security_settings":{"block_inline_config":false},"description":null}`)
	if w := a.ok("GET", "/v1/admin/workspaces/"+slug, ""); w.get(inline).Raw != "false" || w.get("description").Type != gjson.Null {
		t.Errorf("%s", w.body)
	}
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"defaults":{"metadata":{"team":"blue"}}}`)
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"name":"Renamed"}`)
	if w := a.ok("GET", "/v1/admin/workspaces/"+slug, ""); w.get("defaults").Raw != `{"metadata":{"team":"blue"}}` {
		t.Errorf("defaults: %s", w.get("defaults").Raw)
	}
	for _, metadata := range []string{`{"team":1}`, `{"team":null}`, `[]`, `{"team":"` + strings.Repeat("x", 129) + `"}`, `{"` + strings.Repeat("x", 129) + `":"x"}`} {
		if out := a.do("PUT", "/v1/admin/workspaces/"+slug, `{"defaults":{"metadata":`+metadata+`}}`); out.status != 400 {
			t.Errorf("metadata %s: %d %s", metadata, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/admin/workspaces/"+slug, `{"defaults":null}`)
	if w := a.ok("GET", "/v1/admin/workspaces/"+slug, ""); w.get("defaults").Raw != "null" {
		t.Errorf("cleared defaults: %s", w.get("defaults").Raw)
	}
	if out := a.do("PUT", "/v1/admin/workspaces/nope", `{"name":"x"}`); out.status != 404 {
		t.Errorf("%d", out.status)
	}
}

// A config that names a prompt is held against the workspace's prompts, and the prompt is kept.
func TestConfigsNamePrompts(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/admin/workspaces", `{"name":"other","slug":"other"}`)
	prompt := func(workspace string) string {
		return a.ok("POST", "/v1/prompts", `{"name":"p","string":"x","parameters":{},"virtual_key":"@local","workspace_id":"`+workspace+`"}`).get("slug").Str
	}
	own, foreign := prompt(""), prompt("other")
	const path = "/v1/configs"
	saving := func(config string) string { return `{"name":"c","config":` + config + `}` }
	for _, name := range []string{foreign, "nope", own + "@9", own + "@production"} {
		out := a.do("POST", path, saving(`{"prompt_id":"`+name+`"}`))
		if out.status != 400 || !strings.Contains(out.body, "prompt_id: the workspace has no such prompt") {
			t.Errorf("%s: %d %s", name, out.status, out.body)
		}
	}
	out := a.do("POST", path, saving(`{"prompt_id":"`+own+`","strategy":{"mode":"single"},"targets":[{"provider":"@local"}]}`))
	if out.status != 400 || !strings.Contains(out.body, "prompt_id: not allowed with targets") {
		t.Errorf("%d %s", out.status, out.body)
	}
	slug := a.ok("POST", path, saving(`{"strategy":{"mode":"single"},"targets":[{"prompt_id":"`+own+`@1"}]}`)).get("slug").Str
	if out := a.do("DELETE", "/v1/prompts/"+own, ""); out.status != 409 || !strings.Contains(out.body, "config "+slug+" (targets[0].prompt_id)") {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", path+"/"+slug, "")
	a.ok("DELETE", "/v1/prompts/"+own, "")
}
