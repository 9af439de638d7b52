package exchange

import (
	"strings"
	"testing"
)

// called is what OpenAI's, Anthropic's and Mistral's clients, and those that build on them,
// call of the data plane.
const called = `
	GET POST /v1/assistants
	DELETE GET POST /v1/assistants/id-1
	GET POST /v1/batches
	GET /v1/batches/id-1
	POST /v1/batches/id-1/cancel
	GET /v1/batches/id-1/output
	GET POST /v1/chat/completions
	DELETE GET POST /v1/chat/completions/id-1
	GET /v1/chat/completions/id-1/messages
	POST /v1/chatkit/sessions
	POST /v1/chatkit/sessions/id-1/cancel
	GET /v1/chatkit/threads
	DELETE GET /v1/chatkit/threads/id-1
	GET /v1/chatkit/threads/id-1/items
	POST /v1/completions
	GET POST /v1/containers
	DELETE GET /v1/containers/id-1
	GET /v1/containers/id-1/files
	DELETE GET /v1/containers/id-1/files/id-1
	GET /v1/containers/id-1/files/id-1/content
	POST /v1/conversations
	DELETE GET POST /v1/conversations/id-1
	GET POST /v1/conversations/id-1/items
	DELETE GET /v1/conversations/id-1/items/id-1
	POST /v1/embeddings
	GET POST /v1/evals
	DELETE GET POST /v1/evals/id-1
	GET POST /v1/evals/id-1/runs
	DELETE GET POST /v1/evals/id-1/runs/id-1
	GET /v1/evals/id-1/runs/id-1/output_items
	GET /v1/evals/id-1/runs/id-1/output_items/id-1
	GET /v1/files
	DELETE GET /v1/files/id-1
	POST /v1/fim/completions
	POST /v1/fine_tuning/alpha/graders/run
	POST /v1/fine_tuning/alpha/graders/validate
	GET POST /v1/fine_tuning/checkpoints/m-1/permissions
	DELETE /v1/fine_tuning/checkpoints/m-1/permissions/id-1
	GET POST /v1/fine_tuning/jobs
	GET /v1/fine_tuning/jobs/id-1
	POST /v1/fine_tuning/jobs/id-1/cancel
	GET /v1/fine_tuning/jobs/id-1/checkpoints
	GET /v1/fine_tuning/jobs/id-1/events
	POST /v1/images/generations
	POST /v1/messages
	POST /v1/messages/count_tokens
	GET /v1/models
	DELETE GET /v1/models/m-1
	POST /v1/moderations
	POST /v1/ocr
	POST /v1/realtime/calls/id-1/accept
	POST /v1/realtime/calls/id-1/hangup
	POST /v1/realtime/calls/id-1/refer
	POST /v1/realtime/calls/id-1/reject
	POST /v1/realtime/client_secrets
	POST /v1/realtime/sessions
	POST /v1/realtime/transcription_sessions
	POST /v1/responses
	DELETE GET /v1/responses/id-1
	POST /v1/responses/id-1/cancel
	GET /v1/responses/id-1/input_items
	POST /v1/responses/input_tokens
	POST /v1/threads
	DELETE GET POST /v1/threads/id-1
	GET POST /v1/threads/id-1/messages
	DELETE GET POST /v1/threads/id-1/messages/id-1
	GET POST /v1/threads/id-1/runs
	GET POST /v1/threads/id-1/runs/id-1
	POST /v1/threads/id-1/runs/id-1/cancel
	GET /v1/threads/id-1/runs/id-1/steps
	GET /v1/threads/id-1/runs/id-1/steps/id-1
	POST /v1/threads/id-1/runs/id-1/submit_tool_outputs
	POST /v1/threads/runs
	GET POST /v1/vector_stores
	DELETE GET POST /v1/vector_stores/id-1
	POST /v1/vector_stores/id-1/file_batches
	GET /v1/vector_stores/id-1/file_batches/id-1
	POST /v1/vector_stores/id-1/file_batches/id-1/cancel
	GET /v1/vector_stores/id-1/files
	DELETE GET /v1/vector_stores/id-1/files/id-1
	GET POST /v1/videos
	DELETE GET /v1/videos/id-1
	POST /v1/videos/id-1/remix
`

func TestWhatClientsCallHasARow(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(strings.TrimSpace(called)) {
		words := strings.Fields(line)
		for _, method := range words[:len(words)-1] {
			path := words[len(words)-1]
			e, allow := EndpointOf(method, path)
			deletesModel := method == "DELETE" && strings.HasPrefix(path, "/v1/models/")
			if e == nil || (e == &passThrough) != deletesModel {
				t.Errorf("%s %s: got %+v, allowed %v", method, path, e, allow)
			}
		}
	}
}

func TestARowOfAFamilyServesItsPathAlone(t *testing.T) {
	t.Parallel()
	for i := range familyRows {
		row := &familyRows[i]
		path := placeholder.ReplaceAllLiteralString(row.Path, "id-1")
		if e, _ := EndpointOf(row.Method, path); e == nil || e.Name != row.Name || e.Method != row.Method || e.Path != row.Path {
			t.Errorf("%s %s: got %+v", row.Method, row.Path, e)
		}
		for _, other := range []string{path + ";a", path + "%0a", strings.ToUpper(path[:4]) + path[4:]} {
			if e, _ := EndpointOf(row.Method, other); e != nil && !isID(row.Path, other) {
				t.Errorf("%s %s: got %+v", row.Method, other, e)
			}
		}
		if e, _ := EndpointOf("PUT", path); e != &passThrough {
			t.Errorf("PUT %s: got %+v", path, e)
		}
	}
}
