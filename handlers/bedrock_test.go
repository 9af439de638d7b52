package handlers_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// frame is a message of a stream of AWS's: an event, or an exception.
func frame(t *testing.T, kind, name, payload string) []byte {
	t.Helper()
	var m eventstream.Message
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Payload = []byte(payload)
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBedrockAnswersThroughTheGatewayAndFallsBackBeforeOutput(t *testing.T) {
	start := frame(t, "event", "messageStart", `{"role":"assistant"}`)
	hello := frame(t, "event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hello"}}`)
	stop := frame(t, "event", "messageStop", `{"stopReason":"end_turn"}`)
	usage := frame(t, "event", "metadata", `{"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}`)
	throttled := frame(t, "exception", "throttlingException", `{"message":"Too many requests"}`)
	var answer [][]byte
	aws := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		w.Header().Set("X-Amzn-Requestid", "req-1")
		for _, message := range answer {
			_, _ = w.Write(message)
			w.(http.Flusher).Flush()
		}
	})
	good := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, goodStream)
	})
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+good.Provider("good"))
	key, _ := g.Key("k")
	config := fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"bedrock","custom_host":%q,"aws_access_key_id":"AKID","aws_secret_access_key":"s","aws_region":"us-east-1"},{"provider":"@good"}]}`, aws.URL)
	for _, c := range []struct {
		name, want string
		not        string
		answer     [][]byte
	}{
		{"a stream", `"id":"req-1"`, "good", [][]byte{start, hello, stop, usage}},
		{"an exception first", "good", "req-1", [][]byte{throttled}},
		{"an exception before output", "good", "req-1", [][]byte{start, throttled}},
		{"an exception after output", `"type":"rate_limit_error"`, "good", [][]byte{start, hello, throttled}},
		{"a damaged stream", "good", "req-1", [][]byte{start[:20], hello}},
	} {
		answer = c.answer
		body := `{"model":"anthropic.claude-x-v1:0","stream":true,"messages":[{"role":"user","content":"hi"}]}`
		a := g.Do("POST", "/v1/chat/completions", body, "x-gw-api-key: "+key, "x-gw-config: "+config)
		if a.Status != 200 || !strings.Contains(a.Body, c.want) || strings.Contains(a.Body, c.not) {
			t.Errorf("%s: %d %s", c.name, a.Status, a.Body)
		}
		sent := aws.Last(t)
		if !strings.HasPrefix(sent.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKID/") || sent.Header.Get("X-Amz-Date") == "" {
			t.Errorf("%s: not signed: %v", c.name, sent.Header)
		}
		if sent.Path != "/model/anthropic.claude-x-v1:0/converse-stream" {
			t.Errorf("%s: sent to %s", c.name, sent.Path)
		}
	}
}
