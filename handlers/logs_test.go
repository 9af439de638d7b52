package handlers_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
		if known, prompt, completion := usageIn(row.answer.Body); r.UsageKnown != known || r.PromptTokens != prompt || r.CompletionTokens != completion {
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
	for deadline := time.Now().Add(patience); list == nil || list.Get("total").Int() == 0; time.Sleep(5 * time.Millisecond) {
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

func TestWhoMayReadRecords(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	newKey := func(scopes ...string) string {
		return g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "k", "scopes": scopes}).Get("key").Str
	}
	caller, reader, lister := newKey("completions.write"), newKey("logs.view", "logs.list"), newKey("logs.list")
	organisation := g.Admin("POST", "/v1/api-keys/organisation/service", map[string]any{"name": "o", "scopes": []string{"logs.view", "logs.list"}}).Get("key").Str
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+caller, "x-gw-provider: file")
	id := logOf(g, a).Get("_id").Str

	set := func(security string) {
		t.Helper()
		g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"security_settings": json.RawMessage(security)})
	}
	const on, off, unset = "true", "false", "null"
	// A switch that would change nothing is refused.
	if a := g.Do("PUT", "/v1/admin/workspaces/"+workspace, `{"security_settings":{"organisationAdminsViewLogMetadata":false}}`, "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 400 || !strings.Contains(a.Body, "organisationAdminsViewLogs") {
		t.Errorf("metadata alone: %d %s", a.Status, a.Body)
	}
	for _, c := range []struct {
		name                  string
		key                   string
		logs, metadata        string
		view, list            int
		sees, seesBodies, all bool
	}{
		{name: "no key", key: "nope", logs: unset, metadata: unset, view: 401, list: 401},
		{name: "a caller", key: caller, logs: unset, metadata: unset, view: 403, list: 403},
		{name: "may list only", key: lister, logs: unset, metadata: unset, view: 403, list: 200, sees: true},
		{name: "the workspace's", key: reader, logs: unset, metadata: unset, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the workspace's own are its own", key: reader, logs: off, metadata: off, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the organisation's", key: organisation, logs: unset, metadata: unset, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the owner's", key: gatewaytest.OwnerKey, logs: unset, metadata: unset, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the organisation's, explicitly", key: organisation, logs: on, metadata: on, view: 200, list: 200, sees: true, seesBodies: true},
		{name: "the organisation's, metadata", key: organisation, logs: off, metadata: on, view: 200, list: 200, sees: true},
		{name: "the organisation's, metadata by default", key: organisation, logs: off, metadata: unset, view: 200, list: 200, sees: true},
		{name: "the organisation's, nothing", key: organisation, logs: off, metadata: off, view: 404, list: 200},
		{name: "the owner's, nothing", key: gatewaytest.OwnerKey, logs: off, metadata: off, view: 404, list: 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.T = t
			set(`{"organisationAdminsViewLogs":` + c.logs + `,"organisationAdminsViewLogMetadata":` + c.metadata + `}`)
			for _, path := range []string{"/v1/logs/" + id, "/v2/logs/" + a.Header.Get("x-gw-trace-id")} {
				view := g.Do("GET", path, "", "x-gw-api-key: "+c.key)
				if view.Status != c.view || view.Get("request.body").Exists() != c.seesBodies || view.Get("response.body").Exists() != c.seesBodies {
					t.Errorf("%d %s", view.Status, view.Body)
				}
			}
			list := g.Do("GET", "/v1/logs", "", "x-gw-api-key: "+c.key)
			if list.Status != c.list || c.list == 200 && (list.Get("total").Int() == 1) != c.sees || (list.Get("data.0.id").Str == id) != c.sees {
				t.Errorf("%d %s", list.Status, list.Body)
			}
			if named := g.Do("GET", "/v1/logs?workspace_id="+workspace, "", "x-gw-api-key: "+c.key); c.list == 200 && !c.sees && named.Status != 403 {
				t.Errorf("%d %s", named.Status, named.Body)
			}
		})
	}
	g.T = t
	set(`{"organisationAdminsViewLogs":false}`)
	if got := g.Admin("GET", "/v1/admin/workspaces/"+workspace, nil).Get("security_settings").Raw; got != `{"organisationAdminsViewLogs":false,"organisationAdminsViewLogMetadata":false}` {
		t.Errorf("the settings are %s", got)
	}
}

// A workspace may refuse that bodies are kept, whatever the operator allows; the operator's
// default is that none are.
func TestBodiesAreKeptOnlyWhereAllAgree(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	kept := func() bool {
		return logOf(g, g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file")).Get("request.body").Exists()
	}
	if !kept() {
		t.Error("not kept")
	}
	for _, c := range []struct {
		setting string
		want    int64
	}{{"0", 0}, {"true", 1}, {"false", 0}, {"1", 1}} {
		g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"settings": map[string]any{"debug_log": json.RawMessage(c.setting)}})
		if got := g.Admin("GET", "/v1/admin/workspaces/"+workspace, nil).Get("settings.debug_log").Int(); got != c.want || kept() != (c.want == 1) {
			t.Errorf("debug_log %s: %d", c.setting, got)
		}
	}
	g.Options = up.Provider("file")
	g.Load()
	if kept() {
		t.Error("kept by default")
	}
}

func TestListsOfRecordsFilterAndPage(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file")+up.Provider("other"))
	key, id := g.Key("k")
	var last *gatewaytest.Answer
	begun := time.Now()
	for i := range 12 {
		provider, body := "file", strings.Replace(gatewaytest.Chat, `"m"`, fmt.Sprintf(`"m%d"`, i%3), 1)
		if i%4 == 0 {
			provider = "other"
		}
		last = g.Do("POST", "/v1/chat/completions", body, "x-gw-api-key: "+key, "x-gw-provider: "+provider, fmt.Sprintf(`x-gw-metadata: {"n":"%d"}`, i%2))
	}
	logOf(g, last)
	day := begun.Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for query, want := range map[string]int64{
		"": 12, "ai_org=other": 3, "ai_org=other,file": 12, "ai_org=nobody": 0, "ai_model=m1": 4, "ai_model=m1&ai_org=other": 1, "status_code=200": 12, "status_code=2xx": 12,
		"status_code=500,4xx": 0, "api_key_id=" + id: 12, "api_key_id=x": 0, "endpoint=chatComplete": 12, "cache_status=DISABLED": 12, "cache_status=HIT": 0,
		"time_of_generation_min=" + day: 0, "time_of_generation_max=" + day: 12, "metadata=" + `%7B%22n%22:%221%22%7D`: 6, "trace_id=" + last.Header.Get("x-gw-trace-id"): 1,
	} {
		a := g.Admin("GET", "/v1/logs?"+query, nil)
		if a.Get("total").Int() != want || int64(len(a.Get("data").Array())) != want || a.Get("has_more").Bool() || a.Get("next_cursor").Raw != "null" || a.Get("object").Str != "list" {
			t.Errorf("%s: want %d, got %.300s", query, want, a.Body)
		}
	}
	var byCursor, byPage []string
	cursor := ""
	for range 4 {
		a := g.Admin("GET", "/v1/logs?page_size=5"+cursor, nil)
		for _, r := range a.Get("data.#.id").Array() {
			byCursor = append(byCursor, r.Str)
		}
		if cursor = "&cursor=" + a.Get("next_cursor").Str; !a.Get("has_more").Bool() {
			break
		}
	}
	for page := range 4 {
		a := g.Admin("GET", fmt.Sprintf("/v1/logs?page_size=5&current_page=%d", page), nil)
		for _, r := range a.Get("data.#.id").Array() {
			byPage = append(byPage, r.Str)
		}
		if a.Get("total").Int() != 12 {
			t.Errorf("page %d: %s", page, a.Body)
		}
	}
	if strings.Join(byCursor, " ") != strings.Join(byPage, " ") || len(byPage) != 12 {
		t.Errorf("%v %v", byCursor, byPage)
	}
	for query, names := range map[string]string{
		"model=m1": "model: there is no such filter", "ai_model=100%": "query: expected name=value", "ai_model=m1;x": "query", "metadata=%7B%22a%22:%221%22,%22a%22:%222%22%7D": "metadata", "status_code=429&status_code=500": "status_code: it is given twice", "cost_min=NaN": "cost_min: expected cents", "status_code=6xx": "status_code", "status_code=20": "status_code", "metadata=1": "metadata", "metadata=%7B%22a%22:1%7D": "metadata", "cursor=x": "cursor",
		"cursor=0198d4f0-1234-7abc-8def-0123456789ab&current_page=1": "cursor", "time_of_generation_min=yesterday": "time_of_generation_min", "page_size=-1": "page_size", "workspace_id=nope": "workspace_id",
	} {
		a := g.Do("GET", "/v1/logs?"+query, "", "x-gw-api-key: "+gatewaytest.OwnerKey)
		if a.Status != 400 && a.Status != 404 || !strings.HasPrefix(a.Get("data.message").Str, names) {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	if a := g.Do("GET", "/v1/logs/nope", "", "x-gw-api-key: "+gatewaytest.OwnerKey); a.Status != 404 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestOwnRecords(t *testing.T) {
	g := gatewaytest.Start(t, keepBodies)
	key, id := g.Key("k")
	writer := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "w", "scopes": []string{"logs.write"}}).Get("key").Str
	reader := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "r", "scopes": []string{"logs.view"}}).Get("key").Str
	const one = `{"request":{"url":"https://user:canary@models.example.com/v1/chat?key=canary","method":"POST","headers":{"Authorization":"Bearer canary","X-Api-Key":"canary","x-team":"blue"},` +
		`"body":{"model":"own","messages":[]}},"response":{"status":201,"headers":{"set-cookie":"canary","x-y":"z"},"body":{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}},"response_time":1500},` +
		`"metadata":{"trace_id":"own-trace","span_id":"s","span_name":"n","env":"prod"}}`
	post := func(key, body string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/logs", body, "x-gw-api-key: "+key)
	}
	for _, k := range []string{key, writer, gatewaytest.OwnerKey} {
		if a := post(k, strings.Replace(one, "own-trace", "own-"+k[len(k)-6:], 1)); a.Status != 200 || a.Body != "ok" || !strings.HasPrefix(a.Header.Get("content-type"), "text/plain") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if a := post(reader, one); a.Status != 403 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	r := logOf(g, &gatewaytest.Answer{Header: http.Header{"X-Gw-Trace-Id": {"own-" + key[len(key)-6:]}}})
	for path, want := range map[string]any{
		"request.url": "https://models.example.com/v1/chat", "request.method": "POST", "request.headers.x-team": "blue", "request.body.model": "own", "response.status": 201.0,
		"response.headers.x-y": "z", "response.responseTime": 1500.0, "metrics.source": "own", "metrics.ai_model": "own", "metrics.req_units": 3.0, "metrics.res_units": 4.0,
		"metrics.span_id": "s", "metrics.span_name": "n", `metrics.metadata\.key.0`: "env", "metrics.api_key_id": id, "metrics.attempts": 0.0,
	} {
		if got := r.Get(path).Value(); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if strings.Contains(r.Body, "canary") {
		t.Errorf("a credential is in %s", r.Body)
	}
	if a := post(key, "["+one+","+one+"]"); a.Status != 200 || a.Body != "ok" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	eventually(t, "both", func() bool { return g.Admin("GET", "/v1/logs?trace_id=own-trace", nil).Get("total").Int() == 2 })
	for _, c := range []struct{ body, names string }{
		{`{}`, "request: "},
		{`[]`, "body: "},
		{`[{}]`, "[0].request: "},
		{`"x"`, ""},
		{`{"request":{}}`, "response: "},
		{`{"request":{"url":"https://x","body":[]},"response":{"body":{}}}`, "request.body: "},
		{`{"request":{"url":"https://x","body":{}},"response":{}}`, "response.body: "},
		{`{"request":{"body":{}},"response":{"body":{}}}`, "request.url: "},
		{`{"request":{"url":"https://x","method":"get","body":{}},"response":{"body":{}}}`, "request.method: "},
		{`[` + one + `,{"request":{"url":"https://x","body":{}},"response":{"body":{},"status":99}}]`, "[1].response.status: "},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{},"status":"x"}}`, ""},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{},"response_time":-1}}`, "response.response_time: "},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{}},"metadata":{"a":1}}`, ""},
		{`{"request":{"url":"https://x","body":{}},"response":{"body":{}},"metadata":{"a":"` + strings.Repeat("x", 129) + `"}}`, "metadata: "},
		{`[` + strings.Repeat(`{"request":{"url":"https://x","body":{}},"response":{"body":{}}},`, 1000) + one + `]`, "body: "},
	} {
		if a := post(key, c.body); a.Status != 400 || !strings.HasPrefix(a.Get("data.message").Str, c.names) {
			t.Errorf("%.100s: %d %s", c.body, a.Status, a.Body)
		}
	}
}

// No credential of a call, of the gateway or of a provider is in a record, nor in the store
// with its bodies.
func TestNoSecretIsInARecord(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "canary-cookie")
		respond(200, gatewaytest.Completion)(w, r)
	})
	g := gatewaytest.Start(t, trustLoopback+keepBodies+"provider file {\ntype openai\nbase_url "+up.URL+"/v1\napi_key canary-of-the-file\nheader X-Extra canary-header\n}\n")
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "canary-of-the-virtual-key", "custom_host": up.URL + "/v1"})
	var last *gatewaytest.Answer
	for _, headers := range [][]string{
		{"x-gw-provider: file", "x-api-key: canary-x", "cookie: canary"},
		{"x-gw-virtual-key: vk"},
		{"authorization: Bearer canary-of-the-caller", "x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/v1"},
		{`x-gw-config: {"provider":"@file","api_key":"canary-in-a-config","retry":{"attempts":1}}`},
		{`x-gw-config: {"provider":"openai","api_key":"canary-in-a-config","custom_host":"` + up.URL + `/v1"}`},
		{"x-gw-provider: file", "x-gw-aws-secret-access-key: canary-of-aws"},
	} {
		last = g.Do("POST", "/v1/chat/completions?key=canary-in-the-query", gatewaytest.Chat, append(headers, "x-gw-api-key: "+key)...)
	}
	logOf(g, last)
	log := requestLog(t)
	list, err := log.List(t.Context(), &reqlog.Filter{}, reqlog.Page{Limit: 100})
	if err != nil || len(list.Records) < 4 {
		t.Fatal(len(list.Records), err)
	}
	for _, r := range list.Records {
		if err := log.Bodies(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(b, r.Request.Bytes...), r.Response.Bytes...)
		shown := g.Admin("GET", "/v1/logs/"+r.ID, nil)
		for _, secret := range []string{"canary", key, gatewaytest.OwnerKey} {
			if bytes.Contains(b, []byte(secret)) || strings.Contains(shown.Body, secret) {
				t.Errorf("%q is in %s or %s", secret, b, shown.Body)
			}
		}
	}
}

// What the organisation says of its keys holds where a workspace says nothing of its own.
func TestOrganisationsSayWhatTheirKeysSee(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	key, _ := g.Key("k")
	organisation := g.Admin("POST", "/v1/api-keys/organisation/service", map[string]any{"name": "o", "scopes": []string{"logs.view", "logs.list", "organisation_settings.read"}}).Get("key").Str
	workspace := "/v1/admin/workspaces/" + g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	id := logOf(g, call(g, key)).Get("_id").Str
	set := func(path, logs, metadata string) {
		t.Helper()
		g.Admin("PUT", path, map[string]any{"security_settings": json.RawMessage(`{"organisationAdminsViewLogs":` + logs + `,"organisationAdminsViewLogMetadata":` + metadata + `}`)})
	}
	const on, off, unset = "true", "false", "null"
	for _, c := range []struct {
		organisation, workspace [2]string // logs, metadata
		bodies, sees            bool
	}{
		{[2]string{unset, unset}, [2]string{unset, unset}, true, true},
		{[2]string{off, unset}, [2]string{unset, unset}, false, true},
		{[2]string{off, off}, [2]string{unset, unset}, false, false},
		{[2]string{off, off}, [2]string{off, on}, false, true},
		{[2]string{off, off}, [2]string{on, unset}, true, true},
		{[2]string{on, on}, [2]string{off, unset}, false, true},
		{[2]string{on, on}, [2]string{off, off}, false, false},
		{[2]string{off, on}, [2]string{unset, off}, false, false},
	} {
		set("/v1/admin/organisation", c.organisation[0], c.organisation[1])
		set(workspace, c.workspace[0], c.workspace[1])
		view := g.Do("GET", "/v1/logs/"+id, "", "x-gw-api-key: "+organisation)
		if (view.Status == 200) != c.sees || view.Get("request.body").Exists() != c.bodies {
			t.Errorf("%+v: %d %s", c, view.Status, view.Body)
		}
		if shown := g.Admin("GET", workspace, nil).Get("security_settings"); shown.Get("organisationAdminsViewLogs").Bool() != c.bodies || shown.Get("organisationAdminsViewLogMetadata").Bool() != c.sees {
			t.Errorf("%+v: shown as %s", c, shown)
		}
		g.Load() // it is stored
	}
	for _, c := range []struct{ key, method, body, message string }{
		{gatewaytest.OwnerKey, "PUT", `{"security_settings":{"organisationAdminsViewLogs":true,"organisationAdminsViewLogMetadata":false}}`, "organisationAdminsViewLogMetadata"},
		{gatewaytest.OwnerKey, "PUT", `{"security_settings":{"organisationAdminsViewLogs":"no"}}`, "organisationAdminsViewLogs"},
		{gatewaytest.OwnerKey, "PUT", `{"name":""}`, "name"},
		{organisation, "PUT", `{"name":"mine"}`, "organisation_settings.update"},
		{key, "GET", ``, "organisation_settings.read"},
	} {
		if a := g.Do(c.method, "/v1/admin/organisation", c.body, "x-gw-api-key: "+c.key); a.Status != 400 && a.Status != 403 || !strings.Contains(a.Body, c.message) {
			t.Errorf("%s %s: %d %s", c.method, c.body, a.Status, a.Body)
		}
	}
	g.Admin("PUT", "/v1/admin/organisation", map[string]any{"name": "Acme"})
	if a := g.Do("GET", "/v1/admin/organisation", "", "x-gw-api-key: "+organisation); a.Get("name").Str != "Acme" || a.Get("object").Str != "organisation" || a.Get("security_settings").Raw != `{"organisationAdminsViewLogs":false,"organisationAdminsViewLogMetadata":true}` {
		t.Errorf("%d %s", a.Status, a.Body)
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
