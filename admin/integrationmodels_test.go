package admin_test

import (
	"strings"
	"testing"
)

func TestModelsOfAnIntegrationAreListedAndChanged(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`"}`)
	const models = "/v1/integrations/main/models"
	if out := a.ok("GET", models, ""); out.get("total").Int() != 0 || !out.get("allow_all_models").Bool() {
		t.Errorf("%s", out.body)
	}
	a.ok("PUT", models, `{"allow_all_models":false,"models":[{"slug":"gpt-4o","enabled":true,"is_custom":0,"pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":0.003}}}},{"slug":"own","enabled":true,"is_custom":"true","is_finetune":true,"base_model_slug":"gpt-4o"}]}`)
	a.ok("PUT", "/v1/integrations/main/integration-models", `{"models":[{"slug":"own","enabled":false,"custom_headers":{"X-Key":"`+integrationSecret+`"}}]}`)
	out := a.ok("GET", models, "")
	for path, want := range map[string]string{
		"total": "2", "allow_all_models": "false", "models.0.slug": "gpt-4o", "models.0.is_custom": "false", "models.0.pricing_config.pay_as_you_go.request_token.price": "0.003",
		"models.1.enabled": "false", "models.1.is_custom": "true", "models.1.is_finetune": "true", "models.1.base_model_slug": "gpt-4o", "models.1.custom_headers.X-Key": "sk*****def",
	} {
		if got := out.get(path).String(); got != want {
			t.Errorf("%s is %s, want %s: %s", path, got, want, out.body)
		}
	}
	a.ok("PUT", models, `{"models":[{"slug":"own","enabled":true,"custom_headers":{"X-Key":"sk*****def"}}]}`)
	i, _ := a.s.Keyring.IntegrationOf("", "main")
	m, _ := i.Model("own")
	if h, err := a.s.Keyring.OpenHeaders(i, m); err != nil || h["X-Key"] != integrationSecret || !m.Enabled {
		t.Errorf("a masked value that was sent back changed the header: %v %v", len(h), err)
	}
	for body, field := range map[string]string{
		`{"models":[{"slug":"own","enabled":true},{"slug":"OWN","enabled":false}]}`:                                                    `models[1].slug: "OWN" is named twice`,
		`{"models":[{"slug":"own","enabled":true,"is_custom":7}]}`:                                                                     "models[0].is_custom: expected true or false",
		`{"models":[{"slug":"own","enabled":true,"is_custom":[]}]}`:                                                                    "models[0].is_custom: expected true or false",
		`{"models":[{"slug":"own","enabled":true,"is_custom":false}]}`:                                                                 "models[0].is_custom: expected true for a model that is made of another",
		`{"models":[{"slug":"two","enabled":true,"base_model_slug":7}]}`:                                                               "models[0].base_model_slug: expected a text",
		`{"models":[{"slug":"two","enabled":true,"base_model_slug":"two"}]}`:                                                           "models[0].base_model_slug: expected another model",
		`{"models":[{"slug":"own"}]}`:                                                                                                  "enabled",
		`{"models":[{"slug":"own","enabled":true,"configurations":{}}]}`:                                                               "custom_host",
		`{"models":[{"slug":"own","enabled":true,"configurations":{"custom_host":"https://b.example.com/v1"}}]}`:                       "custom_headers",
		`{"models":[{"slug":"two","enabled":true,"configurations":{"custom_host":"https://b.example.com/v1"}}]}`:                       "send key along",
		`{"models":[{"slug":"two","enabled":true,"configurations":{"custom_host":"http://127.0.0.1/v1"}}],"key":"sk-1"}`:               "custom_host",
		`{"models":[{"slug":"two","enabled":true,"custom_headers":{"Host":"x"}}]}`:                                                     "custom_headers.Host",
		`{"models":[{"slug":"two","enabled":true,"custom_headers":{"X-Key":"sk*****def"}}]}`:                                           "custom_headers.X-Key",
		`{"models":[{"slug":"two","enabled":true,"pricing_config":{"type":"x"}}]}`:                                                     "pricing_config",
		`{"models":[{"slug":"two","enabled":true,"pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":-1}}}}]}`: "pricing_config",
	} {
		if out := a.do("PUT", models, body); out.status != 400 || !strings.Contains(out.message(), field) {
			t.Errorf("%s: %d %s", body, out.status, out.body)
		}
	}
	if out := a.do("PUT", models, `{"models":[{"slug":"own","enabled":true},{"slug":"two","enabled":true,"base_model_slug":"nope"}]}`); out.status != 404 || !strings.HasPrefix(out.message(), `models[1].base_model_slug: there is no model "nope" of openai`) {
		t.Errorf("%d %s", out.status, out.body)
	}
	// The headers of a model are sent to the integration's host.
	if out := a.do("PUT", "/v1/integrations/main", `{"key":"sk-2","configurations":{"custom_host":"https://b.example.com/v1"}}`); out.status != 400 || !strings.Contains(out.body, "model own") {
		t.Errorf("%d %s", out.status, out.body)
	}
	for query, status := range map[string]int{"": 400, "?slugs=nope": 404, "?slugs=own,nope": 404} {
		if out := a.do("DELETE", models+query, ""); out.status != status {
			t.Errorf("%s: %d %s", query, out.status, out.body)
		}
	}
	if out := a.ok("GET", models, ""); out.get("total").Int() != 2 {
		t.Errorf("a refused change changed something: %s", out.body)
	}
	a.ok("DELETE", models+"?slugs=own,gpt-4o", "")
	if out := a.ok("GET", models, ""); out.get("total").Int() != 0 {
		t.Errorf("%s", out.body)
	}
}

// If a model has its own host, secret settings cannot be added to the integration,
// because they would be sent to that host, too.
func TestNoCredentialIsAddedThatWouldGoToTheHostOfAModel(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"azure-ai","key":"`+integrationSecret+`","configurations":{"azure_auth_mode":"default","azure_foundry_url":"https://a.example.com"}}`)
	a.ok("PUT", "/v1/integrations/main/models", `{"models":[{"slug":"own","enabled":true,"configurations":{"custom_host":"https://b.example.com/v1"}}],"key":"sk-new-0123456789"}`)
	const token = `{"configurations":{"azure_auth_mode":"default","azure_foundry_url":"https://a.example.com","azure_ad_token":"` + integrationSecret + `"}}`
	if out := a.do("PUT", "/v1/integrations/main", token); out.status != 400 || !strings.Contains(out.body, "configurations.azure_ad_token: model own") {
		t.Errorf("%d %s", out.status, out.body)
	}
	a.ok("DELETE", "/v1/integrations/main/models?slugs=own", "")
	a.ok("PUT", "/v1/integrations/main", token)
	if out := a.do("PUT", "/v1/integrations/main/models", `{"models":[{"slug":"own","enabled":true,"configurations":{"custom_host":"https://b.example.com/v1"}}],"key":"sk-new-0123456789"}`); out.status != 400 || !strings.Contains(out.body, "azure_ad_token") {
		t.Errorf("%d %s", out.status, out.body)
	}
}
