package handlers_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"pgregory.net/rapid"
)

// integrationFields are settings that integrations of a provider have; what is not given
// here is not drawn.
var integrationFields = map[string]struct{ fixed, drawn map[string]any }{
	"openai":     {nil, map[string]any{"openai_project": nil}},
	"bedrock":    {map[string]any{"aws_auth_type": "accessKey"}, map[string]any{"aws_region": nil, "aws_access_key_id": nil, "aws_secret_access_key": nil, "aws_s3_bucket": nil}},
	"vertex-ai":  {map[string]any{"vertex_auth_type": "basic"}, map[string]any{"vertex_region": nil, "vertex_project_id": nil, "vertex_service_account_json": nil}},
	"workers-ai": {nil, map[string]any{"workers_ai_account_id": nil}},
	"azure-openai": {
		map[string]any{"azure_auth_mode": "entra", "azure_entra_client_id": "c", "azure_deployment_config": []any{map[string]any{"azure_deployment_name": "d", "azure_api_version": "2024-10-21", "azure_model_slug": "m"}}},
		map[string]any{"azure_resource_name": nil, "azure_entra_client_secret": nil, "azure_entra_tenant_id": nil},
	},
	"cortex": {nil, map[string]any{"snowflake_account": nil}},
	"groq":   {nil, nil},
}

// addIntegration saves an integration, which has a provider of the same slug.
func (s *scene) addIntegration(t *rapid.T) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(integrationFields))).Draw(t, "provider")
	of := integrationFields[name]
	configurations := maps.Clone(of.fixed)
	if configurations == nil {
		configurations = make(map[string]any)
	}
	for _, field := range slices.Sorted(maps.Keys(of.drawn)) {
		configurations[field] = s.value(t, field)
	}
	if chance(t, 50) {
		configurations["custom_host"] = s.host(t)
	}
	if chance(t, 50) {
		configurations["custom_headers"] = map[string]any{"X-Extra": s.canary(t)}
	}
	body := map[string]any{"name": "n", "ai_provider_id": name, "key": s.canary(t), "configurations": configurations, "workspace_id": s.workspace}
	a := s.admin(t, "POST", "/v1/integrations", body)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: %s", textOf(body), a.Body)
	}
	slug := a.Get("slug").Str
	provider := s.admin(t, "GET", "/v1/providers/"+slug, nil)
	if provider.Get("integration_id").Str != a.Get("id").Str {
		t.Fatalf("the provider of %s is %s", slug, provider.Body)
	}
	s.integrated = append(s.integrated, slug)
	s.noteIntegration(slug, home{provider: name}, body)
	s.ask(t, "POST", "/v1/chat/completions", chatOf("@"+slug+"/m"))
}

// noteIntegration tells the model what was sent of an integration that is now saved.
func (s *scene) noteIntegration(slug string, h home, body map[string]any) {
	if configurations, ok := body["configurations"].(map[string]any); ok {
		of := homeOf(configurations, says(configurations, "custom_host"))
		h.words, h.logins, h.host = of.words, of.logins, of.host
	}
	s.savedKey(slug, h, body)
}

// editIntegration changes an integration as somebody who does not know what is masked could.
func (s *scene) editIntegration(t *rapid.T, slug string) {
	at := "/v1/integrations/" + slug + "?workspace_id=" + s.workspace
	shown := s.admin(t, "GET", at, nil)
	var configurations map[string]any
	if err := json.Unmarshal([]byte(shown.Get("configurations").Raw), &configurations); err != nil {
		t.Fatal(err)
	}
	body := make(map[string]any)
	if chance(t, 60) {
		body["key"] = rapid.SampledFrom([]string{shown.Get("masked_key").Str, "", s.canary(t), "cn*****byy"}).Draw(t, "key")
	}
	if chance(t, 80) {
		drawn := slices.Sorted(maps.Keys(integrationFields[shown.Get("ai_provider_id").Str].drawn))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			switch field := rapid.SampledFrom(append(drawn, "custom_host", "custom_headers")).Draw(t, "field"); field {
			case "custom_host":
				configurations[field] = rapid.SampledFrom([]any{s.host(t), nil}).Draw(t, "custom host")
			case "custom_headers":
				configurations[field] = map[string]any{"X-Extra": rapid.SampledFrom([]string{"cn*****ayy", s.canary(t)}).Draw(t, "header")}
			default:
				configurations[field] = s.value(t, field)
			}
		}
		body["configurations"] = configurations
	}
	if a := s.admin(t, "PUT", at, body); a.Status != http.StatusOK {
		s.refused++
		return
	}
	s.edited++
	s.noteIntegration(slug, *s.keys[slug], body)
	s.ask(t, "POST", "/v1/chat/completions", chatOf("m"), "x-gw-provider: @"+slug)
}
