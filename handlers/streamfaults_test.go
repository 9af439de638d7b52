package handlers_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A streamer is a provider that streams: how it is named in a config, and what it sends.
type streamer struct {
	config  string // besides custom_host and api_key
	base    string // of its custom host
	media   string
	begin   string // events with the beginning of an output
	limited string // the event of a rate limit
	comment string // what says nothing; "": the format has no such thing
}

const eventStream = "text/event-stream"

// streamers are the dialects of conversations.
func streamers(t *testing.T) map[string]streamer {
	aws := "application/vnd.amazon.eventstream"
	chat := streamer{
		`"provider":"openai"`, "/v1", eventStream, role + hello,
		`data: {"error":{"message":"slow","type":"rate_limit_error","code":"rate_limit_exceeded"}}` + "\n\n", ": hi\n\n",
	}
	claude := streamer{
		`"provider":"anthropic"`, "/v1", eventStream,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n",
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n",
		"event: ping\ndata: {\"type\":\"ping\"}\n\n",
	}
	gemini := streamer{
		`"provider":"google"`, "/v1beta", eventStream,
		`data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"hello"}]}}]}` + "\r\n\r\n",
		`data: {"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}` + "\r\n\r\n", ": hi\r\n\r\n",
	}
	const amazon = `"provider":"bedrock","aws_access_key_id":"AKID","aws_secret_access_key":"secret-of-aws","aws_region":"us-east-1","override_params":{"model":`
	var invoked strings.Builder
	for _, line := range strings.Split(claude.begin, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			invoked.Write(frame(t, "event", "chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(data))+`"}`))
		}
	}
	as := func(s streamer, config, base string) streamer {
		s.config, s.base = config, base
		return s
	}
	return map[string]streamer{
		"openai":           chat,
		"groq":             as(chat, `"provider":"groq"`, "/v1"),
		"mistral":          as(chat, `"provider":"mistral-ai"`, "/v1"),
		"azure":            as(chat, `"provider":"azure-openai","azure_api_version":"2024-10-21"`, ""),
		"anthropic":        claude,
		"gemini":           gemini,
		"vertex":           as(gemini, `"provider":"vertex-ai","vertex_region":"europe-west4","vertex_project_id":"p","override_params":{"model":"gemini-2.5-flash"}`, ""),
		"claude on vertex": as(claude, `"provider":"vertex-ai","vertex_region":"europe-west4","vertex_project_id":"p","override_params":{"model":"anthropic.claude-sonnet-4-5"}`, ""),
		"cohere": {
			`"provider":"cohere"`, "", eventStream,
			`data: {"type":"message-start","id":"c","delta":{"message":{"role":"assistant","content":[]}}}` + "\n\n" +
				`data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}` + "\n\n" +
				`data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"hello"}}}}` + "\n\n",
			`data: {"type":"error","message":"too many requests","code":429}` + "\n\n", ": hi\n\n",
		},
		"bedrock": {
			amazon + `"nova-x-v1:0"}`, "", aws,
			string(frame(t, "event", "messageStart", `{"role":"assistant"}`)) + string(frame(t, "event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hello"}}`)),
			string(frame(t, "exception", "throttlingException", `{"message":"Too many requests"}`)), "",
		},
		"bedrock invoked": {
			amazon + `"anthropic.claude-x-v1:0"}`, "", aws, invoked.String(), string(frame(t, "exception", "throttlingException", `{"message":"Too many requests"}`)), "",
		},
	}
}

// A stream is an HTTP error until something of it was sent, and ends with an error event of the
// endpoint's after that: whatever the endpoint, the dialect and the fault.
func TestAStreamFailsByItsStatusUntilSomethingWasSent(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	var form bytes.Buffer
	upload := multipart.NewWriter(&form)
	for _, f := range [][2]string{{"model", "m"}, {"stream", "true"}} {
		_ = upload.WriteField(f[0], f[1])
	}
	file, err := upload.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write([]byte("RIFF"))
	_ = upload.Close()
	typed := func(kind, text string) string {
		return `data: {"type":"` + kind + `","` + text + `":"aGVsbG8="}` + "\n\n"
	}
	openai := []string{"openai", "azure"}
	conversing := []string{"openai", "groq", "azure", "mistral", "anthropic", "gemini", "vertex", "claude on vertex", "cohere", "bedrock"}
	of := streamers(t)
	for _, e := range []struct {
		path, body, contentType string
		dialects                []string
		begin, limited          string // "": those of the dialect
	}{
		{"/v1/chat/completions", asStream(gatewaytest.Chat), "", conversing, "", ""},
		{"/v1/messages", asStream(askMessage), "", conversing, "", ""},
		{"/v1/responses", asStream(askResponse), "", slices.Delete(slices.Clone(conversing), 0, 3), "", ""},
		{"/v1/messages", asStream(askMessage), "", []string{"bedrock invoked"}, "", ""},
		{"/v1/responses", asStream(askResponse), "", []string{"openai", "groq", "azure"}, typed("response.output_text.delta", "delta"), `data: {"type":"error","code":"rate_limit_exceeded","message":"slow","param":null,"sequence_number":1}` + "\n\n"},
		{"/v1/completions", asStream(askText), "", openai, `data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":"hello","finish_reason":null}]}` + "\n\n", ""},
		{"/v1/audio/transcriptions", form.String(), upload.FormDataContentType(), openai, typed("transcript.text.delta", "delta"), ""},
		{"/v1/audio/speech", asStream(askSpeech), "", openai, typed("speech.audio.delta", "audio"), ""},
		{"/v1/images/generations", asStream(askImage), "", openai, typed("image_generation.partial_image", "b64_json"), ""},
	} {
		for _, dialect := range e.dialects {
			s := of[dialect]
			begin, limited := cmp.Or(e.begin, s.begin), cmp.Or(e.limited, s.limited)
			headers := respond(http.StatusOK, "", "Content-Type", s.media)
			send := func(text string) http.HandlerFunc {
				return then(headers, flush, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }, flush)
			}
			for _, fault := range []struct {
				name   string
				serve  http.HandlerFunc
				status int
			}{
				{"an error first", send(limited), http.StatusTooManyRequests},
				{"closed before the first event", then(send(""), cut), http.StatusBadGateway},
				{"nothing", send(""), http.StatusBadGateway},
				{"comments", send(s.comment), http.StatusBadGateway},
				{"comments, then closed", then(send(s.comment), cut), http.StatusBadGateway},
				{"an error after output", send(begin + limited), http.StatusOK},
				{"closed after output", then(send(begin), cut), http.StatusOK},
			} {
				name := e.path + ", " + dialect + ", " + fault.name
				l.on(name, fault.serve)
				target := `{` + s.config + `,"api_key":"sk-of-a-provider","custom_host":"` + l.bad.URL + s.base + `"`
				for _, retry := range []string{`}`, `,"retry":{"attempts":1,"on_status_codes":[400]}}`} {
					if e.contentType != "" && strings.Contains(s.config, "override_params") {
						continue
					}
					ask := []string{"x-gw-config: " + target + retry, cue + name}
					if e.contentType != "" {
						ask = append(ask, "content-type:", "content-type: "+e.contentType)
					}
					a, err := l.ask("POST", e.path, e.body, ask...)
					if err != nil || a.Status != fault.status {
						t.Errorf("%s: got %d %s, %v, want %d", name, a.Status, a.Body, err, fault.status)
						continue
					}
					if wrong := streamFault(e.path, a); wrong != "" {
						t.Errorf("%s: %s: %v %q", name, wrong, a.Header["Content-Type"], a.Body)
					}
				}
			}
		}
	}
}

// streamFault says what is wrong with the answer to a stream that failed.
func streamFault(path string, a *gatewaytest.Answer) string {
	failed := a.Body
	if a.Status == http.StatusOK {
		if a.Header.Get("Content-Type") != eventStream {
			return "no stream"
		}
		if !strings.Contains(a.Body, "hello") && !strings.Contains(a.Body, "aGVsbG8=") {
			return "the output is missing"
		}
		if strings.Contains(a.Body, "[DONE]") || strings.Contains(a.Body, "message_stop") || strings.Contains(a.Body, "response.completed") {
			return "it ends as if nothing had failed"
		}
		events := strings.Split(strings.TrimSuffix(strings.ReplaceAll(a.Body, "\r\n", "\n"), "\n\n"), "\n\n")
		_, failed, _ = strings.Cut("\n"+events[len(events)-1], "\ndata: ")
	} else if a.Header.Get("Content-Type") != "application/json" || strings.Contains(a.Body, "data:") {
		return "no error in JSON"
	}
	v := gjson.Parse(failed)
	switch {
	case !gjson.Valid(failed):
		return "the error is not JSON"
	case a.Status == http.StatusOK && path == "/v1/responses":
		if v.Get("type").Str == "response.failed" && v.Get("response.error.message").Str != "" || v.Get("type").Str == "error" && v.Get("message").Str+v.Get("error.message").Str != "" {
			return ""
		}
		return "no error of Responses"
	case path == "/v1/messages" && (v.Get("type").Str != "error" || v.Get("error.type").Str == "" || v.Get("error.message").Str == ""):
		return "no error of Messages"
	case v.Get("error.message").Str == "":
		return "the error has no message"
	}
	return ""
}
