package handlers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

const simple = "x-gw-cache: simple"

// replies is a provider that never says the same twice.
func replies(n *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		respond(200, fmt.Sprintf(`{"id":"c%d","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"answer %d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`, n.Add(1), n.Load()))(w, r)
	}
}

func TestTheSameCallIsAnsweredFromTheCache(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	ask := func(body string, headers ...string) (answer, status string) {
		t.Helper()
		a, err := l.ask("POST", "/v1/chat/completions", body, append(headers, cue+"n", "x-gw-provider: bad")...)
		if err != nil || a.Status != 200 {
			t.Fatalf("%d %s %v", a.Status, a.Body, err)
		}
		return a.Get("choices.0.message.content").Str, a.Header.Get("x-gw-cache-status")
	}
	other := `{ "messages" : [ {"content":"\u0068i","role":"user"} ] ,"model":"m"}`
	for _, c := range []struct {
		name, body     string
		headers        []string
		answer, status string
	}{
		{"without the header", gatewaytest.Chat, nil, "answer 1", "DISABLED"},
		{"the first", gatewaytest.Chat, []string{simple}, "answer 2", "MISS"},
		{"again", gatewaytest.Chat, []string{simple}, "answer 2", "HIT"},
		{"spelled otherwise", other, []string{simple}, "answer 2", "HIT"},
		{"the older word", gatewaytest.Chat, []string{"x-gw-cache: true"}, "answer 2", "HIT"},
		{"refreshed", gatewaytest.Chat, []string{simple, "x-gw-cache-force-refresh: true"}, "answer 3", "REFRESH"},
		{"after that", gatewaytest.Chat, []string{simple}, "answer 3", "HIT"},
		{"a namespace", gatewaytest.Chat, []string{simple, "x-gw-cache-namespace: a"}, "answer 4", "MISS"},
		{"the same namespace", gatewaytest.Chat, []string{simple, "x-gw-cache-namespace: a", `x-gw-metadata: {"u":1}`}, "answer 4", "HIT"},
		{"metadata without one", gatewaytest.Chat, []string{simple, `x-gw-metadata: {"u":1}`}, "answer 5", "MISS"},
		{"strict or not", gatewaytest.Chat, []string{simple, "x-gw-strict-open-ai-compliance: false"}, "answer 6", "MISS"},
		{"no debug, no cache", gatewaytest.Chat, []string{simple, "x-gw-debug: false"}, "answer 7", "DISABLED"},
		{"another body", strings.Replace(gatewaytest.Chat, "hi", "ho", 1), []string{simple}, "answer 8", "MISS"},
	} {
		if answer, status := ask(c.body, c.headers...); answer != c.answer || status != c.status {
			t.Errorf("%s: got %q, %s; want %q, %s", c.name, answer, status, c.answer, c.status)
		}
	}
	// A config's cache is for its targets.
	config := `{"provider":"@bad","cache":{"mode":"simple","max_age":60}}`
	if a := l.chat(gatewaytest.Chat, config, cue+"n"); a.Header.Get("x-gw-cache-status") != "HIT" || a.Header.Get("x-gw-last-used-option-index") != "config" {
		t.Errorf("a config: %v", a.Header)
	}
	if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: bad", "x-gw-cache: maybe"); a.Status != 400 || a.Get("error.param").Str != "x-gw-cache" {
		t.Errorf("an unknown mode: %d %s", a.Status, a.Body)
	}
}

func TestErrorsAndBrokenAnswersAreNotKept(t *testing.T) {
	l := newLab(t, "", "")
	for name, serve := range map[string]http.HandlerFunc{
		"an error":                   respond(500, overloaded),
		"an error with 200":          respond(200, overloaded),
		"half an answer":             respond(200, gatewaytest.Completion[:40], "Content-Length", "1000"),
		"no JSON":                    respond(200, `{"choices":`),
		"a stream that is cut":       then(stream(role, hello), cut),
		"a stream with an error":     stream(role, hello, "data: "+overloaded+"\n\n"),
		"cut at its length":          respond(200, strings.Replace(gatewaytest.Completion, `"stop"`, `"length"`, 1)),
		"a stream cut at its length": stream(role, hello, strings.Replace(stopped, `"stop"`, `"length"`, 1), done),
		"nothing":                    respond(200, `{}`),
		"no choice":                  respond(200, `{"id":"c","choices":[]}`),
		"not ended":                  respond(200, strings.Replace(gatewaytest.Completion, `"stop"`, `null`, 1)),
		"at the model's length":      respond(200, strings.Replace(gatewaytest.Completion, `"stop"`, `"MAX_TOKENS"`, 1)),
		"interrupted":                respond(200, strings.Replace(gatewaytest.Completion, `"stop"`, `"insufficient_system_resource"`, 1)),
		"an error beside choices":    respond(200, strings.Replace(gatewaytest.Completion, `"usage"`, `"error":{"message":"x"},"usage"`, 1)),
		"filtered":                   respond(200, strings.Replace(gatewaytest.Completion, `"stop"`, `"content_filter"`, 1)),
		"a stream without an end":    stream(role, hello, done),
		"a malformed stream":         stream(role, "data: {\n\n", hello, stopped, done),
	} {
		l.on(name, serve)
		body := gatewaytest.Chat
		if strings.Contains(name, "stream") {
			body = streamedChat
		}
		for range 2 {
			a, _ := l.ask("POST", "/v1/chat/completions", strings.Replace(body, "hi", name, 1), cue+name, simple, "x-gw-provider: bad")
			if a.Header.Get("x-gw-cache-status") != "MISS" {
				t.Errorf("%s: %s", name, a.Header.Get("x-gw-cache-status"))
			}
		}
	}
}

// Callers who stream and callers who do not share what is kept.
func TestStreamsAndWholeAnswersShareTheCache(t *testing.T) {
	l := newLab(t, "", "")
	const whole = `{"id":"c","object":"chat.completion","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"hello","refusal":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	call := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]},"finish_reason":null}]}` + "\n\n"
	l.on("whole", respond(200, whole))
	l.on("stream", stream(role, hello, call, stopped, spent, done))
	say := func(text, cued string, streams bool) *gatewaytest.Answer {
		t.Helper()
		body := gatewaytest.Chat
		if streams {
			body = streamedChat
		}
		a, err := l.ask("POST", "/v1/chat/completions", strings.Replace(body, "hi", text, 1), cue+cued, simple, "x-gw-provider: bad")
		if err != nil || a.Status != 200 {
			t.Fatalf("%d %s, %v", a.Status, a.Body, err)
		}
		return a
	}
	say("first", "whole", false)
	a := say("first", "whole", true)
	if a.Header.Get("x-gw-cache-status") != "HIT" || a.Header.Get("Content-Type") != "text/event-stream" || !strings.HasSuffix(a.Body, done) || strings.Contains(a.Body, "usage") {
		t.Fatalf("a stream of a whole answer: %v\n%s", a.Header, a.Body)
	}
	text, arguments := "", ""
	for line := range strings.SplitSeq(a.Body, "\n") {
		chunk := gjson.Parse(strings.TrimPrefix(line, "data: "))
		text += chunk.Get("choices.0.delta.content").Str
		arguments += chunk.Get("choices.0.delta.tool_calls.0.function.arguments").Str
	}
	if text != "hello" || arguments != `{"a":1}` || !strings.Contains(a.Body, `"finish_reason":"tool_calls"`) || !strings.Contains(a.Body, `"system_fingerprint":"fp"`) {
		t.Errorf("%q %q\n%s", text, arguments, a.Body)
	}
	say("second", "stream", true)
	if a = say("second", "stream", true); a.Header.Get("x-gw-cache-status") != "HIT" || a.Body != role+hello+call+stopped+done {
		t.Errorf("a stream again: %q", a.Body)
	}
	if a = say("second", "stream", false); a.Header.Get("x-gw-cache-status") != "HIT" || a.Get("choices.0.message.content").Str != "hello" ||
		a.Get("choices.0.message.tool_calls.0.function.arguments").Str != `{"a":1}` || a.Get("usage.total_tokens").Int() != 5 || a.Get("object").Str != "chat.completion" {
		t.Errorf("one piece of a stream: %s", a.Body)
	}
}

// Calls that are the same at the same time make one upstream call. One whose leader's
// client leaves is made again.
func TestSameCallsAtTheSameTimeMakeOneUpstream(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	begun, gone, goOn := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	l.on("slow", func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
			gone <- struct{}{}
			return
		}
		replies(&n)(w, r)
	})
	ask := func() *gatewaytest.Answer {
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"slow", simple, "x-gw-provider: bad")
		return a
	}
	// The leader leaves.
	ctx, leave := context.WithCancel(t.Context())
	leader := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, cue+"slow", simple, "x-gw-provider: bad").WithContext(ctx)
	go func() {
		if res, err := http.DefaultClient.Do(leader); err == nil {
			res.Body.Close()
		}
	}()
	<-begun
	var wg sync.WaitGroup
	answers := make([]*gatewaytest.Answer, 20)
	for i := range answers {
		wg.Go(func() { answers[i] = ask() })
	}
	leave()
	<-begun // by one of the others
	<-gone  // the leader's, at the provider too
	close(goOn)
	wg.Wait()
	hits := 0
	for _, a := range answers {
		if a.Status != 200 || a.Get("choices.0.message.content").Str != "answer 1" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a.Header.Get("x-gw-cache-status") == "HIT" {
			hits++
		}
	}
	if n.Load() != 1 || hits != len(answers)-1 {
		t.Errorf("%d upstream calls, %d hits", n.Load(), hits)
	}
}

// Who waits for another's answer waits as long as for an own one, does not wait for what
// cannot be shared, and does not wait for a client that reads nothing.
func TestWhoWaitsForAnAnswerIsNotHeldUp(t *testing.T) {
	long := func(n int) string {
		return strings.Replace(gatewaytest.Completion, `"ok"`, `"`+strings.Repeat("x", n)+`"`, 1)
	}
	begin := func(t *testing.T, more http.HandlerFunc) (l *lab, begun chan struct{}) {
		l, begun = newLab(t, "", ""), make(chan struct{}, 9)
		l.on("slow", func(w http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			w.Header().Set("Content-Type", "application/json")
			more(w, r)
		})
		return l, begun
	}
	headers := []string{cue + "slow", simple, "x-gw-provider: bad"}
	t.Run("a timeout", func(t *testing.T) {
		goOn := make(chan struct{})
		l, begun := begin(t, func(w http.ResponseWriter, _ *http.Request) {
			<-goOn
			_, _ = io.WriteString(w, gatewaytest.Completion)
		})
		first := make(chan *gatewaytest.Answer)
		go func() {
			a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...)
			first <- a
		}()
		<-begun
		if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-request-timeout: 100")...); a.Status != 408 || !strings.Contains(a.Body, "100ms") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		close(goOn)
		if a := <-first; a.Status != 200 || len(begun) > 0 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
	t.Run("a timeout, though leaders change", func(t *testing.T) {
		l, begun := begin(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		lead := func(ctx context.Context) {
			request := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-api-key: "+l.key)...)
			if res, err := http.DefaultClient.Do(request.WithContext(ctx)); err == nil {
				res.Body.Close()
			}
		}
		go lead(ctx)
		<-begun
		follower, start := make(chan time.Duration), time.Now()
		go func() {
			if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-request-timeout: 2000")...); a.Status != 408 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			follower <- time.Since(start)
		}()
		eventually(t, "most of its time is over", func() bool { return time.Since(start) > 1500*time.Millisecond })
		leave() // the follower leads now, with what is left of its time
		<-begun
		if took := <-follower; took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("too long to be kept", func(t *testing.T) {
		goOn := make(chan struct{})
		l, begun := begin(t, func(w http.ResponseWriter, _ *http.Request) {
			answer := long(5 << 20)
			_, _ = io.WriteString(w, answer[:len(answer)-10])
			<-goOn
			_, _ = io.WriteString(w, answer[len(answer)-10:])
		})
		var wg sync.WaitGroup
		ask := func() {
			if a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...); err != nil || a.Status != 200 || !gjson.Valid(a.Body) {
				t.Errorf("%d %v", a.Status, err)
			}
		}
		wg.Go(ask)
		<-begun
		wg.Go(ask)
		<-begun // though the first is not over
		close(goOn)
		wg.Wait()
	})
	t.Run("a client that does not read", func(t *testing.T) {
		l, begun := begin(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long(4_000_000)) })
		dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		}}
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(l.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-api-key: "+l.key)...).Write(conn); err != nil {
			t.Fatal(err)
		}
		<-begun
		if a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...); err != nil || a.Status != 200 {
			t.Errorf("%d %v", a.Status, err)
		}
	})
}

// What reaches the provider makes a call another, wherever it comes from.
func TestHeadersThatProvidersGetTellCallsApart(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, trustLoopback+strings.Replace(up.Provider("a"), "}", "header X-Team a\n}", 1)+strings.Replace(up.Provider("b"), "}", "header X-Team b\n}", 1))
	key, _ := g.Key("k")
	status := func(provider string, headers ...string) string {
		t.Helper()
		return g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, simple, "x-gw-api-key: "+key, "x-gw-provider: "+provider)...).Header.Get("x-gw-cache-status")
	}
	const forward = "x-gw-forward-headers: x-tenant"
	for i, c := range []struct {
		got, want string
	}{
		{status("a"), "MISS"},
		{status("b"), "MISS"},
		{status("a"), "HIT"},
		{status("a", forward, "x-tenant: a", "x-tenant: b"), "MISS"},
		{status("a", forward, "x-tenant: a", "x-tenant: c"), "MISS"},
		{status("a", forward, "x-tenant: a", "x-tenant: b"), "HIT"},
	} {
		if c.got != c.want {
			t.Errorf("call %d: %s, want %s", i, c.got, c.want)
		}
	}
}

// A hit is not forwarded, and counts against no limit of forwarded calls.
func TestAHitIsNotCounted(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	l.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpd", "value": 2})
	for i := range 5 {
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"n", simple, "x-gw-provider: bad")
		if a.Status != 200 {
			t.Fatalf("call %d: %d %s", i, a.Status, a.Body)
		}
	}
	// Nor does a target's own limit.
	for i := range 3 {
		if a := l.chat(gatewaytest.Chat, `{"provider":"@bad","cache":"simple"}`, cue+"n"); a.Status != 200 || a.Header.Get("x-gw-cache-status") != "HIT" {
			t.Fatalf("by a config, call %d: %d %s", i, a.Status, a.Body)
		}
	}
	if n.Load() != 1 {
		t.Errorf("%d upstream calls", n.Load())
	}
}

// meanings is a model of embeddings for which two texts are the same if they begin the
// same, in two dimensions.
func meanings(t *testing.T) *gatewaytest.Upstream {
	var m *gatewaytest.Upstream
	m = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-of-the-file-meanings" || r.Header.Get("X-Client-Request-Id") != "" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		vector := "[1,0]"
		switch text := gjson.Get(m.Last(t).Body, "input").Str; {
		case strings.Contains(text, "broken"):
			w.WriteHeader(http.StatusInternalServerError)
			return
		case strings.Contains(text, "long"):
			vector = "[1,0,0]"
		case strings.Contains(text, "weather"):
			vector = "[0,1]"
		case strings.Contains(text, "nearly"):
			vector = "[0.96,0.28]"
		case strings.Contains(text, "hardly"):
			vector = "[0.9,0.4359]"
		}
		respond(200, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":`+vector+`}],"model":"e","usage":{"prompt_tokens":1}}`)(w, r)
	})
	return m
}

func TestQuestionsOfTheSameMeaningShareAnAnswer(t *testing.T) {
	m := meanings(t)
	l := newLab(t, m.Provider("meanings")+"semantic_cache {\n\t\t\tprovider meanings\n\t\t}\n", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	ask := func(messages, more string, headers ...string) (answer, status string) {
		t.Helper()
		a, err := l.ask("POST", "/v1/chat/completions", `{"model":"m","messages":[`+messages+`]`+more+`}`, append(headers, cue+"n", "x-gw-provider: bad")...)
		if err != nil || a.Status != 200 {
			t.Fatalf("%d %s %v", a.Status, a.Body, err)
		}
		return a.Get("choices.0.message.content").Str, a.Header.Get("x-gw-cache-status")
	}
	user := func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	const semantic = "x-gw-cache: semantic"
	five := strings.Repeat(user("a")+",", 4) + user("b")
	for _, c := range []struct {
		name, messages, more string
		headers              []string
		answer, status       string
	}{
		{"the first", user("capital of France"), "", []string{semantic}, "answer 1", "SEMANTIC MISS"},
		{"the same letters", user("capital of France"), "", []string{semantic}, "answer 1", "HIT"},
		{"other letters", user("which city is it"), "", []string{semantic}, "answer 1", "SEMANTIC HIT"},
		{"near enough", user("nearly the same"), "", []string{semantic}, "answer 1", "SEMANTIC HIT"},
		{"not near enough", user("hardly the same"), "", []string{semantic}, "answer 2", "SEMANTIC MISS"},
		{"another meaning", user("the weather"), "", []string{semantic}, "answer 3", "SEMANTIC MISS"},
		{"other parameters", user("which city is that"), `,"temperature":0.5`, []string{semantic}, "answer 4", "SEMANTIC MISS"},
		{"a namespace", user("which city is that"), "", []string{semantic, "x-gw-cache-namespace: a"}, "answer 5", "SEMANTIC MISS"},
		{"too many messages", five, "", []string{semantic}, "answer 6", "MISS"},
		{"an image", `{"role":"user","content":[{"type":"text","text":"what"},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}`, "", []string{semantic}, "answer 7", "MISS"},
		{"texts in parts", `{"role":"user","content":[{"type":"text","text":"which"},{"type":"text","text":" city"}]}`, "", []string{semantic}, "answer 1", "SEMANTIC HIT"},
		{"a model that fails", user("broken"), "", []string{semantic}, "answer 8", "SEMANTIC MISS"},
		{"by letters only", user("which town"), "", []string{simple}, "answer 9", "MISS"},
		{"a message of the system's", `{"role":"system","content":"be brief"},` + user("yet another"), "", []string{semantic}, "answer 10", "SEMANTIC MISS"},
		{"the same one", `{"role":"system","content":"be brief"},` + user("and another"), "", []string{semantic}, "answer 10", "SEMANTIC HIT"},
		{"another one", `{"role":"system","content":"be cruel"},` + user("and another"), "", []string{semantic}, "answer 11", "SEMANTIC MISS"},
		{"turns before", user("a") + `,{"role":"assistant","content":"b"},` + user("and another"), "", []string{semantic}, "answer 12", "SEMANTIC MISS"},
		{"tools", user("and another"), `,"tools":[{"type":"function","function":{"name":"f"}}]`, []string{semantic}, "answer 13", "SEMANTIC MISS"},
	} {
		if answer, status := ask(c.messages, c.more, c.headers...); answer != c.answer || status != c.status {
			t.Errorf("%s: got %q, %s; want %q, %s", c.name, answer, status, c.answer, c.status)
		}
	}
	if sent := m.Last(t); sent.Path != "/v1/embeddings" || gjson.Get(sent.Body, "model").Str != "text-embedding-3-small" {
		t.Errorf("%s %s", sent.Path, sent.Body)
	}
	if _, status := ask(`{"role":"user","name":"x","content":"which city"}`, "", semantic); status != "MISS" {
		t.Errorf("a name: %s", status)
	}
	l.Load() // what was learned survives
	if answer, status := ask(user("and which one"), "", semantic); answer != "answer 1" || status != "SEMANTIC HIT" {
		t.Errorf("after a reload: %q, %s", answer, status)
	}
	if a := l.chat(`{"model":"m","messages":[`+user("which else")+`]}`, `{"provider":"@bad","cache":{"mode":"semantic"}}`, cue+"n"); a.Header.Get("x-gw-cache-status") != "SEMANTIC HIT" {
		t.Errorf("by a config: %v", a.Header)
	}
	// A fresh answer is found by its meaning, too.
	if _, status := ask(user("the weather, but fresh"), "", semantic, "x-gw-cache-namespace: fresh", "x-gw-cache-force-refresh: true"); status != "REFRESH" {
		t.Errorf("refreshed: %s", status)
	}
	if _, status := ask(user("weather"), "", semantic, "x-gw-cache-namespace: fresh"); status != "SEMANTIC HIT" {
		t.Errorf("after a refresh: %s", status)
	}
	// Meanings of another length are others.
	for _, c := range []struct{ text, want string }{{"long", "SEMANTIC MISS"}, {"long too", "SEMANTIC HIT"}, {"which city", "SEMANTIC HIT"}} {
		if _, status := ask(user(c.text), "", semantic); status != c.want {
			t.Errorf("%s: %s, want %s", c.text, status, c.want)
		}
	}
	// Another model has other words for meanings.
	l.Options = strings.Replace(l.Options, "provider meanings\n", "provider meanings\n\t\t\tmodel other\n", 1)
	l.Load()
	if _, status := ask(user("which of them"), "", semantic); status != "SEMANTIC MISS" {
		t.Errorf("with another model: %s", status)
	}
}

// Each workspace has answers of its own, unless the operator shares them.
func TestWorkspacesShareAnswersWhereTheOperatorSaysSo(t *testing.T) {
	m := meanings(t)
	l := newLab(t, m.Provider("meanings")+"semantic_cache {\n\t\t\tprovider meanings\n\t\t}\n", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	l.Admin("POST", "/v1/admin/workspaces", map[string]any{"name": "Other", "slug": "other"})
	other := l.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "k", "workspace_id": "other", "scopes": []string{"completions.write"}}).Get("key").Str
	own := l.key
	steps := func(expected ...string) {
		t.Helper()
		defer func() { l.key = own }()
		for i, c := range []struct{ key, text, mode string }{
			{own, "which city", "semantic"}, {own, "which city", "simple"}, {other, "which city", "simple"}, {other, "which town", "semantic"}, {other, "which village", "semantic"}, {own, "which hamlet", "semantic"},
		} {
			l.key = c.key
			a, err := l.ask("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, "hi", c.text, 1), cue+"n", "x-gw-provider: bad", "x-gw-cache: "+c.mode)
			if got := a.Header.Get("x-gw-cache-status"); err != nil || a.Status != 200 || got != expected[i] {
				t.Errorf("%d, %s: %d %s, want %s", i, c.text, a.Status, got, expected[i])
			}
		}
	}
	steps("SEMANTIC MISS", "HIT", "MISS", "SEMANTIC MISS", "SEMANTIC HIT", "SEMANTIC HIT")
	l.Options += "\t\tcache_scope organisation\n"
	l.Load()
	steps("SEMANTIC MISS", "HIT", "HIT", "SEMANTIC HIT", "SEMANTIC HIT", "SEMANTIC HIT")
}

// What one credential was answered is not for another, which the provider might refuse.
func TestACallersOwnCredentialTellsItsCallsApart(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	for i, c := range []struct{ bearer, header, status string }{
		{"one", "", "MISS"},
		{"two", "", "MISS"},
		{"one", "", "HIT"},
		{"one", "x-gw-openai-organization: a", "MISS"},
		{"one", "x-gw-aws-session-token: a", "MISS"},
		{"one", "x-gw-aws-session-token: b", "MISS"},
		{"one", "x-gw-aws-session-token: a", "HIT"},
	} {
		headers := []string{cue + "n", simple, "x-gw-provider: openai", "authorization: Bearer " + c.bearer, "x-gw-custom-host: " + l.bad.URL}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, headers...)
		if err != nil || a.Status != 200 || a.Header.Get("x-gw-cache-status") != c.status {
			t.Errorf("%d: %d %s, want %s: %s", i, a.Status, a.Header.Get("x-gw-cache-status"), c.status, a.Body)
		}
	}
	// So does one of a config of the caller's.
	for i, c := range []struct{ key, status string }{{"three", "MISS"}, {"four", "MISS"}, {"three", "HIT"}} {
		a := l.chat(gatewaytest.Chat, `{"provider":"openai","api_key":"`+c.key+`","custom_host":"`+l.bad.URL+`","cache":{"mode":"simple"}}`, cue+"n")
		if a.Status != 200 || a.Header.Get("x-gw-cache-status") != c.status {
			t.Errorf("config %d: %d %s, want %s: %s", i, a.Status, a.Header.Get("x-gw-cache-status"), c.status, a.Body)
		}
	}
}

func TestSemanticNeedsAModelOfEmbeddings(t *testing.T) {
	l := newLab(t, "", "")
	if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: good", "x-gw-cache: semantic"); a.Status != 400 || !strings.Contains(a.Body, "semantic_cache") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@good","cache":"semantic"}`); a.Status != 400 || !strings.Contains(a.Body, "semantic_cache") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// What is kept is given also where nothing more may be forwarded, and who waits for the
// answer of another call is not counted.
func TestAHitIsGivenWhenTheLimitIsSpent(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	l.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpd", "value": 2})
	ask := func(text string) int {
		a, _ := l.ask("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, "hi", text, 1), cue+"n", simple, "x-gw-provider: bad")
		return a.Status
	}
	for i, c := range []struct {
		text   string
		status int
	}{{"a", 200}, {"a", 200}, {"b", 200}, {"a", 200}, {"c", 429}, {"a", 200}, {"b", 200}, {"c", 429}} {
		if got := ask(c.text); got != c.status {
			t.Errorf("call %d, %s: %d", i, c.text, got)
		}
	}
	if a := l.chat(strings.Replace(gatewaytest.Chat, "hi", "d", 1), `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}],"cache":"simple"}`, cue+"n"); a.Status != 429 {
		t.Errorf("a fallback: %d", a.Status)
	}
	if n.Load() != 2 {
		t.Errorf("%d upstream calls", n.Load())
	}
}

// Where a translated call goes tells it apart, but for the path that its provider has for
// streams.
func TestATranslatedCallIsOfItsAddress(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("azure", respond(200, gatewaytest.Completion))
	l.on("gemini", respond(200, `{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`))
	for _, c := range []struct{ path, body, provider, deployment, cue, status string }{
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, "azure-openai", "one", "azure", "MISS"},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, "azure-openai", "two", "azure", "MISS"},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, "azure-openai", "one", "azure", "HIT"},
		{"/v1/chat/completions", gatewaytest.Chat, "google", "", "gemini", "MISS"},
		{"/v1/chat/completions", streamedChat, "google", "", "gemini", "HIT"},
	} {
		a, err := l.ask("POST", c.path, c.body, cue+c.cue, simple, "x-gw-provider: "+c.provider, "authorization: Bearer own", "x-gw-custom-host: "+l.bad.URL, "x-gw-azure-deployment-id: "+c.deployment)
		if err != nil || a.Status != 200 || a.Header.Get("x-gw-cache-status") != c.status {
			t.Errorf("%s %s: %d %s, want %s: %s", c.provider, c.deployment, a.Status, a.Header.Get("x-gw-cache-status"), c.status, a.Body)
		}
	}
}

// Who may forward nothing more gets no embeddings either.
func TestMeaningsAreNotAskedForBeyondALimit(t *testing.T) {
	m := meanings(t)
	l := newLab(t, m.Provider("meanings")+"semantic_cache {\n\t\t\tprovider meanings\n\t\t}\n", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	l.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpd", "value": 2})
	ask := func(text string) (status int, cache string) {
		a, _ := l.ask("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, "hi", text, 1), cue+"n", "x-gw-cache: semantic", "x-gw-provider: bad")
		return a.Status, a.Header.Get("x-gw-cache-status")
	}
	for i, c := range []struct {
		text   string
		status int
		cache  string
	}{{"a", 200, "SEMANTIC MISS"}, {"b", 200, "SEMANTIC HIT"}, {"c", 200, "SEMANTIC HIT"}, {"the weather", 200, "SEMANTIC MISS"}, {"a", 200, "HIT"}, {"d", 429, ""}} {
		if status, cache := ask(c.text); status != c.status || c.cache != "" && cache != c.cache {
			t.Errorf("call %d, %s: %d %s", i, c.text, status, cache)
		}
	}
	if asked := len(m.Calls()); asked != 4 {
		t.Errorf("%d embeddings", asked)
	}
}
