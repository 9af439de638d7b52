package exchange

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/validation"
)

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// nameOf is the name of the endpoint that serves a request, "" where none does.
func nameOf(method, path string) string {
	if e, _ := EndpointOf(method, path); e != nil {
		return e.Name
	}
	return ""
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "post", "", strings.Repeat("X", 1000)}

// The paths, methods and bodies as clients send them, apart from the table that is tested.
func TestTheTableServesWhatTheInterfaceLists(t *testing.T) {
	t.Parallel()
	type row struct {
		method, path, name string
		body               Body
		table              *validation.Table
		single, done       bool
	}
	want := []row{
		{"POST", "/v1/ocr", "ocr", JSON, validation.OCR, false, false},
		{"POST", "/v1/chat/completions", "chatComplete", JSON, validation.Chat, false, true},
		{"GET", "/v1/chat/completions", "listChatCompletions", None, nil, false, false},
		{"POST", "/v1/responses/input_tokens", "countResponseInputTokens", JSON, nil, false, false},
		{"POST", "/v1/responses/compact", "compactResponse", JSON, nil, false, false},
		{"POST", "/v1/completions", "complete", JSON, validation.Completion, false, true},
		{"POST", "/v1/moderations", "moderate", JSON, validation.Moderation, false, false},
		{"POST", "/v1/embeddings", "embed", JSON, validation.Embedding, false, false},
		{"POST", "/v1/batches", "createBatch", JSON, validation.Batch, true, false},
		{"GET", "/v1/batches", "listBatches", None, nil, true, false},
		{"GET", "/v1/batches/b_1", "retrieveBatch", None, nil, true, false},
		{"GET", "/v1/batches/b_1/output", "getBatchOutput", None, nil, true, false},
		{"POST", "/v1/batches/b_1/cancel", "cancelBatch", None, nil, true, false},
		{"POST", "/v1/fine_tuning/jobs", "createFinetune", JSON, validation.FineTuningJob, true, false},
		{"GET", "/v1/fine_tuning/jobs", "listFinetunes", None, nil, true, false},
		{"GET", "/v1/fine_tuning/jobs/ft-1", "retrieveFinetune", None, nil, true, false},
		{"POST", "/v1/fine_tuning/jobs/ft-1/cancel", "cancelFinetune", None, nil, true, false},
		{"GET", "/v1/fine_tuning/jobs/ft-1/events", "listFinetuneEvents", None, nil, true, false},
		{"GET", "/v1/fine_tuning/jobs/ft-1/checkpoints", "listFinetuneCheckpoints", None, nil, true, false},
		{"POST", "/v1/responses", "createModelResponse", JSON, validation.Response, false, false},
		{"GET", "/v1/responses/resp_1", "getModelResponse", None, nil, false, false},
		{"DELETE", "/v1/responses/resp_1", "deleteModelResponse", None, nil, false, false},
		{"POST", "/v1/responses/resp_1/cancel", "cancelModelResponse", None, nil, false, false},
		{"GET", "/v1/responses/resp_1/input_items", "listResponseInputItems", None, nil, false, false},
		{"POST", "/v1/files", "uploadFile", Stream, nil, true, false},
		{"GET", "/v1/files", "listFiles", None, nil, true, false},
		{"GET", "/v1/files/file-1", "retrieveFile", None, nil, true, false},
		{"GET", "/v1/files/file-1/content", "retrieveFileContent", None, nil, true, false},
		{"DELETE", "/v1/files/file-1", "deleteFile", None, nil, true, false},
		{"POST", "/v1/images/generations", "imageGenerate", JSON, nil, false, false},
		{"POST", "/v1/images/edits", "imageEdit", Any, nil, false, false},
		{"POST", "/v1/audio/speech", "createSpeech", JSON, nil, false, false},
		{"POST", "/v1/audio/transcriptions", "createTranscription", Stream, nil, false, false},
		{"POST", "/v1/audio/translations", "createTranslation", Stream, nil, false, false},
		{"POST", "/v1/rerank", "rerank", JSON, nil, false, false},
		{"POST", "/v1/messages", "messages", JSON, nil, false, false},
		{"POST", "/v1/messages/count_tokens", "messagesCountTokens", JSON, nil, false, false},
		{"GET", "/v1/models", "models", None, nil, false, false},
		{"GET", "/v1/realtime", "realtime", None, nil, false, false},
	}
	if len(want) != len(endpoints) {
		t.Errorf("%d rows in the table, %d known here", len(endpoints), len(want))
	}
	for _, c := range want {
		e, allow := EndpointOf(c.method, c.path)
		if e == nil || allow != nil {
			t.Errorf("%s %s: served by nobody, allowed %v", c.method, c.path, allow)
			continue
		}
		if got := (row{e.Method, c.path, e.Name, e.Body, e.Table, e.Single, e.Done}); got != c {
			t.Errorf("%s %s: got %+v", c.method, c.path, got)
		}
	}
}

// Every row matches its own path, with any ids in it, by its own method, and no
// other row does.
func TestEveryRowServesItsOwnPathAndNoOther(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for i := range endpoints {
		row := &endpoints[i]
		if names[row.Name] {
			t.Errorf("two rows are called %s", row.Name)
		}
		names[row.Name] = true
		for _, id := range []string{"a", "id-1", "file_AbC.9~x", "resp_0123456789abcdef", "ft:gpt-4o:org::1", "a%20b", "%C3%A9", "cancel", "output", "..."} {
			path := placeholder.ReplaceAllLiteralString(row.Path, id)
			if got := nameOf(row.Method, path); got != row.Name && !slices.ContainsFunc(endpoints, func(e Endpoint) bool { return e.Path == path }) {
				t.Errorf("%s %s: got %q, want %s", row.Method, path, got, row.Name)
			}
		}
		// Each method of the path is that of its row, and the others are refused
		// with what would do.
		path := placeholder.ReplaceAllLiteralString(row.Path, "id-1")
		var served []string
		for j := range endpoints {
			if endpoints[j].Path == row.Path {
				served = append(served, endpoints[j].Method)
			}
		}
		for _, method := range methods {
			e, allow := EndpointOf(method, path)
			switch {
			case slices.Contains(served, method):
				if e == nil || e.Method != method || e.Path != row.Path || allow != nil {
					t.Errorf("%s %s: got %+v, %v", method, path, e, allow)
				}
			case e != nil || !slices.Equal(allow, served):
				t.Errorf("%s %s: got %+v, allowed %v, want %v", method, path, e, allow, served)
			}
		}
		// A neighbouring path is not the row's.
		for _, other := range []string{
			path + "/", path + "//", path + "/more", path + "x", "/" + path, path[1:], strings.ToUpper(path), strings.TrimPrefix(path, "/v1"), "/v2" + strings.TrimPrefix(path, "/v1"),
			path + "%2f", path + ";a", path + "?", strings.Replace(path, "/v1/", "/v1//", 1), strings.Replace(path, "/v1/", "/v1/./", 1),
		} {
			if e, _ := EndpointOf(row.Method, other); e != nil && e.Path == row.Path && !isID(row.Path, other) {
				t.Errorf("%s %s: served as %s", row.Method, other, row.Name)
			}
		}
		if !strings.Contains(row.Path, "{") {
			continue
		}
		// An id is one segment that leads nowhere else.
		for _, id := range outlaws {
			path := placeholder.ReplaceAllLiteralString(row.Path, id)
			if e, allow := EndpointOf(row.Method, path); e != nil || allow != nil {
				t.Errorf("%s %s: got %+v, allowed %v", row.Method, path, e, allow)
			}
		}
	}
}

// isID reports whether a changed path only has another id in the row's last segment.
func isID(pattern, path string) bool {
	return strings.HasSuffix(pattern, "}") && strings.Count(pattern, "/") == strings.Count(path, "/") && !strings.HasSuffix(path, "/")
}

// outlaws are segments that could lead elsewhere than below a provider's base URL.
var outlaws = []string{
	"", ".", "..", "%2e", "%2E", "%2e%2e", ".%2e", "%2e.", "%2E%2E", "a%2fb", "a%2Fb", "%2f", "%5c", "a%5Cb", `\`, `a\b`, `..\..`, "%252e", "%25", "a%2500", "%00", "a%00b",
	"%2e%2e%2f", "..%2f..", "..%5c",
}

func TestEverythingElseBelowV1IsPassedThrough(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/v1/chat", "/v1/anything/else", "/v1/a", "/v1/a/b/c/d", "/v1/batches/b_1/other", "/v1/files/f/content/x", "/v1/a:b", "/v1/a%20b", "/v1/%C3%A9", "/v1/...", "/v1/..a", "/v1/a.b",
	} {
		for _, method := range methods {
			e, allow := EndpointOf(method, path)
			switch want := slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method); {
			case want && (e == nil || e.Name != "proxy" || e.Body != Any || e.Table != nil || allow != nil):
				t.Errorf("%s %s: got %+v, %v", method, path, e, allow)
			case !want && (e != nil || !slices.Equal(allow, []string{"GET", "POST", "PUT", "PATCH", "DELETE"})):
				t.Errorf("%s %s: got %+v, %v", method, path, e, allow)
			}
		}
	}
}

func TestNothingIsServedOutsideV1OrAtPathsThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	paths := []string{
		"", "/", "*", "x", "/v1", "/v1/", "/v1//", "//v1/a", "/chat/completions", "/V1/chat/completions", "/v2/chat/completions", "/v1a/b", "/v1/chat/completions/", "/v1/a/", "/v1//a", "/v1/a//b",
		"v1/chat/completions", "/v1/a/../b", "/v1/a/%2e%2e/b", "/v1/batches/%2E%2e/cancel", "/v1/a/%252e", `/v1/a/\b`, `/v1\a`,
	}
	for _, s := range outlaws {
		paths = append(paths, "/v1/"+s, "/v1/a/"+s, "/v1/"+s+"/a", "/v1/a/"+s+"/b")
	}
	for _, path := range paths {
		for _, method := range methods {
			if e, allow := EndpointOf(method, path); e != nil || allow != nil {
				t.Errorf("%s %q: got %+v, %v", method, path, e, allow)
			}
		}
	}
}

// A path that some provider decodes into an endpoint of the table must not pass by
// its rules, its limits and its policies.
func TestAnEndpointInDisguiseIsNotPassedThrough(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/v1/%63hat/completions", "/v1/chat/complet%69ons", "/v1/%65mbeddings", "/v1/batche%73", "/v1/files/f/%63ontent", "/v1/fine%5Ftuning/jobs", "/v1/fine%5ftuning/jobs",
	} {
		if got := nameOf("POST", path); got == "proxy" {
			t.Errorf("%s is passed through", path)
		}
	}
}

func FuzzEndpointOf(f *testing.F) {
	for _, path := range []string{"/v1/chat/completions", "/v1/batches/b_1/cancel", "/v1/a/%2e%2e/b", "/v1/x/", "", "/v1//", `/v1/a\b`} {
		f.Add("POST", path)
		f.Add("GET", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		e, allow := EndpointOf(method, path)
		if e != nil && allow != nil {
			t.Fatalf("%q %q: an endpoint and what would be one", method, path)
		}
		if e == nil {
			return
		}
		if e.Method != "" && e.Method != method || !strings.HasPrefix(path, "/v1/") {
			t.Fatalf("%q %q: served as %s", method, path, e.Name)
		}
		for _, s := range strings.Split(path[1:], "/") {
			if s == "" || s == "." || s == ".." || strings.Contains(s, `\`) {
				t.Fatalf("%q: the segment %q went on", path, s)
			}
		}
		for _, escape := range []string{"%2e", "%2f", "%5c", "%25", "%00"} {
			if strings.Contains(strings.ToLower(path), escape) {
				t.Fatalf("%q: %s went on", path, escape)
			}
		}
	})
}

func TestThePathWithTheSameEndIsNear(t *testing.T) {
	t.Parallel()
	others := []string{"/v1/admin/users", "/v1/admin/workspaces/{id}/users/{user_id}", "/v1/api-keys", "/v1/api-keys/{id}", "/v1/policies/rate-limits", "/v1/virtual-keys"}
	for path, want := range map[string]string{
		"/v1/keys": "/v1/api-keys", "/v1/key": "/v1/api-keys", "/v1/keys/k": "/v1/api-keys/{id}", "/v1/users": "/v1/admin/users", "/v1/limits": "/v1/policies/rate-limits",
		"/v1/generations": "/v1/images/generations", "/v1/speech": "/v1/audio/speech", "/v1/completion": "/v1/completions", "/v1": "", "/v1/": "", "/": "", "/v1/x/y/z": "", "/v2/keys": "",
	} {
		if got := Nearest(path, others...); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// A client adds /v1 to a base URL that has it: that is no path of the provider.
func TestTheVersionTwiceIsNoPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1/v1/messages": "/v1/messages", "/v1/v1/chat/completions": "/v1/chat/completions", "/v1/v1/v1/models": "/v1/models", "/v1/V1/responses/": "/v1/responses",
		"/v1/v1/files/file-1": "/v1/files/{file_id}",
	} {
		for _, method := range []string{"GET", "POST"} {
			if e, allow := EndpointOf(method, path); e != nil || allow != nil {
				t.Errorf("%s %s: %+v, %v", method, path, e, allow)
			}
		}
		if message := NotFound(path).Message; !strings.HasSuffix(message, ", expected "+want) {
			t.Errorf("%s: %s", path, message)
		}
	}
}
