package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/prompts"
)

const passphrase = "correct horse battery staple"

// secretsOfFill are the secrets that fill puts into a gateway.
var secretsOfFill = []string{
	"plugin-0123456789abcdef",
	"sk-provider-0123456789", "header-0123456789abcdef", "aws-secret-0123456789abcdef", "hvs.0123456789abcdef", "inline-0123456789abcdef", "hook-0123456789abcdef", "jwks-0123456789abcdef", "dotted-0123456789abcdef",
}

// fill gives a gateway an object of every kind, and returns the secret and the id of an API key.
func fill(g *gatewaytest.Gateway) (key, id string) {
	post := func(path string, body string) gjson.Result {
		g.T.Helper()
		return gjson.Parse(g.Admin("POST", path, json.RawMessage(body)).Body)
	}
	team := post("/v1/admin/workspaces", `{"name":"Team","slug":"team","defaults":{"metadata":{"cost_center":"<42>"}}}`).Get("id").Str
	user := post("/v1/admin/users/invites", `{"email":"jo@example.com","role":"member","workspaces":[{"id":"team","role":"member"}]}`)
	accepted := g.Do("POST", "/v1/admin/users/invites/accept", `{"token":"`+tokenOf(user.Get("invite_link").Str)+`","first_name":"Jo","last_name":"Doe"}`)
	if accepted.Status != 200 {
		g.T.Fatalf("%d %s", accepted.Status, accepted.Body)
	}
	g.Admin("PUT", "/v1/admin/organisation", json.RawMessage(`{"auth_settings":{"jwt":[{"issuer":"https://id.example.com","audience":["gw"],"jwks_url":["https://id.example.com/keys?token=jwks-0123456789abcdef"]}]}}`))
	post("/v1/admin/users/invites", `{"email":"pending@example.com","role":"member","workspaces":[]}`)
	post("/v1/secret-references", `{"name":"OpenAI","slug":"openai","manager_type":"hashicorp_vault","auth_config":{"vault_auth_type":"token","vault_addr":"https://vault.example.com","vault_token":"hvs.0123456789abcdef"},"secret_path":"kv/openai","secret_key":"key"}`)
	post("/v1/integrations", `{"name":"Bedrock","slug":"aws","ai_provider_id":"bedrock","configurations":{"aws_auth_type":"accessKey","aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"aws-secret-0123456789abcdef","custom_headers":{"X-Team":"header-0123456789abcdef","X.Dotted":"dotted-0123456789abcdef"}}}`)
	g.Admin("PUT", "/v1/integrations/aws/workspaces", json.RawMessage(`{"workspaces":[{"id":"team","enabled":true,"usage_limits":[{"type":"cost","credit_limit":5,"periodic_reset":"monthly"}]}]}`))
	post("/v1/integrations", `{"name":"By reference","slug":"ref","ai_provider_id":"openai","secret_mappings":[{"target_field":"key","secret_reference_id":"openai"}]}`)
	post("/v1/virtual-keys", `{"name":"Own","slug":"own","provider":"openai","key":"sk-provider-0123456789"}`)
	post("/v1/guardrails", `{"name":"Hook","checks":[{"id":"default.webhook","parameters":{"webhookURL":"https://hook.example.com","headers":{"Authorization":"hook-0123456789abcdef"}}}],"actions":{"deny":true}}`)
	post("/v1/plugins", `{"plugin_id":"mistral","credentials":{"apiKey":"plugin-0123456789abcdef"}}`)
	config := post("/v1/configs", `{"name":"Fallback","config":{"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"own"},{"provider":"openai","api_key":"inline-0123456789abcdef","override_params":{"user":"\u003cé>"}}]}}`)
	g.Admin("PUT", "/v1/configs/"+config.Get("slug").Str, json.RawMessage(`{"config":{"virtual_key":"own","retry":{"attempts":2}}}`))
	post("/v1/model-aliases", `{"name":"fast","model":"@own/gpt-4o-mini"}`)
	post("/v1/collections", `{"name":"Folder","workspace_id":"team"}`)
	post("/v1/collections", `{"name":"Below the default","workspace_id":"team","parent_collection_id":"`+prompts.DefaultCollection(team, time.Time{}).ID+`"}`)
	post("/v1/prompts/partials", `{"name":"Tone","string":"Be\n  kind, {{name}}."}`)
	prompt := post("/v1/prompts", `{"name":"Hello","collection_id":"","string":"[{\"role\":\"user\",\"content\":\"Hi {{name}}\"}]","parameters":{"model":"gpt-4o-mini","temperature":0.50},"virtual_key":"own"}`)
	g.Admin("PUT", "/v1/prompts/"+prompt.Get("id").Str, json.RawMessage(`{"patch":true,"string":"[{\"role\":\"user\",\"content\":\"Hey {{name}}\"}]"}`))
	post("/v1/labels", `{"name":"canary","workspace_id":"team"}`)
	post("/v1/policies/rate-limits", `{"name":"each key","type":"requests","unit":"rpm","value":600,"group_by":[{"key":"api_key"}],"conditions":[{"key":"workspace_id","value":"`+team+`"}]}`)
	post("/v1/policies/usage-limits", `{"name":"all","type":"cost","credit_limit":100,"periodic_reset":"monthly","group_by":[{"key":"workspace_id"}]}`)
	made := post("/v1/api-keys/workspace/service", `{"name":"checkout","workspace_id":"team","scopes":["completions.write","configs.list"],"rate_limits":[{"type":"requests","unit":"rpm","value":7}],"defaults":{"metadata":{"a":"b"}}}`)
	return made.Get("key").Str, made.Get("id").Str
}

// tokenOf returns the token of the link of an invite.
func tokenOf(link string) string {
	_, token, _ := strings.Cut(link, "#")
	if _, t, ok := strings.Cut(token, "token="); ok {
		token = t
	}
	return token
}

// write writes a file of a test and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// running returns a gateway that runs, and a terminal for it.
func running(t *testing.T) (*gatewaytest.Gateway, *terminal) {
	g := gatewaytest.New(t, "")
	g.AdminAt = gatewaytest.FreeAddress(t)
	g.Load()
	return g, &terminal{t, []string{"--address", g.AdminAt}}
}

func TestTheControlPlaneIsExportedAndImported(t *testing.T) {
	g, c := running(t)
	key, id := fill(g)
	secret := write(t, "passphrase", passphrase+"\n")
	first := filepath.Join(t.TempDir(), "gw.yaml")
	c.ok("export", "--output", first, "--passphrase-file", secret)
	text := read(t, first)
	for _, s := range append([]string{key, passphrase}, secretsOfFill...) {
		if strings.Contains(text, s) {
			t.Errorf("%s is in the document", s)
		}
	}
	for _, want := range []string{"organisation:", "workspaces:", "users:", "members:", "secret_references:", "integrations:", "virtual_keys:", "collections:", "labels:", "prompts:", "guardrails:", "plugins:", "configs:", "model_aliases:", "rate_limits:", "usage_limits:", "limits:", "invites:", "api_keys:", "slug: team", "mode: fallback", "api_key: sealed:", "pending@example.com"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in the document", want)
		}
	}

	// Nothing changes if it is imported where it comes from, or exported again.
	if out := c.ok("import", first, "--passphrase-file", secret); !strings.HasPrefix(out, "0 objects were written") {
		t.Errorf("%s", out)
	}
	c.ok("export", "--output", first, "--passphrase-file", secret)
	if again := read(t, first); again != text {
		t.Errorf("the document is another one:\n%s\n---\n%s", text, again)
	}
	types := make(map[string]string) // of what the API made, by id
	for _, row := range gjson.Get(g.Admin("GET", "/v1/audit-logs?action=create", nil).Body, "records").Array() {
		types[row.Get("resource_id").Str] = row.Get("resource_type").Str
	}
	g.Stop()

	// Into an empty store and out of it again, it is the same: also what is sealed, as it is
	// sealed with the same key.
	h, d := running(t)
	if out := d.ok("import", first, "--passphrase-file", secret, "--dry-run"); !strings.Contains(out, "+ workspaces team") || strings.Contains(out, "sealed:") {
		t.Errorf("%s", out)
	}
	if a := h.Do("GET", "/v1/api-keys/"+id, "", "x-gw-api-key: "+key); a.Status != 401 {
		t.Errorf("a dry run wrote: %d %s", a.Status, a.Body)
	}
	d.ok("import", first, "--passphrase-file", secret)
	second := write(t, "gw.yaml", text)
	d.ok("export", "--output", second, "--passphrase-file", secret)
	if again := read(t, second); again != text {
		t.Errorf("the document is another one:\n%s", unified(text, again))
	}
	if out := d.ok("import", first, "--passphrase-file", secret); !strings.HasPrefix(out, "0 objects were written") {
		t.Errorf("%s", out)
	}
	// What it says is in force: the key works, the config can be read, and the checker finds all right.
	if a := h.Do("GET", "/v1/configs", "", "x-gw-api-key: "+key); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := h.Admin("GET", "/v1/configs", nil); !strings.Contains(a.Body, "Fallback") {
		t.Errorf("%s", a.Body)
	}
	if out := d.ok("audit", "verify"); !strings.Contains(out, " rows, up to number ") {
		t.Errorf("%s", out)
	}
	// The trail names what is imported as it does what the API makes.
	rows := h.Admin("GET", "/v1/audit-logs?page_size=100&uri=/gw/import", nil).Body
	same := make(map[string]bool)
	for _, row := range gjson.Get(rows, "records").Array() {
		of := row.Get("resource_type").Str
		want, made := types[row.Get("resource_id").Str]
		if made && of != want || row.Get("request_id").Str == "" {
			t.Errorf("want %q: %s", want, row.Raw)
		}
		same[of] = same[of] || made
	}
	for _, want := range []string{"workspaces", "invites", "secret_references", "integrations", "virtual_keys", "guardrails", "configs", "model_aliases", "collections", "partials", "prompts", "labels", "policy_rate_limits", "policy_usage_limits", "api_keys"} {
		if !same[want] {
			t.Errorf("no row of an import is of what the API made of the type %s", want)
		}
	}
	for _, s := range secretsOfFill {
		if strings.Contains(rows, s) {
			t.Errorf("%s is in the audit trail", s)
		}
	}
	if regexp.MustCompile(`sealed:[A-Za-z0-9]`).MatchString(rows) {
		t.Error("sealed secrets are in the audit trail")
	}
}

// unified returns where two texts begin to differ.
func unified(a, b string) string {
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(other)) {
		if one[i] != other[i] {
			return strings.Join(one[max(0, i-9):min(len(one), i+9)], "\n") + "\n---\n" + strings.Join(other[max(0, i-9):min(len(other), i+9)], "\n")
		}
	}
	return "one is longer"
}

func TestADocumentIsChangedByHand(t *testing.T) {
	gateways(t, func(t *testing.T, _ *gatewaytest.Gateway, c *terminal) {
		t.Setenv("CADDY_GW_PASSPHRASE", passphrase)
		c.ok("workspace", "create", "Team", "--slug", "team")
		document := c.ok("export", "--without-secrets")
		if strings.Contains(document, "api_keys:") || strings.Contains(document, "sealing:") {
			t.Errorf("%s", document)
		}
		own := `
virtual_keys:
  - id: 018f0000-0000-7000-8000-000000000001
    provider: openai
    key: sk-by-hand-0123456789
    slug: by-hand
    name: By hand
    workspace_id: 00000000-0000-0000-0000-000000000000
configs:
  - id: 018f0000-0000-7000-8000-000000000002
    slug: pc-by-hand
    name: By hand
    workspace_id: 00000000-0000-0000-0000-000000000000
    versions:
      - number: 1
        config: {virtual_key: by-hand}
`
		file := write(t, "gw.yaml", strings.Replace(document, "name: Team", "name: Renamed", 1)+own)
		dry := c.ok("import", file, "--dry-run")
		for _, want := range []string{"~ workspaces team", `- name: "Team"`, `+ name: "Renamed"`, "+ virtual_keys by-hand", "+ configs pc-by-hand", "3 objects would be written"} {
			if !strings.Contains(dry, want) {
				t.Errorf("no %s in\n%s", want, dry)
			}
		}
		if strings.Contains(dry, "sk-by-hand") || strings.Contains(c.ok("workspace", "list"), "Renamed") {
			t.Error(dry)
		}
		report := gjson.Parse(c.ok("import", file, "--json"))
		if report.Get("changes.#").Int() != 3 || !strings.Contains(c.ok("workspace", "list"), "Renamed") {
			t.Errorf("%s", report.Raw)
		}
		// Once more, or without the secret, changes nothing.
		for _, text := range []string{read(t, file), c.ok("export", "--without-secrets"), c.ok("export"), c.ok("export", "--json")} {
			if out := c.ok("import", write(t, "gw.yaml", text)); !strings.HasPrefix(out, "0 objects were written") {
				t.Errorf("%s\n%s", out, text)
			}
		}

		// Bad input names the member, and changes nothing.
		header := "format: 1\n"
		for _, bad := range []struct{ text, message string }{
			{"", "it is empty"},
			{"format: 2\n", "format: expected 1"},
			{"format: 1\nformat: 1\n", "twice"},
			{"- 1\n", "expected a mapping"},
			{"a: &x 1\nb: *x\n", "aliases"},
			{header + "things: []\n", "things: unknown member"},
			{header + "users: 7\n", "users: expected an array"},
			{header + "users: [7]\n", "users[0]: expected an object"},
			{header + "users: [{email: a@example.com, role: member}]\n", "users[0].id: expected an id"},
			{header + "users: [{id: 018f0000-0000-7000-8000-00000000000a, email: A@example.com, role: member}]\n", "users[0].email"},
			{header + "users: [{id: 018f0000-0000-7000-8000-00000000000a, email: a@example.com, role: king}]\n", "users[0].role"},
			{header + "users: [{id: 018f0000-0000-7000-8000-00000000000a, email: a@example.com, role: member, boss: true}]\n", "users[0].boss: unknown member"},
			{header + "users: [{id: 018f0000-0000-7000-8000-00000000000a, email: 7, role: member}]\n", "users[0].email: expected a text"},
			{header + "users: [{id: 018f0000-0000-7000-8000-00000000000a, email: a@example.com, role: member}, {id: 018f0000-0000-7000-8000-00000000000a, email: b@example.com, role: member}]\n", "users[1].id: another object"},
			{header + "users: [{id: 018f0000-0000-7000-8000-00000000000a, email: a@example.com, role: member}, {id: 018f0000-0000-7000-8000-00000000000b, email: a@example.com, role: member}]\n", "users[1]: another object has the same"},
			{header + "workspaces: [{id: 018f0000-0000-7000-8000-00000000000a, slug: team, name: Other}]\n", "another object has the same"},
			{header + "workspaces: [{id: 018f0000-0000-7000-8000-00000000000a, slug: t, name: T, default: true}]\n", "workspaces[0].default"},
			{header + "members: [{workspace_id: 00000000-0000-0000-0000-000000000000, user_id: nobody, role: member}]\n", `members[0].user_id: there is no object of users with the id "nobody"`},
			{header + "virtual_keys: [{id: 018f0000-0000-7000-8000-00000000000b, provider: nope, slug: s, workspace_id: 00000000-0000-0000-0000-000000000000, key: k}]\n", "virtual_keys[0].provider"},
			{header + "virtual_keys: [{id: 018f0000-0000-7000-8000-00000000000b, provider: openai, slug: s, workspace_id: 00000000-0000-0000-0000-000000000000, key: (omitted)}]\n", "virtual_keys[0].key: the document does not have the secret"},
			{header + "virtual_keys: [{id: 018f0000-0000-7000-8000-00000000000b, provider: openai, slug: s, workspace_id: 00000000-0000-0000-0000-000000000000, key: 'sealed:AAAA'}]\n", "virtual_keys[0].key: sealed"},
			{header + "virtual_keys: [{id: 018f0000-0000-7000-8000-00000000000b, provider: openai, slug: s, workspace_id: 00000000-0000-0000-0000-000000000000, key: k, sealed: AAAA}]\n", "virtual_keys[0].sealed: unknown member"},
			{header + "virtual_keys: [{id: 018f0000-0000-7000-8000-00000000000b, provider: openai, slug: s, workspace_id: 00000000-0000-0000-0000-000000000000, key: k, model_config: {nope: 1}}]\n", "virtual_keys[0].model_config"},
			{header + "configs: [{id: 018f0000-0000-7000-8000-000000000002, slug: pc-by-hand, name: By hand, workspace_id: 00000000-0000-0000-0000-000000000000, versions: [{number: 1, config: {virtual_key: other}}]}]\n", "versions do not change; give the new one the number 2"},
			{header + "configs: [{id: 018f0000-0000-7000-8000-00000000000b, slug: pc, name: C, workspace_id: 00000000-0000-0000-0000-000000000000, versions: [{number: 1, config: {strategy: {mode: nope}}}]}]\n", "configs[0].versions[0].config: "},
			{header + "configs: [{id: 018f0000-0000-7000-8000-00000000000b, slug: pc, name: C, workspace_id: 00000000-0000-0000-0000-000000000000, versions: []}]\n", "configs[0].versions: expected"},
			{header + "prompts: [{id: 018f0000-0000-7000-8000-00000000000b, slug: pp, name: P, workspace_id: 00000000-0000-0000-0000-000000000000, published: 2, versions: [{number: 1, string: 'x'}]}]\n", "prompts[0].published"},
			{header + "rate_limits: [{id: 018f0000-0000-7000-8000-00000000000b, type: requests, unit: rpx, value: 1, workspace_id: 00000000-0000-0000-0000-000000000000}]\n", "rate_limits[0].unit"},
			{header + "api_keys: [{id: 018f0000-0000-7000-8000-00000000000b, name: k, kind: workspace-service, workspace_id: 00000000-0000-0000-0000-000000000000, scopes: [completions.write]}]\n", "api_keys[0].digest: required"},
			{header + "prompts: [{id: 018f0000-0000-7000-8000-00000000000b, slug: pp, name: P, workspace_id: 00000000-0000-0000-0000-000000000000, published: 1, versions: [{number: 1, string: '[{\"role\":5}]'}]}]\n", "prompts[0].versions[0].string: Invalid type for 'messages[0].role'"},
			{header + "prompts: [{id: 018f0000-0000-7000-8000-00000000000b, slug: pp, name: P, workspace_id: 00000000-0000-0000-0000-000000000000, published: 1, versions: [{number: 1, string: 'x', parameters: {temperature: hot}}]}]\n", "prompts[0].versions[0].parameters.temperature: "},
			{header + "prompts: [{id: 018f0000-0000-7000-8000-00000000000b, slug: pp, name: P, workspace_id: 00000000-0000-0000-0000-000000000000, published: 1, versions: [{number: 1, string: '{{>pp-missing}}'}]}]\n", "prompts[0].versions[0].string: the workspace has no partial \"pp-missing\""},
			{header + "organisation: [{name: X, id: y}, {name: Z}]\n", "organisation[1].id: another object"},
		} {
			c.fails(bad.message, "import", write(t, "bad.yaml", bad.text))
		}
		if out := c.ok("import", file); !strings.HasPrefix(out, "0 objects were written") {
			t.Errorf("%s", out)
		}
	})
}

func TestAPassphraseIsAskedFor(t *testing.T) {
	gateways(t, func(t *testing.T, _ *gatewaytest.Gateway, c *terminal) {
		c.fails("no passphrase was given", "export")
		t.Setenv("CADDY_GW_PASSPHRASE", "short")
		c.fails("fewer than 12", "export")
		t.Setenv("CADDY_GW_PASSPHRASE", passphrase)
		file := write(t, "gw.yaml", c.ok("export"))
		other := write(t, "other", "another passphrase than that")
		c.fails("not that of the document", "import", file, "--passphrase-file", other)
		c.fails("is another file than a document", "export", "--output", write(t, "x", "name: x\n"))
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		c.ok("import", file)
	})
}
