package handlers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// patience is how long a test waits for what should come soon.
const patience = 20 * time.Second

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
	cues      map[string]http.HandlerFunc
}

func newLab(t *testing.T, options, site string) *lab {
	t.Helper()
	l := &lab{cues: make(map[string]http.HandlerFunc)}
	l.bad = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if serve := l.cues[r.Header.Get("X-Client-Request-Id")]; serve != nil {
			serve(w, r)
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
	l.Gateway = gatewaytest.Start(t, "block_inline_config off\n"+l.bad.Provider("bad")+strings.Replace(l.good.Provider("good"), l.good.URL, good.URL, 1)+options)
	if site != "" {
		l.Site = site
		l.Load()
	}
	l.key, _ = l.Key("k")
	return l
}

// save saves a config and returns its slug.
func (l *lab) save(config string) string {
	l.T.Helper()
	return l.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": json.RawMessage(config)}).Get("slug").Str
}

// ask makes a call with the lab's key; err is why its answer ended early.
func (l *lab) ask(method, path, body string, headers ...string) (*gatewaytest.Answer, error) {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), patience)
	defer cancel()
	res, err := http.DefaultClient.Do(l.Request(method, path, body, append([]string{"x-gw-api-key: " + l.key}, headers...)...).WithContext(ctx))
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

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// raw writes bytes in the place of an HTTP answer.
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

// The fault wall: what the client sees of a provider that misbehaves, without
// anything to fall back to and with, and whether the fallback ran.
func TestTheFaultWall(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(plain.Close)
	untrusted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(untrusted.Close)
	provider := func(slug, url string) string {
		return "provider " + slug + " {\ntype openai\nbase_url " + url + "/v1\napi_key sk\n}\n"
	}
	l := newLab(t, provider("dead", "http://"+gatewaytest.FreeAddress(t))+provider("nowhere", "http://models.nowhere.invalid")+
		provider("plain", strings.Replace(plain.URL, "http:", "https:", 1))+provider("untrusted", untrusted.URL),
		"gw_admin\ngw_ratelimit\ngw_inference {\n\ttransport {\n\t\tresolvers "+nothingResolver(t)+"\n\t}\n}")

	const hasty = `,"request_timeout":300`
	timedOut := func(body string) bool {
		return gjson.Get(body, "error.message").Str == "Request exceeded the timeout sent in the request: 300ms" && gjson.Get(body, "error.type").Str == "timeout_error" &&
			gjson.Get(body, "error.code").Type == gjson.Null && gjson.Get(body, "error.param").Raw == "null"
	}
	big := strings.Repeat("x", 2<<20)
	line := strings.Repeat("y", 40<<20) // one read more than the limit is not noticed
	for _, c := range []struct {
		name     string
		provider string           // default: bad
		target   string           // more members of its target
		serve    http.HandlerFunc // of bad
		stream   bool
		status   int // that the client sees where nothing follows
		body     func(string) bool
		header   [2]string // that it sees too
		breaks   bool      // the answer breaks off
		follows  bool      // the fallback runs
	}{
		{name: "connection refused", provider: "dead", status: 503, body: failed("provider_unreachable"), follows: true},
		{name: "DNS failure", provider: "nowhere", status: 503, body: failed("provider_unreachable"), follows: true},
		{name: "TLS failure: no TLS", provider: "plain", status: 502, body: failed("provider_unreachable"), follows: true},
		{name: "TLS failure: untrusted", provider: "untrusted", status: 502, body: failed("provider_unreachable"), follows: true},
		{name: "hangs up", serve: cut, status: 502, body: failed("provider_unreachable"), follows: true},
		{name: "no HTTP", serve: raw("SSH-2.0-OpenSSH\r\n\r\n"), status: 502, body: failed("provider_unreachable"), follows: true},
		{name: "headers never come", target: hasty, serve: silence, status: 408, body: timedOut, follows: true},
		{name: "headers of a stream never come", target: hasty, serve: silence, stream: true, status: 408, body: timedOut, follows: true},
		{name: "half a header", serve: raw("HTTP/1.1 200 OK\r\nContent-Ty"), status: 502, body: failed("provider_unreachable"), follows: true},
		{name: "oversized header", serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Big", strings.Repeat("x", 12<<20))
			respond(200, gatewaytest.Completion)(w, r)
		}, status: 502, body: failed("provider_unreachable"), follows: true},

		{name: "429 with Retry-After", serve: respond(429, overloaded, "Retry-After", "7"), status: 429, body: exactly(overloaded), header: [2]string{"Retry-After", "7"}, follows: true},
		{name: "429 without Retry-After", serve: respond(429, overloaded), status: 429, body: exactly(overloaded), header: [2]string{"Retry-After", ""}, follows: true},
		{name: "429 for a stream", serve: respond(429, overloaded), stream: true, status: 429, body: exactly(overloaded), follows: true},
		{name: "500", serve: respond(500, overloaded), status: 500, body: exactly(overloaded), follows: true},
		{name: "503 without a body", serve: respond(503, ""), status: 503, body: exactly(""), follows: true},
		{name: "400", serve: respond(400, overloaded), status: 400, body: exactly(overloaded), follows: true},
		{name: "401", serve: respond(401, overloaded), status: 401, body: exactly(overloaded), follows: true},
		{name: "500 with a body that breaks off", serve: respond(500, `{"err`, "Content-Length", "100"), status: 500, body: exactly(`{"err`), breaks: true, follows: true},

		{name: "200 with an error body", serve: respond(200, overloaded), status: 200, body: exactly(overloaded), follows: true},
		{name: "200 with an error body for a stream", serve: respond(200, overloaded), stream: true, status: 200, body: exactly(overloaded), follows: true},
		{name: "200 with an error as first event", serve: stream("data: " + overloaded + "\n\n"), stream: true, status: 200, body: exactly("data: " + overloaded + "\n\n"), follows: true},
		{name: "200 with an error after the role", serve: stream(role, "data: "+overloaded+"\n\n"), stream: true, status: 200, body: exactly(role + "data: " + overloaded + "\n\n"), follows: true},
		{name: "200 with an error after comments", serve: stream(": ping\n\n", "data: "+overloaded+"\n\n"), stream: true, status: 200, body: exactly(": ping\n\ndata: " + overloaded + "\n\n"), follows: true},
		{name: "an empty stream", serve: stream(), stream: true, status: 200, body: brokenOff(""), follows: true},
		{name: "a stream of [DONE] alone", serve: stream(done), stream: true, status: 200, body: exactly(done), follows: true},
		{name: "cut before the first event", serve: then(stream(), cut), stream: true, status: 200, body: brokenOff(""), follows: true},
		{name: "cut after the role chunk", serve: then(stream(role), cut), stream: true, status: 200, body: brokenOff(role), follows: true},
		{name: "cut inside the first content", serve: then(stream(role, hello[:30]), cut), stream: true, status: 200, body: brokenOff(role), follows: true},
		{name: "cut in the middle of JSON", serve: respond(200, gatewaytest.Completion[:50], "Content-Length", "1000"), status: 200, body: exactly(gatewaytest.Completion[:50]), breaks: true, follows: true},

		{name: "cut mid-content", serve: then(stream(role, hello, hello[:20]), cut), stream: true, status: 200, body: brokenOff(role + hello)},
		{name: "ends mid-content", serve: stream(role, hello, hello[:20]), stream: true, status: 200, body: brokenOff(role + hello)},
		{name: "an error mid-content", serve: stream(role, hello, "data: "+overloaded+"\n\n"), stream: true, status: 200, body: exactly(role + hello + "data: " + overloaded + "\n\n")},
		{name: "slow, but in time for its first event", target: hasty, serve: stream(role, hello, stopped, done), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "oversized chunk", serve: stream(role, hello, "data: ", line, "\n\n", done), stream: true, status: 200, body: brokenOff(role + hello)},
		{name: "oversized body", serve: respond(200, `{"choices":[],"x":"`+big+`"}`), status: 200, body: exactly(`{"choices":[],"x":"` + big + `"}`)},
		{name: "a large chunk", serve: stream(role, "data: {\"choices\":[{\"delta\":{\"content\":\""+big+"\"}}]}\n\n", stopped, done), stream: true, status: 200, body: exactly(role + "data: {\"choices\":[{\"delta\":{\"content\":\"" + big + "\"}}]}\n\n" + stopped + done)},

		{name: "chunks split inside UTF-8", serve: stream(strings.SplitAfter(role+umlaut+stopped+done, "\xc3")...), stream: true, status: 200, body: exactly(role + umlaut + stopped + done)},
		{name: "chunks split inside data:", serve: stream(strings.SplitAfter(role+hello+stopped+done, "da")...), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "chunks of one byte", serve: stream(strings.Split(role+hello+stopped+done, "")...), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "CRLF", serve: stream(strings.ReplaceAll(role+hello+stopped+done, "\n", "\r\n")), stream: true, status: 200, body: exactly(strings.ReplaceAll(role+hello+stopped+done, "\n", "\r\n"))},
		{name: "LF", serve: stream(role + hello + stopped + done), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "missing [DONE]", serve: stream(role + hello + stopped), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "usage on a chunk that is not empty", serve: stream(role + hello + counted + done), stream: true, status: 200, body: exactly(role + hello + counted + done)},
		{name: "usage missing", serve: respond(200, `{"choices":[]}`), status: 200, body: exactly(`{"choices":[]}`)},
		// A malformed line is not fatal, wherever it stands.
		{name: "malformed line", serve: stream(role, hello, "data: {half\n\n", stopped, done), stream: true, status: 200, body: func(b string) bool {
			return strings.HasPrefix(b, role+hello) && strings.HasSuffix(b, stopped+done) && !strings.Contains(b, "stream_interrupted")
		}},
		{name: "malformed line before the first content", serve: stream(role, "data: {half\n\n", hello, stopped, done), stream: true, status: 200, body: func(b string) bool {
			return strings.HasPrefix(b, role) && strings.HasSuffix(b, hello+stopped+done)
		}},
		{name: "malformed line and nothing else", serve: stream("data: {half\n\n"), stream: true, status: 200, body: func(b string) bool {
			return strings.Contains(b, "stream_interrupted") && !strings.Contains(b, "[DONE]")
		}, follows: true},
		{name: "redirect", serve: respond(307, "", "Location", plain.URL), status: 502, body: func(b string) bool { return gjson.Get(b, "error.message").Str != "" && !strings.Contains(b, plain.URL) }, header: [2]string{"Location", ""}, follows: true},
		{name: "switches protocols unasked", serve: raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), status: 502, body: func(b string) bool { return gjson.Get(b, "error.message").Str != "" }, follows: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			if c.provider == "" {
				c.provider = "bad"
			}
			l.cues[c.name] = c.serve
			request, goodBody := gatewaytest.Chat, gatewaytest.Completion
			if c.stream {
				request, goodBody = streamedChat, goodStream
			}
			seen := func(a *gatewaytest.Answer, err error) {
				t.Helper()
				if a.Status != c.status || !c.body(a.Body) || c.header[0] != "" && a.Header.Get(c.header[0]) != c.header[1] {
					t.Errorf("got %d %.2000s, %v", a.Status, a.Body, a.Header)
				}
				if (err != nil) != c.breaks {
					t.Errorf("the answer broke off: %v", err)
				}
			}
			target := `{"provider":"@` + c.provider + `"` + c.target + `}`

			// Nothing to fall back to, without a config and with one.
			if c.target == "" {
				a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-provider: "+c.provider)
				seen(a, err)
				if a.Header.Get("x-gw-provider") != c.provider {
					t.Errorf("provider %q", a.Header.Get("x-gw-provider"))
				}
			}
			a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+target)
			seen(a, err)
			mustHaveUsed(t, a, "config", "0", c.provider)

			// A good provider to fall back to, in a saved config and an inline one.
			fallback := `{"strategy":{"mode":"fallback"},"targets":[` + target + `,{"provider":"@good"}]}`
			for _, config := range []string{l.save(fallback), fallback} {
				bad, good := l.calls(func() { a, err = l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+config) })
				if c.provider == "bad" && bad != 1 {
					t.Errorf("the bad provider was called %d times", bad)
				}
				if !c.follows {
					seen(a, err)
					mustHaveUsed(t, a, "config.targets[0]", "0", c.provider)
					if good != 0 {
						t.Errorf("the fallback ran")
					}
					continue
				}
				if a.Status != 200 || a.Body != goodBody || err != nil || good != 1 {
					t.Errorf("the fallback ran %d times; got %d %.2000s, %v", good, a.Status, a.Body, err)
				}
				mustHaveUsed(t, a, "config.targets[1]", "0", "good")
			}

			// Where everything fails, the client sees the last failure.
			if c.follows && c.target == "" {
				twice := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@dead"},` + target + `]}`
				a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+twice)
				seen(a, err)
				mustHaveUsed(t, a, "config.targets[1]", "0", c.provider)
			}
		})
	}
}

// nothingResolver is a DNS server that knows no name.
func nothingResolver(t *testing.T) string {
	t.Helper()
	server := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNameError))
	})}
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() {
		if err := server.ListenAndServe(); err != nil {
			t.Error(err)
		}
	}()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })
	return server.PacketConn.LocalAddr().String()
}

// Silence after the first output ends with an error event when an idle limit is set,
// and with nothing else.
func TestAnIdleLimitGuardsTheRestOfAStream(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\ttransport {\n\t\tread_timeout 500ms\n\t}\n}")
	l.cues["mid"] = then(stream(role, hello), silence)
	l.cues["before"] = silence
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	for _, config := range []string{`{"provider":"@bad","cache":"simple"}`, fallback} {
		var a *gatewaytest.Answer
		if _, good := l.calls(func() { a = l.chat(streamedChat, config, cue+"mid") }); good != 0 || !brokenOff(role+hello)(a.Body) {
			t.Errorf("%s: fallback ran %d times, got %q", config, good, a.Body)
		}
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@bad","cache":"simple"}`, cue+"before"); a.Status != 504 || !failed("provider_timeout")(a.Body) {
		t.Errorf("no header: %d %s", a.Status, a.Body)
	}
	if a := l.chat(gatewaytest.Chat, fallback, cue+"before"); a.Status != 200 {
		t.Errorf("no header, with a fallback: %d %s", a.Status, a.Body)
	}
}

// The time of an attempt ends at its first event, and counts until then.
func TestRequestTimeouts(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["silence"], l.cues["headers"], l.cues["role"] = silence, then(stream(), silence), then(stream(role), silence)
	l.cues["slow end"] = func(w http.ResponseWriter, r *http.Request) {
		stream(role, hello)(w, r)
		<-time.After(600 * time.Millisecond) // longer than the timeout
		stream(stopped, done)(w, r)
	}
	leaf := func(more string) string { return `{"provider":"@bad"` + more + `}` }
	fallback := func(more string) string {
		return `{"strategy":{"mode":"fallback"},"targets":[` + leaf(more) + `,{"provider":"@good"}]` + `}`
	}
	for _, c := range []struct {
		name, config, cue, header string
		stream                    bool
		ms                        int // of the 408; 0: the good provider answers
		index, retries            string
		bad                       int
	}{
		{"of the config", leaf(`,"request_timeout":200`), "silence", "", false, 200, "config", "0", 1},
		{"of the header, with a config", leaf(`,"cache":"simple"`), "silence", "200", false, 200, "config", "0", 1},
		{"the header beats the config", leaf(`,"request_timeout":3600000`), "silence", "200", false, 200, "config", "0", 1},
		{"falls back", fallback(`,"request_timeout":200`), "silence", "", false, 0, "config.targets[1]", "0", 1},
		{"of a stream, falls back", fallback(`,"request_timeout":200`), "silence", "", true, 0, "config.targets[1]", "0", 1},
		{"of a stream without an event, falls back", fallback(`,"request_timeout":200`), "headers", "", true, 0, "config.targets[1]", "0", 1},
		{"of a stream with a role alone, falls back", fallback(`,"request_timeout":200`), "role", "", true, 0, "config.targets[1]", "0", 1},
		{"of a stream without an event", leaf(`,"request_timeout":200`), "headers", "", true, 200, "config", "0", 1},
		{"inherited", `{"request_timeout":200,"strategy":{"mode":"single"},"targets":[{"provider":"@bad"}]}`, "silence", "", false, 200, "config.targets[0]", "0", 1},
		{"is not listed, so nothing follows", `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[{"provider":"@bad","request_timeout":200},{"provider":"@good"}]}`, "silence", "", false, 200, "config.targets[0]", "0", 1},
		{"is listed, so the next follows", `{"strategy":{"mode":"fallback","on_status_codes":[408]},"targets":[{"provider":"@bad","request_timeout":200},{"provider":"@good"}]}`, "silence", "", false, 0, "config.targets[1]", "0", 1},
		{"is not retried by itself", leaf(`,"request_timeout":200,"retry":{"attempts":1}`), "silence", "", false, 200, "config", "0", 1},
		{"is retried where listed", leaf(`,"request_timeout":200,"retry":{"attempts":1,"on_status_codes":[408]}`), "silence", "", false, 200, "config", "-1", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			headers := []string{cue + c.cue}
			if c.header != "" {
				headers = append(headers, "x-gw-request-timeout: "+c.header)
			}
			body, want := gatewaytest.Chat, gatewaytest.Completion
			if c.stream {
				body, want = streamedChat, goodStream
			}
			var a *gatewaytest.Answer
			bad, _ := l.calls(func() { a = l.chat(body, c.config, headers...) })
			mustHaveUsed(t, a, c.index, c.retries, map[bool]string{true: "good", false: "bad"}[c.ms == 0])
			if bad != c.bad {
				t.Errorf("the bad provider was called %d times", bad)
			}
			if c.ms == 0 {
				if a.Status != 200 || a.Body != want {
					t.Errorf("got %d %s", a.Status, a.Body)
				}
				return
			}
			message := fmt.Sprintf("Request exceeded the timeout sent in the request: %dms", c.ms)
			if a.Status != 408 || a.Get("error.message").Str != message || a.Get("error.type").Str != "timeout_error" || a.Get("error.param").Raw != "null" || a.Get("error.code").Raw != "null" {
				t.Errorf("got %d %s", a.Status, a.Body)
			}
		})
	}
	l.T = t
	for name, config := range map[string]string{"alone": leaf(`,"request_timeout":200`), "with a fallback": fallback(`,"request_timeout":200`)} {
		if a := l.chat(streamedChat, config, cue+"slow end"); a.Status != 200 || a.Body != role+hello+stopped+done {
			t.Errorf("a stream that goes on after its timeout, %s: %d %q", name, a.Status, a.Body)
		}
	}
	// Without a config.
	if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"silence", "x-gw-provider: bad", "x-gw-request-timeout: 200"); a.Status != 408 {
		t.Errorf("of the header: %d %s", a.Status, a.Body)
	}
	t.Setenv("REQUEST_TIMEOUT", "200")
	l.Load()
	if a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, cue+"silence", "x-gw-provider: bad"); a.Status != 408 || !strings.Contains(a.Body, "200ms") {
		t.Errorf("of the environment: %d %s", a.Status, a.Body)
	}
}

func TestRetries(t *testing.T) {
	l := newLab(t, "", "")
	var n atomic.Int64
	nth := func(steps ...http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { steps[min(int(n.Add(1)), len(steps))-1](w, r) }
	}
	soon := respond(429, overloaded, "Retry-After-Ms", "1")
	ok := respond(200, gatewaytest.Completion)
	leaf := func(retry string) string { return `{"provider":"@bad","retry":{` + retry + `}}` }
	fallback := func(retry string) string {
		return `{"strategy":{"mode":"fallback"},"targets":[` + leaf(retry) + `,{"provider":"@good"}]}`
	}
	const asked = `"use_retry_after_header":true`
	for _, c := range []struct {
		name, config   string
		serve          http.HandlerFunc
		stream         bool
		status         int
		index, retries string
		bad, good      int
		after          string // Retry-After that the client sees
	}{
		{"500 then 200", leaf(`"attempts":1`), nth(respond(500, overloaded), ok), false, 200, "config", "1", 2, 0, ""},
		{"the first is good", leaf(`"attempts":3`), nth(ok), false, 200, "config", "0", 1, 0, ""},
		{"the third is good", leaf(`"attempts":3,` + asked), nth(soon, soon, ok), false, 200, "config", "2", 3, 0, ""},
		{"the other spelling", leaf(`"attempts":1,"use_retry_after_headers":true`), nth(soon, ok), false, 200, "config", "1", 2, 0, ""},
		{"Azure's spelling of the header", leaf(`"attempts":1,` + asked), nth(respond(429, overloaded, "X-Ms-Retry-After-Ms", "1"), ok), false, 200, "config", "1", 2, 0, ""},
		{"no wait at all", leaf(`"attempts":1,` + asked), nth(respond(429, overloaded, "Retry-After", "0"), ok), false, 200, "config", "1", 2, 0, ""},
		{"a date in the past", leaf(`"attempts":1,` + asked), nth(respond(429, overloaded, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), ok), false, 200, "config", "1", 2, 0, ""},
		{"exhausted", leaf(`"attempts":2,` + asked), nth(soon), false, 429, "config", "-1", 3, 0, ""},
		{"exhausted, then the next", fallback(`"attempts":2,` + asked), nth(soon), false, 200, "config.targets[1]", "0", 3, 1, ""},
		{"good at last, so no next", fallback(`"attempts":1,` + asked), nth(soon, ok), false, 200, "config.targets[0]", "1", 2, 0, ""},
		{"a wait that is too long is relayed", leaf(`"attempts":5,` + asked), nth(respond(429, overloaded, "Retry-After", "61")), false, 429, "config", "-1", 1, 0, "61"},
		{"a wait that is too long goes to the next", fallback(`"attempts":5,` + asked), nth(respond(429, overloaded, "Retry-After", "3600")), false, 200, "config.targets[1]", "0", 1, 1, ""},
		{"a status that is not listed", leaf(`"attempts":5,"on_status_codes":[503]`), nth(respond(500, overloaded)), false, 500, "config", "0", 1, 0, ""},
		{"a status that is not among the defaults", leaf(`"attempts":5`), nth(respond(400, overloaded)), false, 400, "config", "0", 1, 0, ""},
		{"no attempts", leaf(`"attempts":0`), nth(respond(500, overloaded)), false, 500, "config", "0", 1, 0, ""},
		{"an error with status 200", leaf(`"attempts":1`), nth(respond(200, overloaded), ok), false, 200, "config", "1", 2, 0, ""},
		{"an error as first event", leaf(`"attempts":1`), nth(stream("data: "+overloaded+"\n\n"), stream(role, hello, stopped, done)), true, 200, "config", "1", 2, 0, ""},
		{"an error after output", leaf(`"attempts":1`), nth(stream(hello, "data: "+overloaded+"\n\n")), true, 200, "config", "0", 1, 0, ""},
		{"a connection that breaks", leaf(`"attempts":1,"on_status_codes":[502]`), nth(cut, ok), false, 200, "config", "1", 2, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			n.Store(0)
			l.cues["x"] = c.serve
			body := gatewaytest.Chat
			if c.stream {
				body = streamedChat
			}
			var a *gatewaytest.Answer
			bad, good := l.calls(func() { a = l.chat(body, c.config, cue+"x") })
			if a.Status != c.status || a.Header.Get("Retry-After") != c.after || bad != c.bad || good != c.good {
				t.Errorf("got %d %s, Retry-After %q, after %d calls and %d of the fallback", a.Status, a.Body, a.Header.Get("Retry-After"), bad, good)
			}
			mustHaveUsed(t, a, c.index, c.retries, map[bool]string{true: "bad", false: "good"}[good == 0])
			for _, call := range l.bad.Calls()[len(l.bad.Calls())-bad:] {
				if call.Body != body {
					t.Errorf("the provider got %s", call.Body)
				}
			}
		})
	}
}

// A client that leaves is not answered by anyone else.
func TestAClientThatLeavesIsNotFallenBackFor(t *testing.T) {
	l := newLab(t, "", "")
	came, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	wait := func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}
	l.cues["before headers"] = wait
	l.cues["after the role"] = then(stream(role), wait)
	l.cues["at chunk 5"] = then(stream(role, hello, hello, hello, hello), wait)
	config := `{"retry":{"attempts":5,"on_status_codes":[408,499,500,502,503,504]},"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	for name, chunks := range map[string]int{"before headers": 0, "after the role": 0, "at chunk 5": 5} {
		t.Run(name, func(t *testing.T) {
			l.T = t
			bad, good := l.calls(func() {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				left := make(chan struct{})
				read := make(chan struct{})
				go func() {
					defer close(left)
					res, err := http.DefaultClient.Do(l.Request("POST", "/v1/chat/completions", streamedChat, "x-gw-api-key: "+l.key, cue+name, "x-gw-config: "+config).WithContext(ctx))
					if err != nil {
						return
					}
					defer res.Body.Close()
					lines := bufio.NewReader(res.Body)
					for range 2 * chunks {
						if _, err := lines.ReadString('\n'); err != nil {
							t.Errorf("before it left: %v", err)
						}
					}
					close(read)
					_, _ = io.Copy(io.Discard, lines)
				}()
				await(t, came, "the provider is not called")
				if chunks > 0 {
					await(t, read, "the chunks do not arrive")
				}
				leave()
				await(t, gone, "the provider's call goes on")
				await(t, left, "the client is not done")
			})
			if bad != 1 || good != 0 {
				t.Errorf("the bad provider was called %d times, the good one %d times", bad, good)
			}
		})
	}
	// The gateway goes on.
	l.T = t
	if a := l.chat(gatewaytest.Chat, `{"provider":"@good","cache":"simple"}`); a.Status != 200 {
		t.Errorf("afterwards: %d %s", a.Status, a.Body)
	}
}

func await(t *testing.T, c <-chan struct{}, or string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(or)
	}
}

func TestFallbackHeedsTheListedStatusesAndTheGatewaysOwnFaults(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["500"], l.cues["429"] = respond(500, overloaded), respond(429, overloaded)
	listed := `{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	if a := l.chat(gatewaytest.Chat, listed, cue+"500"); a.Status != 500 || a.Body != overloaded {
		t.Errorf("not listed: %d %s", a.Status, a.Body)
	} else {
		mustHaveUsed(t, a, "config.targets[0]", "0", "bad")
	}
	if a := l.chat(gatewaytest.Chat, listed, cue+"429"); a.Status != 200 {
		t.Errorf("listed: %d %s", a.Status, a.Body)
	} else {
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	}
	// A target that leads nowhere is a failure like another one.
	for _, first := range []string{`{"provider":"@none"}`, `{"virtual_key":"none"}`, `{"provider":"nonsense","api_key":"sk"}`} {
		a := l.chat(gatewaytest.Chat, `{"strategy":{"mode":"fallback"},"targets":[`+first+`,{"provider":"@good"}]}`)
		if a.Status != 200 {
			t.Errorf("%s: %d %s", first, a.Status, a.Body)
			continue
		}
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	}
	for _, only := range []string{`{"virtual_key":"none"}`, `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@none"},{"virtual_key":"none"}]}`} {
		if a := l.chat(gatewaytest.Chat, only); a.Status != 400 || a.Get("error.code").Str != "invalid_virtual_key" {
			t.Errorf("%s: %d %s", only, a.Status, a.Body)
		}
	}
	// What is missing after the config was merged in is the caller's fault.
	if a := l.chat(`{"messages":[{"role":"user","content":"hi"}]}`, `{"provider":"@good","cache":"simple"}`); a.Status != 400 || a.Get("error.code").Str != "missing_required_parameter" || a.Get("error.param").Str != "model" {
		t.Errorf("no model: %d %s", a.Status, a.Body)
	}
}

func TestLoadBalance(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["ok"], l.cues["500"] = respond(200, gatewaytest.Completion), respond(500, overloaded)
	balance := func(bad, good string) string {
		return `{"strategy":{"mode":"loadbalance"},"targets":[{"provider":"@bad"` + bad + `},{"provider":"@good"` + good + `}]}`
	}
	for range 20 {
		a := l.chat(gatewaytest.Chat, balance(`,"weight":0`, `,"weight":1`), cue+"ok")
		if mustHaveUsed(t, a, "config.targets[1]", "0", "good"); t.Failed() {
			break
		}
	}
	bad, good := l.calls(func() {
		for range 60 {
			l.chat(gatewaytest.Chat, balance("", ""), cue+"ok")
		}
	})
	if bad+good != 60 || bad < 5 || good < 5 { // less than one in a billion runs
		t.Errorf("of 60 calls %d went to one and %d to the other", bad, good)
	}
	// What is chosen is chosen: its failure is the call's.
	if a := l.chat(gatewaytest.Chat, balance("", `,"weight":0`), cue+"500"); a.Status != 500 || a.Body != overloaded {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	// Sticky: who calls with the same fields gets the same target.
	slug := l.save(`{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"]}},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`)
	used := map[string]int{}
	for user := range 40 {
		var first string
		for range 3 {
			a := l.chat(gatewaytest.Chat, slug, cue+"ok", fmt.Sprintf(`x-gw-metadata: {"user":"u%d"}`, user))
			index := a.Header.Get("x-gw-last-used-option-index")
			if first == "" {
				first = index
			}
			if index != first || a.Status != 200 {
				t.Fatalf("user %d: %s after %s, %d", user, index, first, a.Status)
			}
		}
		used[first]++
	}
	if len(used) != 2 {
		t.Errorf("40 users went to %v", used)
	}
}

func TestConditionalRouting(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["ok"] = respond(200, gatewaytest.Completion)
	config := func(query, rest string) string {
		return `{"strategy":{"mode":"conditional","conditions":[{"query":` + query + `,"then":"pro"}]` + rest + `},"targets":[{"name":"free","provider":"@good"},{"name":"pro","provider":"@bad"}]}`
	}
	const byDefault = `,"default":"free"`
	for _, c := range []struct {
		query   string
		yes, no []string // headers
		body    [2]string
	}{
		{`{"metadata.plan":{"$eq":"pro"}}`, []string{`x-gw-metadata: {"plan":"pro"}`}, []string{`x-gw-metadata: {"plan":"free"}`}, [2]string{}},
		{`{"metadata.plan":"pro"}`, []string{`x-gw-metadata: {"plan":"pro"}`}, nil, [2]string{}},
		{`{"metadata.plan":{"$ne":"free"}}`, nil, []string{`x-gw-metadata: {"plan":"free"}`}, [2]string{}},
		{`{"metadata.age":{"$gte":18,"$lt":65}}`, []string{`x-gw-metadata: {"age":"18"}`}, []string{`x-gw-metadata: {"age":65}`}, [2]string{}},
		{`{"metadata.plan":{"$in":["pro","team"]}}`, []string{`x-gw-metadata: {"plan":"team"}`}, []string{`x-gw-metadata: {"plan":"x"}`}, [2]string{}},
		{`{"$or":[{"metadata.a":"1"},{"$and":[{"metadata.b":"2"},{"metadata.c":"3"}]}]}`, []string{`x-gw-metadata: {"b":"2","c":"3"}`}, []string{`x-gw-metadata: {"b":"2"}`}, [2]string{}},
		{`{"params.model":{"$regex":"^gpt-4"}}`, nil, nil, [2]string{`"gpt-4o"`, `"gpt-3"`}},
		{`{"params.max_tokens":{"$gt":100}}`, nil, nil, [2]string{`"m","max_tokens":101`, `"m","max_tokens":100`}},
		{`{"params.stream":{"$ne":false}}`, nil, nil, [2]string{`"m"`, `"m","stream":false`}},
		{`{"url.pathname":{"$regex":"/chat/completions$"},"headers.x-tier":"gold"}`, []string{"x-tier: gold"}, []string{"x-tier: lead"}, [2]string{}},
	} {
		for i, headers := range [][]string{c.yes, c.no} {
			body := gatewaytest.Chat
			if c.body[i] != "" {
				body = strings.Replace(body, `"m"`, c.body[i], 1)
			}
			a := l.chat(body, config(c.query, byDefault), append([]string{cue + "ok"}, headers...)...)
			want := []string{"config.targets[1]", "config.targets[0]"}[i]
			if got := a.Header.Get("x-gw-last-used-option-index"); got != want || a.Status != 200 {
				t.Errorf("%s with %q and %s: %d, got %q, want %q", c.query, headers, body, a.Status, got, want)
			}
		}
	}
	// Nothing matches, and there is no default.
	var a *gatewaytest.Answer
	bad, good := l.calls(func() { a = l.chat(gatewaytest.Chat, config(`{"metadata.plan":"pro"}`, "")) })
	if a.Status != 400 || a.Get("status").Str != "failure" || a.Get("error.param").Str != "x-gw-config" || a.Get("message").Str == "" || bad+good != 0 {
		t.Errorf("no target: %d %s, %d calls", a.Status, a.Body, bad+good)
	}
	if strings.Contains(l.Logs(), "panic") {
		t.Error("a handler panicked")
	}
	if a := l.chat(gatewaytest.Chat, config(`{"metadata.plan":"pro"}`, `,"default":"nobody"`)); a.Status != 400 || a.Get("errors.#").Int() != 1 {
		t.Errorf("an unknown target: %d %s", a.Status, a.Body)
	}
}

func TestStrategiesNest(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["500"], l.cues["ok"] = respond(500, overloaded), respond(200, gatewaytest.Completion)
	inner := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@bad"}]}`
	for _, c := range []struct{ name, config, cue, index, provider string }{
		{"the inner fails, the outer goes on", `{"strategy":{"mode":"fallback"},"targets":[` + inner + `,{"provider":"@good"}]}`, "500", "config.targets[1]", "good"},
		{"the inner works", `{"strategy":{"mode":"fallback"},"targets":[` + inner + `,{"provider":"@good"}]}`, "ok", "config.targets[0].targets[0]", "bad"},
		{"the inner falls back", `{"strategy":{"mode":"loadbalance"},"targets":[{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}]}`, "500", "config.targets[0].targets[1]", "good"},
		{"a condition leads to a fallback", `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.x":null},"then":"f"}],"default":"g"},"targets":[{"name":"g","provider":"@good"},{"name":"f","strategy":{"mode":"fallback"},"targets":[` + inner + `,{"provider":"@good"}]}]}`, "500", "config.targets[1].targets[1]", "good"},
		{"three deep", `{"strategy":{"mode":"single"},"targets":[{"strategy":{"mode":"loadbalance"},"targets":[{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}]}]}`, "500", "config.targets[0].targets[0].targets[1]", "good"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			for _, config := range []string{c.config, l.save(c.config)} {
				a := l.chat(gatewaytest.Chat, config, cue+c.cue)
				if a.Status != 200 {
					t.Errorf("got %d %s", a.Status, a.Body)
				}
				mustHaveUsed(t, a, c.index, "0", c.provider)
			}
		})
	}
}

func TestATargetEditsTheBody(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["500"] = respond(500, overloaded)
	const rest = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ name, members, body, want string }{
		{"override", `"override_params":{"model":"n","temperature":0.5}`, `{"model":"m","temperature":1,` + rest + `}`, `{"model":"n","temperature":0.5,` + rest + `}`},
		{"default", `"default_params":{"temperature":0.5,"top_p":1}`, `{"model":"m","temperature":1,` + rest + `}`, `{"model":"m","temperature":1,` + rest + `,"top_p":1}`},
		{"drop", `"drop_params":["temperature","x.y","messages[0].name"]`, `{"model":"m","temperature":1,"x":{"y":1,"z":2},"messages":[{"role":"user","name":"n"}]}`, `{"model":"m","x":{"z":2},"messages":[{"role":"user"}]}`},
		{"all three, in order", `"default_params":{"a":1,"b":1},"override_params":{"b":2,"c":2},"drop_params":["c"]`, `{"model":"m",` + rest + `}`, `{"model":"m",` + rest + `,"a":1,"b":2}`},
		{"a model for a body without one", `"override_params":{"model":"n"}`, `{` + rest + `}`, `{"model":"n",` + rest + `}`},
		{"a model with a slug", `"override_params":{"model":"@good/n/o"}`, `{"model":"m",` + rest + `}`, `{"model":"n/o",` + rest + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			for _, config := range []string{
				`{"provider":"@good",` + c.members + `}`,
				`{` + c.members + `,"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad","override_params":{"seed":7}},{"provider":"@good"}]}`, // inherited
			} {
				a := l.chat(c.body, config, cue+"500")
				if a.Status != 200 {
					t.Fatalf("%s: %d %s", config, a.Status, a.Body)
				}
				mustEqualJSON(t, l.good.Last(t).Body, c.want)
			}
		})
	}
	l.T = t
	// The slug of a model alone is a target.
	if a := l.chat(gatewaytest.Chat, `{"override_params":{"model":"@good/n"}}`); a.Status != 200 || gjson.Get(l.good.Last(t).Body, "model").Str != "n" {
		t.Errorf("the model alone: %d %s", a.Status, a.Body)
	}
	// A child's parameters go before its parent's.
	a := l.chat(gatewaytest.Chat, `{"override_params":{"a":1,"b":1},"strategy":{"mode":"single"},"targets":[{"provider":"@good","override_params":{"b":2}}]}`)
	if got := l.good.Last(t).Body; a.Status != 200 || gjson.Get(got, "a").Int() != 1 || gjson.Get(got, "b").Int() != 2 {
		t.Errorf("%d: the provider got %s", a.Status, got)
	}
}

func mustEqualJSON(t *testing.T, got, want string) {
	t.Helper()
	compact := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b, _ := json.Marshal(v)
		return string(b)
	}
	if compact(got) != compact(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestForwardHeaders(t *testing.T) {
	l := newLab(t, "", "")
	for name, c := range map[string]struct {
		config string
		header string
		want   map[string]string
	}{
		"of the config": {`{"provider":"@good","forward_headers":["x-a","X-B"]}`, "", map[string]string{"X-A": "1", "X-B": "2"}},
		"of the header": {`{"provider":"@good","cache":"simple"}`, "x-a, x-c", map[string]string{"X-A": "1"}},
		"of both":       {`{"provider":"@good","forward_headers":["x-b"]}`, "x-a", map[string]string{"X-A": "1", "X-B": "2"}},
		"inherited":     {`{"forward_headers":["x-b"],"strategy":{"mode":"single"},"targets":[{"provider":"@good"}]}`, "", map[string]string{"X-B": "2"}},
		"of nobody":     {`{"provider":"@good","cache":"simple"}`, "", nil},
	} {
		headers := []string{"x-a: 1", "x-b: 2", "x-d: 4"}
		if c.header != "" {
			headers = append(headers, "x-gw-forward-headers: "+c.header)
		}
		if a := l.chat(gatewaytest.Chat, c.config, headers...); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		for _, h := range []string{"X-A", "X-B", "X-C", "X-D", "X-Gw-Forward-Headers"} {
			if got := l.good.Last(t).Header.Get(h); got != c.want[h] {
				t.Errorf("%s: %s is %q, want %q", name, h, got, c.want[h])
			}
		}
	}
	for _, name := range []string{"authorization", "x-gw-api-key", "cookie", "host"} {
		if a := l.chat(gatewaytest.Chat, `{"provider":"@good","forward_headers":["`+name+`"]}`); a.Status != 400 || a.Get("error.code").Str != "invalid_config" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

func upload(n int) (body string, contentType string) {
	return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" +
		strings.Repeat("\x00\xffw", n/3) + "\r\n--b--\r\n", "content-type: multipart/form-data; boundary=b"
}

// Bodies that pass through are replayed up to a limit, and an answer says so where
// that was not possible.
func TestUploadsAreReplayedUpToALimit(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_replay 8KiB\n\tmax_upload 64KiB\n\tmax_body 1KiB\n}")
	var n atomic.Int64
	l.cues["500"], l.cues["ok"] = respond(500, overloaded), respond(200, gatewaytest.Completion)
	l.cues["429 then 200"] = func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			respond(429, overloaded, "Retry-After-Ms", "1")(w, r)
			return
		}
		respond(200, gatewaytest.Completion)(w, r)
	}
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	ask := func(config, cued string, size int, chunked bool) *gatewaytest.Answer {
		body, contentType := upload(size)
		r := l.Request("POST", "/v1/audio/transcriptions", body, "x-gw-api-key: "+l.key, "x-gw-config: "+config, cue+cued, "content-type:", contentType)
		if chunked {
			r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(body)), -1, nil
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return &gatewaytest.Answer{Status: res.StatusCode, Header: res.Header, Body: string(b)}
	}
	for _, chunked := range []bool{false, true} {
		small, contentType := upload(3000)
		a := ask(fallback, "500", 3000, chunked)
		if a.Status != 200 || l.good.Last(t).Body != small || l.bad.Last(t).Body != small || "content-type: "+l.good.Last(t).Header.Get("Content-Type") != contentType {
			t.Errorf("chunked %v, small: %d %s; the second provider got %d bytes of %d", chunked, a.Status, a.Body, len(l.good.Last(t).Body), len(small))
		}
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")

		n.Store(0)
		if a = ask(`{"provider":"@bad","retry":{"attempts":1,"use_retry_after_header":true}}`, "429 then 200", 3000, chunked); a.Status != 200 || l.bad.Last(t).Body != small {
			t.Errorf("chunked %v, retried: %d %s", chunked, a.Status, a.Body)
		}
		mustHaveUsed(t, a, "config", "1", "bad")

		// More than max_body, which is for bodies that are read whole.
		large, _ := upload(30_000)
		if a = ask(`{"provider":"@bad","cache":"simple"}`, "ok", 30_000, chunked); a.Status != 200 || l.bad.Last(t).Body != large {
			t.Errorf("chunked %v, large: %d %s; the provider got %d bytes of %d", chunked, a.Status, a.Body, len(l.bad.Last(t).Body), len(large))
		}
		bad, good := l.calls(func() { a = ask(fallback, "500", 30_000, chunked) })
		if a.Get("error.code").Str != "body_not_replayable" || a.Status != 502 || !strings.Contains(a.Get("message").Str, "too large to be sent again") || bad != 1 || good != 0 {
			t.Errorf("chunked %v, large, fallen back: %d %s; %d and %d calls", chunked, a.Status, a.Body, bad, good)
		}
		// A retry is left out, and the provider's own answer goes to the client.
		n.Store(0)
		bad, _ = l.calls(func() {
			a = ask(`{"provider":"@bad","retry":{"attempts":1,"use_retry_after_header":true}}`, "429 then 200", 30_000, chunked)
		})
		if a.Status != 429 || bad != 1 {
			t.Errorf("chunked %v, large, retried: %d %s after %d calls", chunked, a.Status, a.Body, bad)
		}

		if a = ask(fallback, "ok", 100_000, chunked); a.Status != 413 || a.Get("error.code").Str != "payload_too_large" {
			t.Errorf("chunked %v, over the limit: %d %s", chunked, a.Status, a.Body)
		}
	}
}

func TestBatchesAndFilesTakeOneTarget(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["500"] = respond(500, overloaded)
	two := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	form, contentType := upload(30)
	for _, c := range [][4]string{
		{"GET", "/v1/batches", ""}, {"GET", "/v1/batches/b_1", ""}, {"POST", "/v1/batches/b_1/cancel", ""},
		{"POST", "/v1/batches", `{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}`},
		{"GET", "/v1/files", ""}, {"GET", "/v1/files/f/content", ""}, {"DELETE", "/v1/files/f", ""}, {"POST", "/v1/files", form, contentType},
		{"GET", "/v1/fine_tuning/jobs", ""}, {"POST", "/v1/fine_tuning/jobs/ft/cancel", ""}, {"POST", "/v1/fine_tuning/jobs", `{"model":"m","training_file":"f"}`},
	} {
		headers := []string{cue + "500"}
		if c[3] != "" {
			headers = append(headers, "content-type:", c[3])
		}
		for _, config := range []string{two, l.save(two)} {
			var a *gatewaytest.Answer
			bad, good := l.calls(func() { a, _ = l.ask(c[0], c[1], c[2], append(headers, "x-gw-config: "+config)...) })
			if a.Status != 400 || !strings.Contains(a.Get("message").Str, "Maximum one target is allowed for batch/file/fine_tuning requests") || bad+good != 0 {
				t.Errorf("%s %s: %d %s after %d calls", c[0], c[1], a.Status, a.Body, bad+good)
			}
		}
		if a, _ := l.ask(c[0], c[1], c[2], append(headers, `x-gw-config: {"provider":"@good","cache":"simple"}`)...); a.Status != 200 {
			t.Errorf("%s %s, one target: %d %s", c[0], c[1], a.Status, a.Body)
		}
	}
}

// An object that tells of its own failure is no failure of the call that reads it.
func TestAnObjectThatFailedIsReadOnce(t *testing.T) {
	l := newLab(t, "", "")
	failedJob := `{"id":"x","object":"fine_tuning.job","status":"failed","error":{"code":"invalid_training_file","message":"m","param":"training_file"}}`
	succeeded := `{"id":"x","object":"fine_tuning.job","status":"succeeded","error":{}}`
	for _, body := range []string{failedJob, succeeded} {
		l.cues["x"] = respond(200, body)
		for _, path := range []string{"/v1/fine_tuning/jobs/x", "/v1/responses/resp_1"} {
			var a *gatewaytest.Answer
			bad, _ := l.calls(func() {
				a, _ = l.ask("GET", path, "", cue+"x", `x-gw-config: {"provider":"@bad","retry":{"attempts":1,"on_status_codes":[500]}}`)
			})
			if a.Status != 200 || a.Body != body || bad != 1 || a.Header.Get("x-gw-retry-attempt-count") != "0" {
				t.Errorf("%s: %d %s after %d calls, %s retries", path, a.Status, a.Body, bad, a.Header.Get("x-gw-retry-attempt-count"))
			}
		}
	}
}

func TestBlockInlineConfigRefusesConfigsAndForwardHeaders(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file")) // on by default, as fresh installs are
	l := &lab{Gateway: g, bad: up, good: up}
	l.key, _ = g.Key("k")
	saved := l.save(`{"provider":"@file","forward_headers":["x-a"]}`)
	for name, c := range map[string]struct {
		headers []string
		code    string
		field   string
	}{
		"a config":                           {[]string{`x-gw-config: {"provider":"@file","cache":"simple"}`}, "inline_config_blocked", "x-gw-config"},
		"a config with space before it":      {[]string{`x-gw-config:  {"provider":"@file","cache":"simple"}`}, "inline_config_blocked", "x-gw-config"},
		"a config that is bad":               {[]string{`x-gw-config: {`}, "inline_config_blocked", "x-gw-config"},
		"a config and forward headers":       {[]string{`x-gw-config: {"cache":"simple"}`, "x-gw-forward-headers: x-b"}, "inline_config_blocked", "x-gw-config"},
		"forward headers":                    {[]string{"x-gw-provider: file", "x-gw-forward-headers: x-b"}, "inline_forward_headers_blocked", "x-gw-forward-headers"},
		"forward headers and a saved config": {[]string{"x-gw-config: " + saved, "x-gw-forward-headers: x-b"}, "inline_forward_headers_blocked", "x-gw-forward-headers"},
		"a provider by name":                 {[]string{"x-gw-provider: openai", "authorization: Bearer sk"}, "inline_provider_blocked", "x-gw-provider"},
		"a host":                             {[]string{"x-gw-provider: file", "x-gw-custom-host: https://a.example"}, "inline_custom_host_blocked", "x-gw-custom-host"},
	} {
		before := len(up.Calls())
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, c.headers...)
		if a.Status != 400 || a.Get("error.code").Str != c.code || a.Get("error.field").Str != c.field || a.Get("status").Str != "failure" || a.Get("message").Str == "" || len(up.Calls()) != before {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-config: "+saved, "x-a: 1", "x-gw-request-timeout: 60000")
	if a.Status != 200 || up.Last(t).Header.Get("X-A") != "1" {
		t.Errorf("a saved config: %d %s", a.Status, a.Body)
	}
}

// An open breaker leaves its target out, and the control plane says why.
func TestABreakerLeavesATargetOut(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["500"], l.cues["ok"] = respond(500, overloaded), respond(200, gatewaytest.Completion)
	slug := l.save(`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":2}},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`)
	other := l.save(`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":2}},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`)
	for n, want := range []int{1, 1, 0, 0} {
		var a *gatewaytest.Answer
		bad, good := l.calls(func() { a = l.chat(gatewaytest.Chat, slug, cue+"500") })
		if a.Status != 200 || bad != want || good != 1 {
			t.Errorf("call %d: %d, %d calls of the bad provider, %d of the good one", n, a.Status, bad, good)
		}
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	}
	if bad, _ := l.calls(func() { l.chat(gatewaytest.Chat, other, cue+"ok") }); bad != 1 {
		t.Error("the breaker of another config is open too")
	}
	health := l.Admin("GET", "/v1/gateway/health", nil)
	if !strings.Contains(health.Body, slug) || !strings.Contains(health.Body, "config.targets[0]") || strings.Contains(health.Body, other) {
		t.Errorf("health: %s", health.Body)
	}
}

// A header or a body that is too large is refused by the gateway.
func TestWhatAClientSendsIsBounded(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_body 1MiB\n}")
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /v1/models HTTP/1.1\r\nHost: "+strings.TrimPrefix(l.URL, "http://")+"\r\nX-Big: "+strings.Repeat("x", 100<<10)+"\r\n\r\n")
	if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, " 431 ") {
		t.Errorf("a large header: %q", line)
	}
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	var a *gatewaytest.Answer
	bad, good := l.calls(func() {
		a = l.chat(`{"model":"m","x":"`+strings.Repeat("x", 1<<20)+`"}`, fallback)
	})
	if a.Status != 413 || a.Get("error.code").Str != "payload_too_large" || bad+good != 0 {
		t.Errorf("a large body: %d %s after %d calls", a.Status, a.Body, bad+good)
	}
}

// A limit of one target refuses that target, not the call.
func TestARateLimitOfATarget(t *testing.T) {
	l := newLab(t, "", "")
	l.cues["500"], l.cues["ok"] = respond(500, overloaded), respond(200, gatewaytest.Completion)
	policy(l.Gateway, map[string]any{"value": 1, "conditions": when("provider", "bad")})
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	if a := l.chat(gatewaytest.Chat, fallback, cue+"ok"); a.Status != 200 || a.Header.Get("x-gw-provider") != "bad" {
		t.Errorf("the first call: %d %v", a.Status, a.Header)
	}
	var a *gatewaytest.Answer
	bad, good := l.calls(func() { a = l.chat(gatewaytest.Chat, fallback, cue+"ok") })
	if a.Status != 200 || bad != 0 || good != 1 {
		t.Errorf("the second call: %d %s; %d and %d calls", a.Status, a.Body, bad, good)
	}
	mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	if bad, _ = l.calls(func() { a = l.chat(gatewaytest.Chat, `{"provider":"@bad","cache":"simple"}`, cue+"ok") }); a.Status != 429 || a.Get("error.type").Str != "rate_limits_policy_exhaust_error" || a.Header.Get("Retry-After") == "" || bad != 0 {
		t.Errorf("the limited target alone: %d %s %v", a.Status, a.Body, a.Header)
	}
}
