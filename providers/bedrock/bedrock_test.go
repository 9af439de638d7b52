package bedrock

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/caddy-gw/gateway/providers"
)

const ask = `{"model":"anthropic.claude-x-v1:0","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`

func TestWhatBedrockHasNoLikeOfIsRefused(t *testing.T) {
	p := provider()
	for _, endpoint := range []string{
		"createFinetune", "listFinetunes", "listChatCompletions", "getModelResponse", "imageGenerate", "createSpeech", "createTranscription", "realtime", "assistants",
		providers.Complete, providers.Moderate, providers.Rerank, providers.OCR,
	} {
		_, err := p.Prepare(newCall(t, endpoint, ask))
		var refusal *providers.RequestError
		if !errors.As(err, &refusal) || refusal.Code != "endpoint_not_supported" {
			t.Errorf("%s: got %v", endpoint, err)
		}
	}
}

func TestAModelIsOneSegmentOfThePath(t *testing.T) {
	for model, want := range map[string]string{
		"anthropic.claude-x-v1:0": "/model/anthropic.claude-x-v1%3A0/converse",
		"a/b":                     "/model/a%2Fb/converse",
		"a%2Fb":                   "/model/a%2Fb/converse",
		"ü b?#":                   "/model/%C3%BC%20b%3F%23/converse",
		"..":                      "",
		"":                        "",
	} {
		c := newCall(t, providers.ChatComplete, `{"messages":[]}`)
		c.Model = model
		p := provider()
		r, err := p.Prepare(c)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: sent to %s", model, r.URL)
		case want != "" && (err != nil || r.URL.EscapedPath() != want || r.URL.RequestURI() != want):
			t.Errorf("%q: got %v, %v, want %s", model, r, err, want)
		}
	}
}

func TestTheBetasOfAHeaderGoInTheBody(t *testing.T) {
	for endpoint, want := range map[string]string{
		providers.ChatComplete: `"additionalModelRequestFields":{"anthropic_beta":["own","a-1","b-2","c-3"]}`,
		providers.Messages:     `"anthropic_beta":["own","a-1","b-2","c-3"]`,
	} {
		c := newCall(t, endpoint, `{"anthropic_beta":["own"],`+ask[1:])
		c.Header = words{"Anthropic-Beta": "a-1, b-2"}.get
		c.Setting = func(name string) string {
			if name == "anthropic_beta" {
				return "c-3"
			}
			return keys[name]
		}
		r := prepare(t, c)
		if !strings.Contains(string(r.Body), want) {
			t.Errorf("%s: got %s", endpoint, r.Body)
		}
		if v, there := r.Header["Anthropic-Beta"]; !there || len(v) > 0 {
			t.Errorf("%s: the header goes on as %v", endpoint, v)
		}
	}
}

func TestAFailureIsNamedByItsHeader(t *testing.T) {
	for _, c := range []struct {
		status       int
		header, body string
		want         providers.Failure
	}{
		{429, "ThrottlingException", `{"message":"Too many requests"}`, providers.Failure{Message: "Too many requests", Type: "rate_limit_error", Code: "ThrottlingException"}},
		{400, "ValidationException:http://internal.amazon.com/coral/com.amazon.coral.validate/", `{"message":"bad"}`, providers.Failure{Message: "bad", Type: "invalid_request_error", Code: "ValidationException"}},
		{403, "", `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}`, providers.Failure{Message: "no", Type: "permission_error", Code: "AccessDeniedException"}},
		{403, "UnrecognizedClientException", `{"message":"The security token included in the request is invalid."}`, providers.Failure{Message: "The security token included in the request is invalid.", Type: "authentication_error", Code: "UnrecognizedClientException"}},
		{408, "ModelTimeoutException", `{"message":"late"}`, providers.Failure{Message: "late", Type: "timeout_error", Code: "ModelTimeoutException"}},
		{503, "ServiceUnavailableException", `{"message":"later"}`, providers.Failure{Message: "later", Type: "overloaded_error", Code: "ServiceUnavailableException"}},
		{500, "NewException", ``, providers.Failure{Message: "The provider answered 500 Internal Server Error", Type: "api_error", Code: "NewException"}},
		{502, "", `<html><title>Bad</title></html>`, providers.Failure{Message: "Bad"}},
	} {
		h := http.Header{}
		if c.header != "" {
			h.Set("x-amzn-ErrorType", c.header)
		}
		if got := *readFailure(c.status, h, []byte(c.body)); got != c.want {
			t.Errorf("%d %s: got %+v, want %+v", c.status, c.header, got, c.want)
		}
	}
}

func TestADamagedStreamEndsInAnError(t *testing.T) {
	good := frame(t, "messageStart", []byte(`{"role":"assistant"}`))
	damaged := func(at int) []byte {
		b := slices.Clone(good)
		b[at] ^= 1
		return b
	}
	long := slices.Clone(good)
	copy(long, "\x7f\xff\xff\xff")
	for name, b := range map[string][]byte{
		"length": damaged(3), "its checksum": damaged(9), "header": damaged(14), "payload": damaged(len(good) - 6), "checksum": damaged(len(good) - 1),
		"far too long": long, "events as text": []byte("data: {\"a\":1}\n\ndata: [DONE]\n\n"), "half": good[:len(good)/2],
	} {
		for dialect, s := range streams(t) {
			if got := translate(s, b, 5); !strings.Contains(got, "error: ") || strings.Contains(got, "[DONE]") {
				t.Errorf("%s, %s: got %s", dialect, name, got)
			}
		}
	}
}

func TestAMessageOfTypeErrorIsAFailure(t *testing.T) {
	var f Framer
	got := ""
	yield := func(name string, data []byte) error {
		got += fmt.Sprintf("%s %s\n", name, data)
		return nil
	}
	var m eventstream.Message // everything stands in headers
	m.Headers.Set(":message-type", eventstream.StringValue("error"))
	m.Headers.Set(":error-code", eventstream.StringValue("InternalError"))
	m.Headers.Set(":error-message", eventstream.StringValue("An internal server error occurred"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	if err := f.Push(b.Bytes(), yield); err != nil || got != failed+"InternalError An internal server error occurred\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if e := failureEvent("InternalError", []byte("An internal server error occurred")); e.Name.Text() != "api_error" || e.Text.Text() != "An internal server error occurred" {
		t.Errorf("got %s, %s", e.Name, e.Text)
	}
}

func TestModelsAreListedByTheControlPlane(t *testing.T) {
	c := newCall(t, providers.ListModels, "")
	c.Method, c.Path, c.Body = http.MethodGet, "/models", nil
	r := prepare(t, c)
	if got := r.URL.String(); got != "https://bedrock.us-east-1.amazonaws.com/foundation-models" {
		t.Errorf("asked at %s", got)
	}
	out, err := r.Answer.Body(nil, []byte(`{"modelSummaries":[{"modelArn":"arn:x","modelId":"amazon.nova-pro-v1:0","providerName":"Amazon"},{"modelName":"?"}]}`), nil)
	const want = `{"object":"list","data":[{"id":"amazon.nova-pro-v1:0","object":"model","created":0,"owned_by":"Amazon"}]}`
	if err != nil || string(out) != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
}

func TestASettingTellsTheModelBehindAnARN(t *testing.T) {
	const arn = "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc"
	for endpoint, want := range map[string]string{
		providers.Messages:    "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fabc/invoke",
		providers.CountTokens: "/model/anthropic.claude-x-v1%3A0/count-tokens",
	} {
		c := newCall(t, endpoint, `{"model":"`+arn+`","max_tokens":1,"messages":[]}`)
		c.Setting = func(name string) string {
			if name == "aws_bedrock_model" {
				return "us.anthropic.claude-x-v1:0"
			}
			return keys[name]
		}
		if got := prepare(t, c).URL.EscapedPath(); got != want {
			t.Errorf("%s: sent to %s, want %s", endpoint, got, want)
		}
	}
}

func TestBase64MayHaveEscapedSlashes(t *testing.T) {
	s := streams(t)
	got := translate(s["messages"], frame(t, "chunk", []byte(`{"bytes":"eyJ0eXBlIjoibWVzc2FnZV9zdG9wIiwieCI6Ij8\/Pz8\/In0="}`)), 7)
	if want := "event: message_stop\ndata: {\"type\":\"message_stop\",\"x\":\"?????\"}\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
