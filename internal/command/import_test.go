package command_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A document is one that a test changes. Objects that it does not change are as they were, to the byte.
type document map[string]any

func readExport(t *testing.T, text string) document {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatal(err)
	}
	d := make(document)
	for name, raw := range members {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			d[name] = raw
			continue
		}
		objects := make([]any, len(list))
		for i, o := range list {
			objects[i] = o
		}
		d[name] = objects
	}
	return d
}

// file writes the document as a file.
func (d document) file(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "gw.json", string(text))
}

// at returns an object of a kind, to be changed.
func (d document) at(t *testing.T, kind string, n int) map[string]any {
	t.Helper()
	list := d[kind].([]any)
	raw, ok := list[n].(json.RawMessage)
	if !ok {
		return list[n].(map[string]any)
	}
	o := make(map[string]any)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&o); err != nil {
		t.Fatal(err)
	}
	list[n] = o
	return o
}

// of returns the object of a kind that has a value in one of its members, to be changed.
func (d document) of(t *testing.T, kind, value string) map[string]any {
	t.Helper()
	list, _ := d[kind].([]any)
	for n := range list {
		raw, _ := json.Marshal(list[n])
		for _, member := range []string{"slug", "for", "email", "name", "id"} {
			if gjson.GetBytes(raw, member).Str == value {
				return d.at(t, kind, n)
			}
		}
	}
	t.Fatalf("no %s in %s", value, kind)
	return nil
}

// inner returns a member of an object, which is an object, or the first element of an array.
func inner(o map[string]any, member string) map[string]any {
	if list, ok := o[member].([]any); ok {
		return list[0].(map[string]any)
	}
	return o[member].(map[string]any)
}

// What a document says of an object does not send a secret that it has not to where the secret was not saved for.
func TestImportsKeepSecretsWhereTheyWereSavedFor(t *testing.T) {
	g, c := running(t)
	fill(g)
	keyed := func(body string) { g.Admin("POST", "/v1/integrations", json.RawMessage(body)) }
	keyed(`{"name":"Keyed","slug":"keyed","ai_provider_id":"openai","key":"sk-keyed-0123456789","configurations":{"custom_host":"https://one.example.com/v1"}}`)
	g.Admin("PUT", "/v1/integrations/keyed/models", json.RawMessage(`{"models":[{"slug":"gpt-4o","enabled":true,"configurations":{"custom_host":"https://one.example.com/v1"},"custom_headers":{"X-Team":"header-0123456789abcdef"}},{"slug":"gpt-4o-mini","enabled":true}]}`))
	g.Admin("POST", "/v1/configs", json.RawMessage(`{"name":"Plain","config":{"virtual_key":"own"}}`))
	export := c.ok("export", "--without-secrets", "--json")

	for name, test := range map[string]struct {
		kind, of string
		change   func(o map[string]any)
		message  string // "": it is imported
		fields   []string
	}{
		"an integration's host":             {"integrations", "keyed", func(o map[string]any) { o["custom_host"] = "https://two.example.com/v1" }, "].custom_host: send key along", nil},
		"an integration's host, and no key": {"integrations", "keyed", func(o map[string]any) { o["custom_host"] = "https://two.example.com/v1"; delete(o, "key") }, "].custom_host: send key along", nil},
		"an integration without its host":   {"integrations", "keyed", func(o map[string]any) { delete(o, "custom_host"); delete(o, "models") }, "].custom_host: send key along", nil},
		"an integration's region":           {"integrations", "aws", func(o map[string]any) { inner(o, "model_config")["aws_region"] = "us-east-1" }, "].model_config.aws_region: send ", nil},
		"settings to a host":                {"integrations", "aws", func(o map[string]any) { o["custom_host"] = "https://two.example.com" }, "].custom_host: send ", nil},
		"a model's host":                    {"integrations", "keyed", func(o map[string]any) { inner(o, "models")["custom_host"] = "https://two.example.com/v1" }, ".custom_host: send key along", nil},
		"a model's host, with the key": {"integrations", "keyed", func(o map[string]any) {
			o["key"] = "sk-other-0123456789"
			inner(o, "models")["custom_host"] = "https://two.example.com/v1"
		}, ".headers: send them along", nil},
		"a virtual key's host":       {"virtual_keys", "own", func(o map[string]any) { o["custom_host"] = "https://two.example.com/v1" }, "].custom_host: send key along", nil},
		"a secret manager's address": {"secret_references", "openai", func(o map[string]any) { inner(o, "auth")["vault_addr"] = "https://two.example.com" }, "].auth.vault_addr: send ", nil},
		"a plugin's address":         {"plugins", "mistral", func(o map[string]any) { inner(o, "settings")["baseUrl"] = "https://two.example.com" }, "].settings.baseUrl: send ", nil},
		"a host of a version of a config": {"configs", "Fallback", func(o map[string]any) {
			inner(inner(o, "versions"), "config")["custom_host"] = "https://two.example.com"
		}, "versions do not change", nil},
		"a new version of a config": {"configs", "Plain", func(o map[string]any) {
			o["versions"] = append(o["versions"].([]any), map[string]any{"number": 2, "config": map[string]any{"provider": "openai", "api_key": "(omitted)", "custom_host": "https://two.example.com"}})
		}, "].versions[1].config: the document does not have the secret", nil},
		"a masked key":                           {"integrations", "keyed", func(o map[string]any) { o["key"] = "sk*****789" }, "].key: a masked value", nil},
		"a key to a host that the guard refuses": {"integrations", "keyed", func(o map[string]any) { o["key"], o["custom_host"] = "sk-other-0123456789", "http://10.1.2.3" }, "].custom_host: ", nil},
		"a key with its host": {"integrations", "keyed", func(o map[string]any) {
			o["key"], o["custom_host"] = "sk-other-0123456789", "https://two.example.com/v1"
		}, "", []string{"custom_host", "key"}},
		"another name":              {"integrations", "keyed", func(o map[string]any) { o["name"] = "Other" }, "", []string{"name"}},
		"another name, and no key":  {"integrations", "keyed", func(o map[string]any) { o["name"] = "Other"; delete(o, "key") }, "", []string{"name"}},
		"a key that is removed":     {"integrations", "keyed", func(o map[string]any) { o["key"] = "" }, "", []string{"key"}},
		"settings that are removed": {"integrations", "keyed", func(o map[string]any) { delete(o, "models") }, "", []string{"models"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &terminal{t, c.flags}
			d := readExport(t, export)
			test.change(d.of(t, test.kind, test.of))
			file := d.file(t)
			if test.message != "" {
				c.fails(test.message, "import", file, "--dry-run")
				c.fails(test.message, "import", file)
				return
			}
			report := gjson.Parse(c.ok("import", file, "--dry-run", "--json"))
			var fields []string
			for _, f := range report.Get("changes.0.fields.#.field").Array() {
				fields = append(fields, f.Str)
			}
			slices.Sort(fields)
			if report.Get("changes.#").Int() != 1 || !slices.Equal(slices.Compact(fields), test.fields) {
				t.Errorf("%s", report.Raw)
			}
		})
	}
	if again := c.ok("export", "--without-secrets", "--json"); again != export {
		t.Errorf("what was refused has changed something:\n%s", unified(export, again))
	}
	if strings.Contains(export, "sk-keyed") {
		t.Error("a key is in a document without secrets")
	}
}

// The rules of the control plane hold for documents, too.
func TestImportsObeyTheRulesOfTheControlPlane(t *testing.T) {
	g := gatewaytest.New(t, "provider local {\ntype openai\nbase_url https://local.example.com/v1\n}\nsecrets environment {\nnames GW_TEST_*\n}\nsecrets file {\nroot "+t.TempDir()+"\n}")
	g.AdminAt = gatewaytest.FreeAddress(t)
	g.Load()
	c := &terminal{t, []string{"--address", g.AdminAt}}
	fill(g)
	invited := gjson.Parse(g.Admin("POST", "/v1/admin/users/invites", json.RawMessage(`{"email":"boss@example.com","role":"admin","workspaces":[]}`)).Body)
	if a := g.Do("POST", "/v1/admin/users/invites/accept", `{"token":"`+tokenOf(invited.Get("invite_link").Str)+`","first_name":"Bo","last_name":"Ss"}`); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	boss := gjson.Parse(g.Admin("GET", "/v1/admin/users?email=boss@example.com", nil).Body).Get("data.0.id").Str
	g.Admin("PUT", "/v1/admin/users/"+boss, json.RawMessage(`{"role":"owner"}`))
	g.Admin("POST", "/v1/configs", json.RawMessage(`{"name":"Plain","config":{"virtual_key":"own"}}`))
	beta := gjson.Parse(g.Admin("POST", "/v1/labels", json.RawMessage(`{"name":"beta"}`)).Body).Get("id").Str
	labelled := gjson.Parse(g.Admin("POST", "/v1/prompts", json.RawMessage(`{"name":"Labelled","string":"x","virtual_key":"own"}`)).Body).Get("slug").Str
	g.Admin("PUT", "/v1/prompts/"+labelled+"/versions/1", json.RawMessage(`{"label_id":"`+beta+`"}`))
	g.Admin("POST", "/v1/configs", json.RawMessage(`{"name":"By label","config":{"prompt_id":"`+labelled+`@beta"}}`))
	export := c.ok("export", "--without-secrets", "--json")
	const own, workspace = "018f0000-0000-7000-8000-0000000000aa", "00000000-0000-0000-0000-000000000000"
	type object = map[string]any
	set := func(member string, value any) func(object) { return func(o object) { o[member] = value } }
	version := func(config object) []any { return []any{object{"number": 1, "config": config}} }

	for name, test := range map[string]struct {
		kind, of string // of "": a new object with an id, a name and a workspace
		change   func(o object)
		message  string
	}{
		"the last owner":                      {"users", "boss@example.com", set("role", "member"), "].role: The last owner"},
		"an id that is no UUID":               {"labels", "", func(o object) { o["id"], o["name"] = "mine", "mine" }, "].id: expected a UUID"},
		"a label called latest":               {"labels", "", set("name", "latest"), "].name: expected letters"},
		"a label called default":              {"labels", "", set("name", "default"), "].name: expected letters"},
		"a label that is a number":            {"labels", "", set("name", "42"), "].name: expected letters"},
		"a label of every workspace":          {"labels", "", set("name", "production"), "].name: \"production\" is a label of every workspace"},
		"short sessions":                      {"organisation", "", set("sign_in", object{"max_session_ttl": 60}), "organisation[0].sign_in.max_session_ttl: expected seconds from 900"},
		"a public suffix":                     {"organisation", "", set("sign_in", object{"domains": []any{object{"domain": "co.uk"}}}), ".sign_in.domains[0].domain: co.uk is a public suffix"},
		"keys of an issuer at a private host": {"organisation", "", set("sign_in", object{"issuers": []any{object{"issuer": "x", "audience": []any{"a"}, "jwks_url": []any{"http://169.254.169.254/keys"}}}}), ".sign_in.issuers[0].jwks_url[0]: "},
		"an issuer without keys":              {"organisation", "", set("sign_in", object{"issuers": []any{object{"issuer": "x", "audience": []any{"a"}}}}), ".sign_in.issuers[0].jwks_url: expected jwks_url or jwks"},
		"masked keys that the store has not":  {"organisation", "", set("sign_in", object{"issuers": []any{object{"issuer": "x", "audience": []any{"a"}, "jwks_url": []any{"https://id.example.com/keys?token=*****"}}}}), ".jwks_url[0]: the values of its query"},
		"no such section":                     {"organisation", "", set("overrides", object{"nope": true}), ".overrides: there is no section"},
		"a guardrail of all calls":            {"organisation", "", set("guardrails", object{"input": []any{own}}), ".guardrails.input[0]: there is no object of guardrails"},
		"no such security setting":            {"workspaces", "team", set("security", object{"bogus": true}), "].security.bogus: there is no setting"},
		"user keys":                           {"workspaces", "team", set("user_keys", object{"epoch": 1, "value": object{"rotation_days": 9999}}), "].user_keys.value.rotation_days: "},
		"numbers of user keys":                {"workspaces", "team", set("user_keys", object{"epoch": 1, "value": object{"count": -7}}), "].user_keys.value.count: "},
		"denied fields":                       {"workspaces", "team", set("export", object{"epoch": 1, "value": object{"denied": []any{"nope"}}}), "].export.value.denied[0]: expected one of"},
		"metadata":                            {"workspaces", "team", set("metadata", object{"a": strings.Repeat("x", 200)}), "].metadata: expected keys and values"},
		"no name":                             {"workspaces", "team", set("name", ""), "].name: required"},
		"another slug of it":                  {"workspaces", "team", set("slug", "other"), "].slug: it does not change"},
		"a long description":                  {"workspaces", "team", set("description", strings.Repeat("x", 2000)), "].description: expected at most"},
		"a file outside": {"secret_references", "", func(o object) {
			o["slug"], o["manager"], o["path"], o["everywhere"] = "f", "file", "../../etc/passwd", true
			delete(o, "workspace_id")
		}, "].path: "},
		"the gateway's environment": {"secret_references", "", func(o object) {
			o["slug"], o["manager"], o["path"], o["everywhere"] = "e", "environment", "GW_ADMIN_KEY", true
			delete(o, "workspace_id")
		}, "].path: "},
		"a reference for nobody": {"secret_references", "openai", set("everywhere", false), "].workspaces: expected at least one"},
		"tags":                   {"integrations", "aws", set("tags", object{"": "x"}), "].tags: expected names"},
		"a private host": {"integrations", "", func(o object) {
			o["slug"], o["provider"], o["key"], o["custom_host"] = "p", "openai", "k", "http://192.168.1.1"
			delete(o, "workspace_id")
		}, "].custom_host: "},
		"a provider without an address": {"integrations", "", func(o object) {
			o["slug"], o["provider"], o["key"] = "p", "azure-openai", "k"
			delete(o, "workspace_id")
		}, "].model_config"},
		"settings of another provider": {"integrations", "", func(o object) {
			o["slug"], o["provider"], o["key"], o["model_config"] = "p", "openai", "k", object{"aws_region": "eu-west-1"}
		}, "].model_config.aws_region: provider openai has no such field"},
		"a model that is named twice": {"integrations", "ref", set("models", []any{object{"slug": "a", "enabled": true}, object{"slug": "A", "enabled": true}}), "].models[1].slug: the model is named twice"},
		"a mapping of no secret":      {"integrations", "ref", func(o object) { inner(o, "mappings")["field"] = "aws_region" }, "].mappings[0].field: expected key"},
		"access by the organisation's": {"integrations", "", func(o object) {
			o["slug"], o["provider"], o["key"], o["access"] = "p", "openai", "k", object{"team": true}
		}, "].access: the integration is one workspace's own"},
		"an operator's provider":          {"virtual_keys", "", func(o object) { o["slug"], o["provider"], o["key"] = "local", "openai", "k" }, "].slug: \"local\" is a provider of the operator's configuration"},
		"a slug that models begin with":   {"virtual_keys", "", func(o object) { o["slug"], o["provider"], o["key"] = "hf", "openai", "k" }, "].slug: expected a name that is not a UUID"},
		"a slug that is a UUID":           {"virtual_keys", "", func(o object) { o["slug"], o["provider"], o["key"] = own, "openai", "k" }, "].slug: expected letters"},
		"another slug":                    {"virtual_keys", "own", set("slug", "other"), "].slug: it does not change"},
		"a config that names no provider": {"configs", "", func(o object) { o["slug"], o["versions"] = "pc", version(object{"provider": "@nope"}) }, "].versions: number 1: provider: the workspace has no such provider (--allow-missing"},
		"a config that names no guardrail": {"configs", "", func(o object) {
			o["slug"], o["versions"] = "pc", version(object{"provider": "openai", "input_guardrails": []any{"pg-nope"}})
		}, "the workspace has no such guardrail"},
		"a gap between versions": {"configs", "Plain", func(o object) {
			o["versions"] = append(o["versions"].([]any), object{"number": 7, "config": object{"virtual_key": "own"}})
		}, "].versions[1].number: expected 2, the next one"},
		"a first version": {"configs", "", func(o object) {
			o["slug"], o["versions"] = "pc", []any{object{"number": 2, "config": object{"virtual_key": "own"}}}
		}, "].versions[0].number: expected 1, the next one"},
		"the id of a version": {"configs", "", func(o object) {
			o["slug"], o["versions"] = "pc", []any{object{"id": "v", "number": 1, "config": object{"virtual_key": "own"}}}
		}, "].versions[0].id: expected none, or a UUID"},
		"a prompt without a name": {"prompts", "Hello", set("name", ""), "].name: required"},
		"a prompt that names no key": {"prompts", "", func(o object) {
			o["slug"], o["published"], o["versions"] = "pp", 1, []any{object{"number": 1, "string": `[{"role":"user","content":"hi"}]`, "virtual_key": "@nothere", "parameters": object{"model": "m"}}}
		}, "virtual_key: the workspace has no virtual key, provider or config \"@nothere\""},
		"a label of no version":           {"prompts", "Hello", set("labels", object{own: 9}), "].labels: there is no version 9"},
		"an alias with white space":       {"model_aliases", "fast", set("name", "a b"), "].name: expected a name"},
		"an alias of no provider":         {"model_aliases", "fast", set("model", "@nope/m"), "].model: the workspace has no provider \"nope\" (--allow-missing"},
		"a collection in itself":          {"collections", "Folder", func(o object) { o["parent_id"] = o["id"] }, "].parent_id: the collection is within itself"},
		"a plugin without its credential": {"plugins", "mistral", set("settings", object{"baseUrl": "https://two.example.com"}), "].settings.apiKey: "},
		"a label in use":                  {"labels", "beta", set("name", "gamma"), "].name: config pc-by-label-"},
		"a share with no workspace":       {"prompts", labelled, set("share", object{"version_id": own, "shared_at": "2026-01-01T00:00:00Z", "workspaces": []any{own}}), "].share.workspaces[0]: there is no object of workspaces"},
		"a condition on nothing":          {"rate_limits", "each key", set("conditions", []any{object{"key": "provider", "values": []any{"nope"}}}), "].conditions[0].values: there is no provider \"nope\""},
		"what a condition leaves out":     {"usage_limits", "all", set("conditions", []any{object{"key": "endpoint_type", "values": []any{"*"}, "excludes": []any{"nope"}}}), "].conditions[0].excludes: there is no endpoint_type"},
		"dollars as a number":             {"usage_limits", "all", set("limit", 100), "].limit: expected US dollars as a text"},
		"dollars of no limit":             {"usage_limits", "all", set("alert_threshold", "ten"), "].alert_threshold: expected US dollars as a text"},
		"a section that others decide":    {"workspaces", "team", set("user_keys", object{"epoch": 1, "value": object{"count": 3}}), "].user_keys: workspaces do not decide the section user_api_key_settings"},
		"a limit that is too small": {"limits", "", func(o object) {
			o["id"], o["workspace_id"], o["carrier"], o["budget"] = workspace, workspace, "workspace_id", object{"type": "cost", "limit": "0.05"}
			delete(o, "name")
		}, "].budget.limit: expected 1 or more USD"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &terminal{t, c.flags}
			d := readExport(t, export)
			switch {
			case test.kind == "organisation":
				test.change(d.at(t, "organisation", 0))
			case test.of == "":
				o := object{"id": own, "name": "New", "workspace_id": workspace}
				test.change(o)
				list, _ := d[test.kind].([]any)
				d[test.kind] = append(list, o)
			default:
				test.change(d.of(t, test.kind, test.of))
			}
			c.fails(test.message, "import", d.file(t), "--dry-run")
		})
	}

	// What is in the document counts: another owner, the provider that a config names, in any order.
	d := readExport(t, export)
	d.of(t, "users", "boss@example.com")["role"] = "admin"
	d.of(t, "users", "jo@example.com")["role"] = "owner"
	d["virtual_keys"] = append(d["virtual_keys"].([]any), object{"id": own, "name": "New", "workspace_id": workspace, "slug": "new", "provider": "openai", "key": "k"})
	d["configs"] = append(d["configs"].([]any), object{"id": own, "name": "New", "workspace_id": workspace, "slug": "pc-new", "versions": version(object{"provider": "@new"})})
	d.of(t, "integrations", "aws")["access"] = object{"team": false}
	if out := c.ok("import", d.file(t), "--dry-run"); !strings.Contains(out, "5 objects would be written") {
		t.Error(out)
	}
	// Guardrails that are new are those of configs, of a workspace and of the organisation, and labels are named as the document has them.
	d = readExport(t, export)
	const other, third = "018f0000-0000-7000-8000-0000000000ab", "018f0000-0000-7000-8000-0000000000ac"
	named := func(id, slug string, more object) object {
		maps.Copy(more, object{"id": id, "name": slug, "workspace_id": workspace, "slug": slug})
		return more
	}
	d["guardrails"] = append(d["guardrails"].([]any), named(own, "pg-new", object{"versions": []any{object{
		"number": 1, "checks": []any{object{"id": "default.contains", "parameters": object{"words": []any{"x"}, "operator": "none"}}}, "actions": object{"deny": true},
	}}}))
	d["configs"] = append(d["configs"].([]any), named(other, "pc-guarded", object{"versions": version(object{"virtual_key": "own", "input_guardrails": []any{"pg-new"}, "output_guardrails": []any{own}})}))
	d.of(t, "workspaces", workspace)["guardrails"] = object{"input": []any{own}}
	d.of(t, "labels", "beta")["name"] = "gamma"
	tone := d.of(t, "prompts", "Tone")
	tone["labels"] = object{beta: 1}
	by := d.of(t, "configs", "By label")
	by["versions"] = append(by["versions"].([]any), object{"number": 2, "config": object{"prompt_id": labelled + "@gamma"}})
	using := func(label string) object {
		return named(third, "pp-toned", object{"published": 1, "versions": []any{object{"number": 1, "string": "{{>" + tone["slug"].(string) + "@" + label + "}}", "virtual_key": "own", "parameters": object{"model": "m"}}}})
	}
	before := d["prompts"].([]any)
	d["prompts"] = append(slices.Clone(before), using("gamma"))
	if out := c.ok("import", d.file(t), "--dry-run"); !strings.Contains(out, "7 objects would be written") {
		t.Error(out)
	}
	d["prompts"] = append(slices.Clone(before), using("beta"))
	c.fails("@beta", "import", d.file(t), "--dry-run")

	missing := document{"format": 1, "configs": []any{object{"id": own, "name": "New", "workspace_id": workspace, "slug": "pc-new", "versions": version(object{"provider": "@nope"})}}}
	out := c.ok("import", missing.file(t), "--dry-run", "--allow-missing")
	for _, want := range []string{"1 objects would be written", "Not in the document, and kept:", "  users boss@example.com (", "  integrations aws ("} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// What a document does not have is deleted with --prune, of the kinds that it has, by the rules of the API.
func TestImportsPruneWhatADocumentDoesNotHave(t *testing.T) {
	g, c := running(t)
	key, _ := fill(g)
	export := c.ok("export", "--without-secrets", "--json")
	for _, made := range [][2]string{
		{"/v1/labels", `{"name":"surplus"}`},
		{"/v1/virtual-keys", `{"name":"More","slug":"more","provider":"openai","key":"sk-provider-0123456789"}`},
		{"/v1/configs", `{"name":"Surplus","config":{"virtual_key":"more"}}`}, // which names what is deleted after it
		{"/v1/admin/workspaces", `{"name":"Surplus","slug":"surplus"}`},
		{"/v1/policies/rate-limits", `{"name":"surplus","type":"requests","unit":"rpm","value":6}`},
	} {
		g.Admin("POST", made[0], json.RawMessage(made[1]))
	}
	full := c.ok("export", "--without-secrets", "--json")
	file := readExport(t, export).file(t)
	if out := c.ok("import", file); !strings.HasPrefix(out, "0 objects were written") || c.ok("export", "--without-secrets", "--json") != full {
		t.Errorf("without --prune: %s", out)
	}
	dry := c.ok("import", file, "--prune", "--dry-run")
	for _, want := range []string{"- labels surplus (", "- configs pc-surplus-", "- virtual_keys more (", "- workspaces surplus (", "- rate_limits surplus (", " and 5 deleted"} {
		if !strings.Contains(dry, want) {
			t.Errorf("no %q in\n%s", want, dry)
		}
	}
	if c.ok("export", "--without-secrets", "--json") != full {
		t.Error("a dry run deleted something")
	}
	c.ok("import", file, "--prune")
	if a := g.Do("GET", "/v1/configs", "", "x-gw-api-key: "+key); a.Status != 200 {
		t.Errorf("a key that the document has not, of which it has no kind: %d %s", a.Status, a.Body)
	}
	if out := c.ok("import", file, "--prune", "--json"); gjson.Get(out, "pruned.#").Int() != 0 {
		t.Errorf("again: %s", out)
	}
	for _, path := range []string{"/v1/labels?search=surplus", "/v1/virtual-keys", "/v1/admin/workspaces", "/v1/policies/rate-limits", "/v1/configs"} {
		if a := g.Admin("GET", path, nil); strings.Contains(strings.ToLower(a.Body), `"surplus"`) || strings.Contains(a.Body, `"more"`) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	rows := g.Admin("GET", "/v1/audit-logs?action=delete", nil).Body
	if !strings.Contains(rows, `"user_name":"operator"`) || !strings.Contains(rows, `"resource_type":"labels"`) {
		t.Errorf("the audit trail does not tell what was deleted: %s", rows)
	}

	// Those that refer to each other go in the order in which they can.
	g.Admin("POST", "/v1/prompts/partials", json.RawMessage(`{"name":"Zinner","string":"Be kind."}`))
	inner := g.Admin("GET", "/v1/prompts/partials", nil).Get(`data.#(name=="Zinner").slug`).Str
	for _, name := range []string{"Aouter", "Zouter"} {
		g.Admin("POST", "/v1/prompts/partials", json.RawMessage(`{"name":"`+name+`","string":"{{>`+inner+`}} Be brief."}`))
	}
	if out := c.ok("import", file, "--prune"); !strings.Contains(out, " and 3 deleted") {
		t.Error(out)
	}
}

// What cannot be deleted is said before anything is written, by a dry run and by the import itself, in the same words.
func TestAnImportThatCannotPruneChangesNothing(t *testing.T) {
	g, c := running(t)
	fill(g)
	g.Admin("POST", "/v1/admin/workspaces", json.RawMessage(`{"name":"Full","slug":"full"}`))
	g.Admin("POST", "/v1/api-keys/workspace/service", json.RawMessage(`{"name":"inside","workspace_id":"full","scopes":["completions.write"]}`))
	invite := g.Admin("POST", "/v1/admin/users/invites", json.RawMessage(`{"email":"boss@example.com","role":"admin","workspaces":[]}`))
	if a := g.Do("POST", "/v1/admin/users/invites/accept", `{"token":"`+tokenOf(invite.Get("invite_link").Str)+`","first_name":"B","last_name":"C"}`); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	boss := g.Admin("GET", "/v1/admin/users?email=boss@example.com", nil).Get("data.0.id").Str
	g.Admin("PUT", "/v1/admin/users/"+boss, json.RawMessage(`{"role":"owner"}`))
	g.Admin("POST", "/v1/labels", json.RawMessage(`{"name":"surplus"}`))
	state := c.ok("export", "--without-secrets", "--json")
	d := readExport(t, state)
	d["virtual_keys"], d["labels"], d["users"], d["members"], d["workspaces"] = []any{}, []any{}, []any{}, []any{}, []any{}
	d["model_aliases"] = []any{} // it names the virtual key, and goes before it
	d.of(t, "rate_limits", "each key")["name"] = "renamed"
	file := d.file(t)
	want := []string{"- labels surplus (", "! virtual_keys own (", "! workspaces full (", "! users boss@example.com (", ": cannot be deleted: The last owner", "- model_aliases fast (", "~ rate_limits renamed ("}
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		out, _, err := c.run(append([]string{"import", file, "--prune"}, flags...)...)
		if err == nil || !strings.Contains(err.Error(), "nothing was written or deleted, because ") {
			t.Errorf("%v\n%s", err, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("no %q in\n%s", w, out)
			}
		}
		if strings.Contains(out, "! workspaces ws-") || strings.Contains(out, "- workspaces default") {
			t.Errorf("the default workspace would go:\n%s", out)
		}
		if c.ok("export", "--without-secrets", "--json") != state {
			t.Errorf("%q: something was written", flags)
		}
		out, _, err = c.run(append([]string{"import", file, "--prune", "--json"}, flags...)...)
		report := gjson.Parse(out)
		if err == nil || report.Get("refused.#").Int() < 3 || !report.Get(`refused.#(kind=="users").why`).Exists() || report.Get("pruned.#").Int() < 2 || report.Get("written").Bool() {
			t.Errorf("%v\n%s", err, out)
		}
	}
	rows := g.Admin("GET", "/v1/audit-logs?action=delete&page_size=100", nil).Body
	if strings.Contains(rows, `"resource_type":"labels"`) {
		t.Errorf("a rehearsal is in the audit trail: %s", rows)
	}
	if out := c.ok("audit", "verify"); !strings.Contains(out, " rows, up to number ") {
		t.Error(out)
	}

	// Nor does what a rehearsal is refused keep a refusal of the operator from being recorded.
	for range 50 {
		_, _, _ = c.run("import", file, "--prune", "--dry-run")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+g.AdminAt+"/gw/v1/admin/users/"+boss, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if rows := g.Admin("GET", "/v1/audit-logs?response_status_code="+strconv.Itoa(a.StatusCode), nil); a.StatusCode < 400 || a.StatusCode == 429 || rows.Get("total").Int() != 1 {
		t.Errorf("%d, and the trail has %s", a.StatusCode, rows.Body)
	}
}

// goWords are what no error says to whoever wrote a document.
var goWords = regexp.MustCompile(`(?i)json: |unmarshal|jsontext|\bgo (?:type|value|struct|string|int)|manifest\.|credentials\.|strconv|invalid character|struct`)

// Every error about a value names the member by its place in the document, in the words of the API.
func TestImportsNameTheMemberThatIsWrong(t *testing.T) {
	g, c := running(t)
	fill(g)
	export := c.ok("export", "--without-secrets", "--json")
	tried := 0
	try := func(t *testing.T, document, at string) {
		t.Helper()
		tried++
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.AdminAt+"/gw/import", strings.NewReader(`{"dry_run":true,"document":`+document+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode == 200 { // any value will do
			return
		}
		if a.StatusCode != 400 || !bytes.HasPrefix(body, []byte(at)) || goWords.Match(body) {
			t.Errorf("%s: %d %s", at, a.StatusCode, body)
		}
	}
	for _, one := range [][2]string{
		{`[]`, "the document: expected an object"},
		{`{"format":1,"format":1}`, "format: it is given twice"},
		{`{"format":2}`, "format: expected 1, got 2"},
		{`{"format":1,"nope":[]}`, "nope: unknown member"},
		{`{"format":1,"labels":{}}`, "labels: expected an array of objects"},
		{`{"format":1,"labels":[7]}`, "labels[0]: expected an object"},
	} {
		try(t, one[0], one[1])
	}
	// walk sends the document with each value replaced by one of another type.
	var walk func(kind, path string, v gjson.Result, depth int)
	walk = func(kind, path string, v gjson.Result, depth int) {
		for _, wrong := range []string{`7`, `"x"`, `[7]`, `{"x":7}`} {
			if other := gjson.Parse(wrong); other.Type == v.Type && other.IsArray() == v.IsArray() && other.IsObject() == v.IsObject() {
				continue
			}
			changed, err := sjson.SetRaw(export, path, wrong)
			if err != nil {
				t.Fatal(path, err)
			}
			try(t, changed, kind+"[0]")
			if depth > 1 {
				break
			}
		}
		if depth == 4 {
			return
		}
		n := 0
		v.ForEach(func(key, inner gjson.Result) bool {
			step := key.String()
			if v.IsArray() {
				step = strconv.Itoa(n)
			}
			if n++; v.IsArray() && n > 1 {
				return false
			}
			walk(kind, path+"."+strings.NewReplacer(".", `\.`, "*", `\*`, "?", `\?`).Replace(step), inner, depth+1)
			return true
		})
	}
	gjson.Parse(export).ForEach(func(kind, list gjson.Result) bool {
		if list.IsArray() {
			walk(kind.Str, kind.Str+".0", list.Get("0"), 0)
		}
		return true
	})
	if tried < 300 {
		t.Errorf("%d documents were tried", tried)
	}
}
