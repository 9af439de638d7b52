package admin_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// configurationsOfTheReference are the fields that the reference documents for the configurations of integrations, by
// provider: what makes the smallest configurations, and each field with a value. A field whose value begins with ! is
// refused, for the reason after it, as docs/providers.md says. Where a field needs others, they follow it.
var configurationsOfTheReference = map[string]struct{ least, fields string }{
	"openai": {`{}`, `{"openai_organization":"o","openai_project":"p"}`},
	"azure-openai": {
		`{"azure_auth_mode":"default","azure_resource_name":"r","azure_deployment_config":[{"azure_deployment_name":"d","azure_api_version":"2024-10-21","azure_model_slug":"m","alias":"a","is_default":true}]}`,
		`{"azure_auth_mode=entra":{"azure_entra_tenant_id":"t","azure_entra_client_id":"c","azure_entra_client_secret":"0123456789abcdef"},"azure_auth_mode=managed":{"azure_managed_client_id":"c"},
		  "azure_auth_mode=workload":{"azure_workload_client_id":"c","azure_workload_tenant_id":"t"},"azure_auth_mode=entraFederated":{"azure_entra_tenant_id":"t","azure_entra_client_id":"c"}}`,
	},
	"bedrock": {
		`{"aws_auth_type":"apiKey","aws_region":"eu-west-1"}`,
		`{"aws_auth_type=accessKey":{"aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"0123456789abcdef"},
		  "aws_auth_type=assumedRole":{"aws_role_arn":"arn:aws:iam::123456789012:role/r","aws_external_id":"e1"},"aws_auth_type=serviceRole":{}}`,
	},
	"vertex-ai": {
		`{"vertex_auth_type":"basic","vertex_region":"eu","vertex_project_id":"p"}`,
		`{"vertex_auth_type=serviceAccount":{"vertex_service_account_json":{"type":"service_account","private_key":"0123456789abcdef"}},
		  "vertex_service_account_json":"!workload identity federation","vertex_auth_type":"!expected one of basic, serviceAccount",
		  "skipPtuCostAttribution":"!it would do nothing","vertex_storage_bucket_name":"!it would do nothing"}`,
	},
	"azure-ai": {
		`{"azure_auth_mode":"default","azure_foundry_url":"https://p.services.ai.azure.com/models"}`,
		`{"azure_api_version":"2024-05-01-preview","azure_deployment_name":"d","azure_auth_mode=entra":{"azure_entra_tenant_id":"t","azure_entra_client_id":"c","azure_entra_client_secret":"0123456789abcdef"},
		  "azure_auth_mode=managed":{"azure_managed_client_id":"c"}}`,
	},
	"workers-ai": {`{"workers_ai_account_id":"a"}`, `{}`},
	"sagemaker": {
		`{"aws_auth_type":"serviceRole","aws_region":"eu-west-1"}`,
		`{"aws_auth_type=accessKey":{"aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"0123456789abcdef"},"aws_auth_type=assumedRole":{"aws_role_arn":"arn:aws:iam::123456789012:role/r","aws_external_id":"e1"},
		  "amzn_sagemaker_custom_attributes":"c","amzn_sagemaker_target_model":"m","amzn_sagemaker_target_variant":"v","amzn_sagemaker_target_container_hostname":"h","amzn_sagemaker_inference_id":"i",
		  "amzn_sagemaker_enable_explanations":"e","amzn_sagemaker_inference_component":"c","amzn_sagemaker_session_id":"s","amzn_sagemaker_model_name":"!it would do nothing"}`,
	},
	"huggingface":  {`{}`, `{"huggingface_base_url":"https://h.example.com/v1"}`},
	"cortex":       {`{"snowflake_account":"a"}`, `{}`},
	"anthropic":    {`{}`, `{"anthropic_inspect_stream_for_overloaded_error":true,"anthropic_version":"2023-06-01","anthropic_beta":"b"}`},
	"byteplus":     {`{"byteplus_region":"ap-southeast"}`, `{}`},
	"fireworks-ai": {`{}`, `{"fireworks_account_id":"!it would do nothing"}`},
	"groq":         {`{}`, `{"custom_host":"https://h.example.com/v1","custom_headers":{"X-Team":"0123456789abcdef"}}`},
}

// Every field of the reference is kept and shown, or refused with why.
func TestConfigurationsHaveTheFieldsOfTheReference(t *testing.T) {
	a := newAPI(t)
	a.s.Identities = map[string]string{"aws": "instance", "azure": "workload"}
	a.serve()
	for provider, c := range configurationsOfTheReference {
		save := func(more string) answer {
			all := c.least
			gjson.Parse(more).ForEach(func(name, value gjson.Result) bool {
				var err error
				all, err = sjson.SetRaw(all, name.Str, value.Raw)
				return err == nil
			})
			out := a.do("POST", "/v1/integrations", `{"name":"n","slug":"s","ai_provider_id":"`+provider+`","configurations":`+all+`}`)
			if out.status != 200 {
				return out
			}
			out = a.ok("GET", "/v1/integrations/s", "")
			a.ok("DELETE", "/v1/integrations/s", "")
			return out
		}
		if out := save("{}"); out.status != 200 {
			t.Errorf("%s: %d %s", provider, out.status, out.body)
		}
		gjson.Parse(c.least).ForEach(func(name, _ gjson.Result) bool {
			without, err := sjson.Delete(c.least, name.Str)
			if err != nil {
				t.Fatal(err)
			}
			out := a.do("POST", "/v1/integrations", `{"name":"n","ai_provider_id":"`+provider+`","configurations":`+without+`}`)
			if out.status != 400 || !strings.Contains(out.message(), "configurations."+name.Str) {
				t.Errorf("%s without %s: %d %s", provider, name.Str, out.status, out.body)
			}
			return true
		})
		gjson.Parse(c.fields).ForEach(func(name, value gjson.Result) bool {
			field, mode, isMode := strings.Cut(name.Str, "=")
			more := `{"` + field + `":` + value.Raw + `}`
			why, refused := strings.CutPrefix(value.Str, "!")
			switch {
			case isMode:
				more = `{"` + field + `":"` + mode + `"`
				if value.Raw != "{}" {
					more += "," + strings.TrimPrefix(value.Raw, "{")
				} else {
					more += "}"
				}
			case field == "vertex_service_account_json" && refused:
				more = `{"` + field + `":{"type":"external_account"}}`
			}
			out := save(more)
			switch got := out.get("configurations"); {
			case refused && (out.status != 400 || !strings.Contains(out.message(), "configurations."+field) || !strings.Contains(out.message(), why)):
				t.Errorf("%s: %s: %d %s", provider, name.Str, out.status, out.body)
			case refused:
			case out.status != 200:
				t.Errorf("%s: %s: %d %s", provider, name.Str, out.status, out.body)
			default:
				gjson.Parse(more).ForEach(func(name, _ gjson.Result) bool {
					if !got.Get(name.Str).Exists() {
						t.Errorf("%s: %s is not shown: %s", provider, name.Str, out.body)
					}
					return true
				})
			}
			return true
		})
	}
}

// The names that the reference lists for providers are known, but for the one that was switched off.
func TestProvidersOfTheReferenceAreKnown(t *testing.T) {
	a := newAPI(t)
	const names = `openai azure-openai ai21 anthropic anyscale bedrock cohere deepinfra fireworks-ai google groq hugging-face jina lingyi mistral-ai monsterapi moonshot nomic novita-ai open-ai openrouter
		perplexity-ai predibase reka-ai segmind stability-ai together-ai vertex-ai workers-ai zhipu`
	more := map[string]string{
		"azure-openai": `,"resourceName":"r"`, "bedrock": `,"model_config":{"aws_region":"eu-west-1"}`, "predibase": `,"custom_host":"https://serving.app.predibase.com/t/deployments/v2/llms/d/v1"`,
		"vertex-ai": `,"model_config":{"vertex_region":"eu"}`, "workers-ai": `,"model_config":{"workers_ai_account_id":"a"}`,
	}
	for _, name := range strings.Fields(names) {
		if out := a.do("POST", "/v1/virtual-keys", `{"name":"n","slug":"`+name+`","provider":"`+name+`","key":"k"`+more[name]+`}`); out.status != 200 {
			t.Errorf("%s: %d %s", name, out.status, out.body)
		}
	}
	a.refuses(ownerKey, "POST", "/v1/virtual-keys", `{"name":"n","provider":"palm","key":"k"}`, 400, "use google")
}
