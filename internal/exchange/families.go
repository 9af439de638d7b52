package exchange

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

// A family is a kind of objects whose calls go to the provider as they are.
type family struct {
	name string // of its endpoints, as policies name it (condition endpoint_type)
	// model: its calls are answered by a model, even if they name none.
	model bool
	rows  []string // methods and paths below /v1
	// models are members of its bodies, and fields of its forms, in which models stand or
	// which stand for one.
	models []string
}

// families are the objects of OpenAI's API and its like that pass as they are.
var families = []family{
	{"assistants", true, []string{"GET POST /assistants", "GET POST DELETE /assistants/{id}"}, nil},
	{"threads", false, []string{
		"POST /threads", "GET POST DELETE /threads/{id}",
		"GET POST /threads/{id}/messages", "GET POST DELETE /threads/{id}/messages/{message_id}",
	}, nil},
	{"runs", true, []string{"POST /threads/runs", "GET POST /threads/{id}/runs"}, nil},
	{"runs", false, []string{
		"GET POST /threads/{id}/runs/{run_id}", "POST /threads/{id}/runs/{run_id}/cancel", "POST /threads/{id}/runs/{run_id}/submit_tool_outputs",
		"GET /threads/{id}/runs/{run_id}/steps", "GET /threads/{id}/runs/{run_id}/steps/{step_id}",
	}, nil},
	{vectorStores, false, []string{
		"GET POST /vector_stores", "GET POST DELETE /vector_stores/{id}", "POST /vector_stores/{id}/search",
		"GET POST /vector_stores/{id}/files", "GET POST DELETE /vector_stores/{id}/files/{file_id}", "GET /vector_stores/{id}/files/{file_id}/content",
		"POST /vector_stores/{id}/file_batches", "GET /vector_stores/{id}/file_batches/{batch_id}",
		"POST /vector_stores/{id}/file_batches/{batch_id}/cancel", "GET /vector_stores/{id}/file_batches/{batch_id}/files",
	}, nil},
	{"containers", false, []string{
		"GET POST /containers", "GET DELETE /containers/{id}",
		"GET POST /containers/{id}/files", "GET DELETE /containers/{id}/files/{file_id}", "GET /containers/{id}/files/{file_id}/content",
	}, nil},
	{"conversations", false, []string{
		"POST /conversations", "GET POST DELETE /conversations/{id}",
		"GET POST /conversations/{id}/items", "GET DELETE /conversations/{id}/items/{item_id}",
	}, nil},
	{evals, true, []string{
		"GET POST /evals", "GET POST DELETE /evals/{id}", "GET POST /evals/{id}/runs", "GET POST DELETE /evals/{id}/runs/{run_id}",
		"GET /evals/{id}/runs/{run_id}/output_items", "GET /evals/{id}/runs/{run_id}/output_items/{item_id}",
	}, []string{"data_source", "testing_criteria"}},
	{"uploads", false, []string{"POST /uploads", "POST /uploads/{id}/parts", "POST /uploads/{id}/complete", "POST /uploads/{id}/cancel"}, nil},
	{"videos", true, []string{
		"GET POST /videos", "GET DELETE /videos/{id}", "GET /videos/{id}/content", "POST /videos/{id}/remix",
		"POST /videos/edits", "POST /videos/extensions", "POST /videos/characters", "GET /videos/characters/{id}",
	}, nil},
	{"skills", false, []string{
		"GET POST /skills", "GET POST DELETE /skills/{id}", "GET /skills/{id}/content",
		"GET POST /skills/{id}/versions", "GET DELETE /skills/{id}/versions/{version}", "GET /skills/{id}/versions/{version}/content",
	}, nil},
	{"chatkit", true, []string{
		"POST /chatkit/sessions", "POST /chatkit/sessions/{id}/cancel",
		"GET /chatkit/threads", "GET DELETE /chatkit/threads/{id}", "GET /chatkit/threads/{id}/items",
	}, []string{"workflow"}},
	{"storedCompletions", false, []string{"GET POST DELETE /chat/completions/{id}", "GET /chat/completions/{id}/messages"}, nil},
	{"realtimeSessions", true, []string{
		"POST /realtime/sessions", "POST /realtime/transcription_sessions", "POST /realtime/client_secrets", "POST /realtime/calls", "POST /realtime/calls/{id}/accept",
	}, []string{"session", "input_audio_transcription", "transcription", "audio"}},
	{"realtimeCalls", false, []string{"POST /realtime/calls/{id}/hangup", "POST /realtime/calls/{id}/refer", "POST /realtime/calls/{id}/reject"}, nil},
	{"imageVariation", true, []string{"POST /images/variations"}, nil},
	{"graders", true, []string{"POST /fine_tuning/alpha/graders/run", "POST /fine_tuning/alpha/graders/validate"}, []string{"grader"}},
	{"checkpointPermissions", false, []string{
		"GET POST /fine_tuning/checkpoints/{id}/permissions", "DELETE /fine_tuning/checkpoints/{id}/permissions/{permission_id}",
	}, nil},
	{"finetuneControl", false, []string{"POST /fine_tuning/jobs/{id}/pause", "POST /fine_tuning/jobs/{id}/resume"}, nil},
	{"fim", true, []string{"POST /fim/completions"}, nil},
	{RetrieveModel, false, modelRows, nil},
}

// familyRows are the endpoints of the families. A method that no row of a path has is that
// of any other path.
var familyRows = func() (rows []Endpoint) {
	for _, f := range families {
		for _, row := range f.rows {
			words := strings.Fields(row)
			for _, method := range words[:len(words)-1] {
				rows = append(rows, Endpoint{
					Name: f.name, Method: method, Path: "/v1" + words[len(words)-1], Body: Any, NotJSON: true, NoModel: !f.model, Passes: true, Models: f.models,
				})
			}
		}
	}
	return rows
}()

// admitPath refuses a path that is not one of the gateway's endpoints if a stored credential
// would be sent along, unless the operator has allowed that.
func (c *Call) admitPath(route *credentials.Route) *Error {
	method, path := c.request.Method, "/v1"+c.Path
	if c.Endpoint != &passThrough || !route.Stored || route.Passthrough.Match(method, path) {
		return nil
	}
	if p, ok := providers.Lookup(route.Dialect); ok && p.Passes.Match(method, path) {
		return nil
	}
	where := "provider " + route.Provider + " of the Caddyfile"
	switch {
	case route.VirtualKey != "":
		where = "the gw block, for virtual keys"
	case route.Inline: // the credential is the config's
		where = "the gw block, for a virtual key that the config then names"
	}
	return &Error{
		Status: http.StatusForbidden, Type: typePermission, Code: "path_not_allowed",
		Message: method + " " + credentials.Clip(path) + " is none of the gateway's endpoints, and takes no stored credential along: the operator can add passthrough_paths " +
			method + " " + credentials.Clip(path) + " to " + where + "; or send your own credential" + didYouMean(path, c.Gateway.ControlPlane...),
	}
}

// passes reports whether rows are those of families, of which other methods pass, too.
func passes(rows []*Endpoint) bool {
	return slices.ContainsFunc(rows, func(e *Endpoint) bool { return e.Passes })
}
