package admin_test

import (
	"strings"
	"testing"
)

// Credentials are what the gateway's machine is if the operator gives that, an API key of the organisation saves them, and
// they go to the provider's own hosts.
func TestTheOrganisationSavesWhatTheMachineIs(t *testing.T) {
	const (
		integrations = "/v1/integrations"
		keys         = "/v1/virtual-keys"
		deployments  = `"azure_deployment_config":[{"azure_deployment_name":"d","azure_api_version":"2024-10-21","azure_model_slug":"m"}]`
		role         = `"aws_region":"eu-west-1","aws_auth_type":"serviceRole"`
	)
	a := newAPI(t)
	a.ok("POST", integrations, `{"name":"n","slug":"before","ai_provider_id":"bedrock","key":"k","configurations":{"aws_region":"eu-west-1","aws_auth_type":"apiKey"}}`)
	a.s.Identities = map[string]string{"aws": "instance", "azure": "instance"}
	a.serve()
	workspace, _ := a.key("workspace/service", `"virtual_keys.create","virtual_keys.update","workspace_integrations.create"`)
	for _, c := range []struct{ name, key, path, body, field string }{
		{"an integration", ownerKey, integrations, `{"name":"n","slug":"i","ai_provider_id":"bedrock","configurations":{` + role + `}}`, ""},
		{"a virtual key", ownerKey, keys, `{"name":"n","slug":"v","provider":"bedrock","model_config":{` + role + `}}`, ""},
		{"a role", ownerKey, integrations, `{"name":"n","slug":"r","ai_provider_id":"bedrock","configurations":{"aws_region":"eu-west-1","aws_auth_type":"assumedRole","aws_role_arn":"arn:aws:iam::123456789012:role/r"}}`, ""},
		{"a managed identity", ownerKey, integrations, `{"name":"n","slug":"m","ai_provider_id":"azure-openai","configurations":{"azure_auth_mode":"managed","azure_managed_client_id":"c","azure_resource_name":"r",` + deployments + `}}`, ""},
		{"at a host of Azure", ownerKey, integrations, `{"name":"n","slug":"f","ai_provider_id":"azure-ai","configurations":{"azure_auth_mode":"managed","azure_foundry_url":"https://p.services.ai.azure.com/models"}}`, ""},
		{"by a workspace", workspace, keys, `{"name":"n","slug":"w","provider":"bedrock","model_config":{` + role + `}}`, "model_config.aws_auth_type: serviceRole is what the gateway's machine is; only an API key of the organisation"},
		{"in a workspace", workspace, integrations, `{"name":"n","slug":"w","ai_provider_id":"bedrock","configurations":{` + role + `}}`, "configurations.aws_auth_type: serviceRole is what the gateway's machine is, which an integration of a workspace may not use"},
		{"elsewhere", ownerKey, integrations, `{"name":"n","ai_provider_id":"bedrock","configurations":{` + role + `,"custom_host":"https://a.example.com"}}`, "goes to the provider's own hosts only"},
		{"at another host", ownerKey, integrations, `{"name":"n","ai_provider_id":"azure-ai","configurations":{"azure_auth_mode":"managed","azure_foundry_url":"https://p.example.com/models"}}`, "goes to the provider's own hosts only"},
		{"no workload", ownerKey, integrations, `{"name":"n","ai_provider_id":"azure-openai","configurations":{"azure_auth_mode":"workload","azure_resource_name":"r",` + deployments + `}}`, "workload needs provider_identity azure workload"},
		{"no tenant", ownerKey, integrations, `{"name":"n","ai_provider_id":"azure-openai","configurations":{"azure_auth_mode":"entraFederated","azure_entra_client_id":"c","azure_resource_name":"r",` + deployments + `}}`, "configurations.azure_entra_tenant_id"},
	} {
		if out := a.as(c.key, "POST", c.path, c.body); c.field == "" && out.status != 200 || c.field != "" && (out.status != 400 || !strings.Contains(out.message(), c.field)) {
			t.Errorf("%s: %d %s", c.name, out.status, out.body)
		}
	}
	machine := func(slug string) string {
		if i, ok := a.s.Keyring.IntegrationOf("", slug); ok {
			return i.Machine
		}
		v, ok := a.s.Keyring.VirtualKey(a.s.Directory.DefaultWorkspace().ID, slug)
		if !ok {
			t.Fatalf("there is no %s", slug)
		}
		return v.Machine
	}
	for slug, want := range map[string]string{"i": "aws", "v": "aws", "r": "aws", "m": "azure", "f": "azure", "before": ""} {
		if got := machine(slug); got != want {
			t.Errorf("%s is what the machine is for %q, want %q", slug, got, want)
		}
	}
	// A workspace changes what else there is to it, and the organisation makes it something else.
	shown := a.ok("GET", keys+"/v", "").get("model_config").Raw
	for _, body := range []string{`{"name":"m"}`, `{"model_config":` + shown + `}`} {
		if out := a.as(workspace, "PUT", keys+"/v", body); out.status != 200 || machine("v") != "aws" {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	a.refuses(workspace, "PUT", keys+"/v", `{"model_config":{"aws_region":"us-east-1"}}`, 400, "only an API key of the organisation")
	a.refuses(ownerKey, "PUT", keys+"/v", `{"custom_host":"https://a.example.com"}`, 400, "goes to the provider's own hosts only")
	for _, body := range []string{
		`{"key":"k","model_config":{"aws_auth_type":"apiKey"}}`, `{"model_config":{"aws_auth_type":null}}`,
		`{"key":"k","model_config":{"aws_auth_type":"accessKey","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"0123456789abcdef"}}`, `{"custom_host":"https://a.example.com"}`,
	} {
		a.refuses(workspace, "PUT", keys+"/v", body, 400, "only an API key of the organisation")
	}
	if machine("v") != "aws" {
		t.Error("a workspace changed what is the organisation's")
	}
	if out := a.as(ownerKey, "PUT", keys+"/v", `{"key":"k","model_config":{"aws_auth_type":"apiKey"}}`); out.status != 200 || machine("v") != "" {
		t.Errorf("it becomes something else: %d %s", out.status, out.body)
	}
	a.refuses(workspace, "PUT", keys+"/v", `{"model_config":{`+role+`}}`, 400, "only an API key of the organisation")
	// What was saved stays, and is of no use, where the operator's configuration has changed.
	a.s.Identities = nil
	a.serve()
	a.ok("PUT", integrations+"/i", `{"name":"m"}`)
	a.refuses(ownerKey, "PUT", integrations+"/i", `{"configurations":{`+strings.Replace(role, "eu-", "us-", 1)+`}}`, 400, "provider_identity aws")
}
