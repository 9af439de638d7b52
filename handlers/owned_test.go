package handlers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A vault is a provider that keeps objects: what is sent to a path of a collection makes
// one, whatever it is.
type vault struct {
	mu      sync.Mutex
	made    int
	objects map[string][]string // ids by collection, the latest last
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	id, collection := "", ""
	for _, c := range collections {
		if rest, ok := strings.CutPrefix(path, c.path); ok && (rest == "" || rest[0] == '/') && len(c.path) > len(collection) {
			collection = c.path
			id, _, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		}
	}
	switch ids := v.objects[collection]; {
	case r.Method == "POST" && id == "":
		v.made++
		id = fmt.Sprintf("%s-%d", strings.ReplaceAll(collection, "/", "_"), v.made)
		v.objects[collection] = append(ids, id)
		fmt.Fprintf(w, `{"id":%q,"object":"x","choices":[],"thread_id":%[1]q}`, id)
	case r.Method == "GET" && id == "":
		v.list(w, r, ids)
	case collection == "responses" && (id == "compact" || id == "input_tokens"):
		fmt.Fprint(w, `{"id":"none"}`)
	case !slices.Contains(ids, id):
		http.Error(w, `{"error":{"message":"none","type":"invalid_request_error"}}`, http.StatusNotFound)
	case r.Method == "DELETE" && strings.HasSuffix(path, id):
		v.objects[collection] = slices.DeleteFunc(ids, func(s string) bool { return s == id })
		fmt.Fprintf(w, `{"id":%q,"deleted":true}`, id)
	default:
		fmt.Fprintf(w, `{"id":%q}`, id)
	}
}

// list answers with a page, the latest first.
func (v *vault) list(w http.ResponseWriter, r *http.Request, ids []string) {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	if after := r.URL.Query().Get("after"); after != "" {
		ids = ids[slices.Index(ids, after)+1:]
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit == 0 {
		limit = 20
	}
	page := struct {
		Object  string              `json:"object"`
		Data    []map[string]string `json:"data"`
		FirstID *string             `json:"first_id"`
		LastID  *string             `json:"last_id"`
		HasMore bool                `json:"has_more"`
	}{"list", []map[string]string{}, nil, nil, len(ids) > limit}
	ids = ids[:min(len(ids), limit)]
	for _, id := range ids {
		page.Data = append(page.Data, map[string]string{"id": id})
	}
	if len(ids) > 0 {
		page.FirstID, page.LastID = &ids[0], &ids[len(ids)-1]
	}
	_ = json.NewEncoder(w).Encode(page)
}

// A collection is how objects of a kind are made, and what is done with one.
type collection struct {
	path, body string
	lists      bool
	on         string // methods and paths below the object
}

var collections = []collection{
	{"files", "", true, "GET,GET /content,DELETE"},
	{"batches", `{"input_file_id":"$file","endpoint":"/v1/chat/completions","completion_window":"24h"}`, true, "GET,GET /output,POST /cancel"},
	{"fine_tuning/jobs", `{"model":"m","training_file":"$file"}`, true, "GET,POST /cancel,POST /pause,GET /events,GET /checkpoints"},
	{"chat/completions", `{"model":"m","store":true,"messages":[{"role":"user","content":"hi"}]}`, true, "GET,POST,GET /messages,DELETE"},
	{"responses", `{"model":"m","input":"hi"}`, false, "GET,POST /cancel,GET /input_items,DELETE"},
	{"assistants", `{"model":"m"}`, true, "GET,POST,DELETE"},
	{"threads", `{}`, false, "GET,POST,GET /messages,POST /messages,GET /messages/m,POST /runs,GET /runs/r,POST /runs/r/cancel,DELETE"},
	{"threads/runs", `{"assistant_id":"$assistant"}`, false, ""},
	{"vector_stores", `{}`, true, "GET,POST,POST /search,GET /files,POST /files,GET /files/f,DELETE /files/f,POST /file_batches,DELETE"},
	{"containers", `{"name":"c"}`, true, "GET,GET /files,GET /files/f,GET /files/f/content,DELETE"},
	{"conversations", `{}`, false, "GET,POST,GET /items,POST /items,DELETE /items/i,DELETE"},
	{"evals", `{"name":"e"}`, true, "GET,POST,GET /runs,POST /runs,GET /runs/r/output_items,DELETE"},
	{"uploads", `{"purpose":"assistants"}`, false, "POST /cancel,POST /complete"},
	{"videos", `{"prompt":"p"}`, true, "GET,GET /content,POST /remix,DELETE"},
	{"videos/characters", `{}`, false, "GET"},
	{"skills", `{}`, true, "GET,POST,GET /content,GET /versions,POST /versions,DELETE /versions/1,DELETE"},
	{"chatkit/sessions", `{}`, false, "POST /cancel"},
}

// workspaces is a gateway with a vault, and the keys of two workspaces.
func workspaces(t *testing.T) (g *gatewaytest.Gateway, up *gatewaytest.Upstream, keys [2]string) {
	t.Helper()
	v := &vault{objects: make(map[string][]string)}
	up = gatewaytest.NewUpstream(t, v.ServeHTTP)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "key"), []byte("sk"), 0o600); err != nil {
		t.Fatal(err)
	}
	g = gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\nsecrets file {\nroot "+root+"\n}\n"+up.Provider("file"))
	keys = twoWorkspaces(g)
	g.Admin("POST", "/v1/secret-references", map[string]any{"name": "n", "slug": "secret", "manager_type": "file", "secret_path": "key", "auth_config": map[string]any{}})
	g.Admin("POST", "/v1/integrations", map[string]any{"name": "shared", "slug": "shared", "ai_provider_id": "openai", "key": "sk", "configurations": map[string]any{"custom_host": up.URL + "/v1"}})
	g.Admin("PUT", "/v1/integrations/shared/workspaces", map[string]any{"workspaces": []any{map[string]any{"id": "first", "enabled": true}, map[string]any{"id": "second", "enabled": true}}})
	for _, name := range []string{"first", "second"} {
		g.Admin("POST", "/v1/virtual-keys", map[string]any{
			"name": name, "slug": "secret-" + name, "provider": "openai", "custom_host": up.URL + "/v1", "workspace_id": g.Admin("GET", "/v1/admin/workspaces/"+name, nil).Get("id").Str,
			"secret_mappings": []any{map[string]any{"target_field": "key", "secret_reference_id": "secret"}},
		})
		g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": name, "slug": "vk-" + name, "provider": "openai", "key": "sk", "custom_host": up.URL + "/v1", "workspace_id": g.Admin("GET", "/v1/admin/workspaces/"+name, nil).Get("id").Str})
	}
	return g, up, keys
}

// twoWorkspaces makes the workspaces first and second, and a key for each.
func twoWorkspaces(g *gatewaytest.Gateway) (keys [2]string) {
	for i, name := range []string{"first", "second"} {
		w := g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": name, "slug": name}).Get("id").Str
		keys[i] = g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": name, "workspace_id": w, "scopes": []string{"completions.write"}}).Get("key").Str
	}
	return keys
}

const uploaded = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n"

func TestObjectsAreTheirWorkspacesAlone(t *testing.T) {
	for name, slugs := range map[string][2]string{
		"a provider of the Caddyfile": {"file", "file"},
		"an integration":              {"shared", "shared"},
		"a secret reference":          {"secret-first", "secret-second"},
	} {
		t.Run(name, func(t *testing.T) {
			objectsAreTheirWorkspacesAlone(t, slugs)
		})
	}
}

// objectsAreTheirWorkspacesAlone tries it with providers of two workspaces that have one credential.
func objectsAreTheirWorkspacesAlone(t *testing.T, slugs [2]string) {
	g, up, keys := workspaces(t)
	to := [2]string{"x-gw-provider: @" + slugs[0], "x-gw-provider: @" + slugs[1]}
	do := func(who int, method, path, body, to string, more ...string) *gatewaytest.Answer {
		t.Helper()
		headers := append([]string{"x-gw-api-key: " + keys[who], to}, more...)
		if method == "POST" && path == "/v1/files" {
			return g.Do(method, path, uploaded, append(headers, "content-type:", "content-type: multipart/form-data; boundary=b")...)
		}
		return g.Do(method, path, body, headers...)
	}
	list := func(who int, path, to string) (ids []string) {
		t.Helper()
		a := do(who, "GET", path, "", to)
		for _, item := range a.Get("data").Array() {
			ids = append(ids, item.Get("id").Str)
		}
		if n := len(ids); a.Status != 200 || n > 0 && (a.Get("first_id").Str != ids[0] || a.Get("last_id").Str != ids[n-1]) {
			t.Errorf("GET %s: %d %s", path, a.Status, a.Body)
		}
		return ids
	}
	refused := func(a *gatewaytest.Answer) bool {
		code := a.Get("error.code").Str
		return a.Status == 404 && (code == "object_not_found" || code == "response_not_found") && a.Get("status").Str == "failure"
	}
	var files, assistants [2]string
	for who := range keys {
		files[who] = do(who, "POST", "/v1/files", "", to[who]).Get("id").Str
		assistants[who] = do(who, "POST", "/v1/assistants", `{"model":"m"}`, to[who]).Get("id").Str
	}
	for _, c := range collections {
		path := "/v1/" + c.path
		filled := func(who int) string {
			return strings.NewReplacer("$file", files[who], "$assistant", assistants[who]).Replace(c.body)
		}
		made := do(0, "POST", path, filled(0), to[0])
		id := made.Get("id").Str
		if made.Status != 200 || id == "" {
			t.Errorf("POST %s: %d %s", path, made.Status, made.Body)
			continue
		}
		if filled(0) != c.body {
			before := len(up.Calls())
			if a := do(1, "POST", path, filled(0), to[1]); !refused(a) || len(up.Calls()) != before {
				t.Errorf("POST %s with what another made: %d %s", path, a.Status, a.Body)
			}
		}
		others := do(1, "POST", path, filled(1), to[1]).Get("id").Str
		if c.lists {
			if ids := list(0, path, to[0]); !slices.Contains(ids, id) || slices.Contains(ids, others) {
				t.Errorf("GET %s: %v has not %s alone", path, ids, id)
			}
			if ids := list(1, path, to[1]); slices.Contains(ids, id) || !slices.Contains(ids, others) {
				t.Errorf("GET %s: %v has not %s alone", path, ids, others)
			}
			for who, vk := range []string{"vk-first", "vk-second"} {
				if ids := list(who, path, "x-gw-virtual-key: "+vk); !slices.Contains(ids, id) || !slices.Contains(ids, others) {
					t.Errorf("GET %s with a key of the workspace's own: %v has not all", path, ids)
				}
			}
			if a := do(1, "GET", path+"?after="+id, "", to[1]); !refused(a) {
				t.Errorf("GET %s after what another made: %d %s", path, a.Status, a.Body)
			}
		}
		for on := range strings.SplitSeq(c.on, ",") {
			method, below, _ := strings.Cut(on, " ")
			if method == "" {
				continue
			}
			if c.path == "vector_stores" && strings.HasPrefix(below, "/files/f") {
				if a := do(0, method, path+"/"+id+strings.Replace(below, "/files/f", "/files/"+files[1], 1), "", to[0]); !refused(a) {
					t.Errorf("%s %s/%s%s with the file of another: %d %s", method, path, id, below, a.Status, a.Body)
				}
				below = "/files/" + files[0] + strings.TrimPrefix(below, "/files/f")
			}
			body := ""
			if method == "POST" {
				body = `{}`
			}
			for _, spelled := range []string{id, id + ";a", id + "%3Ba", "none"} {
				before := len(up.Calls())
				if a := do(1, method, path+"/"+spelled+below, body, to[1]); !refused(a) || len(up.Calls()) != before {
					t.Errorf("%s %s/%s%s of another: %d %s", method, path, spelled, below, a.Status, a.Body)
				}
			}
			if a := do(1, method, path+"/"+id+below, body, `x-gw-config: {"provider":"@`+slugs[1]+`","retry":{"attempts":1}}`); !refused(a) {
				t.Errorf("%s %s/…%s of another, by a config: %d %s", method, path, below, a.Status, a.Body)
			}
			if below == "/output" { // of which there is none
				continue
			}
			if method == "GET" {
				if a := do(1, method, path+"/"+id+below, body, "x-gw-provider: openai", "authorization: Bearer sk-own", "x-gw-custom-host: "+up.URL+"/v1"); a.Status != 200 {
					t.Errorf("%s %s/%s%s with a credential of the caller's own: %d %s", method, path, id, below, a.Status, a.Body)
				}
			}
			if a := do(0, method, path+"/"+id+below, body, to[0]); a.Status != 200 {
				t.Errorf("%s %s/%s%s of its own: %d %s", method, path, id, below, a.Status, a.Body)
			}
			if method == "DELETE" && below == "" {
				if a := do(0, method, path+"/"+id, "", to[0]); !refused(a) {
					t.Errorf("DELETE %s/%s, which is gone: %d %s", path, id, a.Status, a.Body)
				}
			}
		}
	}
}

func TestBodiesNameObjectsOfTheirWorkspaceAlone(t *testing.T) {
	g, up, keys := workspaces(t)
	post := func(who int, path, body string, headers ...string) *gatewaytest.Answer {
		return g.Do("POST", path, body, append([]string{"x-gw-api-key: " + keys[who], "x-gw-provider: file"}, headers...)...)
	}
	form := []string{"content-type:", "content-type: multipart/form-data; boundary=b"}
	file := post(0, "/v1/files", uploaded, form...).Get("id").Str
	response := post(0, "/v1/responses", `{"model":"m","input":"hi"}`).Get("id").Str
	thread := post(0, "/v1/threads/runs", `{}`).Get("thread_id").Str
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"` + file + `"}}]}]}`},
		{"/v1/responses", `{"model":"m","input":"hi","previous_response_id":"` + response + `"}`},
		{"/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"` + response + `"}]}`},
		{"/v1/responses", `{"model":"m","input":[{"type":"image_generation_call","id":"` + response + `"}]}`},
		{"/v1/responses", `{"model":"m","prompt":{"id":"` + response + `"}}`},
		{"/v1/responses/input_tokens", `{"model":"m","input":"hi","previous_response_id":"` + response + `"}`},
		{"/v1/responses/compact", `{"model":"m","previous_response_id":"` + response + `"}`},
		{"/v1/images/edits", `{"model":"m","images":[{"file_id":"` + file + `"}]}`},
		{"/v1/batches", `{"input_file_id":"` + file + `","endpoint":"/v1/embeddings","completion_window":"24h"}`},
		{"/v1/vector_stores", `{"file_ids":["` + file + `"]}`},
		{"/v1/assistants", `{"model":"m","tool_resources":{"code_interpreter":{"file\u005fids":["` + file + `"]}}}`},
		{"/v1/chatkit/sessions", `{"x":[{"y":{"thread_id":"` + thread + `"}}]}`},
	} {
		before := len(up.Calls())
		if a := post(1, c.path, c.body); a.Status != 404 || len(up.Calls()) != before {
			t.Errorf("POST %s %s: %d %s", c.path, c.body, a.Status, a.Body)
		}
		if a := post(0, c.path, c.body); a.Status != 200 {
			t.Errorf("POST %s %s of its own: %d %s", c.path, c.body, a.Status, a.Body)
		}
	}
	for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"} {
		if a := post(1, "/v1/vector_stores", "{}", "content-type:", "content-type: "+contentType); a.Status != 400 || a.Get("error.code").Str != "body_unread" {
			t.Errorf("a body that is not read: %d %s", a.Status, a.Body)
		}
	}
	field := func(name, value string) string {
		return strings.Replace(uploaded, "--b--", "--b\r\nContent-Disposition: form-data; name=\""+name+"\"\r\n\r\n"+value+"\r\n--b--", 1)
	}
	for _, c := range []struct{ name, value string }{
		{"file_id", file}, {"File_IDs[]", file}, {"input_reference", `{"file_id":"` + file + `"}`}, {"video[id]", file},
	} {
		if a := post(1, "/v1/videos", field(c.name, c.value), form...); a.Status != 404 || a.Get("error.code").Str != "object_not_found" {
			t.Errorf("a form with %s: %d %s", c.name, a.Status, a.Body)
		}
		if a := post(0, "/v1/videos", field(c.name, c.value), form...); a.Status != 200 || up.Last(t).Body != field(c.name, c.value) {
			t.Errorf("a form with %s of its own: %d %s", c.name, a.Status, a.Body)
		}
	}
	if a := post(1, "/v1/videos", strings.Replace(field("file_id", "eA=="), "\"file_id\"", "\"file_id\"\r\nContent-Transfer-Encoding: base64", 1), form...); a.Status != 400 || a.Get("error.code").Str != "invalid_form" {
		t.Errorf("a field that is encoded: %d %s", a.Status, a.Body)
	}
	if a := post(1, "/v1/evals", `{"data_source_config":{"type":"stored_completions"}}`); a.Status != 400 || a.Get("error.code").Str != "shared_credential" {
		t.Errorf("a query for all: %d %s", a.Status, a.Body)
	}
	eval := post(1, "/v1/evals", `{"name":"e"}`).Get("id").Str
	mine := post(1, "/v1/files", uploaded, form...).Get("id").Str
	for _, c := range []struct{ path, body, code string }{
		{"/v1/evals/" + eval + "/runs", `{"data_source":{"type":"completions","source":{"type":"stored_completions","metadata":{"a":"b"}}}}`, "shared_credential"},
		{"/v1/evals/" + eval + "/runs", `{"data_source":{"type":"responses","source":{"type":"responses","created_after":1}}}`, "shared_credential"},
		{"/v1/evals/" + eval + "/runs", `{"data_source":{"type":"jsonl","source":{"type":"file_id","id":"` + file + `"}}}`, "object_not_found"},
		{"/v1/evals/" + eval + "/runs", `{"data_source":{"type":"responses","source":{"type":"file_content","content":[{"item":{"x":[{"role":"user","content":[{"type":"input_file","file_id":"` + file + `"}]}]}}]},"input_messages":{"type":"item_reference","item_reference":"item.x"}}}`, "object_not_found"},
		{"/v1/evals/" + eval + "/runs", `{"data_source":{"type":"responses","source":{"type":"file_content","content":[{"item":{"file_id":"any"}}]}}}`, ""},
		{"/v1/evals/" + eval + "/runs", `{"data_source":{"type":"jsonl","source":{"type":"file_id","id":"` + mine + `"}}}`, ""},
		{"/v1/fine_tuning/jobs", `{"model":"m","training_file":"` + mine + `","integrations":[{"type":"wandb","wandb":{"project":"p"}}]}`, "shared_credential"},
		{"/v1/fine_tuning/jobs", `{"model":"m","training_file":"` + mine + `"}`, ""},
	} {
		// The forms that broke off above may reach the provider late.
		sent := func() (n int) {
			for _, call := range up.Calls() {
				if call.Path == c.path {
					n++
				}
			}
			return n
		}
		before := sent()
		if a := post(1, c.path, c.body); a.Get("error.code").Str != c.code || (a.Status == 200) != (c.code == "") || (sent() != before) != (c.code == "") {
			t.Errorf("POST %s %s: %d %s, and %d calls of the provider", c.path, c.body, a.Status, a.Body, sent()-before)
		}
	}
}

// A batch is made of a file whose lines name objects of its workspace alone, which is seen as the
// file is uploaded.
func TestLinesOfBatchesNameObjectsOfTheirWorkspaceAlone(t *testing.T) {
	g, up, keys := workspaces(t)
	post := func(who int, path, body string, headers ...string) *gatewaytest.Answer {
		return g.Do("POST", path, body, append([]string{"x-gw-api-key: " + keys[who], "x-gw-provider: file"}, headers...)...)
	}
	upload := func(who int, content string) string {
		t.Helper()
		a := post(who, "/v1/files", strings.Replace(uploaded, "\r\n\r\nx\r\n", "\r\n\r\n"+content+"\r\n", 1), "content-type:", "content-type: multipart/form-data; boundary=b")
		if a.Status != 200 || !strings.Contains(up.Last(t).Body, content) {
			t.Fatalf("upload of %q: %d %s", content, a.Status, a.Body)
		}
		return a.Get("id").Str
	}
	batch := func(who int, file string) *gatewaytest.Answer {
		return post(who, "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/responses","completion_window":"24h"}`)
	}
	response := post(0, "/v1/responses", `{"model":"m","input":"hi"}`).Get("id").Str
	for line, own := range map[string]int{
		`{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"m","input":"hi"}}`:                                                       200,
		`{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"m","previous_response_id":"` + response + `","input":"hi"}}`:             200,
		`{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"m","input":[{"type":"image_generation_call","id":"` + response + `"}]}}`: 200,
		`{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"ft:m:of-nobody","input":"hi"}}`:                                          400,
		`{"custom_id":"1","method":"POST","url":"/v1/responses","body":{"model":"m","x":NaN,"previous_response_id":"` + response + `"}}`:                  400,
	} {
		if a := batch(0, upload(0, line)); a.Status != own || own == 400 && a.Get("error.code").Str != "file_unread" {
			t.Errorf("its own %s: %d %s", line, a.Status, a.Body)
		}
		want := 400
		if !strings.Contains(line, response) && own == 200 {
			want = 200
		}
		file := upload(1, line)
		before := len(up.Calls())
		if a := batch(1, file); a.Status != want || want == 400 && (a.Get("error.code").Str != "file_unread" || a.Get("error.param").Str != "input_file_id" || len(up.Calls()) != before) {
			t.Errorf("another's %s: %d %s", line, a.Status, a.Body)
		}
	}
	// The parts of an upload are not read as lines.
	upload1 := post(0, "/v1/uploads", `{"purpose":"batch"}`).Get("id").Str
	post(0, "/v1/uploads/"+upload1+"/complete", `{}`)
	if a := batch(0, upload1); a.Status != 400 || a.Get("error.code").Str != "file_unread" {
		t.Errorf("an upload in parts: %d %s", a.Status, a.Body)
	}
}

// The first page of a workspace is what is its own, however much of others comes before.
func TestAListGoesOnToWhatIsTheWorkspacesOwn(t *testing.T) {
	g, up, keys := workspaces(t)
	post := func(who int) string {
		return g.Do("POST", "/v1/vector_stores", `{}`, "x-gw-api-key: "+keys[who], "x-gw-provider: file").Get("id").Str
	}
	get := func(who int, query string) *gatewaytest.Answer {
		return g.Do("GET", "/v1/vector_stores"+query, "", "x-gw-api-key: "+keys[who], "x-gw-provider: file")
	}
	oldest, old := post(0), post(0)
	for range 45 {
		post(1)
	}
	newest := post(0)
	var got []string
	for query := "?limit=1"; ; {
		a := get(0, query)
		if a.Status != 200 || len(a.Get("data").Array()) > 1 {
			t.Fatalf("%s: %d %s", query, a.Status, a.Body)
		}
		for _, item := range a.Get("data").Array() {
			got = append(got, item.Get("id").Str)
		}
		if !a.Get("has_more").Bool() || len(got) > 3 {
			break
		}
		query = "?limit=1&after=" + a.Get("last_id").Str
	}
	if !slices.Equal(got, []string{newest, old, oldest}) {
		t.Errorf("got %v", got)
	}
	if n := len(up.Calls()); n > 60 {
		t.Errorf("%d calls", n)
	}
}

// What is made is known to be its workspace's before the caller has its id.
func TestAnObjectIsNotedBeforeItsIDIsGiven(t *testing.T) {
	var answer http.HandlerFunc
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) })
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "second", "slug": "second"})
	ask := func(method, path, body string) int {
		return g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-provider: file").Status
	}
	for _, c := range []struct{ path, body, event, id, then string }{
		{"/v1/responses", `{"model":"m","input":"hi","stream":true}`, `{"type":"response.created","response":{"id":"resp_1"}}`, "resp_1", "/v1/responses/resp_1"},
		{"/v1/responses", `{"model":"m","input":"hi","stream":true}`, `{"type":"response.output_item.added","item":{"container_id":"cntr_1"}}`, "cntr_1", "/v1/containers/cntr_1"},
		{"/v1/threads/runs", `{"stream":true}`, `{"object":"thread","id":"thread_1"}`, "thread_1", "/v1/threads/thread_1"},
		{"/v1/chat/completions", `{"model":"m","store":true,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, `{"id":"chatcmpl-1","choices":[]}`, "chatcmpl-1", "/v1/chat/completions/chatcmpl-1"},
	} {
		over := make(chan struct{})
		answer = func(w http.ResponseWriter, r *http.Request) {
			stream("data: "+c.event+"\n\n")(w, r)
			<-over
		}
		res, err := g.Send(func() *http.Request {
			return g.Request("POST", c.path, c.body, "x-gw-api-key: "+key, "x-gw-provider: file")
		})
		if err != nil {
			t.Fatal(err)
		}
		var seen strings.Builder
		for b := make([]byte, 512); !strings.Contains(seen.String(), c.id); {
			n, err := res.Body.Read(b)
			seen.Write(b[:n])
			if err != nil {
				t.Fatalf("%s: %v after %q", c.path, err, seen.String())
			}
		}
		answer = respond(200, `{}`)
		if status := ask("GET", c.then, ""); status != 200 {
			t.Errorf("%s while the stream goes on: %d", c.then, status)
		}
		close(over)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	answer = respond(200, `{"id":"chatcmpl-2","choices":[{}]}`)
	ask("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if status := ask("GET", "/v1/chat/completions/chatcmpl-2", ""); status != 404 {
		t.Errorf("what was not to be stored: %d", status)
	}
	answer = respond(200, `{"id":"batch_1","output_file_id":"file-out"}`)
	ask("POST", "/v1/batches", `{"input_file_id":"x","endpoint":"/v1/embeddings","completion_window":"24h"}`)
	if gjson.Get(up.Last(t).Body, "input_file_id").Str == "x" {
		t.Error("a file that nobody made was used")
	}
}
