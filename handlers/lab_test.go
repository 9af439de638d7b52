package handlers_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// testTimeout is how long a test waits for what should come soon.
const testTimeout = 2 * time.Minute

// cue is the header by which a test tells the bad provider what to do: it is one of
// those that go on to providers.
const cue = "x-client-request-id: "

const (
	role       = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	hello      = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n"
	umlaut     = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"äöü 😀"},"finish_reason":null}]}` + "\n\n"
	stopped    = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	counted    = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
	done       = "data: [DONE]\n\n"
	overloaded = `{"error":{"message":"overloaded","type":"server_error","param":null,"code":null}}`

	goodStream = role + `data: {"id":"g","choices":[{"index":0,"delta":{"content":"good"},"finish_reason":null}]}` + "\n\n" + stopped + done
)

// A lab is a gateway with a provider "good", and one called "bad", which does what
// the cue of a call says.
type lab struct {
	*gatewaytest.Gateway
	key       string
	bad, good *gatewaytest.Upstream
	cues      sync.Map // of http.HandlerFunc
}

// on says what the bad provider does at a cue.
func (l *lab) on(cue string, serve http.HandlerFunc) { l.cues.Store(cue, serve) }

// newLab starts a lab. An empty site is that of every gateway; more sets what else its
// configuration shall have.
func newLab(t *testing.T, options, site string, more ...func(*gatewaytest.Gateway)) *lab {
	t.Helper()
	l := new(lab)
	l.bad = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if serve, ok := l.cues.Load(r.Header.Get("X-Client-Request-Id")); ok {
			serve.(http.HandlerFunc)(w, r)
			return
		}
		w.WriteHeader(http.StatusTeapot) // the test forgot to say what to do
	})
	l.good = gatewaytest.NewUpstream(t, nil)
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		l.good.ServeHTTP(rec, r)
		if calls := l.good.Calls(); gjson.Get(calls[len(calls)-1].Body, "stream").Bool() {
			stream(goodStream)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(rec.Body.Bytes())
	}))
	t.Cleanup(good.Close)
	l.Gateway = gatewaytest.New(t, "block_inline_config off\n"+l.bad.Provider("bad")+strings.Replace(l.good.Provider("good"), l.good.URL, good.URL, 1)+options)
	if site != "" {
		l.Site = site
	}
	for _, set := range more {
		set(l.Gateway)
	}
	l.Load()
	l.key, _ = l.Key("k")
	return l
}

// withAdminEndpoint has Caddy's admin endpoint, which serves the metrics.
func withAdminEndpoint(g *gatewaytest.Gateway) { g.AdminAt = gatewaytest.FreeAddress(g.T) }

// save saves a config and returns its slug.
func (l *lab) save(config string) string {
	l.T.Helper()
	return l.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": json.RawMessage(config)}).Get("slug").Str
}

// ask makes a call with the lab's key; err is why its answer ended early.
func (l *lab) ask(method, path, body string, headers ...string) (*gatewaytest.Answer, error) {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), testTimeout)
	defer cancel()
	res, err := l.Send(func() *http.Request {
		return l.Request(method, path, body, append([]string{"x-gw-api-key: " + l.key}, headers...)...).WithContext(ctx)
	})
	if err != nil {
		l.T.Errorf("%s %s: no answer: %v", method, path, err)
		return &gatewaytest.Answer{Header: http.Header{}}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if ctx.Err() != nil {
		l.T.Errorf("%s %s: the answer does not end", method, path)
	}
	return &gatewaytest.Answer{Status: res.StatusCode, Header: res.Header, Body: string(b)}, err
}

// chat makes a chat with a config.
func (l *lab) chat(body, config string, headers ...string) *gatewaytest.Answer {
	l.T.Helper()
	a, _ := l.ask("POST", "/v1/chat/completions", body, append([]string{"x-gw-config: " + config}, headers...)...)
	return a
}

// calls is how often each provider was called by what f does.
func (l *lab) calls(f func()) (bad, good int) {
	bad, good = len(l.bad.Calls()), len(l.good.Calls())
	f()
	return len(l.bad.Calls()) - bad, len(l.good.Calls()) - good
}

func mustHaveUsed(t *testing.T, a *gatewaytest.Answer, index, retries, provider string) {
	t.Helper()
	for name, want := range map[string]string{"x-gw-last-used-option-index": index, "x-gw-retry-attempt-count": retries, "x-gw-provider": provider} {
		if got := strings.Join(a.Header.Values(name), ","); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if a.Header.Get("x-gw-trace-id") == "" {
		t.Error("no trace id")
	}
}

// What providers do.

func respond(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// stream sends portions of an event stream one by one.
func stream(portions ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for _, p := range portions {
			_, _ = io.WriteString(w, p)
			w.(http.Flusher).Flush()
		}
	}
}

// then does one thing after another.
func then(steps ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, step := range steps {
			step(w, r)
		}
	}
}

func flush(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// raw writes bytes instead of an HTTP answer.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

const streamedChat = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// brokenOff is what a client gets of a stream that broke off: what had come, and an
// error event.
func brokenOff(passed string) func(body string) bool {
	return func(body string) bool {
		event, ok := strings.CutPrefix(body, passed)
		data, isData := strings.CutPrefix(event, "data: ")
		return ok && isData && gjson.Get(data, "error.message").Str != "" && gjson.Get(data, "error.code").Str == "stream_interrupted" && !strings.Contains(event, "[DONE]") && strings.HasSuffix(event, "\n\n")
	}
}

func exactly(want string) func(string) bool { return func(body string) bool { return body == want } }

// failed is an error of the gateway's with a code.
func failed(code string) func(string) bool {
	return func(body string) bool {
		return gjson.Get(body, "status").Str == "failure" && gjson.Get(body, "error.code").Str == code && gjson.Get(body, "error.type").Str != "" && gjson.Get(body, "message").Str != ""
	}
}

// saying is a provider's error that passes, with whose it is.
func saying(body string) func(string) bool {
	return exactly(strings.TrimSuffix(body, "}") + `,"provider":"bad"}`)
}

// mentions is an error of a provider with a known message only.
func mentions(message string) func(string) bool {
	return func(body string) bool {
		return gjson.Get(body, "error.message").Str == message && gjson.Get(body, "provider").Str == "bad"
	}
}

// asking is a body as providers get it: a stream is always asked for its usage.
func asking(body string) string {
	if body == streamedChat {
		return strings.TrimSuffix(body, "}") + `,"stream_options":{"include_usage":true}}`
	}
	return body
}

// unsent is the error of a stream that failed before anything of it went to the client.
func unsent(body string) bool {
	return gjson.Get(body, "error.code").Str == "stream_interrupted" && gjson.Get(body, "error.message").Str != "" && gjson.Get(body, "provider").Str == "bad"
}
