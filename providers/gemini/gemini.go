// Package gemini provides Google's Gemini: the dialect of its models, which Vertex AI uses
// too, and the provider that is used with an API key.
package gemini

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(providers.Provider{
		Name:    "google",
		Limits:  &chat.Limits{ToolName: 64, NeedsUser: true},
		BaseURL: "https://generativelanguage.googleapis.com",
		// As a query parameter, which the API also accepts, the key would end up in logs.
		Auth: providers.KeyHeader("X-Goog-Api-Key"),
		Dialect: &providers.Dialect{
			Request: request,
			Decoder: NewDecoder,
			Failure: Failure,
		},
		Endpoints: map[string]providers.Endpoint{
			providers.Embed:       embed,
			providers.ListModels:  models,
			providers.CountTokens: countTokens,
		},
	})
}

func request(c *providers.Call, r *chat.Request) (*providers.Request, error) {
	path, err := modelPath(c)
	if err != nil {
		return nil, err
	}
	body, err := Append(make([]byte, 0, r.SizeHint(len(c.Body))), r, OptionsOf(path.name))
	return &providers.Request{URL: URL(c.Base, path.below(), r.Stream), Body: body}, err
}

// URL returns the URL at which a model generates, given its path.
func URL(base *url.URL, path string, stream bool) *url.URL {
	if stream {
		return providers.VersionedURL(base, path+":streamGenerateContent", "alt=sse") // without it, the stream is one JSON array
	}
	return providers.VersionedURL(base, path+":generateContent", "")
}

// A path is the name of a model as the API has it.
type path struct{ kind, name string }

// modelPath returns the path of the call's model, which may be given as models/x or
// tunedModels/x.
func modelPath(c *providers.Call) (path, error) {
	p := path{"models", strings.TrimPrefix(c.Model, "models/")}
	if tuned, ok := strings.CutPrefix(p.name, "tunedModels/"); ok {
		p = path{"tunedModels", tuned}
	}
	return p, Named(p.name)
}

func (p path) resource() string { return p.kind + "/" + p.name }

// below returns the path below the base URL.
func (p path) below() string { return "/v1beta/" + p.kind + "/" + providers.Escape(p.name) }

// OptionsOf returns the options for a model. From the third generation on, calls have ids.
func OptionsOf(model string) Options { return Options{Model: model, IDs: hasLevels(model)} }

// Named returns an error if the call's model cannot be a path segment.
func Named(model string) error {
	if model == "" || model == "." || model == ".." {
		return &providers.RequestError{Param: "model", Code: "invalid_model", Message: "Invalid model: expected the name of one, such as gemini-2.5-flash"}
	}
	return nil
}

// hasLevels reports whether a model is of the third generation or later. Those have
// thinking levels and ids of calls. A name without a number, such as gemini-flash-latest,
// is taken to be the latest model's.
func hasLevels(model string) bool {
	rest, ok := strings.CutPrefix(model, "gemini-")
	if !ok {
		return false
	}
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n == 0 {
		return strings.HasSuffix(model, "-latest")
	}
	return n > 1 || rest[0] >= '3'
}

// Failure reads an error answer. Its type is Google's name of the status, and its code the
// reason, if there is one: API_KEY_INVALID has status 400.
func Failure(status int, h http.Header, body []byte) *providers.Failure {
	f := providers.ReadFailure(status, h, body)
	f.Code = f.Type
	r := jsonscan.NewReader(body)
	read := func() {
		r.Object(func(key jsonscan.Key) {
			if !key.Is("error") {
				return
			}
			r.Object(func(key jsonscan.Key) {
				if !key.Is("details") {
					return
				}
				r.Array(func() {
					r.Object(func(key jsonscan.Key) {
						if key.Is("reason") {
							if reason := chat.Literal(r.String()); !reason.Empty() {
								f.Code = reason.Text()
							}
						}
					})
				})
			})
		})
	}
	if r.Kind() == jsonscan.Array {
		r.Array(read)
	} else {
		read()
	}
	return f
}
