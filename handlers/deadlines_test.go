package handlers_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// mustBeTimeout checks the envelope of a 408.
func mustBeTimeout(t *testing.T, status int, body, message string) {
	t.Helper()
	e := gjson.Get(body, "error")
	if status != 408 || e.Get("type").Str != "timeout_error" || e.Get("param").Raw != "null" || e.Get("code").Raw != "null" || !strings.Contains(e.Get("message").Str, message) {
		t.Errorf("got %d %s", status, body)
	}
}

// stalled is a body whose rest never comes.
func stalled(t *testing.T, begin string) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	go func() { _, _ = io.WriteString(w, begin) }()
	return r
}

// http2Client speaks HTTP/2 alone, without TLS.
func http2Client(t *testing.T) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A slow body is given up, whatever brings it; the provider hears nothing of a JSON body.
func TestSlowBodies(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tbody_timeout 100ms\n}")
	l.on("read", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		respond(200, `{"text":"hi"}`)(w, r)
	})
	send := func(client *http.Client, path, media string, body io.Reader) {
		t.Helper()
		res, err := client.Do(func() *http.Request {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", l.URL+path, body)
			r.Header = http.Header{"Content-Type": {media}, "X-Gw-Api-Key": {l.key}, "X-Gw-Provider": {"bad"}, "X-Client-Request-Id": {"read"}}
			return r
		}())
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		mustBeTimeout(t, res.StatusCode, string(b), "The request body did not come in time: expected some of it every 100ms")
	}
	const form = "multipart/form-data; boundary=b"
	part := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
	for _, client := range []*http.Client{http.DefaultClient, http2Client(t)} {
		send(client, "/v1/chat/completions", "application/json", stalled(t, `{"model":`))
		send(client, "/v1/audio/transcriptions", form, stalled(t, part))
		send(client, "/v1/audio/transcriptions", form, stalled(t, part[:20]))
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@good"}`); a.Status != 200 {
		t.Errorf("a call afterwards: %d %s", a.Status, a.Body)
	}
}

// A body that goes on slowly is not a slow body, and a call that takes longer than a body may
// is not cut.
func TestAnUploadThatGoesOnIsNotCut(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tbody_timeout 300ms\n\tprovider_header_timeout 300ms\n}")
	l.on("read", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		respond(200, `{"text":"hi"}`)(w, r)
	})
	r, w := io.Pipe()
	go func() {
		defer w.Close()
		_, _ = io.WriteString(w, "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n")
		for range 10 { // longer than either timeout in all
			<-time.After(60 * time.Millisecond)
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		}
		_, _ = io.WriteString(w, "\r\n--b--\r\n")
	}()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", l.URL+"/v1/audio/transcriptions", r)
	req.Header = http.Header{"Content-Type": {"multipart/form-data; boundary=b"}, "X-Gw-Api-Key": {l.key}, "X-Gw-Provider": {"bad"}, "X-Client-Request-Id": {"read"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 {
		t.Errorf("got %d %s", res.StatusCode, b)
	}
}

// An answer in one piece that stands still after its headers is as late as the headers would be.
func TestAnAnswerThatStandsStill(t *testing.T) {
	begun := func(media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, body)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}
	claude := gatewaytest.NewUpstream(t, begun("application/json", `{"id":"m"`))
	l := newLab(t, strings.Replace(claude.Provider("claude"), "type openai", "type anthropic", 1), "gw_admin\ngw_ratelimit\ngw_inference {\n\tprovider_header_timeout 600ms\n\tstream_idle_timeout 600ms\n}")
	l.on("half", begun("application/json", `{"id":"c","choices":[`))
	l.on("events", begun("text/event-stream", ": ping\n\n"))
	l.on("drips", func(w http.ResponseWriter, r *http.Request) { // longer than the timeout in all
		w.Header().Set("Content-Type", "application/json")
		for _, part := range strings.SplitAfter(gatewaytest.Completion, ",") {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			<-time.After(120 * time.Millisecond)
		}
	})
	const late = " sent no more of its answer within 600ms (provider_header_timeout)"
	const next = `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	a := l.chat(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `{"provider":"@claude"}`)
	mustBeTimeout(t, a.Status, a.Body, "Provider claude"+late)
	for _, cue1 := range []string{"half", "events"} {
		if a := l.chat(gatewaytest.Chat, next, cue+cue1); a.Status != 200 || a.Header.Get("x-gw-provider") != "good" {
			t.Errorf("%s: falls back: %d %s", cue1, a.Status, a.Body)
		}
	}
	if a, err := l.TryRequest("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, "x-gw-provider: bad", cue+"half"); err == nil {
		t.Errorf("what began is not cut off: %d %s", a.Status, a.Body)
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@bad"}`, cue+"drips"); a.Status != 200 || a.Body != gatewaytest.Completion {
		t.Errorf("what goes on: %d %s", a.Status, a.Body)
	}
}

// Headers have a time of their own, which a timeout of the call's or config's replaces.
func TestProviderHeaderTimeout(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tprovider_header_timeout 600ms\n}")
	l.on("silence", silence)
	l.on("slow", func(w http.ResponseWriter, r *http.Request) {
		<-time.After(1500 * time.Millisecond)
		respond(200, gatewaytest.Completion)(w, r)
	})
	l.on("slow body", func(w http.ResponseWriter, r *http.Request) {
		stream()(w, r)
		<-time.After(1500 * time.Millisecond)
		stream(role, hello, stopped, done)(w, r)
	})
	l.on("unread", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	const bad, next = `{"provider":"@bad"}`, `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	const late = "Provider bad sent no response headers within 600ms (provider_header_timeout)"
	var waits sync.WaitGroup
	waits.Go(func() {
		a := l.chat(gatewaytest.Chat, bad, cue+"silence")
		mustBeTimeout(t, a.Status, a.Body, late)
	})
	waits.Go(func() {
		if a := l.chat(gatewaytest.Chat, next, cue+"silence"); a.Status != 200 || a.Header.Get("x-gw-provider") != "good" {
			t.Errorf("falls back: %d %s", a.Status, a.Body)
		}
	})
	waits.Go(func() {
		if a := l.chat(gatewaytest.Chat, bad, cue+"slow", "x-gw-request-timeout: 60000"); a.Status != 200 {
			t.Errorf("with a timeout of the call: %d %s", a.Status, a.Body)
		}
	})
	waits.Go(func() {
		if a := l.chat(gatewaytest.Chat, `{"provider":"@bad","request_timeout":60000}`, cue+"slow"); a.Status != 200 {
			t.Errorf("with a timeout of the config: %d %s", a.Status, a.Body)
		}
	})
	for _, config := range []string{bad, next} {
		waits.Go(func() {
			if a := l.chat(streamedChat, config, cue+"slow body"); a.Status != 200 || a.Body != role+hello+stopped+done {
				t.Errorf("a body that comes later: %d %q", a.Status, a.Body)
			}
		})
	}
	waits.Wait()
	a := l.chat(prompt(20<<20), bad, cue+"unread")
	mustBeTimeout(t, a.Status, a.Body, late)
}
