package handlers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-gw/gateway/internal/exchange"
)

func accessLogOf(t testing.TB) *accessLog {
	t.Helper()
	headers, err := exchange.NewHeaders([]string{"x-acme-"})
	if err != nil {
		t.Fatal(err)
	}
	return &accessLog{headers: headers}
}

func loggedCall() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://gw.example.com/v1/chat/completions", nil)
	r.Header = http.Header{
		"User-Agent": {"client/1.0"}, "Accept": {"application/json", "*/*"}, "Authorization": {"Bearer secret"}, "Cookie": {"a=secret"},
		"X-Gw-Api-Key": {"secret"}, "X-Gw-Provider": {"file"}, "X-Acme-Config": {"secret"}, "X-Acme-Trace-Id": {"t"}, "Api-Key": {"secret"},
		"Sec-Websocket-Protocol": {"realtime, openai-insecure-api-key.secret"}, "Empty": {},
		"Ocp-Apim-Subscription-Key": {"secret"}, "X-Functions-Key": {"secret"}, "Private-Token": {"secret"}, "Authentication": {"secret"}, "Helicone-Auth": {"secret"},
		"X-Portkey-Api-Key": {"secret"}, "X-Aws-Secret": {"secret"}, "Referer": {"https://example.com/?k=secret"}, "Idempotency-Key": {"i"},
	}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), nil)
}

func encoded(t testing.TB, v zapcore.ObjectMarshaler) string {
	t.Helper()
	b, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(zapcore.Entry{}, []zapcore.Field{zap.Object("it", v)})
	if err != nil {
		t.Fatal(err)
	}
	return gjson.Get(b.String(), "it").Raw
}

// An entry of the gateway's has what Caddy's has, but for the credentials.
func TestALoggedRequestIsCaddysWithoutCredentials(t *testing.T) {
	l, r := accessLogOf(t), loggedCall()
	got, caddys := gjson.Parse(encoded(t, &entry{log: l, request: *r})), gjson.Parse(encoded(t, caddyhttp.LoggableHTTPRequest{Request: r}))
	if strings.Contains(got.Raw, "secret") {
		t.Errorf("a credential is in %s", got.Raw)
	}
	hidden := map[string]bool{
		"X-Gw-Api-Key": true, "X-Acme-Config": true, "Api-Key": true, "Sec-Websocket-Protocol": true,
		"Ocp-Apim-Subscription-Key": true, "X-Functions-Key": true, "Private-Token": true, "Authentication": true, "Helicone-Auth": true, "X-Portkey-Api-Key": true,
		"X-Aws-Secret": true, "Referer": true,
	}
	caddys.ForEach(func(key, want gjson.Result) bool {
		if key.Str != "headers" && got.Get(key.Str).Raw != want.Raw {
			t.Errorf("%s is %s, want %s", key.Str, got.Get(key.Str).Raw, want.Raw)
		}
		return true
	})
	caddys.Get("headers").ForEach(func(key, want gjson.Result) bool {
		expected := want.Raw
		if hidden[key.Str] {
			expected = `["REDACTED"]`
		}
		if have := got.Get("headers").Get(key.Str).Raw; have != expected {
			t.Errorf("%s is %s, want %s", key.Str, have, expected)
		}
		return true
	})
	if n := len(got.Get("headers").Map()); n != len(r.Header) {
		t.Errorf("%d headers, want %d", n, len(r.Header))
	}
}

// What an entry says of a call it does not say again of the answer.
func TestALoggedAnswerDoesNotRepeatTheCall(t *testing.T) {
	l := accessLogOf(t)
	header := http.Header{
		"Content-Type": {"application/json"}, "X-Gw-Trace-Id": {"t"}, "X-Acme-Trace-Id": {"t"}, "X-Gw-Provider": {"file"}, "X-Gw-Cache-Status": {"MISS"},
		"X-Gw-Last-Used-Option-Index": {"config"}, "X-Gw-Retry-Attempt-Count": {"0"}, "X-Gw-Gateway-Exception": {"true"}, "Set-Cookie": {"secret"},
	}
	want := map[string]string{"Content-Type": `["application/json"]`, "X-Gw-Gateway-Exception": `["true"]`, "Set-Cookie": `["REDACTED"]`}
	got := gjson.Parse(encoded(t, &loggedHeaders{header: header, omits: l.logsField})).Map()
	for name, value := range want {
		if got[name].Raw != value {
			t.Errorf("%s is %s, want %s", name, got[name].Raw, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}

// BenchmarkAccessEntry is what the request of an access log entry costs.
func BenchmarkAccessEntry(b *testing.B) {
	l, r := accessLogOf(b), loggedCall()
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{})
	b.ReportAllocs()
	for b.Loop() {
		if !l.hidesSome(r.Header) {
			b.Fatal("nothing is hidden")
		}
		line, err := encoder.EncodeEntry(zapcore.Entry{}, []zapcore.Field{zap.Object("request", &entry{log: l, request: *r})})
		if err != nil {
			b.Fatal(err)
		}
		line.Free()
	}
}
