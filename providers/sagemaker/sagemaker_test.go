package sagemaker

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

func call(settings map[string]string, key, endpoint, path string) *providers.Call {
	p, _ := providers.Lookup("sagemaker")
	return &providers.Call{
		Provider: p, Endpoint: endpoint, Method: http.MethodPost, Path: path, Body: []byte(`{"inputs":"Hi"}`), Key: credentials.NewSecret(key),
		Base:    &url.URL{Scheme: "https", Host: "runtime.sagemaker.eu-west-1.amazonaws.com"},
		Setting: func(name string) string { return settings[name] }, Header: func(string) string { return "" },
		Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), NewID: func() string { return "id" },
	}
}

func TestCallsPassThroughSignedWithTheHeadersOfTheirSettings(t *testing.T) {
	c := call(map[string]string{
		"aws_region": "eu-west-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "sk", "amzn_sagemaker_target_model": "m.tar.gz", "amzn_sagemaker_session_id": "NEW_SESSION",
	}, "", providers.Proxy, "/endpoints/e/invocations")
	r, err := c.Provider.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.URL.String(); got != "https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/e/invocations" || r.Body != nil || r.Answer != nil {
		t.Errorf("%s, %s", got, r.Body)
	}
	if got := r.Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKID/20260102/eu-west-1/sagemaker/aws4_request, ") {
		t.Errorf("%s", got)
	}
	if r.Header.Get("X-Amzn-Sagemaker-Target-Model") != "m.tar.gz" || r.Header.Get("X-Amzn-Sagemaker-Session-Id") != "NEW_SESSION" || r.Header.Get("X-Amzn-Sagemaker-Inference-Id") != "" {
		t.Errorf("%v", r.Header)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	settings := map[string]string{"aws_region": "eu-west-1", "aws_access_key_id": "AKID"}
	for _, endpoint := range []string{providers.ChatComplete, providers.Messages, providers.CreateResponse, providers.CountTokens, providers.Embed, providers.ListModels, "imageGenerate"} {
		c := call(settings, "sk", endpoint, "/x")
		var refusal *providers.RequestError
		if _, err := c.Provider.Prepare(c); !errors.As(err, &refusal) || refusal.Code != providers.NotSupported || c.Provider.Support(endpoint) != providers.Refused || c.Provider.Adapts(endpoint) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	c := call(map[string]string{"aws_region": "eu-west-1"}, "a-bedrock-key", providers.Proxy, "/endpoints/e/invocations")
	if _, err := c.Provider.Prepare(c); err == nil {
		t.Error("a key that cannot sign is sent")
	}
	for path, stored := range map[string]bool{
		"/v1/endpoints/e/invocations": true, "/v1/endpoints/e/invocations-response-stream": true, "/v1/endpoints/e/async-invocations": true,
		"/v1/endpoints": false, "/v1/endpoints/e": false, "/v1/endpoints/e/other": false, "/v1/endpoints/e/invocations/x": false,
	} {
		if c.Provider.Passes.Match(http.MethodPost, path) != stored || c.Provider.Passes.Match(http.MethodGet, path) {
			t.Errorf("%s", path)
		}
	}
}
