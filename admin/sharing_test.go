package admin_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// sharing is a control plane with the workspaces red and blue, a key of each, and a prompt of red
// that inserts a partial.
type sharing struct {
	*api
	red, blue       string // keys
	prompt, partial string // slugs
}

func newSharing(t *testing.T) *sharing {
	t.Helper()
	s := &sharing{api: newAPI(t)}
	keyOf := func(slug string) string {
		s.workspace(slug)
		return s.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"`+slug+`","scopes":["prompts.create","prompts.read","prompts.list","prompts.update","prompts.delete","prompts.publish","workspaces.read"]}`).get("key").Str
	}
	s.red, s.blue = keyOf("red"), keyOf("blue")
	s.partial = s.ok("POST", "/v1/prompts/partials", `{"name":"part","string":"a part","workspace_id":"red"}`).get("slug").Str
	s.prompt = s.ok("POST", "/v1/prompts", `{"name":"whole","string":"with {{>`+s.partial+`}}","virtual_key":"@local","workspace_id":"red"}`).get("slug").Str
	return s
}

func (s *sharing) must(key, method, path, body string) answer {
	s.t.Helper()
	out := s.as(key, method, path, body)
	if out.status != 200 {
		s.t.Fatalf("%s %s: %d %s", method, path, out.status, out.body)
	}
	return out
}

func (s *sharing) refused(status int, message, key, method, path, body string) {
	s.t.Helper()
	if out := s.as(key, method, path, body); out.status != status || !strings.Contains(out.message(), message) {
		s.t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, out.status, out.body, status, message)
	}
}

// slugs are those of a list.
func (s *sharing) slugs(key, path string) string {
	s.t.Helper()
	var all []string
	s.must(key, "GET", path, "").get("data").ForEach(func(_, row gjson.Result) bool {
		all = append(all, row.Get("slug").Str)
		return true
	})
	return strings.Join(all, " ")
}

func TestASharedPromptIsReadAndForkedByOthersAndNoMore(t *testing.T) {
	s := newSharing(t)
	one := "/v2/prompts/" + s.prompt
	s.refused(404, "was not found", s.blue, "GET", one, "")
	s.refused(404, "was not found", s.blue, "PUT", one, `{"name":"x"}`) // as one that does not exist
	s.refused(400, "the partial "+s.partial, s.red, "POST", one+"/share", `{}`)
	s.must(s.red, "POST", one+"/share", `{"access_level":"organisation","include_partials":true}`)
	out := s.must(s.blue, "GET", one, "")
	for path, want := range map[string]string{
		"access_level": "organisation", "allow_all_workspaces": "1", "shared_at": iso, "string": "with {{>" + s.partial + "}}",
		"shared_from_version_id": out.get("prompt_version_id").Str, "prompt_owning_workspace_id": out.get("workspace_id").Str,
	} {
		if got := out.get(path).String(); got != want {
			t.Errorf("%s is %q, want %q: %s", path, got, want, out.body)
		}
	}
	s.must(s.blue, "GET", "/v1/prompts/partials/"+s.partial, "")
	s.must(s.blue, "GET", one+"/versions", "")
	for _, change := range []struct{ method, path, body string }{
		{"PUT", one, `{"name":"x"}`},
		{"DELETE", one, ""},
		{"PUT", one + "/makeDefault", `{"version":1}`},
		{"PUT", one + "/versions/1", `{}`},
		{"POST", one + "/share", `{}`},
		{"PUT", one + "/unshare", `{}`},
		{"DELETE", one + "/share", ""},
		{"DELETE", "/v1/prompts/partials/" + s.partial, ""},
	} {
		s.refused(403, "is another workspace's, which shares it with yours; fork it", s.blue, change.method, change.path, change.body)
	}

	// Lists have what others share if they are asked for it.
	for query, want := range map[string]string{"": "", "?type=shared": s.prompt, "?show_prompt_share=true": s.prompt, "?type=shared&search=nope": ""} {
		if got := s.slugs(s.blue, "/v1/prompts"+query); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]string{"": s.prompt, "?type=shared": s.prompt, "?type=shared&workspace_id=red": "", "?type=shared&workspace_id=blue": s.prompt} {
		if got := s.slugs(ownerKey, "/v1/prompts"+query); got != want {
			t.Errorf("the organisation's list %q is %q, want %q", query, got, want)
		}
	}
	if got := s.slugs(s.red, "/v1/prompts?type=shared"); got != "" {
		t.Errorf("red is shared %q", got)
	}
	if got := s.slugs(s.blue, "/v1/prompts/partials?type=shared"); got != s.partial {
		t.Errorf("shared partials: %q", got)
	}

	fork := s.must(s.blue, "POST", one+"/fork", `{"name":"mine"}`)
	forked := s.must(s.blue, "GET", "/v1/prompts/"+fork.get("slug").Str, "")
	if forked.get("name").Str != "mine" || forked.get("string").Str != out.get("string").Str || forked.get("forked_from_prompt_id").Str != out.get("id").Str ||
		forked.get("forked_from_prompt_version_id").Str != out.get("prompt_version_id").Str || forked.get("access_level").Str != "workspace" || forked.get("virtual_key").Str != "@local" {
		t.Errorf("%s", forked.body)
	}
	s.refused(404, "was not found", s.red, "GET", "/v1/prompts/"+fork.get("slug").Str, "")
	s.refused(403, "is another workspace's, which shares it with yours", s.blue, "DELETE", one+"/fork", "")
	s.must(s.blue, "DELETE", "/v2/prompts/"+fork.get("slug").Str+"/fork", "")
	if own := s.must(s.blue, "GET", "/v1/prompts/"+fork.get("slug").Str, ""); own.get("forked_from_prompt_id").Type != gjson.Null || own.get("forked_from_prompt_version_id").Type != gjson.Null || own.get("string").Str != out.get("string").Str {
		t.Errorf("after DELETE …/fork: %s", own.body)
	}
	part := s.must(s.blue, "PUT", "/v2/prompts/partials/"+s.partial+"/fork", `{}`)
	if part.get("object").Str != "partial" {
		t.Errorf("%s", part.body)
	}
	s.refused(400, "a partial has none", s.blue, "POST", "/v2/prompts/partials/"+s.partial+"/fork", `{"virtual_key":"x"}`)

	// The partial stays shared while the prompt is.
	s.refused(409, s.prompt, s.red, "PUT", "/v2/prompts/partials/"+s.partial+"/unshare", `{}`)
	s.must(s.red, "PUT", one+"/unshare", `{}`)
	s.refused(404, "was not found", s.blue, "GET", one, "")
	s.refused(404, "was not found", s.blue, "POST", one+"/fork", `{}`)
	s.must(s.blue, "DELETE", "/v1/prompts/"+fork.get("slug").Str, "") // which inserts it, too
	s.must(s.red, "DELETE", "/v2/prompts/partials/"+s.partial+"/share", "")
	s.refused(404, "was not found", s.blue, "GET", "/v1/prompts/partials/"+s.partial, "")
	for _, method := range []string{"POST", "PUT", "DELETE"} { // already so
		s.must(s.red, method, one+"/unshare", "")
	}
}

func TestAPromptIsSharedWithWorkspacesByName(t *testing.T) {
	s := newSharing(t)
	s.workspace("green")
	one := "/v2/prompts/" + s.prompt
	for body, message := range map[string]string{
		`{"access_level":"workspaces"}`: "workspaces", `{"workspaces":["blue"]}`: "workspaces", `{"access_level":"nobody"}`: "access_level", `{"nope":1}`: "nope",
	} {
		s.refused(400, message, ownerKey, "POST", one+"/share", body)
	}
	s.refused(404, "workspaces", ownerKey, "POST", one+"/share", `{"access_level":"workspaces","workspaces":["nobody"]}`)
	// A key of a workspace learns nothing about others, not even whether they exist.
	for _, named := range []string{"blue", "nobody"} {
		s.refused(403, "only a key of the organisation", s.red, "POST", one+"/share", `{"access_level":"workspaces","workspaces":["`+named+`"]}`)
	}
	s.must(ownerKey, "PUT", one+"/share", `{"access_level":"workspaces","workspaces":["blue","red","blue"],"include_partials":true}`)
	out := s.must(s.blue, "GET", one, "")
	if out.get("access_level").Str != "workspaces" || out.get("workspaces").Exists() {
		t.Errorf("%s", out.body)
	}
	if out := s.must(s.red, "GET", one, ""); len(out.get("workspaces").Array()) != 1 {
		t.Errorf("%s", out.body)
	}
	s.refused(400, "not shared with this workspace", ownerKey, "POST", one+"/fork", `{"workspace_id":"green"}`)
	s.must(ownerKey, "POST", one+"/fork", `{"workspace_id":"blue"}`)
	// With green, too: what it was shared with stays.
	s.must(ownerKey, "PUT", one+"/share", `{"access_level":"workspaces","workspaces":["green"],"include_partials":true}`)
	s.refused(404, "", s.blue, "GET", one, "")
	s.must(s.blue, "GET", "/v1/prompts/partials/"+s.partial, "")
}

// A fork is answered by a provider of the same integration in its workspace.
func TestAForkFindsTheProviderOfItsWorkspace(t *testing.T) {
	s := newSharing(t)
	s.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`"}`)
	s.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"red","enabled":true,"default_provider_slug":"of-red"}]}`)
	slug := s.ok("POST", "/v1/prompts", `{"name":"n","string":"s","virtual_key":"@of-red","workspace_id":"red"}`).get("slug").Str
	s.must(s.red, "POST", "/v2/prompts/"+slug+"/share", `{}`)
	s.refused(400, "virtual_key: the workspace has no provider", s.blue, "POST", "/v2/prompts/"+slug+"/fork", `{}`)
	s.refused(404, "virtual_key", s.blue, "POST", "/v2/prompts/"+slug+"/fork", `{"virtual_key":"of-red"}`)
	s.must(s.blue, "POST", "/v2/prompts/"+slug+"/fork", `{"virtual_key":"@local"}`)
	s.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"blue","enabled":true,"default_provider_slug":"of-blue"}]}`)
	fork := s.must(s.blue, "POST", "/v2/prompts/"+slug+"/fork", `{}`)
	if out := s.must(s.blue, "GET", "/v1/prompts/"+fork.get("slug").Str, ""); out.get("virtual_key").Str != "of-blue" {
		t.Errorf("%s", out.body)
	}
}

func TestAWorkspaceThatSharesIsNotDeleted(t *testing.T) {
	s := newSharing(t)
	s.must(s.red, "POST", "/v2/prompts/"+s.prompt+"/share", `{"include_partials":true}`)
	const red = "/v1/admin/workspaces/red"
	for _, body := range []string{`{"name":"red"}`, `{"name":"red","force_delete":true}`} {
		s.refused(409, "partial "+s.partial, ownerKey, "DELETE", red, body)
	}
	s.must(s.red, "DELETE", "/v2/prompts/"+s.prompt+"/share", "")
	s.refused(409, "shares partial", ownerKey, "DELETE", red, `{"name":"red","force_delete":true}`)
	s.must(s.red, "DELETE", "/v2/prompts/partials/"+s.partial+"/share", "")
	s.must(ownerKey, "DELETE", red, `{"name":"red","force_delete":true}`)
}

// What prompts and configs of other workspaces refer to is neither deleted nor archived nor taken
// from there. Who does not see these workspaces learns how many objects refer to it.
func TestWhatOtherWorkspacesUseStaysShared(t *testing.T) {
	s := newSharing(t)
	s.workspace("green")
	partial, prompt := "/v1/prompts/partials/"+s.partial, "/v1/prompts/"+s.prompt
	s.must(ownerKey, "POST", strings.Replace(prompt, "v1", "v2", 1)+"/share", `{"access_level":"workspaces","workspaces":["blue","green"],"include_partials":true}`)
	user := s.must(s.blue, "POST", "/v1/prompts", `{"name":"user","string":"{{> `+s.partial+`@1 }}","virtual_key":"@local"}`).get("slug").Str
	config := s.ok("POST", "/v1/configs", `{"name":"c","workspace_id":"blue","config":{"prompt_id":"`+s.prompt+`@1","provider":"@local"}}`).get("slug").Str
	const v2 = "/v2/prompts/"
	withGreen := `{"access_level":"workspaces","workspaces":["green"],"include_partials":true}`
	for _, c := range []struct{ method, path, body, seen string }{
		{"DELETE", prompt, "", "config " + config + " (prompt_id)"},
		{"DELETE", v2 + s.prompt + "/share", "", "config " + config + " (prompt_id)"},
		{"PUT", v2 + s.prompt + "/unshare", "{}", "config " + config + " (prompt_id)"},
		{"PUT", v2 + s.prompt + "/share", withGreen, "config " + config + " (prompt_id)"},
	} {
		s.refused(409, c.seen, ownerKey, c.method, c.path, c.body)
		if c.body == withGreen {
			continue // which only a key of the organisation may send
		}
		s.refused(409, "is used by 1 object of another workspace; change", s.red, c.method, c.path, c.body)
	}
	s.ok("DELETE", "/v1/configs/"+config, "")
	s.must(s.red, "DELETE", v2+s.prompt+"/share", "")
	s.must(s.red, "PUT", prompt, `{"string":"s","virtual_key":"@local"}`) // which does not insert it
	s.must(s.red, "PUT", prompt+"/makeDefault", `{"version":2}`)
	for _, c := range []struct{ method, path, body string }{
		{"DELETE", partial, ""},
		{"PUT", partial, `{"status":"archived"}`},
		{"DELETE", v2 + "partials/" + s.partial + "/share", ""},
		{"PUT", v2 + "partials/" + s.partial + "/unshare", "{}"},
		{"PUT", v2 + "partials/" + s.partial + "/share", withGreen},
	} {
		s.refused(409, "prompt "+user+" (version 1)", ownerKey, c.method, c.path, c.body)
		if c.body != withGreen {
			s.refused(409, "is used by 1 object of another workspace; change", s.red, c.method, c.path, c.body)
		}
	}
	s.must(s.red, "PUT", v2+"partials/"+s.partial+"/share", `{}`) // with all
	s.must(s.blue, "DELETE", "/v1/prompts/"+user, "")
	s.must(s.red, "DELETE", partial, "")
}
