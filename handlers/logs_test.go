package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

func requestLog(t *testing.T) *reqlog.Log {
	t.Helper()
	module, err := caddy.ActiveContext().App("gw")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := module.(*app.App).Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rt.Records.(*reqlog.Log)
}

// A wall is what the records of calls should say.
type wall struct {
	rows []struct {
		name      string
		answer    *gatewaytest.Answer
		providers []string // of the attempts
	}
}

// expect says that a call had this answer, after attempts at these providers.
func (w *wall) expect(name string, a *gatewaytest.Answer, providers ...string) {
	w.rows = append(w.rows, struct {
		name      string
		answer    *gatewaytest.Answer
		providers []string
	}{name, a, providers})
}

// usageIn is the last usage in what a client read.
func usageIn(body string) (known bool, prompt, completion int64) {
	for line := range strings.Lines(body) {
		if u := gjson.Get(strings.TrimPrefix(strings.TrimSpace(line), "data:"), "usage"); u.IsObject() {
			known, prompt, completion = true, u.Get("prompt_tokens").Int(), u.Get("completion_tokens").Int()
		}
	}
	return known, prompt, completion
}

func (w *wall) check(t *testing.T) {
	t.Helper()
	log := requestLog(t)
	of := make(map[string][]*reqlog.Record)
	eventually(t, "a record of each call", func() bool {
		list, err := log.List(t.Context(), &reqlog.Filter{}, reqlog.Page{Limit: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		clear(of)
		for _, r := range list.Records {
			of[r.TraceID] = append(of[r.TraceID], r)
		}
		return len(of) >= len(w.rows)
	})
	if log.Lost() != 0 {
		t.Errorf("%d records were lost", log.Lost())
	}
	for _, row := range w.rows {
		all := of[row.answer.Header.Get("x-gw-trace-id")]
		if len(all) != 1 {
			t.Errorf("%s: %d records", row.name, len(all))
			continue
		}
		r := all[0]
		if r.Status != row.answer.Status || r.Attempts != len(row.providers) || r.Provider != row.providers[len(row.providers)-1] {
			t.Errorf("%s: status %d, want %d; attempts %d at last at %s, want %v", row.name, r.Status, row.answer.Status, r.Attempts, r.Provider, row.providers)
		}
		if known, _, completion := usageIn(row.answer.Body); r.UsageEstimated {
			if completion = max(completion, tokensSeen(row.answer.Body)); r.UsageKnown != known || r.PromptTokens <= 0 || r.CompletionTokens != completion {
				t.Errorf("%s: estimated usage %v %d %d, want %v and %d", row.name, r.UsageKnown, r.PromptTokens, r.CompletionTokens, known, completion)
			}
		} else if r.Status == 200 && !known && tokensSeen(row.answer.Body) > 0 {
			t.Errorf("%s: no usage, though text was seen", row.name)
		}
		if known, prompt, completion := usageIn(row.answer.Body); !r.UsageEstimated && (r.UsageKnown != known || r.PromptTokens != prompt || r.CompletionTokens != completion) {
			t.Errorf("%s: usage %v %d %d, want %v %d %d", row.name, r.UsageKnown, r.PromptTokens, r.CompletionTokens, known, prompt, completion)
		}
		for i, try := range r.AttemptLog {
			if len(r.AttemptLog) != len(row.providers) || try.Provider != row.providers[i] {
				t.Errorf("%s: attempt %d is %+v, want %v", row.name, i, try, row.providers)
			}
		}
		if len(row.providers) > 1 && (len(r.AttemptLog) != len(row.providers) || r.AttemptLog[0].Status == 200 && r.AttemptLog[0].Failure == "") {
			t.Errorf("%s: attempts %+v", row.name, r.AttemptLog)
		}
	}
}

// logOf waits for the one record of a call, as the control plane shows it.
func logOf(g *gatewaytest.Gateway, a *gatewaytest.Answer) *gatewaytest.Answer {
	g.T.Helper()
	trace := a.Header.Get("x-gw-trace-id")
	if trace == "" {
		g.T.Fatalf("no trace id: %d %s", a.Status, a.Body)
	}
	var list *gatewaytest.Answer
	for deadline := time.Now().Add(testTimeout); list == nil || list.Get("total").Int() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.T.Fatalf("there is no record of trace %s", trace)
		}
		list = g.Admin("GET", "/v1/logs?trace_id="+trace, nil)
	}
	got := g.Admin("GET", "/v1/logs/"+trace, nil)
	if list.Get("total").Int() != 1 || list.Get("data.0.id").Str != got.Get("_id").Str {
		g.T.Errorf("listed as %s", list.Body)
	}
	return got
}

const keepBodies = "logs {\nbodies on\nmax_body 4KiB\n}\n"

// Every way in which an admitted call can end has exactly one record, and what is refused
// before has none.
func TestEveryAdmittedCallHasOneRecord(t *testing.T) {
	proceed := make(chan struct{})
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Client-Request-Id") {
		case "hang":
			<-proceed
		case "panic":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "stream":
			stream(role, hello, stopped, `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":11,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":5}}}`+"\n\n", done)(w, r)
			return
		}
		respond(200, gatewaytest.Completion)(w, r)
	})
	release := sync.OnceFunc(func() { close(proceed) })
	t.Cleanup(release)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	key, id := g.Key("k")
	config := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": map[string]any{"provider": "@file", "cache": map[string]any{"mode": "simple"}}}).Get("slug").Str
	do := func(method, path, body string, headers ...string) *gatewaytest.Answer {
		a, _ := g.TryRequest(method, path, body, append([]string{"x-gw-api-key: " + key}, headers...)...)
		if a == nil {
			t.Fatalf("%s %s: no answer", method, path)
		}
		return a
	}
	for _, c := range []struct {
		name         string
		method, path string
		body         string
		headers      []string
		status       int64
		attempts     int64
		is           map[string]any // values of the record
	}{
		{
			"a chat", "POST", "/v1/chat/completions?secret=1", gatewaytest.Chat,
			[]string{"x-gw-provider: file", `x-gw-metadata: {"env":"prod","n":1}`},
			200, 1,
			map[string]any{
				"request.url": g.URL + "/v1/chat/completions", "request.method": "POST", "request.body.messages.0.content": "hi", "response.body.object": "chat.completion",
				"metrics.ai_org": "file", "metrics.ai_model": "m", "metrics.api_key_id": id, "metrics.endpoint": "chatComplete", "metrics.stream_mode": 0.0, "metrics.cost": nil,
				"attempts.0.provider": "file", "attempts.0.status": 200.0, "attempts.0.target": "config", "metrics.source": "gateway", "response.lastUsedOptionJsonPath": "config",
				`metrics.metadata\.key.0`: "env", `metrics.metadata\.value.0`: "prod", `metrics.metadata\.value.1`: "1",
			},
		},
		{
			"a stream", "POST", "/v1/chat/completions", streamed,
			[]string{"x-gw-provider: file", cue + "stream"},
			200, 1,
			map[string]any{
				"metrics.stream_mode": 1.0, "metrics.req_units": 7.0, "metrics.res_units": 11.0, "metrics.total_units": 18.0, "metrics.cache_read_units": 4.0, "metrics.reasoning_units": 5.0,
				"response.body.truncated": false,
			},
		},
		{"a miss", "POST", "/v1/chat/completions", gatewaytest.Chat, []string{"x-gw-config: " + config}, 200, 1, map[string]any{"metrics.cache_status": "MISS", "metrics.config": config}},
		{
			"a hit", "POST", "/v1/chat/completions", gatewaytest.Chat,
			[]string{"x-gw-config: " + config},
			200, 0,
			map[string]any{"metrics.cache_status": "HIT", "metrics.cost": 0.0, "response.body.object": "chat.completion", "metrics.ai_org": "file"},
		},
		{"the models", "GET", "/v1/models", "", nil, 200, 0, map[string]any{"response.body.object": "list", "metrics.endpoint": "models", "request.body": nil}},
		{"without bodies", "POST", "/v1/chat/completions", gatewaytest.Chat, []string{"x-gw-provider: file", "x-gw-debug: false"}, 200, 1, map[string]any{"request.body": nil, "response.body": nil}},
		{
			"a long body", "POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, `"hi"`, `"`+strings.Repeat("é", 4000)+`"`, 1),
			[]string{"x-gw-provider: file"},
			200, 1,
			map[string]any{"request.body.truncated": true, "request.body.size": float64(len(gatewaytest.Chat) - 2 + 8000)},
		},
		{"breaks off", "POST", "/v1/chat/completions", gatewaytest.Chat, []string{"x-gw-provider: file", cue + "panic"}, 200, 1, map[string]any{"response.body.text": "{", "metrics.is_success": false}},
		{
			"breaks off, past the cache", "POST", "/v1/chat/completions", gatewaytest.Chat,
			[]string{`x-gw-config: ` + config, cue + "panic", "x-gw-cache-force-refresh: true", "x-gw-request-timeout: 20"},
			200, 1,
			map[string]any{"metrics.cache_status": "REFRESH"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.T = t
			a := do(c.method, c.path, c.body, c.headers...)
			r := logOf(g, a)
			if r.Get("response.status").Int() != c.status || a.Status != int(c.status) || r.Get("metrics.attempts").Int() != c.attempts || int64(len(r.Get("attempts").Array())) != c.attempts {
				t.Errorf("%d %s", a.Status, r.Body)
			}
			for path, want := range c.is {
				if got := r.Get(path).Value(); got != want {
					t.Errorf("%s: got %v, want %v in %s", path, got, want, r.Body)
				}
			}
			if text := r.Get("response.body.text"); text.Exists() && text.Str != a.Body {
				t.Errorf("the client got %q, the record has %q", a.Body, text.Str)
			}
			if strings.Contains(r.Body, "secret=1") {
				t.Error("the query is in the record")
			}
		})
	}
	g.T = t

	// The client leaves.
	ctx, leave := context.WithCancel(t.Context())
	left := g.Request("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file", cue+"hang", "x-gw-trace-id: left").WithContext(ctx)
	calls := len(up.Calls())
	go func() {
		for len(up.Calls()) == calls {
			time.Sleep(time.Millisecond)
		}
		leave()
	}()
	if res, err := http.DefaultClient.Do(left); err == nil {
		res.Body.Close()
		t.Error("the call was answered")
	}
	r := logOf(g, &gatewaytest.Answer{Header: http.Header{"X-Gw-Trace-Id": {"left"}}})
	release()
	if r.Get("response.status").Int() != 499 || r.Get("failure").Str != "the client left" || r.Get("attempts.0.status").Raw != "null" {
		t.Errorf("%s", r.Body)
	}

	// What is refused before it is admitted has no record.
	before := g.Admin("GET", "/v1/logs?page_size=0", nil).Get("total").Int()
	for _, headers := range [][]string{{"x-gw-api-key: nope"}, {"x-gw-api-key: " + key}, {"x-gw-api-key: " + key, "x-gw-provider: nobody"}} {
		if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, headers...); a.Status < 400 {
			t.Errorf("%v: %d", headers, a.Status)
		}
	}
	logOf(g, do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: file")) // all before are written now
	if after := g.Admin("GET", "/v1/logs?page_size=0", nil).Get("total").Int(); after != before+1 {
		t.Errorf("%d records after %d", after, before)
	}
}

// Calls under load, through reloads of the configuration, have one record each.
func TestEachCallUnderLoadAndReloadHasOneRecord(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	var clients sync.WaitGroup
	var answered atomic.Int64
	stop := make(chan struct{})
	traces := make([][]string, 4)
	for i := range traces {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				trace := fmt.Sprintf("load-%d-%d", i, n)
				if a, err := g.TryRequest("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file", "x-gw-trace-id: "+trace); err == nil && a.Status == 200 {
					traces[i] = append(traces[i], trace)
					answered.Add(1)
				}
			}
		})
	}
	for range 5 {
		at := answered.Load()
		eventually(t, "calls between reloads", func() bool { return answered.Load() > at+50 })
		g.Load()
	}
	close(stop)
	clients.Wait()
	log := requestLog(t)
	seen := make(map[string]int)
	eventually(t, "all records", func() bool {
		list, err := log.List(t.Context(), &reqlog.Filter{}, reqlog.Page{Limit: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		clear(seen)
		for _, r := range list.Records {
			seen[r.TraceID]++
		}
		return len(seen) >= int(answered.Load())
	})
	for _, all := range traces {
		for _, trace := range all {
			if seen[trace] != 1 {
				t.Errorf("%s has %d records", trace, seen[trace])
			}
		}
	}
}

// A client that has all of its answer may leave: the call was answered.
func TestWhoLeavesWithTheWholeAnswerWasAnswered(t *testing.T) {
	answer := strings.Replace(gatewaytest.Completion, `"ok"`, `"`+strings.Repeat("x", 1<<20)+`"`, 1)
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "event-stream") {
			stream("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n")(w, r)
			<-r.Context().Done() // the client has left
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		_, _ = io.WriteString(w, answer)
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	const n = 40
	for i := range n {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		request := g.Request("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file")
		if i%2 == 1 {
			request = g.Request("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file", "accept: text/event-stream")
		}
		if err := request.Write(conn); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), request)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			lines := bufio.NewReader(res.Body)
			for line := ""; line != "data: [DONE]\n" && err == nil; {
				line, err = lines.ReadString('\n')
			}
		} else if _, err = io.ReadFull(res.Body, make([]byte, len(answer))); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	eventually(t, "the records", func() bool { return len(records(t)) == n })
	for _, r := range records(t) {
		if r.Status != 200 || r.Failure != "" {
			t.Errorf("a call was recorded as %d, %q", r.Status, r.Failure)
		}
	}
}
