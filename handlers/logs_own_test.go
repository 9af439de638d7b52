package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestOwnRecords(t *testing.T) {
	g := gatewaytest.Start(t, keepBodies)
	key, id := g.Key("k")
	writer := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "w", "scopes": []string{"logs.write"}}).Get("key").Str
	reader := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "r", "scopes": []string{"logs.view"}}).Get("key").Str
	const one = `{"request":{"url":"https://user:canary@models.example.com/v1/chat?key=canary","method":"POST","headers":{"Authorization":"Bearer canary","X-Api-Key":"canary","x-team":"blue"},` +
		`"body":{"model":"own","messages":[]}},"response":{"status":201,"headers":{"set-cookie":"canary","x-y":"z"},"body":{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}},"response_time":1500},` +
		`"metadata":{"trace_id":"own-trace","span_id":"s","span_name":"n","env":"prod"}}`
	post := func(key, body string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/logs", body, "x-gw-api-key: "+key)
	}
	for _, k := range []string{key, writer, gatewaytest.OwnerKey} {
		if a := post(k, strings.Replace(one, "own-trace", "own-"+k[len(k)-6:], 1)); a.Status != 200 || a.Body != "ok" || !strings.HasPrefix(a.Header.Get("content-type"), "text/plain") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if a := post(reader, one); a.Status != 403 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	r := logOf(g, &gatewaytest.Answer{Header: http.Header{"X-Gw-Trace-Id": {"own-" + key[len(key)-6:]}}})
	for path, want := range map[string]any{
		"request.url": "https://models.example.com/v1/chat", "request.method": "POST", "request.headers.x-team": "blue", "request.body.model": "own", "response.status": 201.0,
		"response.headers.x-y": "z", "response.responseTime": 1500.0, "metrics.source": "own", "metrics.ai_model": "own", "metrics.req_units": 3.0, "metrics.res_units": 4.0,
		"metrics.span_id": "s", "metrics.span_name": "n", `metrics.metadata\.key.0`: "env", "metrics.api_key_id": id, "metrics.attempts": 0.0,
	} {
		if got := r.Get(path).Value(); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if strings.Contains(r.Body, "canary") {
		t.Errorf("a credential is in %s", r.Body)
	}
	if a := post(key, "["+one+","+one+"]"); a.Status != 200 || a.Body != "ok" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	eventually(t, "both", func() bool { return g.Admin("GET", "/v1/logs?trace_id=own-trace", nil).Get("total").Int() == 2 })
	for _, c := range []struct{ body, names string }{
		{`{}`, "request: "},
		{`[]`, "body: "},
		{`[{}]`, "[0].request: "},
		{`"x"`, ""},
		{`{"request":{}}`, "response: "},
		{`{"request":{"url":"https://x","body":[]},"response":{"body":{}}}`, "request.body: "},
		{`{"request":{"url":"https://x","body":{}},"response":{}}`, "response.body: "},
		{`{"request":{"body":{}},"response":{"body":{}}}`, "request.url: "},
		{`{"request":{"url":"https://x","method":"get","body":{}},"response":{"body":{}}}`, "request.method: "},
		{`[` + one + `,{"request":{"url":"https://x","body":{}},"response":{"body":{},"status":99}}]`, "[1].response.status: "},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{},"status":"x"}}`, ""},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{},"response_time":-1}}`, "response.response_time: "},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{}},"metadata":{"a":1}}`, ""},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{}},"metadata":{"a":"` + strings.Repeat("x", 129) + `"}}`, "metadata: "},
		{`[` + strings.Repeat(`{"request":{"url":"https://x","body":{}},"response":{"body":{}}},`, 1000) + one + `]`, "body: "},
	} {
		if a := post(key, c.body); a.Status != 400 || !strings.HasPrefix(a.Get("data.message").Str, c.names) {
			t.Errorf("%.100s: %d %s", c.body, a.Status, a.Body)
		}
	}
}
