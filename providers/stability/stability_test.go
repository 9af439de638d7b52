package stability

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/images"
)

func TestImagesAreRequestedOfEitherAPI(t *testing.T) {
	const field = "--gateway-id\r\nContent-Disposition: form-data; name=\"%\"\r\n\r\n"
	form := func(names ...string) string {
		var b strings.Builder
		for _, n := range names {
			name, value, _ := strings.Cut(n, "=")
			b.WriteString(strings.Replace(field, "%", name, 1) + value + "\r\n")
		}
		return b.String() + "--gateway-id--\r\n"
	}
	for _, c := range []struct{ model, body, url, media, sent string }{
		{
			"stable-diffusion-xl-1024-v1-0", `{"prompt":"a cat","n":2,"size":"1024x512","style":"anime","cfg_scale":7}`, "https://api.stability.ai/v1/generation/stable-diffusion-xl-1024-v1-0/text-to-image",
			"application/json", `{"text_prompts":[{"text":"a cat"}],"samples":2,"width":1024,"height":512,"style_preset":"anime","cfg_scale":7}`,
		},
		{"core", `{"prompt":"a cat","n":1,"aspect_ratio":"16:9","seed":7}`, "https://api.stability.ai/v2beta/stable-image/generate/core", "multipart/form-data; boundary=gateway-id", form("prompt=a cat", "aspect_ratio=16:9", "seed=7")},
		{"sd3.5-large", `{"prompt":"a cat","style":"anime"}`, "https://api.stability.ai/v2beta/stable-image/generate/sd3", "multipart/form-data; boundary=gateway-id", form("prompt=a cat", "model=sd3.5-large", "style_preset=anime")},
	} {
		asked := call(t, "stability-ai", c.model, c.body)
		r, err := asked.Provider.Prepare(asked)
		if err != nil {
			t.Errorf("%s: %v", c.model, err)
			continue
		}
		if r.URL.String() != c.url || string(r.Body) != c.sent || r.Header.Get("Content-Type") != c.media || r.Header.Get("Accept") != "application/json" {
			t.Errorf("%s: %s %s %v", c.model, r.URL, r.Body, r.Header)
		}
		if r.Header.Get("Authorization") != "Bearer KEY" || r.Header.Get("Stability-Client-Id") != "app" {
			t.Errorf("%s: %v", c.model, r.Header)
		}
		for answer, want := range map[string]string{
			`{"artifacts":[{"base64":"QQ==","finishReason":"SUCCESS"},{"base64":"Qg=="}]}`: `{"created":1700000000,"data":[{"b64_json":"QQ=="},{"b64_json":"Qg=="}],"provider":"stability-ai"}`,
			`{"image":"QQ==","finish_reason":"SUCCESS","seed":7}`:                          `{"created":1700000000,"data":[{"b64_json":"QQ=="}],"provider":"stability-ai"}`,
			`{"image":"QQ==","finish_reason":"CONTENT_FILTERED"}`:                          "The image was filtered",
			`{"artifacts":[{"base64":"QQ==","finishReason":"CONTENT_FILTERED"}]}`:          "The image was filtered",
			`{}`: "The provider's answer has no images",
		} {
			out, err := r.Answer.Body(nil, []byte(answer), nil)
			if failure := new(providers.Failure); errors.As(err, &failure) {
				out = []byte(failure.Message)
			}
			if string(out) != want {
				t.Errorf("%s: %s, %v", answer, out, err)
			}
		}
	}
	for body, param := range map[string]string{`{"prompt":"p","n":2}`: "n", `{"prompt":"p","size":"512x512"}`: "size"} {
		c := call(t, "stability-ai", "core", body)
		var refusal *providers.RequestError
		if _, err := c.Provider.Prepare(c); !errors.As(err, &refusal) || refusal.Param != param {
			t.Errorf("%s: %v", body, err)
		}
	}
	c := call(t, "stability-ai", "dall-e-3", `{"prompt":"p"}`)
	if _, err := c.Provider.Prepare(c); err == nil || !strings.Contains(err.Error(), "expected core") {
		t.Errorf("another model: %v", err)
	}
}

func call(t *testing.T, provider, model, body string) *providers.Call {
	t.Helper()
	p, _ := providers.Lookup(provider)
	base, err := p.Base(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return &providers.Call{
		Provider: p, Endpoint: images.Generate, Method: http.MethodPost, Path: "/images/generations", Base: base, Model: model, Body: []byte(body), Key: credentials.NewSecret("KEY"),
		Setting: func(name string) string { return map[string]string{"stability_client_id": "app"}[name] }, Header: func(string) string { return "" },
		Now: time.Unix(1700000000, 0), NewID: func() string { return "id" },
	}
}
