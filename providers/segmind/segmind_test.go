package segmind

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

func TestImagesAreRequestedOfTheirModel(t *testing.T) {
	c := call(t, "segmind", "sdxl1.0-txt2img", `{"model":"x","prompt":"a \"cat\"","n":2,"size":"512x768","style":"base","steps":25,"seed":7,"user":"u","quality":null,"base64":false,"response_format":"b64_json"}`)
	r, err := c.Provider.Prepare(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"prompt":"a \"cat\"","samples":2,"img_width":512,"img_height":768,"style":"base","num_inference_steps":25,"seed":7,"base64":true}`
	if r.URL.String() != "https://api.segmind.com/v1/sdxl1.0-txt2img" || string(r.Body) != want || r.Header.Get("X-Api-Key") != "KEY" {
		t.Errorf("%s %s %v", r.URL, r.Body, r.Header)
	}
	for answer, want := range map[string]string{
		`{"image":"QQ==","status":"Success"}`: `{"created":1700000000,"data":[{"b64_json":"QQ=="}],"provider":"segmind"}`,
		`{"image":["QQ==","Qg=="]}`:           `{"created":1700000000,"data":[{"b64_json":"QQ=="},{"b64_json":"Qg=="}],"provider":"segmind"}`,
		`{"status":"Success"}`:                "",
		`not JSON`:                            "",
	} {
		out, err := r.Answer.Body([]byte("x"), []byte(answer), nil)
		if failure := new(providers.Failure); want == "" && !errors.As(err, &failure) || want != "" && (err != nil || string(out) != "x"+want) {
			t.Errorf("%s: %s, %v", answer, out, err)
		}
	}
}

func TestWhatCannotBeRequestedIsRefused(t *testing.T) {
	for body, param := range map[string]string{
		`{"prompt":"p","n":0}`: "n", `{"prompt":"p","n":1.5}`: "n", `{"prompt":"p","n":"2"}`: "n", `{"prompt":"p","size":"big"}`: "size", `{"prompt":"p","size":"1x-1"}`: "size",
		`{"n":1}`: "prompt", `{"prompt":"p","response_format":"url"}`: "response_format", `{"prompt":"p","stream":true}`: "stream", `{`: "",
	} {
		c := call(t, "segmind", "m", body)
		var refusal *providers.RequestError
		if _, err := c.Provider.Prepare(c); !errors.As(err, &refusal) || refusal.Param != param {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, model := range []string{"", "..", "a/b", strings.Repeat("m", 200)} {
		c := call(t, "segmind", model, `{"prompt":"p"}`)
		var refusal *providers.RequestError
		if _, err := c.Provider.Prepare(c); !errors.As(err, &refusal) || refusal.Param != "model" {
			t.Errorf("%s: %v", model, err)
		}
	}
	c := call(t, "segmind", "m", `{"messages":[]}`)
	c.Endpoint = providers.ChatComplete
	if err := c.Provider.Check(c); err == nil {
		t.Error("it serves conversations")
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
