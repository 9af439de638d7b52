package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
		"an error with choices":      respond(200, strings.Replace(gatewaytest.Completion, `"usage"`, `"error":{"message":"x"},"usage"`, 1)),
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
