package admin

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
)

// examplesJSON has a body for each operation that has one, by method and path. It is written by the
// tests, which send these bodies.
//
//go:embed examples.json
var examplesJSON []byte

// answersJSON has an answer of each operation that answers in JSON, by method and path, as the tests got
// it.
//
//go:embed answers.json
var answersJSON []byte

// orNull lists members by schema that are an object or null, because huma assumes that
// a referenced object is never null. The tests validate all answers against the
// document.
var orNull = [][2]string{
	{"APIKey", "usage_limits"},
	{"APIKey", "rotation_policy"},
	{"VirtualKey", "usage_limits"},
	{"Provider", "usage_limits"},
	{"Workspace", "defaults"},
	{"Self", "user"},
	{"KeyDetails", "usage_limits"},
	{"KeyDetails", "rotation_policy"},
	{"KeyDetails", "workspace_details"},
}

// describe adds to the OpenAPI document what huma does not know.
func describe(document *huma.OpenAPI) {
	schemas := document.Components.Schemas.Map()
	// Huma adds the schema of its own errors, which this API does not use.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	for _, at := range orNull {
		schema := schemas[at[0]]
		schema.Properties[at[1]] = &huma.Schema{AnyOf: []*huma.Schema{schema.Properties[at[1]], {Type: "null"}}}
	}
	// Huma would check an enum in the schema before calling the handler, whose error
	// message is more helpful.
	for _, name := range []string{"CreateAPIKey", "UpdateAPIKey"} {
		schemas[name].Properties["scopes"].Items.Extensions = map[string]any{"enum": credentials.Scopes()}
	}
	bodies, answers := examples("examples.json", examplesJSON), examples("answers.json", answersJSON)
	for path, item := range document.Paths {
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if operation == nil {
				continue
			}
			name := operation.Method + " " + path
			if operation.RequestBody != nil {
				// Bodies are read as bytes for the audit trail, but they are JSON.
				delete(operation.RequestBody.Content, "application/octet-stream")
				if example := bodies[name]; example != nil {
					operation.RequestBody.Content["application/json"].Example = example
				}
			}
			if example := answers[name]; example != nil {
				operation.Responses["200"].Content["application/json"].Example = example
			}
		}
	}
	describePrompts(document)
	document.Paths["/v1/logs"].Post.Responses["200"].Content = map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}
}

// examples are as they are sent: decoded, they would take memory.
func examples(file string, text []byte) (all map[string]json.RawMessage) {
	if err := json.Unmarshal(text, &all); err != nil {
		panic(file + ": " + err.Error()) // it is part of the program
	}
	return all
}

// describePrompts adds the calls of saved prompts, which the data plane answers.
func describePrompts(document *huma.OpenAPI) {
	object := func(properties map[string]*huma.Schema, required ...string) *huma.Schema {
		s := &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: required, AdditionalProperties: true}
		s.PrecomputeMessages()
		return s
	}
	text, null := &huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: "null"}
	orNone := &huma.Schema{AnyOf: []*huma.Schema{text, null}}
	content := func(s *huma.Schema, example any) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: s, Example: example}}
	}
	refused := &huma.Response{Description: "Refused, by the data plane or a provider", Content: content(
		object(map[string]*huma.Schema{
			"error": object(map[string]*huma.Schema{"message": text, "type": text, "param": orNone, "code": orNone}, "message", "type", "param", "code"),
		}, "error"),
		map[string]any{"status": "failure", "message": "Invalid prompt id", "error": map[string]any{"message": "Invalid prompt id", "type": "invalid_request_error", "param": nil, "code": "invalid_prompt"}},
	)}
	variables := object(map[string]*huma.Schema{
		"variables": {Type: huma.TypeObject, AdditionalProperties: true, Description: "Values of the template's variables."},
		"stream":    {Type: huma.TypeBoolean},
	}, "variables")
	for _, o := range []struct {
		action, summary, scope string
		answer                 map[string]*huma.MediaType
	}{
		{"render", "Render a prompt into the parameters of a call", credentials.ScopeRender, content(object(map[string]*huma.Schema{
			"success": {Type: huma.TypeBoolean},
			"data":    object(map[string]*huma.Schema{"model": text}),
		}, "success", "data"), nil)},
		{"completions", "Call a model with a prompt", credentials.ScopeCompletions, map[string]*huma.MediaType{
			"application/json":  {Schema: object(nil)},
			"text/event-stream": {Schema: text},
		}},
	} {
		document.AddOperation(&huma.Operation{
			OperationID: "POST-v1-prompts-prompt_id-" + o.action, Method: http.MethodPost, Path: "/v1/prompts/{prompt_id}/" + o.action,
			Summary: o.summary, Description: "Needs the scope " + o.scope + ". Parameters of the call stand next to the variables, and take precedence over those of the prompt.", Tags: []string{"prompts"},
			Parameters:  []*huma.Param{{Name: "prompt_id", In: "path", Required: true, Description: "Its slug or id; slug@version for a version or a label.", Schema: text}},
			RequestBody: &huma.RequestBody{Required: true, Content: content(variables, map[string]any{"variables": map[string]any{"name": "Ada"}})},
			Responses:   map[string]*huma.Response{"200": {Description: "OK", Content: o.answer}, "default": refused},
		})
	}
}

// documents are the forms of the OpenAPI document that were requested, by the base path of the API
// and the path below it.
type documents struct {
	mu    sync.Mutex
	forms map[[2]string][]byte
}

// maxDocuments bounds the forms that are kept. A site has one base path, or a few.
const maxDocuments = 32

// documentForms are the media types and the writers of the document, by path.
var documentForms = map[string]struct {
	media string
	write func(*huma.OpenAPI) ([]byte, error)
}{
	"/v1/openapi.json": {"application/openapi+json", (*huma.OpenAPI).MarshalJSON},
	"/v1/openapi.yaml": {"application/openapi+yaml", (*huma.OpenAPI).YAML},
	"/v2/openapi.json": {"application/openapi+json", (*huma.OpenAPI).MarshalJSON},
	"/v2/openapi.yaml": {"application/openapi+yaml", (*huma.OpenAPI).YAML},
}

// serveDocument answers requests for the OpenAPI document, without an API key: it says nothing of
// what is saved.
func (a *API) serveDocument(w http.ResponseWriter, r *http.Request) bool {
	form, ok := documentForms[r.URL.Path]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	base := basePath(r)
	d := a.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	body := d.forms[[2]string{base, r.URL.Path}]
	if body == nil {
		document := *a.huma.OpenAPI()
		document.Servers = []*huma.Server{{URL: base, Description: "The site that serves this document"}}
		var err error
		if body, err = form.write(&document); err != nil {
			writeError(w, r, asError(err))
			return true
		}
		if len(d.forms) >= maxDocuments {
			clear(d.forms)
		}
		d.forms[[2]string{base, r.URL.Path}] = body
	}
	w.Header().Set("Content-Type", form.media)
	_, _ = w.Write(body) // fails only if the client has disconnected
	return true
}

// basePath is the path that the site strips before the API's own, such as "/gw" for handle_path
// /gw/*; "/" if there is none.
func basePath(r *http.Request) string {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || original.URL == nil {
		return "/"
	}
	base, ok := strings.CutSuffix(original.URL.EscapedPath(), r.URL.EscapedPath())
	if !ok || base == "" || len(base) > 256 {
		return "/"
	}
	return base
}
