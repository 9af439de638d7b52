// Package segmind provides the image models of Segmind, each of which has a path of its own.
package segmind

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/images"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(providers.Provider{
		Name: "segmind", BaseURL: "https://api.segmind.com/v1", PassOnly: true, NoStreamUsage: true,
		Auth:      providers.KeyHeader("X-Api-Key"),
		Endpoints: map[string]providers.Endpoint{images.Generate: generate},
	})
}

// names are those of Segmind for members that others call differently.
var names = map[string]string{"steps": "num_inference_steps"}

func generate(c *providers.Call) (*providers.Request, error) {
	asked, err := images.Parse(c)
	if err != nil {
		return nil, err
	}
	var b jsonscan.Builder
	b.Open('{')
	b.Key("prompt").Text(asked.Prompt)
	if asked.N > 0 {
		b.Key("samples").Int(asked.N)
	}
	if asked.Width > 0 {
		b.Key("img_width").Int(asked.Width)
		b.Key("img_height").Int(asked.Height)
	}
	if asked.Style != "" {
		b.Key("style").Text(asked.Style)
	}
	for _, m := range asked.Others {
		name := m.Name
		if other := names[name]; other != "" {
			name = other
		}
		if name != "base64" {
			b.Key(name).Raw([]byte(m.Value.Raw))
		}
	}
	b.Key("base64").Bool(true) // or else the answer is the image itself
	b.Close('}')
	return &providers.Request{
		URL: providers.URL(c.Base, "/"+providers.Escape(c.Model), ""), Body: b,
		Answer: images.Answer(c, func(answer gjson.Result) (list []string, err error) {
			for _, image := range images.List(answer.Get("image")) {
				list = append(list, image.Str)
			}
			return list, nil
		}),
	}, nil
}
