// Package vertex provides Vertex AI: models by Google, Anthropic and others in a Google
// Cloud project, each in its publisher's dialect.
package vertex

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/gemini"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

func init() {
	providers.Register(providers.Provider{
		Name:    "vertex-ai",
		Limits:  &chat.Limits{ToolName: 64, User: 256, NoEmail: true, NeedsUser: true},
		BaseURL: "https://{" + settingRegion + "}-aiplatform.googleapis.com",
		Login:   login,
		Auth:    auth,
		Headers: map[string]string{"anthropic_beta": "Anthropic-Beta"},
		Forward: []string{"Anthropic-Beta"},
		Address: func(c *providers.Call, path string) (*url.URL, error) {
			return providers.URL(base(c.Base), path, c.Query), nil
		},
		Dialect: &providers.Dialect{Request: request, Decoder: decoder, Failure: gemini.Failure, Tool: tool},
		Endpoints: map[string]providers.Endpoint{
			providers.Messages:    claude,
			providers.CountTokens: countTokens,
			providers.Embed:       embed,
		},
	})
}

const (
	settingRegion  = "vertex_region"
	settingProject = "vertex_project_id"
	settingAccount = "vertex_service_account_json"

	scope = "https://www.googleapis.com/auth/cloud-platform"

	// anthropicVersion is part of the body of a call to Claude. It replaces the header.
	anthropicVersion = "vertex-2023-10-16"
)

// hosts that are not of the form <region>-aiplatform.googleapis.com
var hosts = map[string]string{
	"global-aiplatform.googleapis.com": "aiplatform.googleapis.com",
	"us-aiplatform.googleapis.com":     "aiplatform.us.rep.googleapis.com",
	"eu-aiplatform.googleapis.com":     "aiplatform.eu.rep.googleapis.com",
}

func base(u *url.URL) *url.URL {
	host, ok := hosts[u.Host]
	if !ok {
		return u
	}
	own := *u
	own.Host = host
	return &own
}

// account returns the service account key of a call, in JSON, or "" if a token is
// configured instead.
func account(c *providers.Call) string {
	if v := c.Setting(settingAccount); v != "" {
		return v
	}
	if key := strings.TrimSpace(c.Key.Reveal()); strings.HasPrefix(key, "{") {
		return key
	}
	return ""
}

func login(c *providers.Call) (*providers.Login, error) {
	a := account(c)
	if a == "" {
		return nil, nil
	}
	return &providers.Login{ServiceAccount: []byte(a), Scopes: []string{scope}}, nil
}

// auth sends a token. A service account key is never sent, only signatures made with it.
func auth(c *providers.Call, h http.Header) error {
	if c.Token.Empty() && account(c) != "" {
		return &providers.RequestError{Param: "x-gw-vertex-service-account-json", Code: "invalid_setting", Message: "The service account gave no token"}
	}
	return providers.Bearer(c, h)
}

var segment = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._:-]*[a-zA-Z0-9])?$`)

// location returns the path of the call's project and region.
func location(c *providers.Call) (string, error) {
	project := c.Setting(settingProject)
	if project == "" {
		project = gjson.Get(account(c), "project_id").Str
	}
	region := c.Setting(settingRegion)
	for _, s := range [][2]string{{settingProject, project}, {settingRegion, region}} {
		switch {
		case s[1] == "":
			return "", c.Provider.Missing(s[0])
		case !segment.MatchString(s[1]):
			return "", &providers.RequestError{
				Param: "x-gw-" + strings.ReplaceAll(s[0], "_", "-"), Code: "invalid_setting", Message: "Invalid " + s[0] + ": expected letters, digits, hyphens and dots",
			}
		}
	}
	return "/v1/projects/" + project + "/locations/" + region, nil
}

// A model is a model of a publisher.
type model struct{ publisher, name string }

const (
	google    = "google"
	anthropic = "anthropic"
	endpoint  = "endpoints" // a tuned model of the project, by its endpoint's id
)

// modelOf parses a model's name: gemini-x, claude-x, publisher/x or publisher.x, or the
// full publishers/publisher/models/x.
func modelOf(name string) model {
	if rest, ok := strings.CutPrefix(name, "publishers/"); ok {
		if publisher, of, ok := strings.Cut(rest, "/models/"); ok {
			return model{publisher, of}
		}
	}
	for _, separator := range []string{"/", "."} {
		publisher, rest, ok := strings.Cut(name, separator)
		// In names such as gemini-2.5-pro, the dot is not a separator.
		if ok && !strings.ContainsAny(publisher, "0123456789") {
			if publisher == "models" {
				break
			}
			return model{publisher, rest}
		}
	}
	name = strings.TrimPrefix(name, "models/")
	if strings.HasPrefix(name, "claude") {
		return model{anthropic, name}
	}
	return model{google, name}
}

// path returns the path of the model in a location.
func (m model) path(location string) string {
	if m.publisher == endpoint {
		return location + "/endpoints/" + providers.Escape(m.name)
	}
	return location + "/publishers/" + providers.Escape(m.publisher) + "/models/" + providers.Escape(m.name)
}

// at returns the model of a call and its path.
func at(c *providers.Call) (model, string, error) {
	m := modelOf(c.Model)
	if err := gemini.Named(m.name); err != nil {
		return m, "", err
	}
	if !segment.MatchString(m.publisher) {
		return m, "", gemini.Named("")
	}
	l, err := location(c)
	return m, m.path(l), err
}

func request(c *providers.Call, r *chat.Request) (*providers.Request, error) {
	m, path, err := at(c)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, 0, r.SizeHint(len(c.Body)))
	switch m.publisher {
	case google, endpoint:
		body, err := gemini.Append(dst, r, gemini.OptionsOf(m.name))
		return &providers.Request{URL: gemini.URL(base(c.Base), path, r.Stream), Body: body}, err
	case anthropic:
		body, err := messages.Append(dst, r, messages.Options{Version: anthropicVersion, NoModel: true, Name: m.name})
		return &providers.Request{URL: rawPredict(c, path, r.Stream), Body: body}, err
	}
	// Other publishers' models share an OpenAI-compatible endpoint.
	l, err := location(c)
	if err != nil {
		return nil, err
	}
	words := new(chat.Encoder)
	if err := words.Check(r); err != nil {
		return nil, err
	}
	named := *r
	named.Model = chat.Quote(m.publisher + "/" + m.name)
	return &providers.Request{
		URL: providers.VersionedURL(base(c.Base), l+"/endpoints/openapi/chat/completions", ""), Body: words.Append(dst, &named),
	}, nil
}

// tool returns the publisher's form of a tool that runs at OpenAI, or nil if it has none.
func tool(c *providers.Call, tool chat.Raw) chat.Raw {
	if m := modelOf(c.Model); m.publisher == anthropic {
		return messages.Tool(m.name, tool)
	}
	return nil
}

func decoder(c *providers.Call) chat.Decoder {
	switch modelOf(c.Model).publisher {
	case google, endpoint:
		return gemini.NewDecoder(c)
	case anthropic:
		return new(messages.Decoder)
	}
	return &chat.OpenAI{NewID: c.NewID}
}

func rawPredict(c *providers.Call, path string, stream bool) *url.URL {
	if stream {
		return providers.VersionedURL(base(c.Base), path+":streamRawPredict", "")
	}
	return providers.VersionedURL(base(c.Base), path+":rawPredict", "")
}

// claude passes a Messages request on to Claude as it is, except for what the API would refuse,
// and that the model is in the path and the version in the body.
func claude(c *providers.Call) (*providers.Request, error) {
	if modelOf(c.Model).publisher != anthropic {
		return nil, nil
	}
	_, path, err := at(c)
	if err != nil {
		return nil, err
	}
	body, names := messages.Pass(c.Body)
	if body, err = versioned(body, ""); err != nil {
		return nil, err
	}
	return &providers.Request{URL: rawPredict(c, path, c.Stream), Body: body, Answer: providers.WithNames(nil, names)}, nil
}

// countTokens counts the tokens of a Messages request: for Claude, whose model is in the body because
// the path is the counter's, and for Gemini.
func countTokens(c *providers.Call) (*providers.Request, error) {
	m, path, err := at(c)
	if err != nil {
		return nil, err
	}
	switch m.publisher {
	case anthropic:
	case google, endpoint:
		return countOfGemini(c, m, path)
	default: // it is estimated
		return nil, nil
	}
	l, err := location(c)
	if err != nil {
		return nil, err
	}
	body, _ := messages.Pass(c.Body)
	if body, err = versioned(body, m.name); err != nil {
		return nil, err
	}
	return &providers.Request{URL: rawPredict(c, model{anthropic, "count-tokens"}.path(l), false), Body: body}, nil
}

// versioned returns a Messages body with the API version, and with the given model, or
// without a model if it is empty. Everything else is unchanged.
func versioned(body []byte, model string) ([]byte, error) {
	b := jsonscan.Builder(make([]byte, 0, len(body)+64))
	b.Open('{')
	if model != "" {
		b.Key("model").Text(model)
	}
	given := false
	var rest jsonscan.Builder
	err := jsonscan.Members(body, func(m jsonscan.Member) error {
		if m.Key.Is("model") {
			return nil
		}
		given = given || m.Key.Is("anthropic_version")
		rest.Raw(jsonscan.AppendQuoted(nil, m.Key.Bytes()))
		rest = append(append(rest, ':'), body[m.Start:m.End]...)
		return nil
	})
	if err != nil {
		return nil, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	if !given {
		b.Key("anthropic_version").Text(anthropicVersion)
	}
	if len(rest) > 0 {
		b.Raw(rest)
	}
	b.Close('}')
	return b, nil
}
