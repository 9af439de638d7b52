package admin_test

import (
	"strings"
	"testing"
)

// local is the only provider in the operator's configuration; see newAPI.
func TestAConfigIsCheckedAgainstWhatExists(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/admin/workspaces", `{"name":"blue","slug":"blue"}`)
	id := a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"mine","provider":"openai","key":"sk-1"}`).get("data.id").Str
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"theirs","provider":"openai","key":"sk-1","workspace_id":"blue"}`)
	const key = `"api_key":"sk-1"`
	for name, c := range map[string]struct {
		config string
		paths  []string // paths of the errors
	}{
		"all that exists": {`{"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"mine"},{"virtual_key":"` + id + `"},{"provider":"@mine"},{"provider":"@local"},{"provider":"local"},{"provider":"openai",` + key + `},
			{"override_params":{"model":"@mine/gpt"}},{"default_params":{"model":"@local/gpt"}}]}`, nil},
		"nothing of it": {
			`{"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"nope"},{"provider":"@nope"},{"provider":"opnai",` + key + `},{"override_params":{"model":"@nope/gpt"}},
			{"strategy":{"mode":"loadbalance"},"targets":[{"virtual_key":"theirs"},{"default_params":{"model":"@theirs/gpt"}}]}]}`,
			[]string{"targets[0].virtual_key", "targets[1].provider", "targets[2].provider", "targets[3].override_params.model", "targets[4].targets[0].virtual_key", "targets[4].targets[1].default_params.model"},
		},
		"a provider of the file as a virtual key": {`{"virtual_key":"local"}`, []string{"virtual_key"}},
		"a built-in provider with @":              {`{"provider":"@openai"}`, []string{"provider"}},
		"another fault with it":                   {`{"virtual_key":"nope","retry":{"attempts":9}}`, []string{"virtual_key", "retry.attempts"}},
		"names of models that providers have":     {`{"virtual_key":"mine","override_params":{"model":"@nope/gpt"}}`, nil},
		"a model of Workers AI":                   {`{"override_params":{"model":"@cf/meta/llama"}}`, nil},
	} {
		body := `{"name":"c","config":` + c.config + `}`
		out := a.do("POST", "/v1/configs", body)
		if len(c.paths) == 0 {
			if out.status != 200 {
				t.Errorf("%s: %d %s", name, out.status, out.body)
			}
			continue
		}
		message := out.message()
		if out.status != 400 || strings.Count(message, "; ") != len(c.paths)-1 || strings.Contains(message, "nope") {
			t.Errorf("%s: %d %s", name, out.status, out.body)
		}
		for _, path := range c.paths {
			if !strings.Contains(message, path+": ") {
				t.Errorf("%s: %s is missing in %s", name, path, message)
			}
		}
		if strings.Contains(c.config, "retry") {
			continue
		}
		slug := a.ok("POST", "/v1/configs", strings.Replace(body, `{`, `{"allow_missing":true,`, 1)).get("slug").Str
		if out := a.do("PUT", "/v1/configs/"+slug, body); out.status != 400 {
			t.Errorf("%s, changed: %d %s", name, out.status, out.body)
		}
		a.ok("PUT", "/v1/configs/"+slug, strings.Replace(body, `{`, `{"allow_missing":true,`, 1))
		a.ok("PUT", "/v1/configs/"+slug, `{"name":"renamed"}`) // unchanged fields are not checked
	}
}

func TestWhatOthersNameIsNotDeleted(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/admin/workspaces", `{"name":"blue","slug":"blue"}`)
	made := map[string]string{}
	for _, slug := range []string{"by-slug", "by-at", "by-id", "by-model", "by-alias", "free", "archived"} {
		made[slug] = a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"`+slug+`","provider":"openai","key":"sk-1"}`).get("data.id").Str
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"by-slug","provider":"openai","key":"sk-1","workspace_id":"blue"}`)
	config := func(config string) string {
		return a.ok("POST", "/v1/configs", `{"name":"c","config":`+config+`}`).get("slug").Str
	}
	one := config(`{"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"by-slug"},{"provider":"@by-at"},{"virtual_key":"` + made["by-id"] + `"}]}`)
	two := config(`{"virtual_key":"by-slug"}`)
	three := config(`{"override_params":{"model":"@by-model/m"}}`)
	changed := config(`{"virtual_key":"free"}`)
	a.ok("PUT", "/v1/configs/"+changed, `{"config":{"provider":"@local"}}`)
	archived := config(`{"virtual_key":"archived"}`)
	a.ok("PUT", "/v1/configs/"+archived, `{"status":"archived"}`)
	alias := a.ok("POST", "/v1/model-aliases", `{"name":"fast","model":"@by-alias/m"}`).get("id").Str
	a.ok("POST", "/v1/model-aliases", `{"name":"routed","config":"`+two+`"}`)
	for slug, names := range map[string][]string{
		"by-slug": {one + " (targets[0].virtual_key)", two + " (virtual_key)"}, "by-at": {one + " (targets[1].provider)"}, "by-id": {one + " (targets[2].virtual_key)"},
		"by-model": {three + " (override_params.model)"}, "by-alias": {"model alias fast"},
	} {
		out := a.do("DELETE", "/v1/virtual-keys/"+made[slug], "")
		for _, name := range names {
			if out.status != 409 || !strings.Contains(out.body, name) {
				t.Errorf("%s: %d %s, want %s", slug, out.status, out.body, name)
			}
		}
	}
	if out := a.do("DELETE", "/v1/configs/"+two, ""); out.status != 409 || !strings.Contains(out.body, "model alias routed") {
		t.Errorf("a config: %d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/virtual-keys/free", "")
	a.ok("DELETE", "/v1/virtual-keys/archived", "")
	a.ok("DELETE", "/v1/virtual-keys/by-slug?workspace_id=blue", "")
	a.ok("DELETE", "/v1/model-aliases/"+alias, "")
	a.ok("DELETE", "/v1/virtual-keys/by-alias", "")
	a.ok("DELETE", "/v1/configs/"+one, "")
	a.ok("DELETE", "/v1/virtual-keys/by-at", "")
}

func TestModelAliasesLiveAndDie(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/admin/workspaces", `{"name":"blue","slug":"blue"}`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"theirs","provider":"openai","key":"sk-1","workspace_id":"blue"}`)
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"@local"}}`).get("slug").Str
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"no name":                     {`{"model":"@local/m"}`, 400, "name"},
		"a name with @":               {`{"name":"@x","model":"@local/m"}`, 400, "name: "},
		"a name with a space":         {`{"name":"x y","model":"@local/m"}`, 400, "name: "},
		"nothing that it stands for":  {`{"name":"x"}`, 400, "model: required"},
		"two things":                  {`{"name":"x","model":"@local/m","config":"` + config + `"}`, 400, "config: not allowed"},
		"no model":                    {`{"name":"x","model":"@local/"}`, 400, "model: expected"},
		"a model without a provider":  {`{"name":"x","model":"gpt"}`, 400, "model: expected"},
		"an unknown provider":         {`{"name":"x","model":"@nope/m"}`, 404, "model: "},
		"another workspace's":         {`{"name":"x","model":"@theirs/m"}`, 404, "model: "},
		"an unknown config":           {`{"name":"x","config":"pc-nope"}`, 404, "config: "},
		"another workspace's config":  {`{"name":"x","config":"` + config + `","workspace_id":"blue"}`, 404, "config: "},
		"an unknown provider, let be": {`{"name":"later","model":"@nope/m","allow_missing":true}`, 200, `"@nope/m"`},
		"a model":                     {`{"name":"openai/gpt-4o","model":"@local/a/b"}`, 200, `"@local/a/b"`},
		"a config":                    {`{"name":"routed","config":"` + config + `"}`, 200, config},
		"another workspace's name":    {`{"name":"openai/gpt-4o","model":"@theirs/m","workspace_id":"blue"}`, 200, ""},
	} {
		if out := a.do("POST", "/v1/model-aliases", c.body); out.status != c.status || !strings.Contains(out.body, c.says) {
			t.Errorf("%s: %d %s", name, out.status, out.body)
		}
	}
	if out := a.do("POST", "/v1/model-aliases", `{"name":"routed","model":"@local/m"}`); out.status != 409 || !strings.Contains(out.body, "name: ") {
		t.Errorf("a name that is taken: %d %s", out.status, out.body)
	}
	if n := a.ok("GET", "/v1/model-aliases?workspace_id=blue", "").get("total").Int(); n != 1 {
		t.Errorf("blue has %d", n)
	}
	id := a.ok("GET", "/v1/model-aliases", "").get(`data.#(name=="routed").id`).Str
	a.ok("PUT", "/v1/model-aliases/"+id, `{"name":"renamed"}`)
	if out := a.ok("GET", "/v1/model-aliases/"+id, ""); out.get("name").Str != "renamed" || out.get("config").Str != config {
		t.Errorf("renamed: %s", out.body)
	}
	a.refuses(ownerKey, "PUT", "/v1/model-aliases/"+id, `{"config":null}`, 400, "config: expected a value: null clears nothing here unless model")
	a.ok("PUT", "/v1/model-aliases/"+id, `{"model":"@local/m","config":null}`)
	a.refuses(ownerKey, "PUT", "/v1/model-aliases/"+id, `{"model":null}`, 400, "model: expected a value: null clears nothing here unless config")
	a.ok("PUT", "/v1/model-aliases/"+id, `{"config":null}`)
	if out := a.ok("GET", "/v1/model-aliases/"+id, ""); out.get("model").Str != "@local/m" || out.get("config").Raw != "null" {
		t.Errorf("changed: %s", out.body)
	}
	a.ok("DELETE", "/v1/model-aliases/"+id, "")
	if out := a.do("GET", "/v1/model-aliases/"+id, ""); out.status != 404 {
		t.Errorf("deleted: %d %s", out.status, out.body)
	}
}
