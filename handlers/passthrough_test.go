package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestAStoredCredentialGoesToNamedPathsOnly(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	named := strings.Replace(up.Provider("named"), "{\n", "{\npassthrough_paths GET /v1/foo/* POST /v1/bar DELETE /v1/models/*\n", 1)
	vllm := strings.Replace(up.Provider("vllm"), "type openai", "type vllm", 1)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\npassthrough_paths /v1/saved\n"+up.Provider("file")+named+vllm)
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk", "custom_host": up.URL + "/v1"})
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "sm", "slug": "sm", "provider": "sagemaker", "custom_host": up.URL + "/v1", "model_config": map[string]any{
		"aws_auth_type": "accessKey", "aws_region": "eu-west-1", "aws_access_key_id": "AKIA0123456789", "aws_secret_access_key": "0123456789abcdef",
	}})
	const file, vk, sm, own = "x-gw-provider: file", "x-gw-provider: @vk", "x-gw-provider: @sm", "x-gw-provider: openai"
	for _, c := range []struct {
		method, path, to string
		status           int
		says             string
	}{
		{"POST", "/v1/assistants", file, 200, ""},
		{"GET", "/v1/models/m", file, 200, ""},
		{"GET", "/v1/foo/x", file, 403, "add passthrough_paths GET /v1/foo/x to provider file of the Caddyfile"},
		{"DELETE", "/v1/models/m", file, 403, "add passthrough_paths DELETE /v1/models/m to provider file"},
		{"POST", "/v1/models/m:generate", file, 403, "passthrough_paths"},
		{"GET", "/v1/foo/x", `x-gw-config: {"provider":"@file"}`, 403, "provider file"},
		{"GET", "/v1/foo/x", `x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@file"},{"provider":"@named"}]}`, 200, ""},
		{"GET", "/v1/foo/x", "x-gw-provider: named", 200, ""},
		{"POST", "/v1/foo/x", "x-gw-provider: named", 403, "provider named"},
		{"POST", "/v1/bar", "x-gw-provider: named", 200, ""},
		{"DELETE", "/v1/models/m", "x-gw-provider: named", 200, ""},
		{"POST", "/v1/score", "x-gw-provider: vllm", 200, ""},
		{"POST", "/v1/score", file, 403, "passthrough_paths"},
		{"POST", "/v1/endpoints/e/invocations", sm, 200, ""},
		{"POST", "/v1/endpoints/e/async-invocations", sm, 200, ""},
		{"GET", "/v1/endpoints/e/invocations", sm, 403, "passthrough_paths"},
		{"POST", "/v1/endpoints/e", sm, 403, "passthrough_paths"},
		{"GET", "/v1/foo/x", vk, 403, "add passthrough_paths GET /v1/foo/x to the gw block"},
		{"PUT", "/v1/saved", vk, 200, ""},
		{"PUT", "/v1/saved", file, 403, "provider file"},
		{"DELETE", "/v1/models/m", own, 200, ""},
		{"PATCH", "/v1/foo/x", own, 200, ""},
	} {
		headers := []string{"x-gw-api-key: " + key, c.to}
		if c.to == own {
			headers = append(headers, "authorization: Bearer sk-own", "x-gw-custom-host: "+up.URL+"/v1")
		}
		before := len(up.Calls())
		a := g.Do(c.method, c.path, "", headers...)
		sent := len(up.Calls()) - before
		if a.Status != c.status || (sent == 1) != (c.status == 200) || !strings.Contains(a.Get("error.message").Str, c.says) || c.status == 403 && a.Get("error.code").Str != "path_not_allowed" {
			t.Errorf("%s %s, %s: %d %s, sent %d", c.method, c.path, c.to, a.Status, a.Body, sent)
		}
	}
}
