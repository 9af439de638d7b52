package admin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/storage"
)

func TestVirtualKeysShowTheirSecretMasked(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", "/v1/virtual-keys", `{"name":"My Key","provider":"openai","key":"sk-secret-123456789","note":"n"}`)
	slug := created.get("data.slug").Str
	if created.get("success").Raw != "true" || !strings.HasPrefix(slug, "my-key-") {
		t.Fatal(created.body)
	}
	read := a.ok("GET", "/v1/virtual-keys/"+slug, "")
	for path, want := range map[string]string{
		"slug": slug, "name": "My Key", "ai_provider_name": "openai", "key": "", "masked_api_key": "sk*****789", "note": "n", "status": "active",
		"object": "virtual-key", "model_config": "{}", "rate_limits": "[]", "workspace_name": "Default workspace", "created_at": iso,
	} {
		if got := read.get(path).String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	secret := func() string {
		t.Helper()
		router := credentials.Router{Keyring: a.s.Keyring, Guard: a.s.Guard.(*credentials.HostGuard), BuiltIn: builtIn}
		route, refusal := router.Route(&credentials.Caller{WorkspaceID: a.s.Directory.DefaultWorkspace().ID}, credentials.Selection{VirtualKey: slug})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return route.Key.Reveal()
	}
	a.ok("PUT", "/v1/virtual-keys/"+slug, `{"name":"renamed","key":"sk*****789"}`)
	if secret() != "sk-secret-123456789" {
		t.Error("a masked value that was sent back replaced the secret")
	}
	a.ok("PUT", "/v1/virtual-keys/"+slug, `{"key":"sk-other-987654321","note":null}`)
	if secret() != "sk-other-987654321" {
		t.Error("the secret was not replaced")
	}
	list := a.ok("GET", "/v1/virtual-keys?current_page=0&page_size=10", "")
	if list.get("object").Str != "list" || list.get("total").Int() != 1 || list.get("data.0.name").Str != "renamed" || list.get("data.0.note").Type != gjson.Null {
		t.Errorf("%s", list.body)
	}
	a.ok("DELETE", "/v1/virtual-keys/"+slug, "")
	if out := a.do("GET", "/v1/virtual-keys/"+slug, ""); out.status != 404 {
		t.Errorf("%d", out.status)
	}
}

func TestVirtualKeysKeepTheSettingsOfTheirProvider(t *testing.T) {
	a := newAPI(t)
	for body, why := range map[string]string{
		`{"name":"n","provider":"azure-openai","key":"k"}`:                                                                                                "azure_resource_name is required",
		`{"name":"n","provider":"azure-openai","key":"k","model_config":{"azure_resource_name":"a/b"}}`:                                                   "azure_resource_name: expected letters",
		`{"name":"n","provider":"azure-openai","key":"k","model_config":{"azureResourceName":"a"}}`:                                                       "write azure_resource_name",
		`{"name":"n","provider":"openai","key":"k","model_config":{"colour":"red"}}`:                                                                      "colour: unknown key",
		`{"name":"n","provider":"azure-ai","key":"k","model_config":{"azure_foundry_url":"https://10.0.0.1/"}}`:                                           "custom_host",
		`{"name":"n","provider":"azure-ai","key":"k"}`:                                                                                                    "custom_host",
		`{"name":"n","provider":"openai","key":"k","model_config":{"aws_region":"eu"}}`:                                                                   "model_config.aws_region: provider openai has no such field",
		`{"name":"n","provider":"bedrock","key":"k","model_config":{"aws_region":"eu","aws_auth_type":"x"}}`:                                              "model_config.aws_auth_type: expected one of",
		`{"name":"n","provider":"bedrock","key":"k","model_config":{"aws_region":"eu","aws_role_arn":"arn"}}`:                                             "model_config.aws_role_arn",
		`{"name":"n","provider":"azure-ai","key":"k","custom_host":"https://a.example.com","model_config":{"azure_foundry_url":"https://b.example.com"}}`: "custom_host: model_config has another address",
		azureKey(`[{"deploymentName":"d","apiVersion":"v","colour":"red"}]`):                                                                              "deploymentConfig[0].colour",
		azureKey(`[{"apiVersion":"v"}]`):                                                                                               "deploymentConfig[0].deploymentName: required",
		azureKey(`[{"deploymentName":"d"}]`):                                                                                           "deploymentConfig[0].apiVersion: required",
		azureKey(`[{"deploymentName":"","apiVersion":"v"}]`):                                                                           "deploymentConfig[0].deploymentName",
		azureKey(`[{"deploymentName":7,"apiVersion":"v"}]`):                                                                            "deploymentConfig[0].deploymentName",
		azureKey(`[{"deploymentName":"d","apiVersion":"v","is_default":"maybe"}]`):                                                     "deploymentConfig: expected true or false",
		azureKey(`[{"deploymentName":"d","apiVersion":"v","alias":"a"},{"deploymentName":"e","apiVersion":"v","alias":"a"}]`):          "deploymentConfig: element 1 has the alias",
		azureKey(`[{"deploymentName":"d","apiVersion":"v","is_default":1},{"deploymentName":"e","apiVersion":"v","is_default":true}]`): "deploymentConfig: element 1 is the default one",
		azureKey(`[7]`): "deploymentConfig[0]",
		azureKey(`{}`):  "deploymentConfig",
	} {
		if out := a.do("POST", "/v1/virtual-keys", body); out.status != 400 || !strings.Contains(out.body, why) {
			t.Errorf("%s: %d %s, want %s", body, out.status, out.body, why)
		}
	}
	settings := func(slug string) string {
		v, ok := a.s.Keyring.VirtualKey(a.s.Directory.DefaultWorkspace().ID, slug)
		if !ok {
			t.Fatalf("no %s", slug)
		}
		opened, err := a.s.Keyring.OpenSettings(&v.Credential)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for name, s := range opened {
			all = append(all, name+"="+s.Reveal())
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"az","provider":"azure-openai","key":"k1","apiVersion":"2024-10-21","resourceName":"res",
		"deploymentConfig":[{"deploymentName":"dep","apiVersion":"2024-06-01","alias":"gpt","is_default":1}]}`)
	if got := a.ok("GET", "/v1/virtual-keys/az", "").get("model_config.azure_deployment_config.0.is_default").Raw; got != "true" {
		t.Errorf("is_default is shown as %s", got)
	}
	want := `azure_api_version=2024-10-21 azure_deployment_config=[{"alias":"gpt","apiVersion":"2024-06-01","deploymentName":"dep","is_default":true}] azure_resource_name=res`
	if got := settings("az"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// What an update does not name is kept, by whichever name it was given.
	for _, c := range []struct{ body, want string }{
		{`{"key":"k1","deploymentConfig":[{"deploymentName":"d2","apiVersion":"2025-01-01"}]}`, `azure_api_version=2024-10-21 azure_deployment_config=[{"apiVersion":"2025-01-01","deploymentName":"d2"}] azure_resource_name=res`},
		{`{"apiVersion":"2025-02-02"}`, `azure_api_version=2025-02-02 azure_deployment_config=[{"apiVersion":"2025-01-01","deploymentName":"d2"}] azure_resource_name=res`},
		{`{"key":"k1","model_config":{"azure_deployment_config":null,"azure_deployment_id":"d3"}}`, `azure_api_version=2025-02-02 azure_deployment_id=d3 azure_resource_name=res`},
		{`{"key":"k1","apiVersion":null,"deploymentName":null}`, `azure_resource_name=res`},
		{`{"name":"other"}`, `azure_resource_name=res`},
	} {
		if a.ok("PUT", "/v1/virtual-keys/az", c.body); settings("az") != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.body, settings("az"), c.want)
		}
	}
	a.refuses(ownerKey, "PUT", "/v1/virtual-keys/az", `{"key":"k1","resourceName":null}`, 400, "azure_resource_name")
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"aws","provider":"bedrock","key":"k1","model_config":{"aws_region":"eu-west-1","aws_bedrock_model":"m"}}`)
	if a.ok("PUT", "/v1/virtual-keys/aws", `{"model_config":{"aws_bedrock_model":"n"}}`); settings("aws") != "aws_bedrock_model=n aws_region=eu-west-1" {
		t.Errorf("bedrock: %s", settings("aws"))
	}
	entra := `"azure_auth_mode":"entra","azure_entra_client_id":"c","azure_entra_client_secret":"secret-of-the-application","azure_entra_tenant_id":"t"`
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"entra","provider":"azure-openai","key":"k1","model_config":{"azure_resource_name":"res",`+entra+`}}`)
	shown := a.ok("GET", "/v1/virtual-keys/entra", "")
	if strings.Contains(shown.body, "secret-of-the") || shown.get("model_config.azure_resource_name").Str != "res" {
		t.Errorf("shown %s", shown.body)
	}
	// What is sent back as it was shown changes nothing, and other settings need the key.
	a.ok("PUT", "/v1/virtual-keys/entra", `{"model_config":`+shown.get("model_config").Raw+`}`)
	if got := settings("entra"); got != "azure_auth_mode=entra azure_entra_client_id=c azure_entra_client_secret=secret-of-the-application azure_entra_tenant_id=t azure_resource_name=res" {
		t.Errorf("sent back: %s", got)
	}
	if out := a.do("PUT", "/v1/virtual-keys/entra", `{"model_config":{"azure_resource_name":"of-somebody-else"}}`); out.status != 400 || !strings.Contains(out.body, "send key along") {
		t.Errorf("another resource: %d %s", out.status, out.body)
	}
	a.refuses(ownerKey, "PUT", "/v1/virtual-keys/entra", `{"key":"k2","model_config":{"azure_resource_name":"other"}}`, 400, "azure_entra_client_secret along")
	a.refuses(ownerKey, "PUT", "/v1/virtual-keys/entra", `{"model_config":{"azure_entra_client_id":null}}`, 400, "model_config.azure_entra_client_id: required where azure_auth_mode is entra")
	a.ok("PUT", "/v1/virtual-keys/entra", `{"key":"k2","model_config":{"azure_resource_name":"other","azure_auth_mode":null,"azure_entra_client_id":null,"azure_entra_client_secret":null,"azure_entra_tenant_id":null}}`)
	if got := settings("entra"); got != "azure_resource_name=other" {
		t.Errorf("replaced: %s", got)
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"foundry","provider":"azure-ai","key":"k","model_config":{"azure_foundry_url":"https://p.services.ai.azure.com/models"}}`)
	if got := a.ok("GET", "/v1/virtual-keys/foundry", "").get("custom_host").Str; got != "https://p.services.ai.azure.com/models" {
		t.Errorf("custom host %q", got)
	}
	a.refuses(ownerKey, "PUT", "/v1/virtual-keys/foundry", `{"key":"k","model_config":{"azure_foundry_url":null}}`, 400, "custom_host")
	a.ok("PUT", "/v1/virtual-keys/foundry", `{"key":"k","custom_host":"https://q.services.ai.azure.com/models","model_config":{"azure_foundry_url":null}}`)
}

// azureKey is a virtual key with deployments.
func azureKey(deployments string) string {
	return `{"name":"n","provider":"azure-openai","key":"k","resourceName":"res","deploymentConfig":` + deployments + `}`
}

// Where no key was saved, none is shown, and the text that stands for one is not taken for one.
func TestNoKeyIsShownWhereNoneWasSaved(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct{ path, body, shown string }{
		{"/v1/virtual-keys", `{"name":"k","slug":"k","provider":"openai"}`, "masked_api_key"},
		{"/v1/integrations", `{"name":"k","slug":"k","ai_provider_id":"openai"}`, "masked_key"},
	} {
		a.ok("POST", c.path, c.body)
		of := func() string { return a.ok("GET", c.path+"/k", "").get(c.shown).Raw }
		for _, body := range []string{`{"name":"l"}`, `{"key":"*****"}`, `{"key":""}`} {
			if a.ok("PUT", c.path+"/k", body); of() != "null" {
				t.Errorf("%s %s: %s", c.path, body, of())
			}
		}
		if a.ok("PUT", c.path+"/k", `{"key":"short"}`); of() != `"*****"` {
			t.Errorf("%s: a short key is shown as %s", c.path, of())
		}
		if a.ok("PUT", c.path+"/k", `{"key":"sk-123456789"}`); of() != `"sk*****789"` {
			t.Errorf("%s: %s", c.path, of())
		}
	}
	// Earlier releases stored a hint without a key.
	a.ok("POST", "/v1/virtual-keys", `{"name":"old","slug":"old","provider":"openai"}`)
	err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
		v, _ := a.s.Keyring.VirtualKey(a.s.Directory.DefaultWorkspace().ID, "old")
		old := *v
		old.Hint = credentials.Masked
		return a.s.Keyring.ReplaceVirtualKey(tx, &old, credentials.Secret{})
	})
	if got := a.ok("GET", "/v1/virtual-keys/old", "").get("masked_api_key").Raw; err != nil || got != "null" {
		t.Errorf("%s, %v", got, err)
	}
}
