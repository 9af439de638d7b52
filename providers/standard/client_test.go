package standard_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

// Claude Code sends beta=true with every call, and Azure refuses parameters that it does not know.
func TestOnlyAnthropicGetsTheQueryOfItsClients(t *testing.T) {
	settings := map[string]string{"azure_api_version": "2024-10-21", "azure_deployment_id": "d", "vertex_project_id": "p", "vertex_region": "us-central1", "aws_region": "us-east-1"}
	for name, want := range map[string]string{
		"openai": "api-version=2025-01-01", "groq": "api-version=2025-01-01", "azure-openai": "api-version=2025-01-01", "cohere": "api-version=2025-01-01",
		"google": "", "bedrock": "", "anthropic": "beta=true&api-version=2025-01-01",
	} {
		c := (&dialecttest.Case{
			Endpoint: providers.Messages, Key: "KEY", Settings: settings, Body: json.RawMessage(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`),
		}).Call(name)
		c.Query = "beta=true&api-version=2025-01-01"
		r, err := c.Provider.Prepare(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if r.URL.RawQuery != want {
			t.Errorf("%s: got the query %q, want %q", name, r.URL.RawQuery, want)
		}
	}
}

func TestOnlyProvidersWithOpenAIsAPIGetItsBetas(t *testing.T) {
	for name, want := range map[string]bool{
		"openai": true, "azure-openai": true, "azure-ai": true, "groq": true, "vllm": true,
		"anthropic": false, "google": false, "vertex-ai": false, "bedrock": false, "cohere": false, "mistral-ai": false,
	} {
		p, ok := providers.Lookup(name)
		if !ok || slices.Contains(p.Forward, "Openai-Beta") != want {
			t.Errorf("%s (%t): got %t", name, ok, !want)
		}
	}
	if slices.Contains(providers.Forwarded, "Openai-Beta") {
		t.Error("every provider gets it")
	}
}
