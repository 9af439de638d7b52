package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// No secret shows anywhere but where it belongs: with debug logs and access logs
// on, through successes, refusals and faults of every handler.
func TestSecretsShowNowhere(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/embeddings" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(gatewaytest.Completion))
	})
	t.Setenv("CANARY_KEY", "canary-of-the-environment-0123456789")
	g := gatewaytest.Start(t, trustLoopback+"header_prefix x-acme-\nencryption_key canary-encryption-key-0123456789abcdef\n"+
		"provider file {\ntype openai\nbase_url "+up.URL+"/v1\napi_key {env.CANARY_KEY}\nheader X-Extra canary-header-of-the-file\n}\n")
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "canary-of-the-virtual-key", "custom_host": up.URL + "/v1"})
	g.Admin("PUT", "/v1/virtual-keys/vk", map[string]any{"key": "canary-of-the-second-key"})
	policy(g, map[string]any{"value": 8})

	var answers []*gatewaytest.Answer
	do := func(method, path, body string, headers ...string) {
		answers = append(answers, g.Do(method, path, body, headers...))
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/embeddings", "/v1/nope", "/elsewhere"} {
		do("POST", path, gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-virtual-key: vk")
		do("POST", path, gatewaytest.Chat, "x-acme-api-key: "+key, "x-gw-provider: file")
		do("POST", path, gatewaytest.Chat, "authorization: Bearer "+key, "x-gw-provider: file", "x-api-key: canary-in-x-api-key")
		do("POST", path, gatewaytest.Chat, "x-gw-api-key: "+key, "authorization: Bearer canary-of-the-caller", "x-gw-provider: openai", "x-gw-custom-host: "+up.URL)
		do("POST", path, gatewaytest.Chat, "x-gw-api-key: "+key, `x-gw-config: {"api_key":"canary-in-a-config"}`)
		do("POST", path, gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: openai", "x-gw-aws-secret-access-key: canary-of-aws")
		do("POST", path, "[", "x-gw-api-key: "+key+"x", "x-gw-virtual-key: vk")
	}
	do("GET", "/v1/realtime?model=m", "", "sec-websocket-protocol: realtime, openai-insecure-api-key."+key, "x-gw-provider: nobody")
	for _, path := range []string{"/v1/virtual-keys", "/v1/virtual-keys/vk", "/v1/api-keys", "/v2/policies/rate-limits", "/v1/nope"} {
		do("GET", path, "", "x-gw-api-key: "+gatewaytest.OwnerKey)
		do("POST", path, `{"name":1,"key":"canary-in-a-refused-body","provider":{}}`, "authorization: Bearer "+gatewaytest.OwnerKey)
		do("POST", path, `{"key":"canary-in-broken-json`, "x-acme-api-key: "+gatewaytest.OwnerKey)
	}
	secrets := []string{key, gatewaytest.OwnerKey, "canary"}

	logs := g.Logs()
	if strings.Count(logs, `"logger":"http.log.access"`) < len(answers) {
		t.Errorf("%d access log entries for %d answers", strings.Count(logs, `"logger":"http.log.access"`), len(answers))
	}
	if !strings.Contains(logs, "upstream roundtrip") {
		t.Error("debug logs are not on")
	}
	for _, secret := range secrets {
		for line := range strings.Lines(logs) {
			if strings.Contains(line, secret) {
				t.Errorf("%q is in the log: %s", secret, line)
				break
			}
		}
		for _, a := range answers {
			if strings.Contains(a.Body, secret) {
				t.Errorf("%q is in an answer: %s", secret, a.Body)
			}
			for name, values := range a.Header {
				if strings.Contains(strings.Join(values, " "), secret) {
					t.Errorf("%q is in the header %s", secret, name)
				}
			}
		}
		for _, c := range up.Calls() {
			for name, values := range c.Header {
				if v := strings.Join(values, " "); strings.Contains(v, secret) && name != "Authorization" && name != "X-Extra" {
					t.Errorf("the provider got %q in %s", v, name)
				}
			}
			if auth := c.Header.Get("Authorization"); strings.Contains(auth, key) || strings.Contains(auth, gatewaytest.OwnerKey) {
				t.Error("the provider got the service key")
			}
		}
	}
}

func TestAccessLogEntriesKeepTheirFormAndLoggers(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	call(g, key)
	var entry string
	for line := range strings.Lines(g.Logs()) {
		if strings.Contains(line, `"logger":"http.log.access`) && strings.Contains(line, "/v1/chat/completions") {
			if entry != "" {
				t.Fatalf("logged twice: %s", line)
			}
			entry = line
		}
	}
	for _, part := range []string{
		`"msg":"handled request"`, `"remote_ip":"127.0.0.1"`, `"method":"POST"`, `"uri":"/v1/chat/completions"`, `"X-Gw-Api-Key":["REDACTED"]`,
		`"X-Gw-Provider":["file"]`, `"bytes_read":57`, `"status":200`, `"size":`, `"duration":`, `"resp_headers":`,
	} {
		if !strings.Contains(entry, part) {
			t.Errorf("%s is missing in %s", part, entry)
		}
	}
}
