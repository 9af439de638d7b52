package command_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A wanderer makes, changes and deletes objects of a control plane at random, mostly in one workspace for a while. Much of it is refused.
type wanderer struct {
	g    *gatewaytest.Gateway
	pick *rand.Rand
	in   string            // the workspace
	made map[string][]made // by kind, also what is gone
}

// A made is the id of what was made in a workspace.
type made struct{ id, in string }

// one returns the id of some object of a kind, mostly of the workspace and a new one.
func (w *wanderer) one(kind string) string {
	all := w.made[kind]
	if kind == "workspaces" && w.pick.IntN(4) > 0 {
		return w.in
	}
	if w.pick.IntN(8) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(m made) bool { return m.in != w.in })
	}
	if len(all) == 0 {
		all = append([]made{{id: "none"}}, w.made[kind]...)
	}
	return all[len(all)-1-min(w.pick.IntN(len(all)), w.pick.IntN(len(all)))].id
}

// some returns a JSON array of ids of a kind.
func (w *wanderer) some(kind string) string {
	list, _ := json.Marshal([]string{w.one(kind), w.one(kind)})
	return string(list)
}

func (w *wanderer) do(method, path, body string) gjson.Result {
	a := w.g.Do(method, path, body, "x-gw-api-key: "+gatewaytest.OwnerKey)
	if a.Status >= http.StatusInternalServerError || a.Status == http.StatusTooManyRequests {
		w.g.T.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	if a.Status != http.StatusOK {
		if testing.Verbose() {
			println(method, path, body, a.Body)
		}
		return gjson.Result{}
	}
	return gjson.Parse(a.Body)
}

// make creates an object of a kind; format is its body, whose first verb is a number of its own.
func (w *wanderer) make(kind, path, format string, args ...any) {
	created := w.do("POST", path, fmt.Sprintf(format, append([]any{len(w.made[kind])}, args...)...))
	if id := created.Get("id").Str; id != "" {
		w.made[kind] = append(w.made[kind], made{id, w.in})
	}
}

// maybe returns one of several texts.
func (w *wanderer) maybe(texts ...string) string { return texts[w.pick.IntN(len(texts))] }

// makes and takes are what a wanderer does; the first of each is about workspaces, which takes everything else along.
var (
	makes = []func(w *wanderer){
		func(w *wanderer) { w.make("workspaces", "/v1/admin/workspaces", `{"name":"W%d"}`) },
		func(w *wanderer) {
			w.do("PUT", "/v1/admin/workspaces/"+w.one("workspaces"), `{"defaults":{"input_guardrails":["`+w.one("guardrails")+`"]}}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/admin/workspaces/"+w.one("workspaces"), `{"defaults":{"user_api_key_config":"`+w.one("configs")+`"}}`)
		},
		func(w *wanderer) {
			w.make("invites", "/v1/admin/users/invites", `{"email":"u%d@example.com","role":"`+w.maybe("member", "admin")+`","workspaces":[{"id":"`+w.in+`","role":"member"},{"id":"`+w.one("workspaces")+`","role":"manager"}]}`)
		},
		func(w *wanderer) {
			n := len(w.made["users"])
			invited := w.do("POST", "/v1/admin/users/invites", fmt.Sprintf(`{"email":"a%d@example.com","role":"%s","workspaces":[{"id":"%s","role":"member"}],"workspace_api_key_details":{"scopes":["completions.write"]}}`, n, w.maybe("member", "admin"), w.one("workspaces")))
			if link := invited.Get("invite_link").Str; link != "" {
				w.g.Do("POST", "/v1/admin/users/invites/accept", `{"token":"`+tokenOf(link)+`","first_name":"A","last_name":"B"}`)
				w.made["users"] = append(w.made["users"], made{w.do("GET", fmt.Sprintf("/v1/admin/users?email=a%d@example.com", n), "").Get("data.0.id").Str, w.in})
			}
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/admin/users/"+w.one("users"), `{"role":"`+w.maybe("member", "admin")+`"}`)
		},
		func(w *wanderer) {
			w.make("secret references", "/v1/secret-references", `{"name":"R%d","manager_type":"hashicorp_vault","auth_config":{"vault_auth_type":"token","vault_addr":"https://vault.example.com","vault_token":"hvs.secret"},"secret_path":"kv/x","secret_key":"k"`+w.maybe("", `,"allowed_workspaces":`+w.some("workspaces"))+`}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/secret-references/"+w.one("secret references"), `{"allow_all_workspaces":false,"allowed_workspaces":`+w.some("workspaces")+`}`)
		},
		func(w *wanderer) {
			w.make("integrations", "/v1/integrations", `{"name":"I%d","ai_provider_id":"openai",`+w.maybe(`"key":"sk-0123456789"`, `"secret_mappings":[{"target_field":"key","secret_reference_id":"`+w.one("secret references")+`"}]`)+w.maybe("", `,"workspace_id":"`+w.in+`"`)+`}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/integrations/"+w.one("integrations")+"/workspaces", `{"workspaces":[{"id":"`+w.one("workspaces")+`","enabled":true,"usage_limits":[{"type":"cost","credit_limit":5}]},{"id":"`+w.one("workspaces")+`","enabled":`+w.maybe("true", "false")+`}]}`)
		},
		func(w *wanderer) {
			w.make("virtual keys", "/v1/virtual-keys", `{"name":"V%d","provider":"openai","workspace_id":"`+w.in+`",`+w.maybe(`"key":"sk-0123456789"`, `"secret_mappings":[{"target_field":"key","secret_reference_id":"`+w.one("secret references")+`"}]`)+`}`)
		},
		func(w *wanderer) {
			w.make("virtual keys", "/v1/providers", `{"name":"P%d","integration_id":"`+w.one("integrations")+`","workspace_id":"`+w.in+`"}`)
		},
		func(w *wanderer) {
			w.make("guardrails", "/v1/guardrails", `{"name":"G%d","workspace_id":"`+w.in+`","checks":[{"id":"default.contains","parameters":{"words":["x"],"operator":"none"}}],"actions":{"deny":true}}`)
		},
		func(w *wanderer) {
			w.make("configs", "/v1/configs", `{"name":"C%d","workspace_id":"`+w.in+`","config":`+w.maybe(`{"virtual_key":"`+w.one("virtual keys")+`"}`, `{"provider":"openai","api_key":"sk-0123456789"}`, `{"virtual_key":"`+w.one("virtual keys")+`","input_guardrails":["`+w.one("guardrails")+`"]}`, `{"prompt_id":"`+w.one("prompts")+`"}`)+`}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/configs/"+w.one("configs"), `{"config":{"virtual_key":"`+w.one("virtual keys")+`"}}`)
		},
		func(w *wanderer) {
			w.make("aliases", "/v1/model-aliases", `{"name":"a%d","workspace_id":"`+w.in+`",`+w.maybe(`"config":"`+w.one("configs")+`"`, `"model":"@`+w.one("virtual keys")+`/gpt-4o"`)+`}`)
		},
		func(w *wanderer) {
			w.make("labels", "/v1/labels", `{"name":"l%d","workspace_id":"`+w.in+`"}`)
		},
		func(w *wanderer) {
			w.make("collections", "/v1/collections", `{"name":"F%d","workspace_id":"`+w.in+`"`+w.maybe("", `,"parent_collection_id":"`+w.one("collections")+`"`)+`}`)
		},
		func(w *wanderer) {
			w.make("partials", "/v1/prompts/partials", `{"name":"T%d","workspace_id":"`+w.in+`","string":"`+w.maybe("Be kind.", "Be {{>"+w.one("partials")+"}}")+`"}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/prompts/partials/"+w.one("partials"), `{"string":"`+w.maybe("Be brief.", "Now {{>"+w.one("partials")+"}}")+`"}`)
		},
		func(w *wanderer) {
			w.make("prompts", "/v1/prompts", `{"name":"Q%d","workspace_id":"`+w.in+`","collection_id":"`+w.maybe("", w.one("collections"))+`","string":"`+w.maybe("Hello", "{{>"+w.one("partials")+w.maybe("", "@1", "@latest")+"}} hello")+`","parameters":{"model":"gpt-4o"},"virtual_key":"`+w.maybe(w.one("configs"), w.one("virtual keys"))+`"}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/prompts/"+w.one("prompts"), `{"patch":true,"string":"`+w.maybe("Hello", "{{>"+w.one("partials")+"}} hello")+`"}`)
		},
		func(w *wanderer) {
			w.do("PUT", "/v1/prompts/"+w.one("prompts")+"/versions/"+w.maybe("1", "2", "3"), `{"label_id":"`+w.one("labels")+`"}`)
		},
		func(w *wanderer) {
			w.do("PUT", w.maybe("/v1/prompts/"+w.one("prompts"), "/v1/prompts/partials/"+w.one("partials"))+"/makeDefault", `{"version":`+w.maybe("1", "2", "3")+`}`)
		},
		func(w *wanderer) {
			w.do("POST", w.maybe("/v2/prompts/"+w.one("prompts"), "/v2/prompts/partials/"+w.one("partials"))+"/share", w.maybe(`{"access_level":"workspaces","include_partials":true,"workspaces":`+w.some("workspaces")+`}`, `{"access_level":"organisation","include_partials":true}`))
		},
		func(w *wanderer) {
			w.make("rate limits", "/v1/policies/rate-limits", `{"name":"r%d","type":"requests","unit":"rpm","value":6,"workspace_id":"`+w.in+`","group_by":[{"key":"api_key"}],"conditions":[{"key":"`+w.maybe(`config","value":"`+w.one("configs"), `virtual_key","value":"`+w.one("virtual keys"), `api_key","value":"`+w.one("keys"))+`"}]}`)
		},
		func(w *wanderer) {
			w.make("keys", "/v1/api-keys/workspace/service", `{"name":"k%d","workspace_id":"`+w.in+`","scopes":["completions.write"],"rate_limits":[{"type":"requests","unit":"rpm","value":7}]`+w.maybe("", `,"defaults":{"config_id":"`+w.one("configs")+`"}`)+`}`)
		},
		func(w *wanderer) {
			w.make("keys", "/v1/api-keys/workspace/user", `{"name":"k%d","workspace_id":"`+w.in+`","user_id":"`+w.one("users")+`","scopes":["completions.write"]}`)
		},
	}
	takes = []func(w *wanderer){
		func(w *wanderer) {
			id := w.one("workspaces")
			name := w.do("GET", "/v1/admin/workspaces/"+id, "").Get("name").Str
			if w.do("DELETE", "/v1/admin/workspaces/"+id, `{"name":"`+name+`","force_delete":true}`).Exists() {
				makes[0](w)
				w.in = w.made["workspaces"][len(w.made["workspaces"])-1].id
			}
		},
		func(w *wanderer) { w.do("DELETE", "/v1/admin/users/invites/"+w.one("invites"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/admin/users/"+w.one("users"), "") },
		func(w *wanderer) {
			w.do("DELETE", "/v1/admin/workspaces/"+w.one("workspaces")+"/users/"+w.one("users"), "")
		},
		func(w *wanderer) { w.do("DELETE", "/v1/secret-references/"+w.one("secret references"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/integrations/"+w.one("integrations"), "") },
		func(w *wanderer) {
			id := w.one("virtual keys")
			w.do("DELETE", "/v1/virtual-keys/"+id, "")
			w.do("DELETE", "/v1/providers/"+id, "")
		},
		func(w *wanderer) { w.do("DELETE", "/v1/guardrails/"+w.one("guardrails"), "") },
		func(w *wanderer) {
			w.do("PUT", "/v1/configs/"+w.one("configs"), `{"status":"`+w.maybe("active", "archived")+`"}`)
		},
		func(w *wanderer) { w.do("DELETE", "/v1/configs/"+w.one("configs"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/model-aliases/"+w.one("aliases"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/labels/"+w.one("labels"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/collections/"+w.one("collections"), "") },
		func(w *wanderer) {
			w.do("PUT", "/v1/prompts/partials/"+w.one("partials"), `{"status":"`+w.maybe("active", "archived")+`"}`)
		},
		func(w *wanderer) { w.do("DELETE", "/v1/prompts/partials/"+w.one("partials"), "") },
		func(w *wanderer) {
			w.do("DELETE", w.maybe("/v2/prompts/"+w.one("prompts"), "/v2/prompts/partials/"+w.one("partials"))+"/share", "")
		},
		func(w *wanderer) { w.do("DELETE", "/v1/prompts/"+w.one("prompts"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/policies/rate-limits/"+w.one("rate limits"), "") },
		func(w *wanderer) { w.do("DELETE", "/v1/api-keys/"+w.one("keys"), "") },
	}
)

// restored imports what a gateway exports into another one, and returns the document. It comes out as it went in.
func restored(t *testing.T, g *gatewaytest.Gateway, c *terminal, flags ...string) string {
	t.Helper()
	secret := write(t, "passphrase", passphrase+"\n")
	flags = append([]string{"--passphrase-file", secret}, flags...)
	first := filepath.Join(t.TempDir(), "gw.yaml")
	c.ok("export", "--output", first, "--passphrase-file", secret)
	text := read(t, first)
	if out := c.ok("import", first, "--passphrase-file", secret); !strings.HasPrefix(out, "0 objects were written") {
		t.Errorf("%s", out)
	}
	g.Stop()
	h, d := running(t)
	defer h.Stop()
	d.ok(append([]string{"import", first}, flags...)...)
	second := write(t, "gw.yaml", text)
	d.ok("export", "--output", second, "--passphrase-file", secret)
	if again := read(t, second); again != text {
		t.Errorf("the document is another one:\n%s", unified(text, again))
	}
	return text
}

// Whatever was made, changed and deleted before: what is exported can be imported where nothing is.
func TestWhateverWasDeletedAnExportIsImported(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g, c := running(t)
			fill(g)
			w := &wanderer{g: g, pick: rand.New(rand.NewPCG(seed, 14)), made: make(map[string][]made)}
			for range 5 {
				makes[0](w)
			}
			w.in = w.made["workspaces"][0].id
			for range 800 { // more is made than taken
				if all := w.made["workspaces"]; w.pick.IntN(10) == 0 {
					w.in = all[len(all)-1-w.pick.IntN(4)].id
				}
				if w.pick.IntN(4) > 0 {
					makes[w.pick.IntN(len(makes))](w)
				} else {
					takes[w.pick.IntN(len(takes))](w)
				}
			}
			restored(t, g, c, "--allow-missing")
		})
	}
}

// home returns the id of the default workspace.
func home(g *gatewaytest.Gateway) string {
	return g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.#(is_default==1).id").Str
}

// A deleted workspace, label or partial is not named any more by what had named it, and what belonged to it is not there.
func TestExportsNameNothingThatIsGone(t *testing.T) {
	g, c := running(t)
	post := func(path, body string) gjson.Result {
		return gjson.Parse(g.Admin("POST", path, json.RawMessage(body)).Body)
	}
	put := func(path, body string) { g.Admin("PUT", path, json.RawMessage(body)) }
	away := post("/v1/admin/workspaces", `{"name":"Away","slug":"away"}`).Get("id").Str
	post("/v1/secret-references", `{"name":"Shared","slug":"shared","manager_type":"hashicorp_vault","auth_config":{"vault_auth_type":"token","vault_addr":"https://vault.example.com","vault_token":"hvs.0123456789abcdef"},"secret_path":"kv/x","secret_key":"k","allowed_workspaces":["away","`+home(g)+`"]}`)
	post("/v1/integrations", `{"name":"Both","slug":"both","ai_provider_id":"openai","key":"sk-0123456789"}`)
	put("/v1/integrations/both/workspaces", `{"workspaces":[{"id":"away","enabled":true,"usage_limits":[{"type":"cost","credit_limit":5}]}]}`)
	tone := post("/v1/prompts/partials", `{"name":"Tone","string":"Be kind."}`).Get("id").Str
	post("/v1/virtual-keys", `{"name":"Own","slug":"own","provider":"openai","key":"sk-0123456789"}`)
	prompt := func(name string) string {
		return post("/v1/prompts", `{"name":"`+name+`","collection_id":"","string":"{{>`+tone+`}} Hi","parameters":{"model":"gpt-4o"},"virtual_key":"own"}`).Get("id").Str
	}
	labelled, shared := prompt("Labelled"), post("/v1/prompts", `{"name":"Shared","collection_id":"","string":"Hi","parameters":{"model":"gpt-4o"},"virtual_key":"own"}`).Get("id").Str
	post("/v2/prompts/"+shared+"/share", `{"access_level":"workspaces","workspaces":["away"]}`)
	post("/v1/admin/users/invites", `{"email":"one@example.com","role":"member","workspaces":[{"id":"away","role":"member"}]}`)
	cancelled := post("/v1/admin/users/invites", `{"email":"two@example.com","role":"member","workspaces":[{"id":"away","role":"member"}]}`).Get("id").Str
	g.Admin("DELETE", "/v1/admin/users/invites/"+cancelled, nil)
	label := post("/v1/labels", `{"name":"canary"}`).Get("id").Str
	put("/v1/prompts/"+labelled+"/versions/1", `{"label_id":"`+label+`"}`)
	put("/v1/prompts/"+labelled, `{"patch":true,"string":"Hi"}`)
	put("/v1/prompts/"+labelled+"/makeDefault", `{"version":2}`)
	g.Admin("DELETE", "/v1/labels/"+label, nil)
	g.Admin("DELETE", "/v1/prompts/partials/"+tone, nil)
	g.Admin("DELETE", "/v1/admin/workspaces/away", json.RawMessage(`{"name":"Away","force_delete":true}`))
	text := restored(t, g, c)
	for _, gone := range []string{away, label, cancelled} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is named:\n%s", gone, text)
		}
	}
	if !strings.Contains(text, "one@example.com") || strings.Contains(text, "share:") {
		t.Error(text)
	}
}

// What is there, but of no use any more, is imported with --allow-missing.
func TestExportsKeepWhatIsOfNoUseNow(t *testing.T) {
	g, c := running(t)
	post := func(path, body string) { g.Admin("POST", path, json.RawMessage(body)) }
	post("/v1/admin/workspaces", `{"name":"Other","slug":"other"}`)
	post("/v1/admin/workspaces", `{"name":"Away","slug":"away"}`)
	reference := `{"name":"R","slug":"%s","manager_type":"hashicorp_vault","auth_config":{"vault_auth_type":"token","vault_addr":"https://vault.example.com","vault_token":"hvs.0123456789abcdef"},"secret_path":"kv/x","secret_key":"k","allowed_workspaces":["%s"]}`
	post("/v1/secret-references", fmt.Sprintf(reference, "withdrawn", home(g)))
	post("/v1/secret-references", fmt.Sprintf(reference, "nobodys", "away"))
	post("/v1/virtual-keys", `{"name":"V","slug":"v","provider":"openai","secret_mappings":[{"target_field":"key","secret_reference_id":"withdrawn"}]}`)
	g.Admin("PUT", "/v1/secret-references/withdrawn", json.RawMessage(`{"allowed_workspaces":["other"]}`))
	g.Admin("DELETE", "/v1/admin/workspaces/away", json.RawMessage(`{"name":"Away","force_delete":true}`))
	text := restored(t, g, c, "--allow-missing")
	for _, want := range []string{"slug: nobodys", "mappings:"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	_, d := running(t)
	file := write(t, "gw.yaml", text)
	d.fails("--allow-missing", "import", file, "--passphrase-file", write(t, "passphrase", passphrase+"\n"))
}
