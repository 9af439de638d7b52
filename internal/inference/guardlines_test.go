package inference

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
)

const (
	batchOfFile = `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}`
	jobOfFiles  = `{"model":"m","training_file":"file-1","validation_file":"file-2"}`
)

// callLine is a line of a batch's file.
func callLine(url, body string) string {
	return `{"custom_id":"c","method":"POST","url":"` + url + `","body":` + body + `}`
}

// The hooks of a call that makes a batch or a job judge the lines of its files.
func TestLinesOfFilesAreJudged(t *testing.T) {
	t.Parallel()
	chat := func(text string) string {
		return callLine("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`)
	}
	example := func(text string) string {
		return `{"messages":[{"role":"user","content":"` + text + `"},{"role":"assistant","content":"fine"}]}`
	}
	const deny, warn = `"default.contains":{"words":["bad"],"operator":"none"},"deny":true`, `"default.contains":{"words":["bad"],"operator":"none"}`
	const redact = `"default.regexReplace":{"rule":"bad","redactText":"#"}`
	for _, c := range []struct {
		name, call, hook, file string
		status                 int
		says                   string // of the message of an error
	}{
		{"passes", batchOfFile, deny, chat("good") + "\n\n" + chat("fine") + "\n", 200, ""},
		{"an empty file", batchOfFile, deny, "", 200, ""},
		{"deny", batchOfFile, deny, chat("good") + "\n" + chat("bad") + "\n" + chat("good"), 446, "in line 2 of file file-1"},
		{"warn", batchOfFile, warn, chat("good") + "\r\n" + chat("bad") + "\r\n" + chat("good"), 246, ""},
		{"a text is replaced", batchOfFile, redact, chat("good") + "\n" + chat("bad"), 446, "line 2 of file file-1"},
		{"nothing is replaced", batchOfFile, redact, chat("good"), 200, ""},
		{"a check that cannot judge", batchOfFile, `"test.unreadable":{},"deny":true`, chat("good"), 446, "in line 1 of file file-1"},
		{"a check that errs", batchOfFile, `"test.hangs":{},"deny":true,"timeout":10`, chat("good"), 200, ""},
		{"the model of a line", batchOfFile, `"default.modelWhitelist":{"models":["n"]},"deny":true`, chat("good"), 446, "in line 1 of file file-1"},
		{"the type of a line", batchOfFile, `"default.allowedRequestTypes":{"allowedTypes":["embed"]},"deny":true`, chat("good"), 446, "in line 1 of file file-1"},
		{"async", batchOfFile, deny + `,"async":true`, chat("bad"), 200, ""},
		{"another endpoint", batchOfFile, deny, callLine("/v1/responses", `{"model":"m","input":"bad"}`), 446, "in line 1 of file file-1"},
		{"an endpoint without its version", batchOfFile, deny, callLine("/chat/completions", `{"messages":[{"content":"bad"}]}`), 446, "in line 1 of file file-1"},
		{"an endpoint that is not judged", batchOfFile, deny, callLine("/v1/moderations", `{"input":"bad"}`), 200, ""},
		{"an unknown endpoint", batchOfFile, deny, callLine("/v1/chat/Completions", `{"messages":[{"content":"good"}]}`), 400, "its 'url' is not the path of a known endpoint"},
		{"numbers of tokens", batchOfFile, deny, callLine("/v1/embeddings", `{"input":[[1,2]]}`), 400, "line 1 of file file-1: 'input' has numbers of tokens instead of text"},
		{"two bodies", batchOfFile, deny, `{"url":"/v1/chat/completions","body":{},"Body":{"messages":[{"content":"bad"}]}}`, 400, "it must have 'url' and 'body' once"},
		{"no JSON", batchOfFile, deny, chat("good") + "\n" + "bad", 400, "line 2 of file file-1: it is not a JSON object"},
		{"several calls in a line", batchOfFile, deny, chat("good") + "\r" + chat("bad"), 400, "it is not a JSON object"},
		{"no JSON, warn", batchOfFile, warn, "bad", 400, "it is not a JSON object"},
		{"a long line", batchOfFile, deny, chat(strings.Repeat("a", maxFileLine)), 400, "lines of more than 8 MiB"},
		{"a record of Bedrock", batchOfFile, deny, `{"recordId":"r","modelInput":{"messages":[{"role":"user","content":[{"text":"bad"}]}]}}`, 446, "in line 1 of file file-1"},
		{"a record with a member twice", batchOfFile, deny, `{"modelInput":{"messages":[],"m\u0065ssages":[]}}`, 400, `line 1 of file file-1: its 'modelInput' has "messages" twice`},
		{"an example", jobOfFiles, deny, example("bad"), 446, "in line 1 of file file-1"},
		{"an example of preferences", jobOfFiles, deny, `{"input":{"messages":[]},"preferred_output":[{"role":"assistant","content":"bad"}]}`, 446, "in line 1 of file file-1"},
		{"examples pass", jobOfFiles, deny, example("good"), 200, ""},
		{"no id", strings.Replace(batchOfFile, "file-1", "../models", 1), deny, "", 400, "'input_file_id' is not the id of a file"},
		{"no guardrails", batchOfFile, "", "not read", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newGuardBench(t)
			path, reads := "/batches", 1
			if c.call == jobOfFiles {
				path, reads = "/fine_tuning/jobs", 2
			}
			b.answers["/v1/files/file-1/content"] = func() *http.Response { return answering(200, "application/octet-stream", c.file) }
			b.answers["/v1/files/file-2/content"] = func() *http.Response { return answering(200, "application/octet-stream", example("fine")) }
			b.answers["/v1"+path] = func() *http.Response { return answering(200, "application/json", `{"id":"batch_1","object":"batch"}`) }
			config := `{"provider":"@one"}`
			if c.hook != "" {
				config = `{"provider":"@one","input_guardrails":[{"id":"g",` + c.hook + `}]}`
			}
			w, x := b.request(t, http.MethodPost, path, c.call, nil, "X-Gw-Config", config)
			message := gjson.Get(w.Body.String(), "error.message").Str
			if w.Code != c.status || !strings.Contains(message, c.says) || c.status == 446 && gjson.Get(w.Body.String(), "hook_results.before_request_hooks.0.deny").Type != gjson.True {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			made := slices.Contains(b.events, "/v1"+path)
			if made != (c.status < 300) {
				t.Errorf("made: %v: %s", made, b.events)
			}
			sent := 0
			for _, e := range b.events {
				if strings.HasPrefix(e, "/v1/files/") {
					sent++
				}
			}
			if c.hook == "" || strings.Contains(c.hook, "async") {
				reads = 0
			}
			if made && sent != reads {
				t.Errorf("%d files were read, want %d", sent, reads)
			}
			if j := judged(x); made && reads > 0 && c.file != "" && !strings.Contains(c.file, "moderations") && (j == nil || len(j.before) != 1) {
				t.Errorf("the record has %+v", j)
			}
		})
	}
}

// The validation file is judged, too, and limits count the call before any file is read.
func TestAllFilesOfACallAreJudgedOnceItIsCounted(t *testing.T) {
	t.Parallel()
	const config = `{"provider":"@one","input_guardrails":[{"default.contains":{"words":["bad"],"operator":"none"},"deny":true}]}`
	b := newGuardBench(t)
	for file, text := range map[string]string{"file-1": "good", "file-2": "bad"} {
		b.answers["/v1/files/"+file+"/content"] = func() *http.Response { return answering(200, "application/jsonl", `{"prompt":"`+text+`"}`) }
	}
	w, _ := b.request(t, http.MethodPost, "/fine_tuning/jobs", jobOfFiles, nil, "X-Gw-Config", config)
	if w.Code != 446 || !strings.Contains(w.Body.String(), "line 1 of file file-2") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	b = newGuardBench(t)
	if w, _ := b.request(t, http.MethodPost, "/fine_tuning/jobs", jobOfFiles, &recordingLimiter{b, "call"}, "X-Gw-Config", config); w.Code != 429 || slices.ContainsFunc(b.events, func(e string) bool { return strings.HasPrefix(e, "sent") }) {
		t.Errorf("status %d: %s", w.Code, b.events)
	}
}

// A file that cannot be had, or not to its end, is not passed.
func TestFilesThatCannotBeReadDoNotPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content func() *http.Response
		status  int
		code    string
	}{
		{func() *http.Response { return answering(404, "application/json", `{"error":{}}`) }, 404, "file_unavailable"},
		{func() *http.Response {
			res := answering(200, "application/jsonl", "")
			res.Body = brokenBody{}
			return res
		}, 502, "provider_misbehaved"},
	} {
		b := newGuardBench(t)
		b.answers["/v1/files/file-1/content"] = c.content
		w, _ := b.request(t, http.MethodPost, "/batches", batchOfFile, nil, "X-Gw-Config", `{"provider":"@one","input_guardrails":[{"default.contains":{"words":["bad"],"operator":"none"}}]}`)
		if code := gjson.Get(w.Body.String(), "error.code").Str; w.Code != c.status || code != c.code || slices.Contains(b.events, "/v1/batches") {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, http.ErrBodyReadAfterClose }

func (brokenBody) Close() error { return nil }

// Checks that wait for others pass when their time is over; a file that was not judged does not.
func TestFilesThatTakeTooLongDoNotPass(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := &lineGuard{guard: &guard{}, c: &Candidate{Exchange: &exchange.Exchange{Call: &exchange.Call{}}}}
	each := func([]byte, string) *exchange.Error { return nil }
	if refusal := v.reader().lines(ctx, "file-1", "Provider one", strings.NewReader("{}\n"), each); refusal == nil || refusal.Code != "guardrail_unreadable" {
		t.Errorf("%+v", refusal)
	}
}

// What is judged of a line is JSON, and part of the line.
func FuzzJudgedLine(f *testing.F) {
	for _, seed := range []string{
		callLine("/v1/chat/completions", `{"messages":[]}`), callLine("/v1/x", `{}`), `{"recordId":"r","modelInput":{}}`, `{"modelInput":{"a":1,"\u0061":2}}`, `{"url":"/v1/responses","body":[]}`,
		`{"body":{},"BODY":{},"url":"/v1/responses"}`, `{"messages":[{"content":"a"}]}`, `{"\u0075rl":"/embeddings","body":{"input":"a"}}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, of := range []string{exchange.CreateBatch, exchange.CreateFinetune} {
			endpoint, body, why := judgedLine(of, line)
			if why != "" {
				continue
			}
			if endpoint == "" || !gjson.ValidBytes(body) || !strings.Contains(string(line), string(body)) {
				t.Fatalf("%q is a call of %q: %q", line, endpoint, body)
			}
			hooks.Texts(endpoint, guardrails.Input, body, hooks.Scope{AllTurns: true})
		}
	})
}
