package validation

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// routes are the inference routes whose bodies have a table.
var routes = map[string]*Table{
	"/chat/completions": Chat,
	"/completions":      Completion,
	"/fim/completions":  Unlisted,
	"/moderations":      Moderation,
	"/ocr":              OCR,
	"/responses":        Response,
	"/batches":          Batch,
	"/fine_tuning/jobs": FineTuningJob,
	"/embeddings":       Embedding,
	"/messages":         Unlisted,
	"/rerank":           Unlisted,
}

// What clients send, in short: a body a line, after its route.
func TestBodiesOfClientsAreAccepted(t *testing.T) {
	for line := range strings.Lines(`
/chat/completions {"model":"gpt-4o","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}
/chat/completions {"model":"gpt-4o","stream":false,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}}],"messages":[{"role":"user","content":"hi"}],"tool_choice":"auto"}
/chat/completions {"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"arguments":"{}","name":"f"}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}
/chat/completions {"model":"small","max_tokens":5,"random_seed":7,"safe_prompt":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"any"}
/chat/completions {"model":"o","max_completion_tokens":9,"reasoning_effort":"low","store":true,"metadata":{"a":"b"},"modalities":["text","audio"],"audio":{"voice":"v"},"messages":[{"role":"developer","content":"x"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}],"name":"n"}]}
/completions {"model":"m","prompt":"user:\nhi","stop":["\nuser:"]}
/completions {"model":"m","n":1,"stream":false,"prompt":["hi"]}
/moderations {"input":["a","b"],"model":"omni-moderation-latest"}
/ocr {"model":"m","document":{"type":"document_url","document_url":"https://example.com/a.pdf"},"pages":[0,1],"include_image_base64":true,"image_limit":2,"image_min_size":10,"include_blocks":true}
/ocr {"model":"m","document":{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}}
/ocr {"model":"m","document":{"type":"file","file_id":"6f0f"}}
/responses {"model":"gpt-4o","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true,"include":["x"],"reasoning":{"effort":"low"}}
/batches {"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"k":"v"}}
/fine_tuning/jobs {"model":"gpt-4o-mini","training_file":"file-1","method":{"type":"dpo"},"suffix":"s"}
/embeddings {"model":"e","input":["x","y"],"encoding_format":"base64"}
/messages {"model":"c","max_tokens":10,"system":"s","stream":true,"metadata":{"user_id":"u"},"messages":[{"role":"user","content":"hi"}]}
`) {
		if route, body, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			mustAccept(t, routes[route], body)
		}
	}
}

// Each file of testdata is a client, with a call as it goes over the wire in each member.
func TestCallsOfClientsAreAccepted(t *testing.T) {
	prefix := regexp.MustCompile(`^(/v1|/openai/deployments/[^/]+)`)
	queries := map[string]Query{"/batches": BatchList, "/fine_tuning/jobs": FineTuningJobList, "/responses/resp_1": ResponseGet}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	unseen := maps.Clone(routes)
	delete(unseen, "/rerank") // none of these clients has it
	for _, file := range files {
		client, err := txtar.ParseFile(filepath.Join("testdata", file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file.Name()) != ".txtar" || len(client.Files) == 0 {
			t.Errorf("%s is not an archive of calls", file.Name())
		}
		for _, call := range client.Files {
			t.Run(strings.TrimSuffix(file.Name(), ".txtar")+"/"+call.Name, func(t *testing.T) {
				if filepath.Ext(call.Name) != ".http" {
					t.Fatal("expected a member NAME.http")
				}
				r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(call.Data)))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Fatal(err)
				}
				route := prefix.ReplaceAllString(r.URL.Path, "")
				table, query := routes[route], queries[route]
				switch {
				case r.Method == http.MethodPost && table != nil:
					delete(unseen, route)
					mustAccept(t, table, string(body))
				case r.Method == http.MethodGet && query != nil:
					if fault := CheckQuery(query, r.URL.Query()); fault != nil {
						t.Error(fault)
					}
				default:
					t.Errorf("nothing validates %s %s", r.Method, r.URL.Path)
				}
			})
		}
	}
	if len(unseen) > 0 {
		t.Errorf("no client calls %v", slices.Sorted(maps.Keys(unseen)))
	}
}
