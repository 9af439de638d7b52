// Package stability provides the image models of Stability AI: the engines of its first API, and core, ultra and the
// models of Stable Diffusion 3 of the second one, which takes forms.
package stability

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/images"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(providers.Provider{
		Name: "stability-ai", BaseURL: "https://api.stability.ai", PassOnly: true, NoStreamUsage: true,
		Endpoints: map[string]providers.Endpoint{images.Generate: generate},
		Headers: map[string]string{
			"stability_client_id": "Stability-Client-Id", "stability_client_user_id": "Stability-Client-User-Id", "stability_client_version": "Stability-Client-Version",
		},
	})
}

// generate requests images of a model.
func generate(c *providers.Call) (*providers.Request, error) {
	asked, err := images.Parse(c)
	if err != nil {
		return nil, err
	}
	answer := images.Answer(c, read)
	accept := http.Header{"Accept": {"application/json"}} // or else the answer is the image itself
	switch name := c.Model; {
	case strings.HasPrefix(name, "stable-diffusion-"):
		accept["Content-Type"] = []string{"application/json"}
		return &providers.Request{URL: providers.VersionedURL(c.Base, "/v1/generation/"+providers.Escape(name)+"/text-to-image", ""), Header: accept, Body: engine(asked), Answer: answer}, nil
	case name != "core" && name != "ultra" && !strings.HasPrefix(name, "sd3"):
		return nil, &providers.RequestError{Param: "model", Code: "unsupported_model", Message: "Invalid 'model': expected core, ultra, a model such as sd3.5-large, or an engine such as stable-diffusion-xl-1024-v1-0"}
	}
	for param, given := range map[string]bool{"n": asked.N > 1, "size": asked.Width > 0} {
		if given {
			return nil, &providers.RequestError{Param: param, Code: "unsupported_parameter", Message: "Invalid '" + param + "': " + c.Model + " makes one image a call, of the size that aspect_ratio says"}
		}
	}
	body, media, err := form(asked, c.Model, "gateway-"+c.NewID())
	if err != nil {
		return nil, err
	}
	path := c.Model
	if strings.HasPrefix(path, "sd3") {
		path = "sd3"
	}
	accept["Content-Type"] = []string{media}
	return &providers.Request{URL: providers.VersionedURL(c.Base, "/v2beta/stable-image/generate/"+path, ""), Header: accept, Body: body, Answer: answer}, nil
}

// engine writes the request of the first API.
func engine(asked *images.Request) []byte {
	var b jsonscan.Builder
	b.Open('{')
	b.Key("text_prompts").Open('[')
	b.Open('{')
	b.Key("text").Text(asked.Prompt)
	b.Close('}')
	b.Close(']')
	if asked.N > 0 {
		b.Key("samples").Int(asked.N)
	}
	if asked.Width > 0 {
		b.Key("width").Int(asked.Width)
		b.Key("height").Int(asked.Height)
	}
	if asked.Style != "" {
		b.Key("style_preset").Text(asked.Style)
	}
	for _, m := range asked.Others {
		if m.Name != "text_prompts" {
			b.Key(m.Name).Raw([]byte(m.Value.Raw))
		}
	}
	b.Close('}')
	return b
}

// form writes the request of the second API.
func form(asked *images.Request, model, boundary string) (body []byte, media string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	err = w.SetBoundary(boundary)
	put := func(name, value string) {
		if err == nil {
			err = w.WriteField(name, value)
		}
	}
	put("prompt", asked.Prompt)
	if strings.HasPrefix(model, "sd3") && model != "sd3" {
		put("model", model)
	}
	if asked.Style != "" {
		put("style_preset", asked.Style)
	}
	for _, m := range asked.Others {
		if m.Name != "prompt" && m.Name != "model" {
			put(m.Name, m.Value.String())
		}
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), w.FormDataContentType(), err
}

// read returns the images of an answer of either API.
func read(answer gjson.Result) (list []string, err error) {
	all := images.List(answer.Get("artifacts"))
	if one := answer.Get("image"); one.Exists() {
		all = []gjson.Result{answer}
	}
	for _, a := range all {
		if a.Get("finishReason").Str == "CONTENT_FILTERED" || a.Get("finish_reason").Str == "CONTENT_FILTERED" {
			return nil, &providers.Failure{Message: "The image was filtered", Type: "invalid_request_error", Code: "content_filter"}
		}
		image := a.Get("base64").Str
		if image == "" {
			image = a.Get("image").Str
		}
		list = append(list, image)
	}
	return list, nil
}
