package handlers_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Whatever two workspaces do that share the credential of a provider, with every endpoint: none is
// told of the other's objects, nor changes one, and each has its own.
func TestTwoWorkspacesHaveTheirOwnObjectsAlone(t *testing.T) {
	h := &hoard{objects: make(map[string]*hoarded)}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	up := &gatewaytest.Upstream{Server: server}
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file"))
	s := &sharing{hoard: h, Gateway: g, keys: twoWorkspaces(g)}
	for row := range exchange.Endpoints() {
		if row.Name != exchange.Models && row.Name != exchange.RetrieveModel && row.Path != "/v1/realtime" {
			s.rows = append(s.rows, row)
		}
	}
	for _, who := range []int{0, 1} {
		s.begin(t, who)
	}
	for _, row := range s.rows {
		for _, whose := range []possession{own, others, nobodys} {
			for _, place := range []string{"path", "attached", "body", "query"} {
				s.do(t, step{who: 0, row: row, whose: whose, place: place, member: "file_id"})
			}
		}
		s.do(t, step{who: 1, row: row, place: "path", stream: true})
	}
	rapid.Check(t, func(rt *rapid.T) {
		h.forget()
		for _, who := range []int{0, 1} {
			s.begin(rt, who)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			s.do(rt, step{
				who:    rapid.IntRange(0, 1).Draw(rt, "who"),
				row:    rapid.SampledFrom(s.rows).Draw(rt, "row"),
				whose:  rapid.SampledFrom([]possession{own, own, others, nobodys}).Draw(rt, "whose"),
				place:  rapid.SampledFrom([]string{"path", "path", "attached", "body", "query"}).Draw(rt, "place"),
				member: rapid.SampledFrom(referring).Draw(rt, "member"),
				nested: rapid.IntRange(0, 3).Draw(rt, "nested"),
				stream: rapid.Bool().Draw(rt, "stream"),
			})
		}
	})
	t.Logf("%d steps were served, %d refused", s.served, s.refused)
	if s.served < 200 || s.refused < 200 {
		t.Error("too little happened")
	}
}

// referring are members of bodies, and parameters of queries, that name objects.
var referring = []string{
	"file_id", "file_ids", "input_file_id", "training_file", "assistant_id", "thread_id", "vector_store_ids", "previous_response_id", "response_id",
	"conversation", "container", "container_id", "upload_id", "batch_id", "eval_id", "video_id", "character_id",
	"part_ids",
}

// A possession says whose an object is.
type possession string

const (
	own     possession = "own"
	others  possession = "others"
	nobodys possession = "nobodys"
)

// A step is a call of one workspace that names an object.
type step struct {
	who    int // of the workspaces
	row    *exchange.Endpoint
	whose  possession
	place  string // where it is named: the path, if that has an id, else nowhere; attached, the path of a file in a vector store; body; query
	member string // of the body or query
	nested int    // how deep
	stream bool
}

// sharing is a gateway with two workspaces, and the model of what each may see: the hoard has the
// objects that each step made, and whose they are.
type sharing struct {
	*gatewaytest.Gateway
	hoard           *hoard
	keys            [2]string
	rows            []*exchange.Endpoint
	served, refused int
}

// failing is a test, or a check of a property.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (s *sharing) row(method, path string) *exchange.Endpoint {
	e, _ := exchange.EndpointOf(method, path)
	return e
}

// begin has a workspace make a file, which batches and jobs are made of, and something else.
func (s *sharing) begin(t failing, who int) {
	t.Helper()
	for _, path := range []string{"/v1/files", "/v1/vector_stores", "/v1/responses"} {
		s.do(t, step{who: who, row: s.row("POST", path), place: "path"})
	}
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// bodies are what endpoints need, by their paths below /v1.
var bodies = map[string]string{
	"/chat/completions":      `{"model":"m","store":true,"messages":[{"role":"user","content":"hi"}]}`,
	"/responses":             `{"model":"m","input":"hi"}`,
	"/batches":               `{"input_file_id":"$file","endpoint":"/v1/chat/completions","completion_window":"24h"}`,
	"/fine_tuning/jobs":      `{"model":"m","training_file":"$file"}`,
	"/moderations":           `{"model":"m","input":"hi"}`,
	"/embeddings":            `{"model":"m","input":"hi"}`,
	"/audio/speech":          `{"model":"m","input":"hi","voice":"alloy"}`,
	"/messages":              `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
	"/messages/count_tokens": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
	"/ocr":                   `{"model":"m","document":{"type":"document_url","document_url":"data:text/plain;base64,aGk="}}`,
	"/rerank":                `{"model":"m","query":"q","documents":["d"]}`,
}

// refusals are the codes of errors about objects.
var refusals = []string{"object_not_found", "response_not_found", "shared_credential", "file_unread", "body_unread"}

func (s *sharing) do(t failing, c step) {
	t.Helper()
	h, other := s.hoard, 1-c.who
	id := "none-" + fmt.Sprint(c.row.Method)
	switch c.whose {
	case others:
		id = h.oneOf(other, c.row)
	case nobodys:
	default:
		id = h.oneOf(c.who, c.row)
	}
	form := c.row.Body == exchange.Stream
	path := c.row.Path
	if at := strings.IndexByte(path, '{'); at >= 0 {
		first := id
		if c.place != "path" {
			first = h.oneOf(c.who, c.row)
		}
		path = path[:at] + first + path[at+strings.IndexByte(path[at:], '}')+1:]
		if attached := strings.HasPrefix(path, "/v1/vector_stores/") && strings.Contains(path, "/files/{"); attached && c.place == "attached" {
			path = placeholder.ReplaceAllString(path, id)
		} else if attached {
			path = placeholder.ReplaceAllString(path, h.file(c.who))
		} else if c.place == "attached" {
			id = ""
		}
		path = placeholder.ReplaceAllString(path, "nested")
	} else if c.place == "path" || c.place == "attached" {
		id = ""
	}
	// The fields of a file that is uploaded are not read: its lines are.
	if c.place == "body" && (c.row.Method != "POST" || c.row.Path == "/v1/files") {
		id = ""
	}
	if c.place == "body" && c.member == c.row.Objects.LinesOf && c.whose == own {
		id = h.file(c.who) // of what was read
	}
	query := ""
	switch {
	case id == "":
	case c.place == "query" && c.row.Objects.List && c.nested == 0:
		query = "after=" + id
	case c.place == "query":
		query = c.member + "=" + id
	}
	if c.row.Objects.List {
		query = strings.Trim(query+"&limit=100", "&")
	}
	headers := []string{"x-gw-api-key: " + s.keys[c.who], "x-gw-provider: file"}
	body := ""
	if c.row.Method == "POST" {
		body = cmp.Or(bodies[strings.TrimPrefix(c.row.Path, "/v1")], `{"model":"m","name":"n"}`)
		body = strings.ReplaceAll(body, "$file", h.file(c.who))
		body, _ = sjson.Set(body, "metadata.note", mark(c.who))
		if c.stream && len(c.row.Objects.CreatedInEvents) > 0 {
			body, _ = sjson.Set(body, "stream", true)
		}
		if c.place == "body" && id != "" && !form {
			var named any = id
			if strings.HasSuffix(c.member, "s") {
				named = []string{"", id}
			}
			named = map[string]any{c.member: named}
			for range c.nested {
				named = []any{map[string]any{"x": named}}
			}
			inside, _ := json.Marshal(named)
			if c.nested == 0 {
				body, _ = sjson.SetRaw(body, c.member, gjson.GetBytes(inside, c.member).Raw)
			} else {
				body, _ = sjson.SetRaw(body, "more", string(inside))
			}
		}
	}
	if form {
		body = strings.Replace(uploaded, "\r\n\r\nx\r\n", "\r\n\r\n"+mark(c.who)+"\r\n", 1)
		if c.place == "body" && id != "" {
			body = strings.Replace(body, "--b--", "--b\r\nContent-Disposition: form-data; name=\""+c.member+"\"\r\n\r\n"+id+"\r\n--b--", 1)
		}
		body = strings.Replace(body, "--b--", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--", 1)
		headers = append(headers, "content-type:", "content-type: multipart/form-data; boundary=b")
	}
	if c.row.Method != "POST" {
		body = ""
	}
	target := path
	if query != "" {
		target += "?" + query
	}
	before := h.live(c.who, c.row.Path)
	h.take()
	a := s.Do(c.row.Method, target, body, headers...)
	calls := h.take()
	if c.row.Name == exchange.BatchOutput {
		h.give(-1) // the gateway alone was told of them
	}
	h.give(c.who)
	what := fmt.Sprintf("workspace %d, %s %s %s (%s): %d %s", c.who, c.row.Method, target, body, c.whose, a.Status, a.Body)

	// What the workspace itself named may be repeated.
	shown := a.Body + fmt.Sprint(a.Header)
	for _, theirs := range h.all(other) {
		if theirs != id && strings.Contains(shown, theirs) {
			t.Fatalf("%s\ntells of %s", what, theirs)
		}
		for _, call := range calls {
			if strings.Contains(call, theirs) && (!c.row.Objects.List || theirs == id) {
				t.Fatalf("%s\nthe provider was sent %s", what, call)
			}
		}
	}
	if strings.Contains(shown, mark(other)) {
		t.Fatalf("%s\ntells what the other workspace wrote", what)
	}
	code := a.Get("error.code").Str
	refused := slices.Contains(refusals, code)
	switch {
	case id != "" && c.whose != own && c.whose != "":
		// What a translation drops does not come to the provider.
		if strings.Contains(strings.Join(calls, "\n"), id) || !refused && a.Status < 400 && c.place != "body" {
			t.Fatalf("%s\nis not refused; the provider was sent %q", what, calls)
		}
		s.refused++
		return
	case refused:
		t.Fatalf("%s\nis refused", what)
	}
	s.served++
	if strings.Contains(c.row.Path, "{") && a.Status >= 300 && c.row.Name != exchange.BatchOutput {
		t.Fatalf("%s\nis not served", what)
	}
	if c.row.Objects.List && !strings.Contains(query, "after") {
		var got []string
		for _, item := range a.Get("data").Array() {
			got = append(got, item.Get("id").Str)
		}
		slices.Sort(got)
		if slices.Sort(before); a.Status != 200 || !slices.Equal(got, before) {
			t.Fatalf("%s\nis not the list of %v", what, before)
		}
	}
}

// A hoard is a provider that keeps objects by their ids, as the table of endpoints has them, and
// knows no workspaces. Whatever a request names, its answer tells of.
type hoard struct {
	mu      sync.Mutex
	made    int
	objects map[string]*hoarded
	fresh   []string // ids that were made since the last call of give
	calls   []string
}

// A hoarded is an object. owner is for the test alone.
type hoarded struct {
	path, mark string // of the collection; what who made it wrote
	owner      int
	lines      bool // it is a file that was uploaded whole
}

// mark is what a workspace writes into all that it makes.
func mark(who int) string { return [...]string{"written-by-the-first", "written-by-the-second"}[who] }

var marks = regexp.MustCompile(`written-by-the-\w+`)

func (h *hoard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	text := r.Method + " " + r.URL.RequestURI() + "\n" + string(b)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, text)
	e, _ := exchange.EndpointOf(r.Method, r.URL.Path)
	if e == nil {
		http.Error(w, `{"error":{"message":"no such path"}}`, http.StatusNotFound)
		return
	}
	o := &e.Objects
	wrote := marks.FindString(text)
	var about []string
	for id, object := range h.objects {
		if strings.Contains(text, id) {
			about = append(about, object.mark)
			wrote = cmp.Or(wrote, object.mark)
		}
	}
	if at := strings.IndexByte(e.Path, '{'); at >= 0 && !o.None {
		id, rest, more := strings.Cut(r.URL.Path[at:], "/")
		if h.objects[id] == nil {
			http.Error(w, `{"error":{"message":"`+id+` is not there`+rest+`"}}`, http.StatusNotFound)
			return
		}
		if r.Method == http.MethodDelete && !more {
			delete(h.objects, id)
		}
	}
	answer := `{"object":"x","status":"completed","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`
	set := func(at string, value any) {
		if strings.HasPrefix(at, "[@this]") {
			at, answer = "id", strings.Replace(answer, `"object":"x"`, `"object":"thread"`, 1)
		}
		answer, _ = sjson.Set(answer, strings.ReplaceAll(at, "#", "0"), value)
	}
	set("about", about)
	created, streams := o.Created, gjson.GetBytes(b, "stream").Bool() && len(o.CreatedInEvents) > 0
	if streams {
		created = o.CreatedInEvents[:1]
	}
	if o.StoreParam != "" && !gjson.GetBytes(b, o.StoreParam).Bool() && (!o.StoreDefault || gjson.GetBytes(b, o.StoreParam).Exists()) {
		created = nil
	}
	for _, at := range created {
		id := h.make(e.Path, wrote)
		h.objects[id].lines = e.Path == "/v1/files"
		set(at, id)
	}
	for _, at := range o.Related {
		if !o.List && !strings.HasPrefix(at, "response.") {
			set(at, h.make("", wrote))
		}
	}
	if o.List {
		h.list(w, r, e.Path)
		return
	}
	if o.Location {
		w.Header().Set("Location", "/v1/realtime/calls/"+h.make(e.Path, wrote))
	}
	if streams {
		stream("data: "+answer+"\n\n", "data: [DONE]\n\n")(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

func (h *hoard) make(path, wrote string) string {
	h.made++
	id := fmt.Sprintf("obj%06dx", h.made)
	h.objects[id] = &hoarded{path: path, mark: wrote, owner: -1}
	h.fresh = append(h.fresh, id)
	return id
}

// list answers with all objects of a collection, the latest first.
func (h *hoard) list(w http.ResponseWriter, r *http.Request, path string) {
	var page struct {
		Object  string              `json:"object"`
		Data    []map[string]string `json:"data"`
		HasMore bool                `json:"has_more"`
	}
	page.Object, page.Data = "list", []map[string]string{}
	for id, object := range h.objects {
		if after := r.URL.Query().Get("after"); object.path == path && (after == "" || id < after) {
			page.Data = append(page.Data, map[string]string{"id": id, "note": object.mark})
		}
	}
	slices.SortFunc(page.Data, func(a, b map[string]string) int { return cmp.Compare(b["id"], a["id"]) })
	if len(page.Data) > 100 {
		page.Data, page.HasMore = page.Data[:100], true
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

// forget removes all objects.
func (h *hoard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.objects)
}

// take returns the calls since it was last called.
func (h *hoard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// give says whose the objects are that were made last.
func (h *hoard) give(who int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.fresh {
		if h.objects[id] != nil {
			h.objects[id].owner = who
		}
	}
	h.fresh = nil
}

func (h *hoard) those(is func(*hoarded) bool) (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, object := range h.objects {
		if is(object) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// all are the objects of a workspace, and live those in a collection.
func (h *hoard) all(who int) []string {
	return h.those(func(o *hoarded) bool { return o.owner == who })
}

func (h *hoard) live(who int, path string) []string {
	return h.those(func(o *hoarded) bool { return o.owner == who && o.path == path })
}

// oneOf is the latest object of a workspace of the kind that an endpoint is about, or else of any
// but the files, which have to last.
func (h *hoard) oneOf(who int, row *exchange.Endpoint) string {
	collection, _, _ := strings.Cut(row.Path, "/{")
	if ids := h.live(who, collection); len(ids) > 0 && (collection != "/v1/files" || len(ids) > 1) {
		return ids[len(ids)-1]
	}
	if ids := h.those(func(o *hoarded) bool { return o.owner == who && !o.lines }); len(ids) > 0 {
		return ids[len(ids)-1]
	}
	return h.file(who)
}

// file is a file of a workspace whose lines were read.
func (h *hoard) file(who int) string {
	ids := h.those(func(o *hoarded) bool { return o.owner == who && o.lines })
	if len(ids) == 0 {
		return "none"
	}
	return ids[0]
}
