package handlers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A batchProvider has OpenAI's files and batches. What is in a file is what the test says.
type batchProvider struct {
	*gatewaytest.Upstream
	mu      sync.Mutex
	files   map[string]string
	batches []map[string]any
	refuses bool // it makes no batch
	mute    bool // it does not say which batch it made
	breaks  bool // contents of files break off
}

func newBatchProvider(t *testing.T) *batchProvider {
	p := &batchProvider{files: make(map[string]string)}
	p.Upstream = gatewaytest.NewUpstream(t, p.serve)
	return p
}

func (p *batchProvider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	if id, ok := strings.CutSuffix(strings.TrimPrefix(path, "/files/"), "/content"); ok {
		content, known := p.files[id]
		if !known {
			http.Error(w, `{"error":{"message":"no such file"}}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		if p.breaks {
			content = content[:len(content)/2]
		}
		_, _ = io.WriteString(w, content)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch id := strings.TrimPrefix(path, "/batches/"); {
	case path == "/batches" && r.Method == http.MethodPost && p.refuses:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error"}}`)
	case path == "/batches" && r.Method == http.MethodPost && p.mute:
		_, _ = io.WriteString(w, `{"object":"batch"}`)
	case path == "/batches" && r.Method == http.MethodPost:
		p.batches = append(p.batches, map[string]any{
			"id": fmt.Sprint("batch_", len(p.batches)+1), "object": "batch", "endpoint": "/v1/chat/completions", "completion_window": "24h", "created_at": 1, "status": "validating",
			"input_file_id": "in", "usage": map[string]any{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
		})
		_, _ = io.WriteString(w, asJSON(p.batches[len(p.batches)-1]))
	case path == "/chat/completions":
		_, _ = io.WriteString(w, gatewaytest.Completion)
	case path == "/batches":
		_, _ = io.WriteString(w, asJSON(map[string]any{"object": "list", "data": p.batches, "has_more": false}))
	default:
		id, _, _ = strings.Cut(id, "/")
		for _, b := range p.batches {
			if b["id"] == id {
				_, _ = io.WriteString(w, asJSON(b))
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ends has the latest batch end.
func (p *batchProvider) ends(status, output string, completed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.batches[len(p.batches)-1]
	b["status"], b["request_counts"] = status, map[string]any{"total": 2, "completed": completed, "failed": 2 - completed}
	if output != "" {
		b["output_file_id"] = "out"
		p.files["out"] = output
	}
}

func (p *batchProvider) set(of *bool, to bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*of = to
}

// inputOf is a file of n calls, each of which may be answered with so many tokens.
func inputOf(n, most int) string {
	return strings.Repeat(fmt.Sprintf(`{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}}`+"\n", most), n)
}

// outputOf is the output of two calls, of which the second failed.
func outputOf(prompt, completion int) string {
	return fmt.Sprintf(`{"id":"r1","custom_id":"c","response":{"status_code":200,"body":{"object":"chat.completion","model":"m","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}},"error":null}`+"\n"+
		`{"id":"r2","custom_id":"d","response":{"status_code":400,"body":{"error":{"message":"no"}}},"error":null}`+"\n", prompt, completion, prompt+completion)
}

const makeBatch = `{"input_file_id":"in","endpoint":"/v1/chat/completions","completion_window":"24h"}`

// A batch is reserved by the lines of its file, and booked once by those of its output, whatever happens in between.
func TestABatchIsMeteredFromItsFileToItsOutput(t *testing.T) {
	p := newBatchProvider(t)
	g := gatewaytest.Start(t, "price file m {\n input_mtok 1\n output_mtok 10\n}\n"+p.Provider("file"))
	key, of := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000, "conditions": when("api_key", of)})
	cost := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of)})
	ask := func(status int, method, path, body string) *gatewaytest.Answer {
		t.Helper()
		a := g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-provider: @file")
		if a.Status != status {
			t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		return a
	}
	// What fits beside what is reserved tells how much that is.
	fits := func(tokens int, does bool) {
		t.Helper()
		a := g.Do("POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, tokens), "x-gw-api-key: "+key, "x-gw-provider: @file")
		if (a.Status == 200) != does {
			t.Errorf("a call of %d tokens: %d %s", tokens, a.Status, a.Body)
		}
	}
	p.files["in"] = inputOf(2, 6000)
	if a := ask(412, "POST", "/v1/batches", makeBatch); a.Get("error.code").Str != "06" || len(p.batches) > 0 {
		t.Errorf("it does not fit: %s", a.Body)
	}
	p.files["in"] = "not JSON"
	if a := ask(412, "POST", "/v1/batches", makeBatch); a.Get("error.code").Str != "unmetered_call" || !strings.Contains(a.Get("error.message").Str, "line 1 of file in") {
		t.Errorf("it cannot be read: %s", a.Body)
	}
	if a := ask(404, "POST", "/v1/batches", strings.Replace(makeBatch, `"in"`, `"none"`, 1)); a.Get("error.code").Str != "file_unavailable" {
		t.Errorf("no file: %s", a.Body)
	}
	p.files["in"] = inputOf(1, 10) + strings.Replace(inputOf(1, 10), `"m"`, `"other"`, 1)
	if a := ask(412, "POST", "/v1/batches", makeBatch); !strings.Contains(a.Get("error.message").Str, "the price of the model is not known") {
		t.Errorf("without a price: %s", a.Body)
	}
	p.files["in"] = inputOf(2, 4000)
	p.set(&p.refuses, true)
	ask(400, "POST", "/v1/batches", makeBatch)
	p.set(&p.refuses, false)
	made := ask(200, "POST", "/v1/batches", makeBatch).Get("id").Str
	fits(2000, false)
	ask(429, "POST", "/v1/batches", makeBatch)
	if n := used(g, id, 0); n != 0 {
		t.Errorf("%v tokens booked before it is done", n)
	}
	if a := ask(429, "POST", "/v1/chat/completions", `{"model":"m","max_tokens":2000,"messages":[{"role":"user","content":"hi"}]}`); a.Header.Get("Retry-After") != "" || !strings.Contains(a.Body, "batches") {
		t.Errorf("%v %s", a.Header, a.Body) // nobody knows when
	}
	shown := g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.reserved_usage").Float()
	listed := g.Admin("GET", "/v1/policies/usage-limits/"+id+"/entities", nil).Get("data.0.reserved_usage").Float()
	if shown < 8000 || shown > 8500 || listed != shown {
		t.Errorf("%v and %v tokens are shown as reserved", shown, listed)
	}
	g.Stop()
	g.Load()
	fits(2000, false)
	p.ends("completed", outputOf(1000, 500), 1)
	if a := ask(200, "GET", "/v1/batches/"+made, ""); a.Get("output_file_id").Str != "out" {
		t.Errorf("%s", a.Body)
	}
	p.set(&p.breaks, true)
	_, _ = g.TryRequest("GET", "/v1/files/out/content", "", "x-gw-api-key: "+key, "x-gw-provider: @file")
	p.set(&p.breaks, false)
	if n := used(g, id, 0); n != 0 {
		t.Errorf("%v tokens booked for a part of the output", n)
	}
	for range 2 {
		if a := ask(200, "GET", "/v1/files/out/content", ""); a.Body != outputOf(1000, 500) {
			t.Errorf("the output is %s", a.Body)
		}
		if n := used(g, id, 1500); n != 1500 {
			t.Errorf("%v tokens booked", n)
		}
		const dollars = (1000*1 + 500*10) * 1e-6
		if n := usedBetween(g, cost, dollars*.999, dollars*1.001); n < dollars*.999 || n > dollars*1.001 {
			t.Errorf("$%v booked", n)
		}
	}
	sum, tokens := 0.0, 0.0
	for end := time.Now().Add(5 * time.Second); tokens < 1500 && time.Now().Before(end); {
		sum, tokens = 0, 0
		for _, r := range g.Admin("GET", "/v1/logs", nil).Get("data").Array() {
			sum += r.Get("cost").Float()
			tokens += r.Get("req_units").Float() + r.Get("res_units").Float()
		}
	}
	if tokens != 1500 || sum < 0.5999 || sum > 0.6001 {
		t.Errorf("records of %v tokens and %v cents", tokens, sum)
	}

	// Of one that ended with nothing, nothing is booked, as the list says.
	p.files["in"] = inputOf(2, 4000)
	ask(200, "POST", "/v1/batches", makeBatch)
	fits(2000, false)
	p.ends("expired", "", 0)
	ask(200, "GET", "/v1/batches", "")
	fits(2000, true)
	if n := used(g, id, 1505); n != 1505 {
		t.Errorf("%v tokens booked", n)
	}

	// The output is that of the batch, too.
	second := ask(200, "POST", "/v1/batches", makeBatch).Get("id").Str
	p.ends("cancelled", outputOf(70, 7), 1)
	ask(200, "GET", "/v1/batches/"+second+"/output", "")
	if n := used(g, id, 1582); n != 1582 {
		t.Errorf("%v tokens booked", n)
	}

	// Who knows the file from elsewhere says so.
	third := ask(200, "POST", "/v1/batches", makeBatch).Get("id").Str
	p.ends("completed", outputOf(10, 8), 1)
	ask(200, "GET", "/v1/files/out/content", "")
	ask(200, "PUT", "/v2/batches/"+third, `{"internal_output_file_id":"out"}`)
	fits(2000, false)
	ask(200, "GET", "/v1/batches/"+third, "") // the provider says so, too
	ask(400, "PUT", "/v2/batches/"+third, `{"internal_output_file_id":"forged"}`)
	ask(200, "GET", "/v1/files/out/content", "")
	if n := used(g, id, 1600); n != 1600 {
		t.Errorf("%v tokens booked", n)
	}
	ask(409, "PUT", "/v2/batches/"+third, `{"internal_output_file_id":"out"}`)

	// A file that only the client says has the output gives back nothing.
	fourth := ask(200, "POST", "/v1/batches", makeBatch).Get("id").Str
	p.files["forged"] = outputOf(1, 1)
	ask(200, "PUT", "/v2/batches/"+fourth, `{"internal_output_file_id":"forged"}`)
	ask(200, "GET", "/v1/files/forged/content", "")
	fits(2000, false)
	if n := used(g, id, 1600); n != 1600 {
		t.Errorf("%v tokens booked for a file that the client names", n)
	}
}

// With a config, too: policies of requests are asked before the file is read, and a batch of which nobody knows the id
// counts as it was reserved, also in the record of the call.
func TestABatchThatCannotBeFoundAgainCountsAsReserved(t *testing.T) {
	p := newBatchProvider(t)
	g := gatewaytest.Start(t, "block_inline_config off\n"+p.Provider("file"))
	p.files["in"] = inputOf(2, 1000)
	create := func(key string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/batches", makeBatch, "x-gw-api-key: "+key, `x-gw-config: {"provider":"@file"}`)
	}
	key, of := g.Key("limited")
	usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000, "conditions": when("api_key", of)})
	g.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpm", "value": 0, "conditions": when("api_key", of)})
	if a := create(key); a.Status != 429 || len(p.Calls()) > 0 {
		t.Errorf("%d %s, and the provider had %d calls", a.Status, a.Body, len(p.Calls()))
	}
	key, of = g.Key("budget")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000, "conditions": when("api_key", of)})
	p.set(&p.mute, true)
	if a := create(key); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	n := usedBetween(g, id, 2000, 2200)
	if n < 2000 || n > 2200 {
		t.Errorf("%v tokens booked", n)
	}
	tokens := 0.0
	for end := time.Now().Add(5 * time.Second); tokens != n && time.Now().Before(end); {
		tokens = 0
		for _, r := range g.Admin("GET", "/v1/logs", nil).Get("data").Array() {
			tokens += r.Get("req_units").Float() + r.Get("res_units").Float()
		}
	}
	if tokens != n {
		t.Errorf("records of %v tokens, and %v are booked", tokens, n)
	}
}

// Batches of Bedrock are metered in its words: by the records that an upload becomes, and by what a job writes.
func TestABatchOfBedrockIsMetered(t *testing.T) {
	b := newBatcher(t)
	key, of := b.Key("limited")
	b.key = key
	id := usageLimit(b.Gateway, map[string]any{"type": "tokens", "credit_limit": 1000, "conditions": when("api_key", of)})
	cost := usageLimit(b.Gateway, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of), "on_unknown_price": "allow"})
	file := b.upload(field("purpose", "batch"), content("a.jsonl", line("1", "Hi")+line("2", "Ho"))).Get("id").Str
	creation := `{"input_file_id":"` + file + `","endpoint":"/v1/chat/completions","completion_window":"24h"}`
	made := b.ask("POST", "/v1/batches", creation)
	if made.Status != 200 {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	job := b.aws.jobs[0]
	uri := job["outputDataConfig"].(map[string]any)["s3OutputDataConfig"].(map[string]any)["s3Uri"].(string)
	b.aws.objects[strings.TrimPrefix(uri, "s3://the-bucket/")+made.Get("id").Str+"/a.jsonl.out"] = []byte(
		`{"modelInput":{},"modelOutput":{"output":{"message":{"role":"assistant","content":[{"text":"ok"}]}},"stopReason":"end_turn","usage":{"inputTokens":30,"outputTokens":20,"totalTokens":50}},"recordId":"1"}` + "\n" +
			`{"modelInput":{},"error":{"errorCode":400,"errorMessage":"bad request"},"recordId":"2"}`)
	job["status"], job["endTime"], job["totalRecordCount"], job["successRecordCount"], job["errorRecordCount"] = "Completed", "2026-01-02T04:00:00Z", 2, 1, 1
	for range 2 {
		if a := b.ask("GET", "/v1/batches/"+made.Get("id").Str+"/output", ""); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if n := used(b.Gateway, id, 50); n != 50 {
			t.Errorf("%v tokens booked", n)
		}
	}
	if n := used(b.Gateway, cost, 0); n != 0 {
		t.Errorf("$%v booked of a model without a price", n)
	}
	long := b.upload(field("purpose", "batch"), content("a.jsonl", strings.Repeat(line("1", strings.Repeat("w", 500)), 3))).Get("id").Str
	if a := b.ask("POST", "/v1/batches", strings.Replace(creation, file, long, 1)); a.Status != 412 || gjson.Get(a.Body, "error.code").Str != "06" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A client cannot choose what is booked for its batch, and what was counted is what the provider is asked for.
func TestABatchIsBookedByItsOwnOutput(t *testing.T) {
	p := newBatchProvider(t)
	g := gatewaytest.Start(t, p.Provider("file"))
	key, of := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000, "conditions": when("api_key", of)})
	ask := func(method, path, body string) *gatewaytest.Answer {
		return g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-provider: @file")
	}
	fits := func() bool {
		return ask("POST", "/v1/chat/completions", `{"model":"m","max_tokens":2000,"messages":[{"role":"user","content":"hi"}]}`).Status == 200
	}
	for name, change := range map[string][3]string{
		"twice":            {makeBatch, `"model":"m"`, `"model":"m","mod\u0065l":"dear"`},
		"another endpoint": {makeBatch, `/v1/chat/completions`, `/v1/embeddings`},
		"another model":    {strings.Replace(makeBatch, "{", `{"model":"dear",`, 1), "", ""},
		"a blob":           {strings.Replace(makeBatch, "{", `{"input_blob":"https://example.com/in",`, 1), "", ""},
		"its own calls":    {strings.Replace(makeBatch, "{", `{"requests":[{}],`, 1), "", ""},
	} {
		p.files["in"] = strings.Replace(inputOf(1, 10), change[1], change[2], 1)
		if a := ask("POST", "/v1/batches", change[0]); a.Status != 412 || a.Get("error.code").Str != "unmetered_call" || len(p.batches) > 0 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	p.files["in"] = inputOf(2, 4000)
	made := ask("POST", "/v1/batches", makeBatch).Get("id").Str
	p.files["own"] = outputOf(1, 1)
	if a := ask("PUT", "/v2/batches/"+made, `{"internal_output_file_id":"own"}`); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for _, output := range []string{"", strings.Replace(outputOf(1000, 500), `"status_code":200,`, "", 1)} {
		if output != "" {
			p.ends("completed", output, 1)
		}
		if a := ask("GET", "/v1/files/own/content", ""); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if fits() {
			t.Error("another file gave back what is reserved")
		}
	}
	if a := ask("GET", "/v1/files/out/content", ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if n := usedBetween(g, id, 8000, 8200); n < 8000 || n > 8200 {
		t.Errorf("%v tokens booked for an answer without a status", n)
	}
}

// Limits on the model are held against the models that the lines of the file name.
func TestABatchIsLimitedByTheModelsOfItsLines(t *testing.T) {
	p := newBatchProvider(t)
	g := gatewaytest.Start(t, p.Provider("file"))
	key, of := g.Key("k")
	ask := func(method, path, body string) *gatewaytest.Answer {
		return g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-provider: @file")
	}
	a, b := inputOf(1, 1000), strings.Replace(inputOf(1, 1000), `"m"`, `"dear"`, 1)
	onDear := func(of string) []any {
		return append(when("api_key", of), map[string]any{"key": "model", "value": "@file/dear"})
	}
	dear := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1500, "conditions": onDear(of)})
	each := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000, "conditions": when("api_key", of), "group_by": by("model")})
	for name, c := range map[string]struct {
		file   string
		status int
		code   string
	}{
		"too much of the model": {a + b + b, 412, "06"},
		"no model":              {a + strings.Replace(a, `"model":"m",`, "", 1), 400, "model_unread"},
		"one of several models": {a + strings.Replace(a, `"max_tokens"`, `"fallbacks":["dear"],"max_tokens"`, 1), 400, "model_unread"},
		"in capitals":           {a + strings.Replace(a, `"max_tokens"`, `"Model":"dear","max_tokens"`, 1), 400, "model_unread"},
		"unread":                {"{", 412, "unmetered_call"},
	} {
		p.files["in"] = c.file
		if a := ask("POST", "/v1/batches", makeBatch); a.Status != c.status || a.Get("error.code").Str != c.code || len(p.batches) > 0 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	p.files["in"] = a + a + b
	made := ask("POST", "/v1/batches", makeBatch)
	if made.Status != 200 {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	chat := func(model string) int {
		return ask("POST", "/v1/chat/completions", `{"model":"`+model+`","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`).Status
	}
	if m, d := chat("m"), chat("dear"); m != 200 || d != 429 {
		t.Errorf("a call of m: %d, of dear: %d", m, d)
	}
	p.ends("completed", outputOf(10, 20)+strings.Replace(outputOf(30, 40), `"model":"m"`, `"model":"dear-2026-01-01"`, 1), 2)
	ask("GET", "/v1/batches/"+made.Get("id").Str+"/output", "")
	if n := used(g, dear, 70); n != 70 {
		t.Errorf("%v tokens booked of the model", n)
	}
	if n := g.Admin("GET", "/v1/policies/usage-limits/"+each+"?include_usage=true", nil).Get("value_key_usage_map.model:dear.current_usage").Float(); n != 70 {
		t.Errorf("%v tokens booked of the group of the model", n)
	}
	config := g.Do("POST", "/v1/batches", makeBatch, "x-gw-api-key: "+key, `x-gw-config: {"provider":"@file","override_params":{"model":"set"}}`)
	if config.Status != 400 {
		t.Errorf("a config that sets the model: %d %s", config.Status, config.Body)
	}

	// A limit of requests has the file read only if it is about the model.
	key, of = g.Key("requests")
	g.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpm", "value": 1, "conditions": onDear(of)})
	p.files["in"] = a + b + b
	if one, two := ask("POST", "/v1/batches", makeBatch), ask("POST", "/v1/batches", makeBatch); one.Status != 200 || two.Status != 429 {
		t.Errorf("%d %s, %d %s", one.Status, one.Body, two.Status, two.Body)
	}
	p.files["in"] = a
	if a := ask("POST", "/v1/batches", makeBatch); a.Status != 200 {
		t.Errorf("without the model: %d %s", a.Status, a.Body)
	}
	p.files["in"] = "{"
	if a := ask("POST", "/v1/batches", makeBatch); a.Status != 412 || !strings.Contains(a.Get("error.message").Str, "requests of some models") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// What a batch of a virtual key has reserved is not given back because of what another server says, to which the key leads later.
func TestABatchIsSettledWhereItWasMade(t *testing.T) {
	p, other := newBatchProvider(t), newBatchProvider(t)
	g := gatewaytest.Start(t, trustLoopback)
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk", "custom_host": p.URL + "/v1"})
	key, of := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 10_000, "conditions": when("api_key", of)})
	ask := func(method, path, body string) *gatewaytest.Answer {
		return g.Do(method, path, body, "x-gw-api-key: "+key, "x-gw-virtual-key: vk")
	}
	p.files["in"], other.files["in"] = inputOf(2, 2000), inputOf(1, 1)
	made := ask("POST", "/v1/batches", makeBatch)
	other.batches = append(other.batches, map[string]any{"id": made.Get("id").Str, "object": "batch"})
	other.ends("failed", "", 0)
	reserved := func() float64 {
		return g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.reserved_usage").Float()
	}
	before := reserved()
	for _, host := range []*batchProvider{other, p} {
		g.Admin("PUT", "/v1/virtual-keys/vk", map[string]any{"custom_host": host.URL + "/v1", "key": "sk"})
		if host == p {
			p.ends("failed", "", 0)
		}
		if a := ask("GET", "/v1/batches/"+made.Get("id").Str, ""); a.Get("status").Str != "failed" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if after := reserved(); host == other && (before < 4000 || after != before) || host == p && after != 0 {
			t.Errorf("%v were reserved, and %v are", before, after)
		}
	}
}
