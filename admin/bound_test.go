package admin_test

import (
	"strings"
	"testing"
)

// Each secret of a virtual key is bound to the host, provider and settings that it was
// saved for, regardless of which of them are changed.
func TestEverySecretOfAVirtualKeyIsBoundToItsDestination(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/virtual-keys/"
	for slug, settings := range map[string]string{
		"ad":      `"azure_resource_name":"res","azure_ad_token":"token-of-the-directory"`,
		"entra":   `"azure_resource_name":"res","azure_auth_mode":"entra","azure_entra_tenant_id":"t","azure_entra_client_id":"c","azure_entra_client_secret":"secret-of-the-application"`,
		"aws":     `"aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789","aws_secret_access_key":"secret-of-the-account"`,
		"session": `"aws_region":"eu-west-1","aws_access_key_id":"AKIA0123456789","aws_session_token":"token-of-the-session"`,
		"vertex":  `"vertex_region":"us","vertex_service_account_json":"{\"private_key\":\"pem-of-the-account\"}"`,
	} {
		provider := map[string]string{"aws": "bedrock", "session": "bedrock", "vertex": "vertex-ai"}[slug]
		if provider == "" {
			provider = "azure-openai"
		}
		a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"`+slug+`","provider":"`+provider+`","key":"key-of-the-provider","model_config":{`+settings+`}}`)
		shown := a.ok("GET", path+slug, "").get("model_config").Raw
		if strings.Contains(shown, "-of-the-") {
			t.Errorf("%s is shown: %s", slug, shown)
		}
		for name, body := range map[string]string{
			"a host and a key":              `{"custom_host":"https://evil.example.net/v1","key":"key-of-somebody"}`,
			"a host, a key and masks":       `{"custom_host":"https://evil.example.net/v1","key":"key-of-somebody","model_config":` + shown + `}`,
			"a host alone":                  `{"custom_host":"https://evil.example.net/v1"}`,
			"a host and an empty key":       `{"custom_host":"https://evil.example.net/v1","key":""}`,
			"a place and a key, with masks": `{"key":"key-of-somebody","model_config":` + strings.NewReplacer(`"res"`, `"evil"`, `"eu-west-1"`, `"us-east-1"`, `"us"`, `"eu"`).Replace(shown) + `}`,
		} {
			out := a.do("PUT", path+slug, body)
			if out.status != 400 || !strings.Contains(out.body, "along; a stored credential") {
				t.Errorf("%s, %s: %d %s", slug, name, out.status, out.body)
			}
		}
		// Sending back what was shown changes nothing. The destination may be changed
		// if all secrets are sent.
		a.ok("PUT", path+slug, `{"key":"ke*****der","model_config":`+shown+`}`)
		a.ok("PUT", path+slug, `{"custom_host":"https://other.example.net/v1","key":"key-of-the-other","model_config":{`+settings+`}}`)
	}
	out := a.do("POST", "/v1/virtual-keys", `{"name":"n","provider":"openai","key":"ke*****der"}`)
	if out.status != 400 || !strings.Contains(out.body, "key: a masked value that stands for no stored credential") {
		t.Errorf("a mask of nothing: %d %s", out.status, out.body)
	}
}

func TestACredentialOfASavedConfigIsBoundToItsDestination(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/configs", `{"name":"c","config":{"provider":"openai","api_key":"sk-0123456789abcdef"}}`).get("slug").Str
	for _, config := range []string{
		`{"provider":"openai","custom_host":"https://evil.example.net/v1","api_key":"sk*****def"}`,
		`{"custom_host":"https://evil.example.net/v1","strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"sk*****def"}]}`,
		`{"strategy":{"mode":"single"},"targets":[{"provider":"openai","custom_host":"https://evil.example.net/v1","api_key":"sk*****def"}]}`,
	} {
		out := a.do("PUT", "/v1/configs/"+slug, `{"config":`+config+`}`)
		if out.status != 400 || !strings.Contains(out.body, "custom_host: send ") {
			t.Errorf("%s: %d %s", config, out.status, out.body)
		}
	}
	if out := a.do("POST", "/v1/configs", `{"name":"d","config":{"provider":"openai","api_key":"sk*****def"}}`); out.status != 400 {
		t.Errorf("a mask of nothing: %d %s", out.status, out.body)
	}
}
