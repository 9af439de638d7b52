package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
	"github.com/caddy-gw/gateway/storage"
)

// A request of a test of dependents.
type request [3]string

// Nothing is deleted that another object refers to, and then it is. For each kind of dependents: what makes the
// object, and returns its path; what refers to it; how the refusal names that; and what ends it.
func TestWhatIsInUseIsNotDeleted(t *testing.T) {
	a := newAPI(t)
	blue := a.workspace("blue")
	n, uses := 0, make(map[string]bool)
	name := func() string {
		n++
		return fmt.Sprintf("n%d", n)
	}
	made := func(path, field string) func(body string) string {
		return func(body string) string { return a.ok("POST", path, body).get(field).Str }
	}
	slugOf := func(path string) func(string) string { return made(path, "slug") }
	config, prompt, partial := slugOf("/v1/configs"), slugOf("/v1/prompts"), slugOf("/v1/prompts/partials")
	aConfig := func() string { return config(`{"name":"c","config":{"provider":"@local"}}`) }
	aKey := func() string {
		return a.ok("POST", "/v1/virtual-keys", `{"name":"k","slug":"`+name()+`","provider":"openai","key":"sk-1"}`).get("data.slug").Str
	}
	promptWith := func(text, key string) string {
		return prompt(`{"name":"p","string":"` + text + `","parameters":{},"virtual_key":"` + key + `"}`)
	}
	label := func() (id, called string) {
		called = name()
		return made("/v1/labels", "id")(`{"name":"` + called + `"}`), called
	}
	labelled := func(path, id string) { a.ok("PUT", path+"/versions/1", `{"label_id":"`+id+`"}`) }
	guardrail := func() string {
		return slugOf("/v1/guardrails")(`{"name":"g","checks":[{"id":"default.notNull"}],"workspace_id":"blue"}`)
	}
	everywhere := func() string { return slugOf("/v1/guardrails")(`{"name":"g","checks":[{"id":"default.notNull"}]}`) }
	reference := func() string {
		return slugOf("/v1/secret-references")(`{"name":"r","slug":"` + name() + `","manager_type":"environment","secret_path":"TEAM_KEY"}`)
	}
	collection := func() string { return slugOf("/v1/collections")(`{"name":"f"}`) }
	mapped := func(ref string) string {
		return `"secret_mappings":[{"target_field":"key","secret_reference_id":"` + ref + `"}]`
	}
	remove := func(path string) request { return request{"DELETE", path} }

	for kind, use := range map[string]func() (path, named string, end request){
		"config: workspaces with the config as default": func() (string, string, request) {
			of := config(`{"name":"c","config":{"provider":"@local"},"isDefault":1}`)
			return "/v1/configs/" + of, "as its default config", request{"PUT", "/v1/configs/" + of, `{"isDefault":0}`}
		},
		"config: workspaces with the config as user_api_key_config": func() (string, string, request) {
			of := config(`{"name":"c","config":{"provider":"@local"},"workspace_id":"blue"}`)
			a.ok("PUT", "/v2/workspaces/blue", `{"defaults":{"user_api_key_config":"`+of+`"}}`)
			return "/v1/configs/" + of, "workspace blue, as its user_api_key_config", request{"PUT", "/v2/workspaces/blue", `{"defaults":{"user_api_key_config":null}}`}
		},
		"config: API keys": func() (string, string, request) {
			of := aConfig()
			key := made("/v1/api-keys/workspace/service", "id")(`{"name":"app","workspace_id":"` + a.s.Directory.DefaultWorkspace().ID + `","scopes":["completions.write"],"defaults":{"config_id":"` + of + `"}}`)
			return "/v1/configs/" + of, `API key \"app\", as its default`, remove("/v1/api-keys/" + key)
		},
		"config: invites": func() (string, string, request) {
			of := aConfig()
			stored, _ := a.s.Configs.Get(of)
			invite := &directory.Invite{Email: "x@example.com", Role: roles.Member, Keys: &directory.InviteKeys{Scopes: []string{"completions.write"}, ConfigID: stored.ID}}
			if err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error { return a.s.In(tx).Directory.PutInvite(tx, invite, "token") }); err != nil {
				t.Fatal(err)
			}
			return "/v1/configs/" + of, "invite " + invite.ID, remove("/v1/admin/users/invites/" + invite.ID)
		},
		"config: model aliases": func() (string, string, request) {
			of := aConfig()
			alias := made("/v1/model-aliases", "id")(`{"name":"routed","config":"` + of + `"}`)
			return "/v1/configs/" + of, "model alias routed", remove("/v1/model-aliases/" + alias)
		},
		"config: prompts": func() (string, string, request) {
			of := aConfig()
			by := promptWith("x", of)
			return "/v1/configs/" + of, "prompt " + by, remove("/v1/prompts/" + by)
		},
		"virtual key: configs": func() (string, string, request) {
			of := aKey()
			by := config(`{"name":"c","config":{"provider":"@` + of + `"}}`)
			return "/v1/virtual-keys/" + of, "config " + by + " (provider)", remove("/v1/configs/" + by)
		},
		"virtual key: model aliases": func() (string, string, request) {
			of := aKey()
			alias := made("/v1/model-aliases", "id")(`{"name":"fast","model":"@` + of + `/m"}`)
			return "/v1/virtual-keys/" + of, "model alias fast", remove("/v1/model-aliases/" + alias)
		},
		"virtual key: prompts": func() (string, string, request) {
			of := aKey()
			by := promptWith("x", of)
			return "/v1/virtual-keys/" + of, "prompt " + by, remove("/v1/prompts/" + by)
		},
		"integration: providers": func() (string, string, request) {
			of := slugOf("/v1/integrations")(`{"name":"i","slug":"` + name() + `","ai_provider_id":"openai","key":"sk-1"}`)
			a.ok("PUT", "/v1/integrations/"+of+"/workspaces", `{"workspaces":[{"id":"blue","enabled":true}]}`)
			return "/v1/integrations/" + of, "provider " + of + " of workspace blue", remove("/v1/providers/" + of + "?workspace_id=blue")
		},
		"secret reference: integrations": func() (string, string, request) {
			of := reference()
			by := slugOf("/v1/integrations")(`{"name":"i","slug":"` + name() + `","ai_provider_id":"openai",` + mapped(of) + `}`)
			return "/v1/secret-references/" + of, "integration " + by, remove("/v1/integrations/" + by)
		},
		"secret reference: virtual keys": func() (string, string, request) {
			of := reference()
			by := made("/v1/virtual-keys", "data.slug")(`{"name":"k","slug":"` + name() + `","provider":"openai",` + mapped(of) + `}`)
			return "/v1/secret-references/" + of, "virtual key " + by, remove("/v1/virtual-keys/" + by)
		},
		"guardrail: defaults of the organisation": func() (string, string, request) {
			of := everywhere()
			a.ok("PUT", "/v1/admin/organisation/defaults", `{"input_guardrails":["`+of+`"]}`)
			return "/v1/guardrails/" + of, "the defaults of the organisation (input_guardrails)", request{"PUT", "/v1/admin/organisation/defaults", `{"input_guardrails":null}`}
		},
		"guardrail: defaults of workspaces": func() (string, string, request) {
			of := guardrail()
			a.ok("PUT", "/v2/workspaces/"+blue, `{"defaults":{"output_guardrails":["`+of+`"]}}`)
			return "/v1/guardrails/" + of, "the defaults of the workspace blue (output_guardrails)", request{"PUT", "/v2/workspaces/blue", `{"defaults":{"output_guardrails":null}}`}
		},
		"guardrail: configs": func() (string, string, request) {
			of := guardrail()
			by := config(`{"name":"c","workspace_id":"blue","config":{"provider":"@local","input_guardrails":["` + of + `"]}}`)
			return "/v1/guardrails/" + of, "config " + by + " (input_guardrails[0])", remove("/v1/configs/" + by)
		},
		"prompt: configs": func() (string, string, request) {
			of := promptWith("x", "@local")
			by := config(`{"name":"c","config":{"provider":"@local","prompt_id":"` + of + `"}}`)
			return "/v1/prompts/" + of, "config " + by + " (prompt_id)", remove("/v1/configs/" + by)
		},
		"partial: prompts": func() (string, string, request) {
			of := partial(`{"name":"x","string":"s"}`)
			by := promptWith("{{>"+of+"}}", "@local")
			return "/v1/prompts/partials/" + of, "prompt " + by, remove("/v1/prompts/" + by)
		},
		"label: configs": func() (string, string, request) {
			id, which := label()
			of := promptWith("x", "@local")
			labelled("/v1/prompts/"+of, id)
			by := config(`{"name":"c","config":{"provider":"@local","prompt_id":"` + of + "@" + which + `"}}`)
			return "/v1/labels/" + id, "config " + by + " (prompt_id)", remove("/v1/configs/" + by)
		},
		"label: prompts": func() (string, string, request) {
			id, which := label()
			of := partial(`{"name":"x","string":"s"}`)
			p, _ := a.s.Prompts.Get(of)
			labels := *p
			labels.Labels = map[string]int{id: 1} // there is no route to label the version of a partial
			if err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error { return a.s.In(tx).Prompts.Put(tx, &labels, nil) }); err != nil {
				t.Fatal(err)
			}
			by := promptWith("{{>"+of+"@"+which+"}}", "@local")
			return "/v1/labels/" + id, "prompt " + by, remove("/v1/prompts/" + by)
		},
		"collection: collections": func() (string, string, request) {
			of := collection()
			by := slugOf("/v1/collections")(`{"name":"inside","parent_collection_id":"` + of + `"}`)
			return "/v1/collections/" + of, "collection " + by, remove("/v1/collections/" + by)
		},
		"collection: prompts and partials": func() (string, string, request) {
			of := collection()
			by := partial(`{"name":"x","string":"s","collection_id":"` + of + `"}`)
			return "/v1/collections/" + of, "partial " + by, remove("/v1/prompts/partials/" + by)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			path, named, end := use()
			if out := a.do("DELETE", path, ""); out.status != 409 || !strings.Contains(out.body, named) || out.get("data.errorCode").Str+out.get("error.code").Str != "AB07" {
				t.Errorf("in use: %d %s, want %s", out.status, out.body, named)
			}
			a.ok("GET", path, "")
			a.ok(end[0], end[1], end[2])
			a.ok("DELETE", path, "")
			uses[kind] = true
		})
	}
	for noun, kinds := range admin.Dependents() {
		for _, kind := range kinds {
			if !uses[noun+": "+kind] {
				t.Errorf("there is no test of %s with %s", noun, kind)
			}
		}
	}
}
