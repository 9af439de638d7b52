package handlers_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// The fault wall: what the client sees of a provider that misbehaves, without
// anything to fall back to and with, and whether the fallback ran. Each call has exactly one
// record, which says the same.
func TestTheFaultWall(t *testing.T) {
	l, plain := newWall(t)

	// The column "booked" is of this policy, which counts one call of each row.
	budget := usageLimit(l.Gateway, map[string]any{"type": "tokens", "credit_limit": 1e12, "conditions": when("metadata.column", "booked")})
	booked := func() int64 {
		return l.Admin("GET", "/v1/policies/usage-limits/"+budget+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Int()
	}
	before := booked()
	// books checks what is booked of a call by what its client saw: nothing of an error, but for the prompt at most where a
	// stream had begun; what the provider said that was used; or else the prompt, and a token for four bytes of text.
	books := func(t *testing.T, a *gatewaytest.Answer, stream, errorBody bool) {
		t.Helper()
		known, prompt, completion := usageIn(a.Body)
		least := tokensSeen(a.Body)
		most := least + 100 // the prompt
		switch {
		case a.Status == http.StatusBadGateway && stream: // what the provider began with 200 counts as its prompt at most
			least, most = 0, 100
		case a.Status != http.StatusOK || errorBody:
			least, most = 0, 0
		case known:
			least, most = prompt+completion, prompt+completion
		}
		now := booked()
		for deadline := time.Now().Add(testTimeout); now-before < least && time.Now().Before(deadline); now = booked() {
			time.Sleep(time.Millisecond) // the client may have its answer before the call has ended
		}
		if n := now - before; n < least || n > most {
			t.Errorf("%d tokens are booked, want %d to %d", n, least, most)
		}
		before = now
	}

	var log wall
	for _, c := range wallRows(plain) {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			if c.provider == "" {
				c.provider = "bad"
			}
			if c.serve != nil {
				l.on(c.name, c.serve)
			}
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
				a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-provider: "+c.provider, `x-gw-metadata: {"column":"booked"}`)
				seen(a, err)
				books(t, a, c.stream, a.Body == overloaded)
				log.expect(c.name, a, c.provider)
				if a.Header.Get("x-gw-provider") != c.provider {
					t.Errorf("provider %q", a.Header.Get("x-gw-provider"))
				}
			}
			a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+target)
			seen(a, err)
			log.expect(c.name, a, c.provider)
			mustHaveUsed(t, a, "config", "0", c.provider)

			// A good provider to fall back to, in a saved config and an inline one.
			fallback := `{"strategy":{"mode":"fallback"},"targets":[` + target + `,{"provider":"@good"}]}`
			for _, config := range []string{l.save(fallback), fallback} {
				bad, good := l.calls(func() { a, err = l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+config) })
				if c.provider == "bad" && bad != 1 {
					t.Errorf("the bad provider was called %d times", bad)
				}
				if !c.follows {
					log.expect(c.name, a, c.provider)
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
				log.expect(c.name, a, c.provider, "good")
			}

			// Where everything fails, the client sees the last failure.
			if c.follows && c.target == "" {
				twice := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@dead"},` + target + `]}`
				a, err := l.ask("POST", "/v1/chat/completions", request, cue+c.name, "x-gw-config: "+twice)
				// An error says of both why they failed; the rest is that of the last.
				if errs := a.Get("errors"); errs.IsArray() {
					if n := len(errs.Array()); n != 2 {
						t.Errorf("%d targets failed: %s", n, errs.Raw)
					}
					a.Body, _ = sjson.Delete(a.Body, "errors")
				}
				seen(a, err)
				mustHaveUsed(t, a, "config.targets[1]", "0", c.provider)
				log.expect(c.name, a, "dead", c.provider)
			}
		})
	}
	log.check(t)
}

// A wallRow is a provider that misbehaves, and what the client sees of it.
type wallRow struct {
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
}

// wallRows are those of the fault wall; plain is the URL of a server without TLS. Their providers are of [newWall].
func wallRows(plain string) []wallRow {
	const hasty = `,"request_timeout":300`
	timedOut := func(body string) bool {
		return gjson.Get(body, "error.message").Str == "Request exceeded the timeout sent in the request: 300ms" && gjson.Get(body, "error.type").Str == "timeout_error" &&
			gjson.Get(body, "error.code").Type == gjson.Null && gjson.Get(body, "error.param").Raw == "null"
	}
	big := strings.Repeat("x", 2<<20)
	unmetered := `{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 1000) + `"},"finish_reason":"stop"}]}`
	line := strings.Repeat("y", 40<<20) // one read more than the limit is not noticed
	return []wallRow{
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
			w.Header().Set("X-Big", strings.Repeat("x", 1<<20))
			respond(200, gatewaytest.Completion)(w, r)
		}, status: 502, body: func(body string) bool {
			return failed("provider_misbehaved")(body) && gjson.Get(body, "message").Str == "Provider bad sent response headers larger than 256 KiB"
		}, follows: true},

		{name: "429 with Retry-After", serve: respond(429, overloaded, "Retry-After", "7"), status: 429, body: saying(overloaded), header: [2]string{"Retry-After", "7"}, follows: true},
		{name: "429 without Retry-After", serve: respond(429, overloaded), status: 429, body: saying(overloaded), header: [2]string{"Retry-After", ""}, follows: true},
		{name: "429 for a stream", serve: respond(429, overloaded), stream: true, status: 429, body: saying(overloaded), follows: true},
		{name: "500", serve: respond(500, overloaded), status: 500, body: saying(overloaded), follows: true},
		{name: "503 without a body", serve: respond(503, ""), status: 503, body: mentions("The provider answered 503 Service Unavailable"), follows: true},
		{name: "400", serve: respond(400, overloaded), status: 400, body: saying(overloaded), follows: true},
		{name: "401", serve: respond(401, overloaded), status: 401, body: saying(strings.Replace(overloaded, `"code":null`, `"code":"provider_unauthorized"`, 1)), follows: true},
		{name: "500 with a body that breaks off", serve: respond(500, `{"err`, "Content-Length", "100"), status: 500, body: mentions("The provider answered 500 Internal Server Error"), follows: true},

		{name: "200 without a body", serve: respond(200, ""), status: 502, body: failed("provider_misbehaved"), follows: true},
		{name: "200 without a body, of unknown length", serve: then(respond(200, ""), flush), status: 502, body: failed("provider_misbehaved"), follows: true},
		{name: "200 without a body for a stream", serve: respond(200, ""), stream: true, status: 502, body: failed("provider_misbehaved"), follows: true},
		{name: "200 that hangs up before its body", serve: then(respond(200, ""), flush, cut), status: 200, body: exactly(""), breaks: true, follows: true},
		{name: "200 with an error body", serve: respond(200, overloaded), status: 200, body: exactly(overloaded), follows: true},
		{name: "200 with an error body for a stream", serve: respond(200, overloaded), stream: true, status: 502, body: saying(overloaded), follows: true},
		{name: "200 with an error as first event", serve: stream("data: " + overloaded + "\n\n"), stream: true, status: 502, body: saying(overloaded), follows: true},
		{name: "200 with an error after the role", serve: stream(role + "data: " + overloaded + "\n\n"), stream: true, status: 502, body: saying(overloaded), follows: true},
		{name: "200 with an error after comments", serve: stream(": ping\n\n", "data: "+overloaded+"\n\n"), stream: true, status: 502, body: saying(overloaded), follows: true},
		{name: "an empty stream", serve: stream(), stream: true, status: 502, body: unsent, follows: true},
		{name: "200 with a page", serve: respond(200, "<html>maintenance</html>", "Content-Type", "text/html; charset=utf-8"), status: 502, body: failed("provider_misbehaved"), follows: true},
		{name: "a second [DONE], and more after it", serve: stream(role, hello, stopped, done, hello, done), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "a stream of [DONE] alone", serve: stream(done), stream: true, status: 502, body: unsent, follows: true},
		{name: "cut before the first event", serve: then(stream(), cut), stream: true, status: 502, body: unsent, follows: true},
		{name: "cut after the role chunk", serve: then(stream(role), cut), stream: true, status: 502, body: unsent, follows: true},
		{name: "cut inside the first content", serve: then(stream(role, hello[:30]), cut), stream: true, status: 502, body: unsent, follows: true},
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
		{name: "usage missing", serve: respond(200, unmetered), status: 200, body: exactly(unmetered)},
		{name: "usage and answer missing", serve: respond(200, `{"choices":[]}`), status: 200, body: exactly(`{"choices":[]}`)},
		// A malformed line is taken out, and not fatal.
		{name: "malformed line", serve: stream(role, hello, "data: {half\n\n", stopped, done), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "malformed line before the first content", serve: stream(role, "data: {half\n\n", hello, stopped, done), stream: true, status: 200, body: exactly(role + hello + stopped + done)},
		{name: "malformed line and nothing else", serve: stream("data: {half\n\n"), stream: true, status: 502, body: unsent, follows: true},
		{name: "redirect", serve: respond(307, "", "Location", plain), status: 502, body: func(b string) bool { return gjson.Get(b, "error.message").Str != "" && !strings.Contains(b, plain) }, header: [2]string{"Location", ""}, follows: true},
		{name: "switches protocols unasked", serve: raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), status: 502, body: func(b string) bool { return gjson.Get(b, "error.message").Str != "" }, follows: true},
	}
}

// newWall starts a lab with the providers of the fault wall, and returns the URL of a server without TLS.
func newWall(t *testing.T) (l *lab, plain string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	untrusted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(untrusted.Close)
	provider := func(slug, url string) string {
		return "provider " + slug + " {\ntype openai\nbase_url " + url + "/v1\napi_key sk\n}\n"
	}
	l = newLab(t, provider("dead", "http://"+gatewaytest.RefusingAddress(t))+provider("nowhere", "http://models.nowhere.invalid")+
		provider("plain", strings.Replace(server.URL, "http:", "https:", 1))+provider("untrusted", untrusted.URL),
		"gw_admin\ngw_ratelimit\ngw_inference {\n\ttransport {\n\t\tresolvers "+nothingResolver(t)+"\n\t}\n}")
	return l, server.URL
}

// tokensSeen are those of the text of an answer, at a token for four bytes. One in one piece that has none counts as its
// bytes, up to what is reserved where a call names no maximum.
func tokensSeen(body string) int64 {
	const reserved = 4096
	text := 0
	if strings.HasPrefix(body, "{") && !gjson.Get(body, "error").Exists() {
		if text = len(gjson.Get(body, "choices.0.message.content").Str); text == 0 {
			text = min(len(body), 4*reserved)
		}
	}
	for line := range strings.Lines(body) {
		text += len(gjson.Get(strings.TrimPrefix(strings.TrimSpace(line), "data:"), "choices.0.delta.content").Str)
	}
	return int64(text+3) / 4
}

// An answer may be empty if it is not declared to be JSON, or to exist.
func TestAnEmptyAnswerIsAFailureWhereThereShouldBeJSON(t *testing.T) {
	l := newLab(t, "", "")
	for _, status := range []int{200, 202, 204} {
		l.on(strconv.Itoa(status), respond(status, ""))
	}
	form, contentType := upload(30)
	for _, c := range []struct {
		method, path, body string
		status             int
		fails              bool
	}{
		{"POST", "/v1/embeddings", `{"model":"m","input":"x"}`, 200, true},
		{"POST", "/v1/batches/b/cancel", "", 200, true},
		{"POST", "/v1/embeddings", `{"model":"m","input":"x"}`, 202, false},
		{"POST", "/v1/embeddings", `{"model":"m","input":"x"}`, 204, false},
		{"POST", "/v1/audio/speech", `{"model":"m","input":"x","voice":"v"}`, 200, false},
		{"POST", "/v1/audio/transcriptions", form, 200, false}, // of silence
		{"POST", "/v1/vector_stores", `{"model":"m"}`, 200, false},
		{"DELETE", "/v1/files/f", "", 200, false},
		{"GET", "/v1/files/f/content", "", 200, false},
		{"GET", "/v1/models", "", 200, false},
	} {
		headers := []string{cue + strconv.Itoa(c.status)}
		if c.body == form {
			headers = append(headers, "content-type:", contentType)
		}
		for i, route := range []string{"x-gw-provider: bad", `x-gw-config: {"provider":"@bad","retry":{"attempts":1,"on_status_codes":[502]}}`} {
			if c.path == "/v1/models" && i > 0 {
				continue
			}
			var a *gatewaytest.Answer
			bad, _ := l.calls(func() { a, _ = l.ask(c.method, c.path, c.body, append(headers, route)...) })
			if !c.fails && (a.Status != c.status || a.Body != "" || bad != 1) {
				t.Errorf("%s %s, %d: %d %s after %d calls", c.method, c.path, c.status, a.Status, a.Body, bad)
			}
			if c.fails && (a.Status != 502 || a.Get("error.code").Str != "provider_misbehaved" || !strings.Contains(a.Get("message").Str, "empty body") || bad != 1+i) {
				t.Errorf("%s %s, %d: %d %s after %d calls", c.method, c.path, c.status, a.Status, a.Body, bad)
			}
		}
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

// Silence after the first output ends with an error event when an idle limit is set,
// and with nothing else.
func TestAnIdleLimitGuardsTheRestOfAStream(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\ttransport {\n\t\tread_timeout 500ms\n\t}\n}")
	l.on("mid", then(stream(role, hello), silence))
	l.on("before", silence)
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	for _, config := range []string{`{"provider":"@bad","cache":"simple"}`, fallback} {
		var a *gatewaytest.Answer
		if _, good := l.calls(func() { a = l.chat(streamedChat, config, cue+"mid") }); good != 0 || !brokenOff(role+hello)(a.Body) {
			t.Errorf("%s: fallback ran %d times, got %q", config, good, a.Body)
		}
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@bad","cache":"simple"}`, cue+"before"); a.Status != 408 || a.Get("error.type").Str != "timeout_error" || a.Get("error.code").Raw != "null" {
		t.Errorf("no header: %d %s", a.Status, a.Body)
	}
	if a := l.chat(gatewaytest.Chat, fallback, cue+"before"); a.Status != 200 {
		t.Errorf("no header, with a fallback: %d %s", a.Status, a.Body)
	}
}

// A stream that the gateway ends is distinguished from one that the provider broke off.
func TestAStreamSaysWhoEndedIt(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tstream_idle_timeout 200ms\n}")
	l.on("idle", then(stream(role, hello), silence))
	l.on("broken", then(stream(role, hello), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for ending, words := range map[string]string{
		"idle":   "was ended by the gateway, because it was silent for 200ms, longer than stream_idle_timeout allows",
		"broken": "broke off before its end",
	} {
		a := l.chat(streamedChat, `{"provider":"@bad"}`, cue+ending)
		if !brokenOff(role+hello)(a.Body) || !strings.Contains(a.Body, "The stream of provider bad "+words) {
			t.Errorf("%s: %q", ending, a.Body)
		}
	}
}
