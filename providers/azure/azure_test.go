package azure

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

const list = `[{"deploymentName":"dep-a","apiVersion":"2024-06-01","alias":"gpt-4o"},{"azure_deployment_name":"dep-b","azure_model_slug":"gpt-5","azure_api_version":"2025-01-01","is_default":true},{"alias":"fast","azure_deployment_name":"dep-c","azure_model_slug":"gpt-6","azure_api_version":"2025-01-01"}]`

func TestCallsGoWhereAzureHasThem(t *testing.T) {
	for _, c := range []struct {
		name, provider, base, path, query, model string
		settings                                 map[string]string
		want                                     string
	}{
		{"a deployment", "azure-openai", "https://r.openai.azure.com/openai", "/chat/completions", "", "gpt-4o", map[string]string{"azure_deployment_id": "dep1", "azure_api_version": "2024-10-21"}, "https://r.openai.azure.com/openai/deployments/dep1/chat/completions?api-version=2024-10-21"},
		{"a deployment without a version", "azure-openai", "https://r.openai.azure.com/openai", "/embeddings", "", "m", map[string]string{"azure_deployment_id": "dep1"}, "https://r.openai.azure.com/openai/deployments/dep1/embeddings?api-version=2024-10-21"},
		{"a version alone", "azure-openai", "https://r.openai.azure.com/openai", "/completions", "", "my model", map[string]string{"azure_api_version": "2024-10-21"}, "https://r.openai.azure.com/openai/deployments/my%20model/completions?api-version=2024-10-21"},
		{"neither", "azure-openai", "https://r.openai.azure.com/openai", "/chat/completions", "a=b", "m", nil, "https://r.openai.azure.com/openai/v1/chat/completions?a=b"},
		{"the version v1", "azure-openai", "https://r.openai.azure.com/openai", "/responses", "", "m", map[string]string{"azure_api_version": "v1"}, "https://r.openai.azure.com/openai/v1/responses"},
		{"with deployments", "azure-openai", "https://r.openai.azure.com/openai", "/batches/b1/cancel", "", "", map[string]string{"azure_deployment_id": "dep1", "azure_api_version": "2024-10-21"}, "https://r.openai.azure.com/openai/batches/b1/cancel?api-version=2024-10-21"},
		{"a version in the query", "azure-openai", "https://r.openai.azure.com/openai", "/files", "limit=1&api-version=2023-01-01", "", map[string]string{"azure_api_version": "2024-10-21"}, "https://r.openai.azure.com/openai/files?limit=1&api-version=2023-01-01"},
		{"the key's own list, by alias", "azure-openai", "https://r.openai.azure.com/openai", "/chat/completions", "", "gpt-4o", map[string]string{"azure_deployment_config": list}, "https://r.openai.azure.com/openai/deployments/dep-a/chat/completions?api-version=2024-06-01"},
		{"the key's own list, by model", "azure-openai", "https://r.openai.azure.com/openai", "/chat/completions", "", "gpt-6", map[string]string{"azure_deployment_config": list}, "https://r.openai.azure.com/openai/deployments/dep-c/chat/completions?api-version=2025-01-01"},
		{"the key's own list, by an alias of a model", "azure-openai", "https://r.openai.azure.com/openai", "/chat/completions", "", "fast", map[string]string{"azure_deployment_config": list}, "https://r.openai.azure.com/openai/deployments/dep-c/chat/completions?api-version=2025-01-01"},
		{"the key's own list, by default", "azure-openai", "https://r.openai.azure.com/openai", "/chat/completions", "", "another", map[string]string{"azure_deployment_config": list}, "https://r.openai.azure.com/openai/deployments/dep-b/chat/completions?api-version=2025-01-01"},
		{"Foundry", "azure-ai", "https://p.services.ai.azure.com/models", "/chat/completions", "", "m", nil, "https://p.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview"},
		{"Foundry's version", "azure-ai", "https://p.services.ai.azure.com/models", "/embeddings", "", "m", map[string]string{"azure_api_version": "2025-04-01"}, "https://p.services.ai.azure.com/models/embeddings?api-version=2025-04-01"},
		{"Foundry's newer address", "azure-ai", "https://p.services.ai.azure.com/openai/v1", "/chat/completions", "", "m", nil, "https://p.services.ai.azure.com/openai/v1/chat/completions"},
	} {
		call := callOf(t, c.provider, c.base, c.settings)
		call.Path, call.Query, call.Model = c.path, c.query, c.model
		r, err := call.Provider.Prepare(call)
		if err != nil || r.URL.String() != c.want {
			t.Errorf("%s: got %v, %v\nwant %s", c.name, r, err, c.want)
		}
		if err == nil && (r.Header.Get("Api-Key") != "key" || r.Header.Get("Authorization") != "" || r.Body != nil || r.Answer != nil) {
			t.Errorf("%s: %v, %d bytes", c.name, r.Header, len(r.Body))
		}
	}
}

func callOf(t *testing.T, provider, base string, settings map[string]string) *providers.Call {
	t.Helper()
	p, ok := providers.Lookup(provider)
	u, err := url.Parse(base)
	if !ok || err != nil {
		t.Fatal(provider, err)
	}
	return &providers.Call{
		Provider: p, Endpoint: providers.ListModels, Method: "POST", Base: u, Key: credentials.NewSecret("key"),
		Setting: func(name string) string { return settings[name] },
	}
}

func TestTokensOfEntraAreBearers(t *testing.T) {
	entra := map[string]string{"azure_auth_mode": "entra", "azure_entra_tenant_id": "tenant", "azure_entra_client_id": "client", "azure_entra_client_secret": "secret"}
	call := callOf(t, "azure-openai", "https://r.openai.azure.com/openai", entra)
	login, err := call.Provider.Login(call)
	if err != nil || login.TokenURL != "https://login.microsoftonline.com/tenant/oauth2/v2.0/token" || login.ClientID != "client" || login.ClientSecret.Reveal() != "secret" || len(login.Scopes) != 1 {
		t.Fatalf("%+v, %v", login, err)
	}
	call.Token, call.Path = credentials.NewSecret("of-entra"), "/models"
	r, err := call.Provider.Prepare(call)
	if err != nil || r.Header.Get("Authorization") != "Bearer of-entra" || r.Header.Get("Api-Key") != "" {
		t.Errorf("%v, %v", r, err)
	}
	call = callOf(t, "azure-openai", "https://r.openai.azure.com/openai", map[string]string{"azure_ad_token": "given"})
	call.Path = "/models"
	if login, err := call.Provider.Login(call); login != nil || err != nil {
		t.Errorf("%v, %v", login, err)
	}
	if r, err := call.Provider.Prepare(call); err != nil || r.Header.Get("Authorization") != "Bearer given" {
		t.Errorf("%v, %v", r, err)
	}
	for _, settings := range []map[string]string{{"azure_auth_mode": "managed"}, {"azure_auth_mode": "entra", "azure_entra_tenant_id": "t"}} {
		call := callOf(t, "azure-openai", "https://r.openai.azure.com/openai", settings)
		var refusal *providers.RequestError
		if _, err := call.Provider.Login(call); !errors.As(err, &refusal) {
			t.Errorf("%v: %v", settings, err)
		}
	}
}

// What the gateway's machine is logs in where the call may be that, for Azure's models only.
func TestTheMachineLogsIn(t *testing.T) {
	const authority, resource = "https://login.microsoftonline.com", "https://cognitiveservices.azure.com"
	for _, c := range []struct {
		settings map[string]string
		want     providers.AzureIdentity
		refused  string // the parameter
	}{
		{map[string]string{"azure_auth_mode": "managed"}, providers.AzureIdentity{Authority: authority, Resource: resource}, ""},
		{map[string]string{"azure_auth_mode": "managed", "azure_managed_client_id": "c", "azure_entra_scope": "https://ai.azure.com/.default"}, providers.AzureIdentity{Authority: authority, Resource: "https://ai.azure.com", Client: "c"}, ""},
		{map[string]string{"azure_auth_mode": "workload"}, providers.AzureIdentity{Authority: authority, Resource: resource, Federated: true}, ""},
		{map[string]string{"azure_auth_mode": "workload", "azure_workload_client_id": "c", "azure_workload_tenant_id": "t"}, providers.AzureIdentity{Authority: authority, Resource: resource, Client: "c", Tenant: "t", Federated: true}, ""},
		{map[string]string{"azure_auth_mode": "entraFederated", "azure_entra_client_id": "c", "azure_entra_tenant_id": "t"}, providers.AzureIdentity{Authority: authority, Resource: resource, Client: "c", Tenant: "t", Federated: true}, ""},
		{map[string]string{"azure_auth_mode": "entraFederated", "azure_entra_client_id": "c"}, providers.AzureIdentity{}, "x-gw-azure-entra-tenant-id"},
		{map[string]string{"azure_auth_mode": "managed", "azure_entra_scope": "https://management.azure.com/.default"}, providers.AzureIdentity{}, "x-gw-azure-entra-scope"},
	} {
		call := callOf(t, "azure-openai", "https://r.openai.azure.com/openai", c.settings)
		var refusal *providers.RequestError
		if _, err := call.Provider.Login(call); !errors.As(err, &refusal) || refusal.Param != "x-gw-azure-auth-mode" {
			t.Errorf("%v, of a caller: %v", c.settings, err)
		}
		call.Machine = true
		l, err := call.Provider.Login(call)
		switch {
		case c.refused != "":
			if !errors.As(err, &refusal) || refusal.Param != c.refused {
				t.Errorf("%v: %v", c.settings, err)
			}
		case err != nil || l.Azure == nil || *l.Azure != c.want || !l.OfMachine():
			t.Errorf("%v: %+v, %v", c.settings, l, err)
		}
	}
}

func TestVersionsBeforeStreamOptionsDoNotGetThem(t *testing.T) {
	const asked = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct {
		version, query string
		has            bool
	}{
		{"2024-06-01", "", false},
		{"2023-05-15", "", false},
		{"2024-08-01-preview", "", false},
		{"2024-09-01-preview", "", true},
		{"2024-10-21", "", true},
		{"", "", true},
		{"v1", "", true},
		{"preview", "", true},
		{"2024-10-21", "api-version=2024-02-01", false},
		{"2024-02-01", "api-version=2025-01-01", true},
	} {
		for endpoint, body := range map[string]string{
			providers.ChatComplete: asked, providers.Complete: strings.Replace(asked, `"messages":[{"role":"user","content":"hi"}]`, `"prompt":"hi"`, 1),
			providers.Messages: `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		} {
			call := callOf(t, "azure-openai", "https://r.openai.azure.com/openai", map[string]string{"azure_deployment_id": "dep1", "azure_api_version": c.version})
			call.Endpoint, call.Path, call.Query, call.Model, call.Stream, call.Body = endpoint, "/chat/completions", c.query, "m", true, []byte(body)
			call.Header, call.NewID = func(string) string { return "" }, func() string { return "id" }
			r, err := call.Provider.Prepare(call)
			if err != nil {
				t.Fatal(err)
			}
			sent := r.Body
			if sent == nil {
				sent = call.Body
			}
			if got := strings.Contains(string(sent), "stream_options"); got != c.has || !strings.Contains(string(sent), `"stream":true`) {
				t.Errorf("%s, version %q, query %q: %s", endpoint, c.version, c.query, sent)
			}
		}
	}
}
