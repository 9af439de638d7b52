package handlers_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// testAccount is a service account without an address and a token server.
func testAccount(t *testing.T) map[string]string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"type": "service_account", "project_id": "own-project",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
}

// A service account buys a token once, which goes to the models in its place.
func TestAServiceAccountBecomesATokenAndIsNeverSent(t *testing.T) {
	bank := gatewaytest.NewUpstream(t, respond(http.StatusOK, `{"access_token":"ya29.bought","token_type":"Bearer","expires_in":3600}`))
	models := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ":streamGenerateContent") {
			stream("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]}}]}\r\n\r\n",
				"data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":2,\"totalTokenCount\":5}}\r\n\r\n")(w, r)
			return
		}
		respond(http.StatusOK, `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}`)(w, r)
	})
	account := testAccount(t)
	account["client_email"], account["token_uri"] = "a@example.com", bank.URL+"/token"
	text, err := json.Marshal(account)
	if err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, trustLoopback)
	service, _ := g.Key("k")
	ask := func(body string, headers ...string) *gatewaytest.Answer {
		t.Helper()
		return g.Do("POST", "/v1/chat/completions", body, append(headers,
			"x-gw-api-key: "+service, "x-gw-provider: vertex-ai", "x-gw-custom-host: "+models.URL, "x-gw-vertex-region: europe-west4")...)
	}
	const body = `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"Hi"}]}`
	byHeader := "x-gw-vertex-service-account-json: " + string(text)
	for i, a := range []*gatewaytest.Answer{
		ask(body, byHeader),
		ask(strings.Replace(body, `"messages"`, `"stream":true,"messages"`, 1), byHeader),
		ask(body, "authorization: Bearer "+string(text)),
	} {
		if a.Status != http.StatusOK || !strings.Contains(a.Body, "Hi") {
			t.Fatalf("call %d: got %d %s", i, a.Status, a.Body)
		}
		if i == 1 && !strings.HasSuffix(a.Body, "data: [DONE]\n\n") {
			t.Errorf("the stream ends with %q", a.Body)
		}
	}
	for _, call := range models.Calls() {
		if got := call.Header.Get("Authorization"); got != "Bearer ya29.bought" || !strings.HasPrefix(call.Path, "/v1/projects/own-project/locations/europe-west4/publishers/google/models/gemini-2.5-flash:") {
			t.Errorf("the models got %s with %q", call.Path, got)
		}
		if all := fmt.Sprint(call); strings.Contains(all, "PRIVATE KEY") || strings.Contains(all, "a@example.com") {
			t.Errorf("the models got the service account: %s", all)
		}
	}
	if n := len(bank.Calls()); n != 1 {
		t.Errorf("%d tokens were bought, want 1", n)
	}

	elsewhere := strings.Replace(string(text), bank.URL, "http://10.0.0.1", 1)
	a := ask(body, "x-gw-vertex-service-account-json: "+elsewhere)
	if a.Status != http.StatusBadRequest || gjson.Get(a.Body, "error.code").Str != "invalid_token_uri" || strings.Contains(a.Body, "PRIVATE") {
		t.Errorf("a private token server: got %d %s", a.Status, a.Body)
	}
	if logs := g.Logs(); strings.Contains(logs, "ya29.bought") || strings.Contains(logs, "PRIVATE KEY") {
		t.Error("a credential was logged")
	}
}

// Claude on Vertex AI speaks Messages: a caller who does too gets its bytes.
func TestMessagesPassToClaudeOnVertexUntouched(t *testing.T) {
	const whole = `{ "id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`
	const events = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":3}}}\n\n" +
		"event: ping\ndata: {\"type\": \"ping\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	claude := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ":streamRawPredict") {
			stream(events)(w, r)
			return
		}
		respond(http.StatusOK, whole)(w, r)
	})
	g := gatewaytest.Start(t, trustLoopback)
	service, _ := g.Key("k")
	for _, c := range []struct{ path, body, want, upstream, sent string }{
		{
			"/v1/messages", `{"model":"claude-sonnet-4-5@20250929","max_tokens":5, "messages":[]}`, whole,
			"/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
			`{"anthropic_version":"vertex-2023-10-16","max_tokens":5,"messages":[]}`,
		},
		{
			"/v1/messages", `{"model":"claude-sonnet-4-5","stream":true,"messages":[]}`, events,
			"/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5:streamRawPredict",
			`{"anthropic_version":"vertex-2023-10-16","stream":true,"messages":[]}`,
		},
		{
			"/v1/messages/count_tokens", `{"model":"claude-sonnet-4-5","messages":[]}`, whole,
			"/v1/projects/p/locations/global/publishers/anthropic/models/count-tokens:rawPredict",
			`{"model":"claude-sonnet-4-5","anthropic_version":"vertex-2023-10-16","messages":[]}`,
		},
	} {
		a := g.Do("POST", c.path, c.body, "authorization: Bearer ya29.mine", "x-gw-api-key: "+service, "x-gw-provider: vertex-ai",
			"x-gw-custom-host: "+claude.URL, "x-gw-vertex-region: global", "x-gw-vertex-project-id: p")
		if a.Status != http.StatusOK || a.Body != c.want {
			t.Errorf("%s: got %d %s", c.path, a.Status, a.Body)
		}
		if call := claude.Last(t); call.Path != c.upstream || call.Body != c.sent || call.Header.Get("Authorization") != "Bearer ya29.mine" {
			t.Errorf("%s: Claude got %s %s", c.path, call.Path, call.Body)
		}
	}
}
