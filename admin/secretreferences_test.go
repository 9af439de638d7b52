package admin_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/secrets/awssm"
)

const (
	references = "/v1/secret-references"
	vaultToken = "hvs.0123456789abcdef"
	vaultAuth  = `{"vault_auth_type":"token","vault_addr":"https://vault.example.com","vault_namespace":"ns1","vault_token":"` + vaultToken + `"}`
)

func TestASecretReferenceSealsItsLogin(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", references, `{"name":"OpenAI","slug":"openai","manager_type":"hashicorp_vault","auth_config":`+vaultAuth+`,"secret_path":"kv/openai","secret_key":"key","description":"d","tags":{"team":"red"}}`)
	id := created.get("id").Str
	if len(id) != 36 || created.get("object").Str != "secret-reference" || created.get("slug").Str != "openai" {
		t.Fatal(created.body)
	}
	for _, which := range []string{id, "openai"} {
		out := a.ok("GET", "/v2/secret-references/"+which, "")
		for path, want := range map[string]string{
			"name": "OpenAI", "manager_type": "hashicorp_vault", "secret_path": "kv/openai", "secret_key": "key", "description": "d", "status": "ACTIVE", "tags.team": "red",
			"allow_all_workspaces": "true", "allowed_workspaces": "[]", "auth_config.vault_addr": "https://vault.example.com", "auth_config.vault_token": "",
			"auth_config.masked_vault_token": "hv*****def", "auth_config.vault_auth_type": "token", "object": "secret-reference",
		} {
			if got := out.get(path).String(); got != want {
				t.Errorf("%s: %s is %q, want %q", which, path, got, want)
			}
		}
	}
	a.ok("POST", references, `{"name":"Other","manager_type":"aws_sm","auth_config":{"aws_auth_type":"accessKey","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"0123456789abcdef","aws_region":"eu-west-1"},"secret_path":"prod/x"}`)
	for filter, n := range map[string]int64{"": 2, "?manager_type=aws_sm": 1, "?search=OPEN": 1, "?search=nope": 0, "?tags=%7B%22team%22:%22red%22%7D": 1, "?page_size=1&current_page=1": 2} {
		out := a.ok("GET", references+filter, "")
		if out.get("total").Int() != n || strings.Contains(out.body, "auth_config") || out.get("data.0.auth_config").Exists() {
			t.Errorf("%s: %s", filter, out.body)
		}
	}
	// What is left out stays, and the masked credential may be sent back.
	a.ok("PUT", references+"/openai", `{"name":"renamed","secret_path":"kv/other","auth_config":`+a.ok("GET", references+"/openai", "").get("auth_config").Raw+`}`)
	r, ok := a.s.Keyring.SecretReference(id)
	auth, err := a.s.Keyring.OpenAuth(r)
	if !ok || err != nil || r.Name != "renamed" || r.Path != "kv/other" || auth["vault_token"] != vaultToken || len(auth) != 4 {
		t.Errorf("%+v, %v, %v", r, auth, err)
	}
	a.ok("PUT", references+"/openai", `{"auth_config":{"vault_auth_type":"approle","vault_role_id":"role","vault_secret_id":"secret-of-the-role"}}`)
	if out := a.ok("GET", references+"/openai", ""); out.get("auth_config").Get("masked_vault_token").Exists() || out.get("auth_config.vault_role_id").Str != "role" {
		t.Errorf("another login: %s", out.body)
	}
	a.ok("DELETE", references+"/openai", "")
	if out := a.do("GET", references+"/"+id, ""); out.status != 404 {
		t.Errorf("deleted: %d %s", out.status, out.body)
	}
}

func TestTheLoginOfASecretReferenceIsBoundToItsManager(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", references, `{"name":"n","slug":"s","manager_type":"hashicorp_vault","auth_config":`+vaultAuth+`,"secret_path":"kv/x"}`)
	for body, field := range map[string]string{
		`{"auth_config":{"vault_addr":"https://evil.example.net"}}`:                                       "auth_config.vault_addr: send auth_config.vault_token along",
		`{"auth_config":{"vault_addr":"https://evil.example.net","vault_token":"hv*****def"}}`:            "auth_config.vault_addr: send auth_config.vault_token along",
		`{"auth_config":{"vault_addr":"https://evil.example.net","masked_vault_token":"hv*****def"}}`:     "auth_config.vault_addr: send auth_config.vault_token along",
		`{"auth_config":{"vault_namespace":"ns2"}}`:                                                       "auth_config.vault_namespace: send auth_config.vault_token along",
		`{"auth_config":{"vault_token":"xx*****xxx"}}`:                                                    "auth_config.vault_token: a masked value that stands for no stored credential",
		`{"auth_config":{"vault_addr":"http://127.0.0.1:8200","vault_token":"hvs.new"}}`:                  "auth_config: custom host refused",
		`{"auth_config":{"vault_addr":"http://vault.example.com","vault_token":"hvs.new"}}`:               "auth_config.vault_addr: expected https",
		`{"auth_config":{"vault_auth_type":"kubernetes","vault_role":"r"}}`:                               "auth_config.vault_auth_type",
		`{"auth_config":{"vault_auth_type":"nope"}}`:                                                      "auth_config.vault_auth_type: expected one of approle, kubernetes, token",
		`{"auth_config":{"vault_auth_type":"approle"}}`:                                                   "auth_config.vault_role_id: required",
		`{"auth_config":{"vault_token":7}}`:                                                               "auth_config.vault_token: expected a text",
		`{"auth_config":{"aws_region":"eu-west-1"}}`:                                                      "auth_config.aws_region: unknown field",
		`{"manager_type":"aws_sm"}`:                                                                       "manager_type: it cannot change",
		`{"secret_path":"../x"}`:                                                                          "secret_path",
		`{"allow_all_workspaces":false}`:                                                                  "allowed_workspaces: expected at least one",
		`{"allowed_workspaces":[]}`:                                                                       "allowed_workspaces",
		`{"tags":{"":"x"}}`:                                                                               "tags",
		`{"auth_config":{"vault_addr":"https://vault.example.com","vault_addr":"https://x.example.com"}}`: "vault_addr",
	} {
		if out := a.do("PUT", references+"/s", body); out.status != 400 || !strings.Contains(out.message(), field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("PUT", references+"/s", `{"auth_config":{"vault_addr":"https://other.example.com","vault_token":"hvs.of-the-other-one"}}`)
	for body, want := range map[string]string{
		`{"name":"n","manager_type":"nope","auth_config":{},"secret_path":"x"}`:                                                      "manager_type: expected one of aws_sm, azure_kv, environment, hashicorp_vault",
		`{"name":"n","manager_type":"aws_sm","auth_config":{"aws_auth_type":"assumedRole"},"secret_path":"x"}`:                       "assumedRole: the operator's configuration has no identity of the gateway; see secrets aws_sm; expected one of accessKey",
		`{"name":"n","manager_type":"azure_kv","auth_config":{"azure_auth_mode":"managed"},"secret_path":"x"}`:                       "managed: the operator's configuration has no identity of the gateway",
		`{"name":"n","manager_type":"hashicorp_vault","secret_path":"x/y"}`:                                                          "auth_config.vault_auth_type",
		`{"name":"n","manager_type":"environment","secret_path":"GW_ENCRYPTION_KEY"}`:                                                "secret_path: the operator's configuration does not list",
		`{"name":"n","manager_type":"environment","secret_path":"TEAM_KEY","auth_config":{"x":"y"}}`:                                 "auth_config.x",
		`{"name":"n","slug":"s","manager_type":"environment","secret_path":"TEAM_KEY"}`:                                              `"s" is taken`,
		`{"name":"n","manager_type":"environment","secret_path":"TEAM_KEY","allowed_workspaces":["nope"]}`:                           "allowed_workspaces",
		`{"name":"n","manager_type":"environment","secret_path":"TEAM_KEY","organisation_id":"nope"}`:                                "organisation_id",
		`{"name":"n","slug":"01890a5d-ac96-774b-bcce-b302099a8057","manager_type":"environment","secret_path":"TEAM_KEY"}`:           "slug: expected a name that is not a UUID",
		`{"name":"n","manager_type":"environment","secret_path":"TEAM_KEY","allow_all_workspaces":true,"allowed_workspaces":["ws"]}`: "allow",
	} {
		if out := a.do("POST", references, body); out.status < 400 || out.status > 409 || !strings.Contains(out.message(), want) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
}

func TestMappingsOfSecrets(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", references, `{"name":"n","slug":"all","manager_type":"environment","secret_path":"TEAM_KEY"}`)
	other := a.ok("POST", "/v1/admin/workspaces", `{"name":"other"}`).get("id").Str
	a.ok("POST", references, fmt.Sprintf(`{"name":"n","slug":"of-other","manager_type":"environment","secret_path":"TEAM_KEY","allowed_workspaces":[%q]}`, other))
	id := a.ok("GET", references+"/all", "").get("id").Str
	key := `"secret_mappings":[{"target_field":"key","secret_reference_id":"all"}]`
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"i","ai_provider_id":"openai",`+key+`}`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"v","provider":"openai",`+key+`}`)
	for _, path := range []string{"/v1/integrations/i", "/v1/virtual-keys/v"} {
		out := a.ok("GET", path, "")
		if got := out.get("secret_mappings").Raw; got != `[{"target_field":"key","secret_reference_id":"`+id+`","secret_key":null,"value_format":"string"}]` {
			t.Errorf("%s: %s", path, got)
		}
		for body, want := range map[string]string{
			`{"key":"sk-1"}`: "key: secret_mappings has it",
			`{"secret_mappings":[{"target_field":"key","secret_reference_id":"nope"}]}`:                                                                                 "secret_reference_id",
			`{"secret_mappings":[{"target_field":"key","secret_reference_id":"all"},{"target_field":"key","secret_reference_id":"all"}]}`:                               "mapped twice",
			`{"secret_mappings":[{"target_field":"nope","secret_reference_id":"all"}]}`:                                                                                 "target_field",
			`{"secret_mappings":[{"target_field":"configurations.aws_region","secret_reference_id":"all"}]}`:                                                            "target_field",
			`{"secret_mappings":[{"target_field":"key","secret_reference_id":"all","value_format":"xml"}]}`:                                                             "value_format",
			`{"secret_mappings":[{"target_field":"key","secret_reference_id":"all","nope":1}]}`:                                                                         "nope",
			`{"secret_mappings":[{"target_field":"key"}]}`:                                                                                                              "secret_reference_id",
			`{"secret_mappings":[{"target_field":"key","secret_reference_id":"all","secret_key":"` + strings.Repeat("k", 256) + `"}]}`:                                  "secret_key",
			`{"secret_mappings":[` + strings.Repeat(`{"target_field":"key","secret_reference_id":"all"},`, 64) + `{"target_field":"key","secret_reference_id":"all"}]}`: "at most 64",
		} {
			if out := a.do("PUT", path, body); out.status != 400 && out.status != 404 || !strings.Contains(out.message(), want) {
				t.Errorf("%s %s: %d %s", path, body, out.status, out.body)
			}
		}
	}
	// An option may be a secret, too, but what decides where the credential goes may not.
	for path, settings := range map[string]string{"/v1/integrations/i": "configurations", "/v1/virtual-keys/v": "model_config"} {
		mapping := func(name string) string {
			return `{"secret_mappings":[{"target_field":"key","secret_reference_id":"all"},{"target_field":"` + settings + "." + name + `","secret_reference_id":"all"}]}`
		}
		for _, name := range []string{"aws_region", "azure_auth_mode", "azure_foundry_url"} {
			a.refuses(ownerKey, "PUT", path, mapping(name), 400, "secret_mappings[1].target_field: expected key, or a setting that says neither")
		}
		if a.ok("PUT", path, mapping("openai_organization")); a.ok("GET", path, "").get("secret_mappings.1.target_field").Str != settings+".openai_organization" {
			t.Errorf("%s: an option is not mapped", path)
		}
		a.refuses(ownerKey, "PUT", path, `{"`+settings+`":{"openai_organization":"org"}}`, 400, settings+".openai_organization: secret_mappings has it")
	}
	own, _ := a.key("workspace/service", `"virtual_keys.update"`)
	a.refuses(own, "PUT", "/v1/virtual-keys/v", `{"secret_mappings":[{"target_field":"model_config.openai_project","secret_reference_id":"all"}]}`, 400, "is no credential; only an API key of the organisation")
	// A reference in use is not deleted.
	if out := a.do("DELETE", references+"/all", ""); out.status != 409 || !strings.Contains(out.body, "integration i, virtual key v") {
		t.Errorf("in use: %d %s", out.status, out.body)
	}
	// A mapping goes only to where it was saved for, as a stored secret does.
	for path, body := range map[string]string{
		"/v1/integrations/i": `{"configurations":{"custom_host":"https://evil.example.net/v1"}}`,
		"/v1/virtual-keys/v": `{"custom_host":"https://evil.example.net/v1"}`,
	} {
		if out := a.do("PUT", path, body); out.status != 400 || !strings.Contains(out.body, "custom_host: send secret_mappings.key along") {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
		a.ok("PUT", path, strings.TrimSuffix(body, "}")+`,`+key+`}`)
	}
	if out := a.do("PUT", "/v1/integrations/i/models", `{"key":"sk","models":[{"slug":"m","enabled":true,"configurations":{"custom_host":"https://evil.example.net"}}]}`); out.status != 400 || !strings.Contains(out.body, "secret_mappings") {
		t.Errorf("a model's host: %d %s", out.status, out.body)
	}
	// Other workspaces do not learn of a reference, and who cannot see a secret cannot send it
	// to a host of its own.
	mine, _ := a.key("workspace/service", `"virtual_keys.create","virtual_keys.update","virtual_keys.read"`)
	out := a.as(mine, "POST", "/v1/virtual-keys", `{"name":"n","provider":"openai","secret_mappings":[{"target_field":"key","secret_reference_id":"of-other"}]}`)
	none := a.as(mine, "POST", "/v1/virtual-keys", `{"name":"n","provider":"openai","secret_mappings":[{"target_field":"key","secret_reference_id":"not-there"}]}`)
	if out.status != 404 || strings.ReplaceAll(out.body, "of-other", "not-there") != none.body {
		t.Errorf("another workspace's: %s, unlike %s", out.body, none.body)
	}
	out = a.as(mine, "POST", "/v1/virtual-keys", `{"name":"n","provider":"openai","custom_host":"https://mine.example.net/v1",`+key+`}`)
	if out.status != 400 || !strings.Contains(out.body, "secret_mappings: an API key of a workspace cannot") {
		t.Errorf("to a host of one's own: %d %s", out.status, out.body)
	}
	if out = a.as(mine, "POST", "/v1/virtual-keys", `{"name":"n","slug":"mine","provider":"openai",`+key+`}`); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out = a.as(mine, "GET", references+"/all", ""); out.status != 403 {
		t.Errorf("a workspace's key reads a reference: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/integrations/i", `{"secret_mappings":null,"configurations":{}}`)
	a.ok("DELETE", "/v1/virtual-keys/v", "")
	a.ok("DELETE", "/v1/virtual-keys/mine", "")
	a.ok("DELETE", references+"/all", "")
}

func TestMappingsStandForRequiredSettings(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", references, `{"name":"n","slug":"aws","manager_type":"environment","secret_path":"TEAM_AWS"}`)
	const both = `"secret_mappings":[{"target_field":"configurations.aws_access_key_id","secret_reference_id":"aws","secret_key":"id"},{"target_field":"configurations.aws_secret_access_key","secret_reference_id":"aws","secret_key":"key"}]`
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"b","ai_provider_id":"bedrock","configurations":{"aws_auth_type":"accessKey","aws_region":"eu-west-1"},`+both+`}`)
	for body, want := range map[string]string{
		`{"secret_mappings":[]}`: "configurations.aws_",
		`{"configurations":{"aws_auth_type":"accessKey","aws_region":"eu-west-1","aws_access_key_id":"AKIA","aws_secret_access_key":"x"}}`: "secret_mappings has it",
		`{"configurations":{"aws_auth_type":"accessKey","aws_region":"us-east-1"}}`:                                                        "aws_region: send secret_mappings.",
	} {
		if out := a.do("PUT", "/v1/integrations/b", body); out.status != 400 || !strings.Contains(out.message(), want) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/integrations/b", `{"configurations":{"aws_auth_type":"accessKey","aws_region":"us-east-1"},`+both+`}`)
}

// Whoever may make references uses the identity of the machine only where the operator's
// configuration has one.
func TestReferencesUseTheIdentityOfTheMachine(t *testing.T) {
	a := newAPI(t)
	m := &awssm.Manager{Identity: "instance", Region: "eu-west-1"}
	if err := m.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	a.s.Managers["aws_sm"] = m
	a.serve()
	a.ok("POST", references, `{"name":"n","slug":"own","manager_type":"aws_sm","auth_config":{"aws_auth_type":"serviceRole"},"secret_path":"prod/x"}`)
	a.ok("POST", references, `{"name":"n","slug":"role","manager_type":"aws_sm","auth_config":{"aws_auth_type":"assumedRole","aws_role_arn":"arn:aws:iam::123456789012:role/r","aws_external_id":"e1","aws_region":"us-east-1"},"secret_path":"prod/x"}`)
	want := map[string]any{"aws_auth_type": "assumedRole", "aws_external_id": "e1", "aws_region": "us-east-1", "aws_role_arn": "arn:aws:iam::123456789012:role/r"}
	if out := a.ok("GET", references+"/role", ""); !reflect.DeepEqual(out.get("auth_config").Value(), want) {
		t.Errorf("%s", out.body)
	}
	a.refuses(ownerKey, "PUT", references+"/role", `{"auth_config":{"aws_role_arn":"r"}}`, 400, "auth_config.aws_role_arn: expected the ARN of a role")
	a.refuses(ownerKey, "PUT", references+"/own", `{"auth_config":{"aws_auth_type":"serviceRole","aws_role_arn":"r"}}`, 400, "auth_config.aws_role_arn: unknown field")
	key, _ := a.key("workspace/service", `"virtual_keys.create"`)
	a.refuses(key, "POST", references, `{"name":"n","manager_type":"aws_sm","auth_config":{"aws_auth_type":"serviceRole"},"secret_path":"prod/x"}`, 403, "lacks the scope")
}
