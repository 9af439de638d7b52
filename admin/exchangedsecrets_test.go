package admin_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/audit"
)

// A secret that is exchanged for one that is shown alike is a change of its field, without its value.
func TestAnExchangedSecretThatLooksTheSameIsRecorded(t *testing.T) {
	t.Parallel()
	const one, other = "sk-one-0123456789abc", "sk-two-0123456789abc" // both are shown as sk*****abc
	for name, test := range map[string]struct{ create, createBody, update, field string }{
		"virtual key":              {"/v1/virtual-keys", `{"name":"n","slug":"n","provider":"openai","key":"$"}`, `{"key":"$"}`, "masked_api_key"},
		"settings":                 {"/v1/virtual-keys", `{"name":"n","slug":"n","provider":"bedrock","model_config":{"aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"$"}}`, `{"model_config":{"aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"$"}}`, "model_config.aws_secret_access_key"},
		"integration":              {"/v1/integrations", `{"name":"n","slug":"n","ai_provider_id":"openai","key":"$"}`, `{"key":"$"}`, "masked_key"},
		"configurations":           {"/v1/integrations", `{"name":"n","slug":"n","ai_provider_id":"openai","key":"k","configurations":{"custom_headers":{"X-A":"$"}}}`, `{"configurations":{"custom_headers":{"X-A":"$"}}}`, "configurations.custom_headers.X-A"},
		"secret reference":         {"/v1/secret-references", `{"name":"n","slug":"n","manager_type":"hashicorp_vault","auth_config":{"vault_auth_type":"token","vault_addr":"https://vault.example.com","vault_token":"$"},"secret_path":"kv/a"}`, `{"auth_config":{"vault_token":"$"}}`, "auth_config.masked_vault_token"},
		"config":                   {"/v1/configs", `{"name":"n","config":{"provider":"openai","api_key":"$"}}`, `{"config":{"provider":"openai","api_key":"$"}}`, "config"},
		"guardrail":                {"/v1/guardrails", `{"name":"n","checks":[{"id":"default.webhook","parameters":{"webhookURL":"https://h.example.com","headers":{"X-A":"$"}}}]}`, `{"checks":[{"id":"default.webhook","parameters":{"webhookURL":"https://h.example.com","headers":{"X-A":"$"}}}]}`, "checks"},
		"plugin":                   {"/v1/plugins", `{"plugin_id":"mistral","credentials":{"apiKey":"$"}}`, `{"credentials":{"apiKey":"$"}}`, "credentials.apiKey"},
		"headers of a model":       {"/v1/integrations", `{"name":"n","slug":"n","ai_provider_id":"openai","key":"k"}`, `/models {"models":[{"slug":"gpt-4o","enabled":true,"custom_headers":{"X-A":"$"}}]}`, "models.gpt-4o.custom_headers.X-A"},
		"a key with its models":    {"/v1/integrations", `{"name":"n","slug":"n","ai_provider_id":"openai","key":"$"}`, `/models {"key":"$","models":[]}`, "masked_key"},
		"key sets of tokens":       {"", "", `{"auth_settings":{"jwt":[{"issuer":"https://id.example.com","audience":["gw"],"jwks_url":["https://id.example.com/keys?token=$"]}]}}`, "auth_settings.jwt"},
		"headers of several words": {"/v1/virtual-keys", `{"name":"n","slug":"n","provider":"openai","key":"k","model_config":{"custom_headers":{"X.A":"$"}}}`, `{"model_config":{"custom_headers":{"X.A":"$"}}}`, "model_config.custom_headers.X.A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			with := func(body, secret string) string { return strings.ReplaceAll(body, "$", secret) }
			path, body := "/v1/admin/organisation", test.update
			if test.create != "" {
				made := a.ok("POST", test.create, with(test.createBody, one))
				id := made.get("id").Str
				if id == "" {
					id = made.get("data.id").Str
				}
				path = test.create + "/" + id
			}
			if sub, rest, ok := strings.Cut(body, " "); ok && sub[0] == '/' {
				path, body = path+sub, rest
			}
			a.ok("PUT", path, with(body, one))
			a.ok("PUT", path, with(body, other))
			row := a.trail()[0]
			at := slices.IndexFunc(row.Changes, func(c audit.Change) bool { return c.Field == test.field })
			if at < 0 {
				t.Fatalf("no change of %s: %+v", test.field, row.Changes)
			}
			if c := row.Changes[at]; c.From == "" || c.To == "" || c.From == c.To {
				t.Errorf("%+v", c)
			}
			text, _ := json.Marshal(row)
			if strings.Contains(string(text), "0123456789abc\"") || strings.Contains(string(text), "two-") {
				t.Errorf("%s", text)
			}
			a.ok("PUT", path, with(body, other)) // once more, it changes nothing
			for _, c := range a.trail()[0].Changes {
				if c.Field == test.field {
					t.Errorf("once more: %+v", c)
				}
			}
		})
	}
}

// The new secret of a rotated API key is a change of its key.
func TestARotationIsAChangeOfTheKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	_, id := a.key("workspace/service", `"logs.view"`)
	a.ok("POST", "/v1/api-keys/"+id+"/rotate", "")
	if all := a.trail()[0].Changes; !slices.ContainsFunc(all, func(c audit.Change) bool { return c.Field == "key" && c.From != "" && c.To != "" }) {
		t.Errorf("%+v", all)
	}
}
