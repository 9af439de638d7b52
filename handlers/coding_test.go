package handlers_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// encoders write in the content codings that are decoded.
var encoders = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return z
	},
}

func encodeAs(coding, text string) string {
	var b bytes.Buffer
	w := encoders[coding](&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func TestBodiesThatClientsEncodeAreDecoded(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_body 2MiB\n\tmax_upload 2MiB\n}")
	l.on("ok", respond(200, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`))
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("model", "whisper-1")
	file, _ := w.CreateFormFile("file", "a.mp3")
	_, _ = file.Write([]byte("ID3 audio"))
	_ = w.Close()
	for coding := range encoders {
		encoded := "content-encoding: " + coding
		a, err := l.ask("POST", "/v1/chat/completions", encodeAs(coding, gatewaytest.Chat), cue+"ok", "x-gw-provider: bad", encoded)
		sent := last(l.bad.Calls(), "/v1/chat/completions")
		if err != nil || a.Status != 200 || sent.Body != gatewaytest.Chat || sent.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %s, the provider got %q, %v", coding, a.Status, a.Body, sent.Body, err)
		}
		if got := sent.Header["Accept-Encoding"]; len(got) != 1 || got[0] != "identity" {
			t.Errorf("the provider is asked for %q", got)
		}
		// An upload that was refused in the middle may be noted late, and after this one.
		arrived := func() (n int) {
			for _, call := range l.bad.Calls() {
				if call.Path == "/v1/audio/transcriptions" && call.Body == form.String() {
					n++
				}
			}
			return n
		}
		forms := arrived()
		a, err = l.ask("POST", "/v1/audio/transcriptions", encodeAs(coding, form.String()), cue+"ok", "x-gw-provider: bad", encoded, "content-type:", "content-type: "+w.FormDataContentType())
		if got := arrived() - forms; err != nil || a.Status != 200 || got != 1 {
			t.Errorf("a form in %s: %d %s, the provider got it %d times, %v", coding, a.Status, a.Body, got, err)
		}
		before := len(l.bad.Calls())
		for name, c := range map[string]struct {
			path, body, kind, code string
			status                 int
		}{
			"what is no " + coding:           {"/v1/chat/completions", gatewaytest.Chat, "application/json", "body_unreadable", 400},
			"a bomb in " + coding:            {"/v1/chat/completions", encodeAs(coding, strings.Repeat(" ", 1<<20)+strings.Repeat(" ", 1<<19)+gatewaytest.Chat), "application/json", "payload_too_large", 413},
			"too much in " + coding:          {"/v1/chat/completions", encodeAs(coding, strings.Repeat(" ", 3<<20)+gatewaytest.Chat), "application/json", "payload_too_large", 413},
			"too much to pass in " + coding:  {"/v1/audio/transcriptions", encodeAs(coding, strings.Replace(form.String(), "ID3 audio", strings.Repeat("x", 3<<20), 1)), w.FormDataContentType(), "", 413},
			"an upload that is no " + coding: {"/v1/audio/transcriptions", form.String(), w.FormDataContentType(), "body_unreadable", 400},
		} {
			a, err := l.ask("POST", c.path, c.body, cue+"ok", "x-gw-provider: bad", encoded, "content-type:", "content-type: "+c.kind)
			if err != nil || a.Status != c.status || c.code != "" && a.Get("error.code").Str != c.code {
				t.Errorf("%s: %d %s, %v", name, a.Status, a.Body, err)
			}
		}
		for _, call := range l.bad.Calls()[before:] {
			if call.Path == "/v1/chat/completions" {
				t.Errorf("%s: the provider got a body that was refused", coding)
			}
		}
	}
	a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: bad", "content-encoding: compress")
	if err != nil || a.Status != 415 || a.Get("error.code").Str != "invalid_content_encoding" || a.Header.Get("Accept-Encoding") != "gzip, deflate, br, zstd" {
		t.Errorf("an unknown coding: %d %s, %v, %v", a.Status, a.Body, a.Header, err)
	}
	a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"ok", "x-gw-provider: bad", "content-encoding: identity")
	if a.Status != 200 {
		t.Errorf("identity: %d %s", a.Status, a.Body)
	}
}

func TestAnswersThatProvidersEncodeAreDecoded(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	sends := func(name, coding, media string, status int, text string) {
		l.on(name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			w.Header().Set("Content-Type", media)
			w.Header().Set("Etag", `"of what is encoded"`)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, encodeAs(coding, text))
		})
	}
	completion := `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	message := `{"id":"m","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`
	anthropic := `{"provider":"anthropic","api_key":"sk","custom_host":"` + l.bad.URL + `/v1"}`
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	for coding := range encoders {
		sends("whole "+coding, coding, "application/json", 200, completion)
		sends("stream "+coding, coding, "text/event-stream", 200, role+hello+stopped+spent+done)
		sends("message "+coding, coding, "application/json", 200, message)
		sends("refusal "+coding, coding, "application/json", 429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
		sends("failing "+coding, coding, "text/event-stream", 200, "data: "+overloaded+"\n\n")
		sends("text "+coding, coding, "text/plain", 200, "plain text")
		for name, c := range map[string]struct {
			cue, method, path, body, config, want string
			status                                int
		}{
			"an answer":                    {"whole", "POST", "/v1/chat/completions", gatewaytest.Chat, `{"provider":"@bad"}`, completion, 200},
			"a stream":                     {"stream", "POST", "/v1/chat/completions", streamedChat, `{"provider":"@bad"}`, role + hello + stopped + done, 200},
			"an answer that is translated": {"message", "POST", "/v1/chat/completions", gatewaytest.Chat, anthropic, `"content":"hi"`, 200},
			"an error":                     {"refusal", "POST", "/v1/chat/completions", gatewaytest.Chat, `{"provider":"@bad"}`, "slow down", 429},
			"a stream that begins to fail": {"failing", "POST", "/v1/chat/completions", streamedChat, fallback, `"content":"good"`, 200},
			"what passes":                  {"text", "GET", "/v1/files/f/content", "", `{"provider":"@bad"}`, "plain text", 200},
		} {
			a, err := l.ask(c.method, c.path, c.body, cue+c.cue+" "+coding, "x-gw-config: "+c.config)
			if err != nil || a.Status != c.status || !strings.Contains(a.Body, c.want) || a.Header.Get("Content-Encoding") != "" || a.Header.Get("Etag") != "" && c.status == 200 {
				t.Errorf("%s in %s: %d %q, %v, %v", name, coding, a.Status, a.Body, a.Header, err)
			}
		}
	}
	for name, serve := range map[string]http.HandlerFunc{
		"an unknown coding": respond(200, completion, "Content-Encoding", "compress"),
		"another coding":    respond(200, completion, "Content-Encoding", "gzip"),
	} {
		l.on(name, serve)
		if a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+name, "x-gw-provider: bad"); err != nil || a.Status != 502 || strings.Contains(a.Body, "choices") {
			t.Errorf("%s: %d %s, %v", name, a.Status, a.Body, err)
		}
	}
}

// last is the last call of a path that a provider got, whenever others end.
func last(calls []gatewaytest.Call, path string) gatewaytest.Call {
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].Path == path {
			return calls[i]
		}
	}
	return gatewaytest.Call{}
}
