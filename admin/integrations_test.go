package admin_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
)

const integrationSecret = "sk-0123456789abcdef"

func TestAnIntegrationSealsItsCredentials(t *testing.T) {
	a := newAPI(t)
	created := a.ok("POST", "/v1/integrations", `{"name":"Bedrock","slug":"aws","ai_provider_id":"bedrock","description":"d","tags":{"team":"red"},"configurations":
		{"aws_auth_type":"accessKey","aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"`+integrationSecret+`","custom_headers":{"X-Team":"`+integrationSecret+`"}}}`)
	id := created.get("id").Str
	if created.get("slug").Str != "aws" || len(id) != 36 {
		t.Fatal(created.body)
	}
	for _, which := range []string{id, "aws"} {
		out := a.ok("GET", "/v2/integrations/"+which, "")
		for path, want := range map[string]string{
			"ai_provider_id": "bedrock", "name": "Bedrock", "description": "d", "status": "active", "object": "integration", "tags.team": "red", "workspace_count": "0",
			"configurations.aws_region": "eu-west-1", "configurations.aws_secret_access_key": "sk*****def", "configurations.custom_headers.X-Team": "sk*****def",
			"global_workspace_access_settings.enabled": "false", "masked_key": "",
		} {
			if got := out.get(path).String(); got != want {
				t.Errorf("%s: %s is %q, want %q: %s", which, path, got, want, out.body)
			}
		}
	}
	// Sending back what was shown changes nothing.
	shown := a.ok("GET", "/v1/integrations/aws", "").get("configurations").Raw
	a.ok("PUT", "/v1/integrations/aws", `{"name":"renamed","configurations":`+shown+`}`)
	i, ok := a.s.Keyring.Integration(id)
	if !ok || i.Name != "renamed" {
		t.Fatalf("%+v", i)
	}
	settings, err := a.s.Keyring.OpenSettings(&i.Credential)
	if err != nil || settings["aws_secret_access_key"].Reveal() != integrationSecret || settings["custom_headers"].Reveal() != `{"X-Team":"`+integrationSecret+`"}` {
		t.Errorf("the settings are %q, %v", settings["custom_headers"].Reveal(), err)
	}
	// A stored secret is only sent to the destination that it was saved for.
	if out := a.do("PUT", "/v1/integrations/aws", `{"configurations":`+strings.Replace(shown, "eu-west-1", "us-east-1", 1)+`}`); out.status != 400 || !strings.Contains(out.body, "aws_region") {
		t.Errorf("another region: %d %s", out.status, out.body)
	}
	for filter, n := range map[string]int64{`?tags={"team":"red"}`: 1, `?tags={"team":"blue"}`: 0, "?type=workspace": 0, "?type=organisation": 1, "": 1} {
		if out := a.ok("GET", "/v1/integrations"+strings.ReplaceAll(filter, `"`, "%22"), ""); out.get("total").Int() != n || strings.Contains(out.body, "configurations") {
			t.Errorf("%s: %s", filter, out.body)
		}
	}
	if out := a.do("GET", "/v1/integrations?tags=red", ""); out.status != 400 || !strings.Contains(out.body, "tags: expected a JSON object") {
		t.Errorf("tags that are not JSON: %d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/integrations/aws", "")
	if out := a.do("GET", "/v1/integrations/"+id, ""); out.status != 404 {
		t.Errorf("deleted: %d %s", out.status, out.body)
	}
	for _, r := range a.trail() {
		if strings.Contains(strings.Join(r.Fields, " "), integrationSecret) {
			t.Errorf("the audit trail has the secret: %+v", r)
		}
	}
}

func TestAnIntegrationIsBoundToItsHost(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"own","ai_provider_id":"openai","key":"`+integrationSecret+`","configurations":{"custom_host":"https://a.example.com/v1"}}`)
	for body, field := range map[string]string{
		`{"configurations":{"custom_host":"https://b.example.com/v1"}}`:                    "custom_host",
		`{"configurations":{"custom_host":"https://b.example.com/v1"},"key":"sk*****def"}`: "custom_host",
		`{"configurations":{}}`: "custom_host",
		`{"configurations":{"custom_host":"http://127.0.0.1/v1"},"key":"sk-2"}`:                       "custom_host",
		`{"configurations":{"custom_host":7}}`:                                                        "configurations.custom_host",
		`{"configurations":{"custom_host":"https://a.example.com/v1","custom_headers":{"Host":"x"}}}`: "custom_headers.Host",
		`{"configurations":{"aws_region":"eu"}}`:                                                      "configurations.aws_region",
		`{"secret_mappings":[{}]}`:                                                                    "secret_mappings",
		`{"pricing_adjustments":{"multiplier":1}}`:                                                    "pricing_adjustments",
	} {
		if out := a.do("PUT", "/v1/integrations/own", body); out.status != 400 || !strings.Contains(out.message(), field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	if got := a.ok("GET", "/v1/integrations/own", ""); got.get("configurations").Raw != `{"custom_host":"https://a.example.com/v1"}` || got.get("masked_key").Str != "sk*****def" {
		t.Errorf("%s", got.body)
	}
	a.ok("PUT", "/v1/integrations/own", `{"configurations":{"custom_host":"https://b.example.com/v1"},"key":"sk-new-0123456789"}`)
}

func TestConfigurationsAreThoseOfTheirProvider(t *testing.T) {
	a := newAPI(t)
	deployment := `{"azure_deployment_name":"d","azure_api_version":"2024-10-21","azure_model_slug":"gpt-4o"}`
	for name, c := range map[string]struct{ provider, configurations, field string }{
		"of another provider":     {"openai", `{"aws_region":"x"}`, "configurations.aws_region"},
		"unknown":                 {"openai", `{"nope":"x"}`, "configurations.nope"},
		"of OpenAI":               {"openai", `{"openai_organization":"o","openai_project":"p"}`, ""},
		"not a text":              {"openai", `{"openai_project":7}`, "openai_project"},
		"a way that is missing":   {"bedrock", `{"aws_region":"eu-west-1"}`, "configurations.aws_auth_type"},
		"a way that is unknown":   {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"x"}`, "configurations.aws_auth_type"},
		"the machine":             {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"serviceRole"}`, "configurations.aws_auth_type: serviceRole is what the gateway's machine is, which the operator's configuration does not give to providers (provider_identity aws)"},
		"a role that is none":     {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"assumedRole","aws_access_key_id":"a","aws_secret_access_key":"s","aws_role_arn":"arn"}`, "configurations.aws_role_arn"},
		"no role":                 {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"assumedRole","aws_access_key_id":"a","aws_secret_access_key":"s"}`, "configurations.aws_role_arn"},
		"a role without keys":     {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"assumedRole","aws_role_arn":"arn:aws:iam::123456789012:role/r"}`, "provider_identity aws"},
		"a role with half a key":  {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"assumedRole","aws_secret_access_key":"s","aws_role_arn":"arn:aws:iam::123456789012:role/r"}`, "configurations.aws_access_key_id"},
		"an external id":          {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"assumedRole","aws_access_key_id":"a","aws_secret_access_key":"s","aws_role_arn":"arn:aws:iam::123456789012:role/r","aws_external_id":"a b"}`, "configurations.aws_external_id"},
		"half of the keys":        {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"accessKey","aws_access_key_id":"A"}`, "configurations.aws_secret_access_key"},
		"a key of Bedrock":        {"bedrock", `{"aws_region":"eu-west-1","aws_auth_type":"apiKey"}`, ""},
		"no region":               {"bedrock", `{"aws_auth_type":"apiKey"}`, "configurations.aws_region"},
		"a region that is a path": {"bedrock", `{"aws_region":"eu/../x","aws_auth_type":"apiKey"}`, "aws_region"},
		"of Azure":                {"azure-openai", `{"azure_auth_mode":"default","azure_resource_name":"r","azure_deployment_config":[` + deployment + `]}`, ""},
		"no deployment":           {"azure-openai", `{"azure_auth_mode":"default","azure_resource_name":"r","azure_deployment_config":[]}`, "configurations.azure_deployment_config"},
		"a deployment's version":  {"azure-openai", `{"azure_auth_mode":"default","azure_resource_name":"r","azure_deployment_config":[{"azure_deployment_name":"d","azure_model_slug":"m"}]}`, "azure_api_version"},
		"a deployment's flag":     {"azure-openai", `{"azure_auth_mode":"default","azure_resource_name":"r","azure_deployment_config":[` + strings.Replace(deployment, "{", `{"is_default":"x",`, 1) + `]}`, "is_default"},
		"Entra without a secret":  {"azure-openai", `{"azure_auth_mode":"entra","azure_resource_name":"r","azure_deployment_config":[` + deployment + `]}`, "configurations.azure_entra_"},
		"a service account":       {"vertex-ai", `{"vertex_auth_type":"serviceAccount","vertex_region":"eu","vertex_project_id":"p","vertex_service_account_json":{"private_key":"k"}}`, ""},
		"no service account":      {"vertex-ai", `{"vertex_auth_type":"serviceAccount","vertex_region":"eu"}`, "configurations.vertex_service_account_json"},
		"no account":              {"workers-ai", `{}`, "configurations.workers_ai_account_id"},
		"no address":              {"ollama", `{}`, "configurations.custom_host"},
		"no provider":             {"nope", `{}`, "ai_provider_id"},
	} {
		out := a.do("POST", "/v1/integrations", `{"name":"n","ai_provider_id":"`+c.provider+`","key":"k","configurations":`+c.configurations+`}`)
		if c.field == "" && out.status != 200 || c.field != "" && (out.status != 400 || !strings.Contains(out.message(), c.field)) {
			t.Errorf("%s: %d %s", name, out.status, out.body)
		}
	}
}

func TestAProviderIsAnIntegrationInAWorkspace(t *testing.T) {
	a := newAPI(t)
	blue := a.workspace("blue")
	red := a.workspace("red")
	integration := a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`"}`).get("id").Str
	if out := a.do("POST", "/v1/providers", `{"name":"p","integration_id":"main","workspace_id":"blue"}`); out.status != 400 || !strings.Contains(out.body, "integration_id") {
		t.Errorf("a workspace without access: %d %s", out.status, out.body)
	}
	for body, field := range map[string]string{
		`{"workspaces":[{"id":"nope","enabled":true}]}`:                                                     "workspaces[0].id",
		`{"workspaces":[{"id":"blue","enabled":true,"usage_limits":[{"type":"cost","credit_limit":0.5}]}]}`: "workspaces[0].usage_limits[0].credit_limit",
		`{"workspaces":[{"id":"blue","enabled":true,"rate_limits":[{"type":"requests"}]}]}`:                 "rate_limits",
		`{"global_workspace_access":{"enabled":true,"usage_limits":[{}]}}`:                                  "global_workspace_access.usage_limits[0].credit_limit",
		`{"workspaces":[{"id":"blue"}]}`:                                                                    "enabled",
	} {
		if out := a.do("PUT", "/v1/integrations/main/workspaces", body); out.status < 400 || !strings.Contains(out.body, field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"blue","enabled":true},{"id":"`+red+`","enabled":true,"create_default_provider":false}]}`)
	access := a.ok("GET", "/v1/integrations/main/workspaces", "")
	if access.get("total").Int() != 2 || access.get("workspaces.#(enabled==true)#").Get("#").Int() != 2 {
		t.Errorf("%s", access.body)
	}
	list := a.ok("GET", "/v1/providers", "")
	if list.get("total").Int() != 1 || list.get("data.0.slug").Str != "main" || list.get("data.0.workspace_id").Str != blue || list.get("data.0.integration_id").Str != integration {
		t.Errorf("the default provider: %s", list.body)
	}
	made := a.ok("POST", "/v1/providers", `{"name":"p","slug":"mine","integration_id":"`+integration+`","workspace_id":"red","note":"x","expires_at":"2027-01-01T00:00:00Z"}`)
	if made.get("slug").Str != "mine" {
		t.Errorf("%s", made.body)
	}
	if out := a.do("POST", "/v1/providers", `{"name":"p","slug":"mine","integration_id":"main","workspace_id":"red"}`); out.status != 409 {
		t.Errorf("twice: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/providers/mine", `{"name":"q","note":null}`)
	one := a.ok("GET", "/v1/providers/mine", "")
	if one.get("name").Str != "q" || one.get("note").Raw != "null" || one.get("expires_at").Str == "" || one.get("object").Str != "provider" {
		t.Errorf("%s", one.body)
	}
	for body, field := range map[string]string{`{"usage_limits":{"credit_limit":0.5}}`: "usage_limits.credit_limit", `{"rate_limits":[{}]}`: "rate_limits[0].value: required"} {
		if out := a.do("PUT", "/v1/providers/mine", body); out.status != 400 || !strings.Contains(out.body, field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	// It is shown as a virtual key, too, but its credential belongs to the integration.
	if out := a.ok("GET", "/v1/virtual-keys/mine", ""); out.get("integration_id").Str != integration || strings.Contains(out.body, "*def") {
		t.Errorf("%s", out.body)
	}
	for body, field := range map[string]string{`{"key":"sk-2"}`: "key", `{"custom_host":"https://b.example.com"}`: "custom_host", `{"model_config":{}}`: "model_config"} {
		if out := a.do("PUT", "/v1/virtual-keys/mine", body); out.status != 400 || !strings.Contains(out.message(), field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"legacy","provider":"openai","key":"sk-1"}`)
	if out := a.do("GET", "/v1/providers/legacy", ""); out.status != 404 {
		t.Errorf("a virtual key without an integration: %d %s", out.status, out.body)
	}
	a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"@mine"},"workspace_id":"red"}`)
	for path, names := range map[string][]string{"/v1/providers/mine": {"config pc-c"}, "/v1/integrations/main": {"provider main of workspace blue", "provider mine of workspace red"}} {
		out := a.do("DELETE", path, "")
		for _, name := range names {
			if out.status != 409 || !strings.Contains(out.body, name) {
				t.Errorf("%s: %d %s", path, out.status, out.body)
			}
		}
	}
	a.ok("DELETE", "/v1/providers/main", "")
}

func TestConfigurationsOfAProviderAreForTheDataServiceTokenOnly(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"own","workspace_id":"blue","ai_provider_id":"bedrock","configurations":{"aws_auth_type":"accessKey","aws_region":"eu","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"`+integrationSecret+`"}}`)
	if out := a.do("GET", "/v1/providers/own?include_configurations=true", ""); out.status != 403 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(systemToken, "GET", "/v1/providers/own?include_configurations=true", ""); out.get("configurations.aws_secret_access_key").Str != "sk*****def" || out.get("configurations.aws_region").Str != "eu" {
		t.Errorf("%d %s", out.status, out.body)
	}
	for _, query := range []string{"", "?include_configurations=false"} {
		if out := a.ok("GET", "/v1/providers/own"+query, ""); strings.Contains(out.body, "configurations") {
			t.Errorf("%s", out.body)
		}
	}
}

// What a workspace may see of integrations.
func TestAWorkspaceSeesTheIntegrationsThatItMayUse(t *testing.T) {
	a := newAPI(t)
	a.workspace("blue")
	a.workspace("red")
	scopes := `"organisation_integrations.list","workspace_integrations.create","workspace_integrations.read","workspace_integrations.update","workspace_integrations.list","workspace_integrations.delete","providers.create"`
	key := func(workspace string) string {
		return a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"`+workspace+`","scopes":[`+scopes+`]}`).get("key").Str
	}
	blue, red := key("blue"), key("red")
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"shared","ai_provider_id":"openai","key":"sk-1"}`)
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"hidden","ai_provider_id":"openai","key":"sk-1"}`)
	a.ok("PUT", "/v1/integrations/shared/workspaces", `{"workspaces":[{"id":"blue","enabled":true}]}`)
	if out := a.as(blue, "POST", "/v1/integrations", `{"name":"n","slug":"hidden","ai_provider_id":"openai","key":"sk-1"}`); out.status != 200 {
		t.Errorf("a slug that another has whom nobody sees: %d %s", out.status, out.body)
	}
	for name, c := range map[string]struct {
		key   string
		slugs string
	}{"blue": {blue, `["shared","hidden"]`}, "red": {red, `[]`}} {
		if out := a.as(c.key, "GET", "/v1/integrations", ""); out.get("data.#.slug").Raw != c.slugs {
			t.Errorf("%s: %s", name, out.body)
		}
	}
	for _, c := range []struct {
		key, method, path, body string
		status                  int
	}{
		{blue, "GET", "/v1/integrations/hidden", "", 200},
		{blue, "GET", "/v1/integrations/shared", "", 403},
		{blue, "PUT", "/v1/integrations/shared", `{"name":"x"}`, 403},
		{blue, "PUT", "/v1/integrations/shared/workspaces", `{"workspaces":[]}`, 403},
		{red, "GET", "/v1/integrations/shared", "", 404},
		{red, "GET", "/v1/integrations/hidden", "", 404},
		{blue, "POST", "/v1/providers", `{"name":"p","integration_id":"shared"}`, 200},
		{red, "POST", "/v1/providers", `{"name":"p","integration_id":"shared"}`, 404},
		{blue, "POST", "/v1/integrations", `{"name":"n","ai_provider_id":"openai","key":"k","workspace_id":"red"}`, 403},
	} {
		if out := a.as(c.key, c.method, c.path, c.body); out.status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, out.status, out.body, c.status)
		}
	}
}

func TestAProviderCallsWithTheCredentialOfItsIntegration(t *testing.T) {
	a := newAPI(t)
	blue := a.workspace("blue")
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`","configurations":{"custom_headers":{"x-team":"red"}}}`)
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"blue","enabled":true}]}`)
	base := mustParse(t, "https://api.openai.com/v1")
	router := &credentials.Router{Keyring: a.s.Keyring, Guard: a.s.Guard.(*credentials.HostGuard), SlugOf: func(string) string { return "" }, BuiltIn: func(name string) (*url.URL, bool, bool) { return base, false, name == "openai" }}
	route := func(s credentials.Selection) (*credentials.Route, *credentials.Error) {
		return router.Route(&credentials.Caller{WorkspaceID: blue}, s)
	}
	for _, s := range []credentials.Selection{{Model: "@main/gpt"}, {Provider: "@main"}, {Provider: "main"}, {VirtualKey: "main"}} {
		r, refusal := route(s)
		if refusal != nil || r.Key.Reveal() != integrationSecret || r.Header.Get("X-Team") != "red" || r.Dialect != "openai" || !r.Stored {
			t.Errorf("%+v: %+v %v", s, r, refusal)
		}
	}
	a.ok("PUT", "/v1/integrations/main", `{"key":"sk-rotated-0123"}`)
	if r, refusal := route(credentials.Selection{Provider: "@main"}); refusal != nil || r.Key.Reveal() != "sk-rotated-0123" {
		t.Errorf("%+v %v", r, refusal)
	}
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"blue","enabled":false}]}`)
	if _, refusal := route(credentials.Selection{Provider: "@main"}); refusal == nil || refusal.Reason != credentials.IntegrationDisabled {
		t.Errorf("disabled: %v", refusal)
	}
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[],"override_existing_workspace_access":true,"global_workspace_access":{"enabled":true}}`)
	if _, refusal := route(credentials.Selection{Provider: "@main"}); refusal != nil {
		t.Errorf("for all: %v", refusal)
	}
	if out := a.ok("GET", "/v1/integrations/main", ""); out.get("workspace_count").Int() != 2 || !out.get("global_workspace_access_settings.enabled").Bool() {
		t.Errorf("%s", out.body)
	}
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Access can be given to the maximum number of workspaces in one request, and each gets
// a provider.
func TestManyWorkspacesGetAccessAtOnce(t *testing.T) {
	a := newAPI(t)
	many := 500
	if testing.Short() {
		many /= 5
	}
	var ids []string
	for i := range many {
		id := a.ok("POST", "/v1/admin/workspaces", fmt.Sprintf(`{"name":"w%d"}`, i)).get("id").Str
		ids = append(ids, fmt.Sprintf(`{"id":%q,"enabled":true}`, id))
	}
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`"}`)
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[`+strings.Join(ids, ",")+`]}`)
	if got := a.ok("GET", "/v1/integrations/main", "").get("workspace_count").Int(); got != int64(many) {
		t.Errorf("%d workspaces have access", got)
	}
	if got := a.ok("GET", "/v1/providers", "").get("total").Int(); got != int64(many) {
		t.Errorf("there are %d providers", got)
	}
}

// Providers have the tags of their integrations, and are found by them.
func TestProvidersHaveTheTagsOfTheirIntegration(t *testing.T) {
	a := newAPI(t)
	workspace := a.s.Directory.DefaultWorkspace().ID
	for _, team := range []string{"red", "blue"} {
		a.ok("POST", "/v1/integrations", `{"name":"`+team+`","slug":"`+team+`","ai_provider_id":"openai","key":"sk-0123456789","tags":{"team":"`+team+`","all":"yes"}}`)
		a.ok("PUT", "/v1/integrations/"+team+"/workspaces", `{"workspaces":[{"id":"`+workspace+`","enabled":true}]}`)
	}
	for tags, want := range map[string]string{`{"team":"red"}`: "red", `{"team":"red","all":"yes"}`: "red", `{"all":"yes"}`: "red blue", `{"team":"none"}`: "", `{"none":"red"}`: "", `{}`: "red blue"} {
		var got []string
		for _, p := range a.ok("GET", "/v1/providers?tags="+url.QueryEscape(tags), "").get("data.#.slug").Array() {
			got = append(got, p.Str)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", tags, got)
		}
	}
	for _, path := range []string{"/v1/providers/red", "/v1/virtual-keys/red"} {
		if tags := a.ok("GET", path, "").get("tags"); tags.Get("team").Str != "red" {
			t.Errorf("%s: %s", path, tags.Raw)
		}
	}
	a.refuses(ownerKey, "GET", "/v1/providers?tags=red", "", 400, "tags")
}
