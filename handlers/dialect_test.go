package handlers_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

const spent = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"

func TestAStreamsUsageGoesToWhoAsksForIt(t *testing.T) {
	l := newLab(t, "", "")
	l.on("spent", stream(role, hello, stopped, spent, done))
	asks := strings.Replace(streamedChat, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	declines := strings.Replace(streamedChat, `"stream":true`, `"stream":true,"stream_options":{"include_usage":false}`, 1)
	for body, want := range map[string]string{
		streamedChat: role + hello + stopped + done, declines: role + hello + stopped + done, asks: role + hello + stopped + spent + done,
	} {
		a, err := l.ask("POST", "/v1/chat/completions", body, cue+"spent", "x-gw-provider: bad")
		if err != nil || a.Body != want {
			t.Errorf("%s: got %q, %v", body, a.Body, err)
		}
		if sent := l.bad.Last(t).Body; !strings.Contains(sent, `"include_usage":true`) || strings.Count(sent, "stream_options") != 1 {
			t.Errorf("the provider got %s", sent)
		}
	}
	// A config's parameters are made first.
	a := l.chat(gatewaytest.Chat, `{"provider":"@bad","override_params":{"stream":true}}`, cue+"spent")
	if a.Body != role+hello+stopped+done || !strings.Contains(l.bad.Last(t).Body, `"include_usage":true`) {
		t.Errorf("got %q for %s", a.Body, l.bad.Last(t).Body)
	}
	if a = l.chat(streamedChat, `{"provider":"@bad","override_params":{"stream":false}}`, cue+"spent"); strings.Contains(l.bad.Last(t).Body, "stream_options") {
		t.Errorf("the provider got %s, and the client %s", l.bad.Last(t).Body, a.Body)
	}
}

func TestThinkingNeedsStrictComplianceOff(t *testing.T) {
	body := strings.Replace(gatewaytest.Chat, `"model"`, `"thinking":{"type":"enabled","budget_tokens":1024},"model"`, 1)
	off := "x-gw-strict-open-ai-compliance: false"
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("ok", respond(http.StatusOK, `{"id":"m","type":"message","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"4"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`))
	host := fmt.Sprintf(`"provider":"anthropic","api_key":"sk","custom_host":"%s/v1"`, l.bad.URL)
	for _, c := range []struct {
		name, config, body string
		headers            []string
		status             int
		blocks             bool
	}{
		{"not set", "{" + host + "}", body, nil, 400, false},
		{"the header says off", "{" + host + "}", body, []string{off}, 200, true},
		{"the config says off", "{" + host + `,"strict_open_ai_compliance":false}`, body, nil, 200, true},
		{"the header comes first", "{" + host + `,"strict_open_ai_compliance":false}`, body, []string{"x-gw-strict-open-ai-compliance: true"}, 400, false},
		{"a header that says neither", "{" + host + "}", gatewaytest.Chat, []string{"x-gw-strict-open-ai-compliance: maybe"}, 400, false},
		{"thinking that is disabled", "{" + host + "}", strings.Replace(body, "enabled", "disabled", 1), nil, 200, false},
		{"no thinking", "{" + host + "}", gatewaytest.Chat, nil, 200, false},
		{"thinking of the config's", "{" + host + `,"override_params":{"thinking":{"type":"enabled","budget_tokens":9}}}`, gatewaytest.Chat, nil, 400, false},
	} {
		a := l.chat(c.body, c.config, append(c.headers, cue+"ok")...)
		if a.Status != c.status || a.Get("choices.0.message.content_blocks").Exists() != c.blocks {
			t.Errorf("%s: %d %s", c.name, a.Status, a.Body)
		}
		if c.status == 200 && (a.Get("choices.0.message.content").Str != "4" || a.Get("choices.0.finish_reason").Str != "stop") {
			t.Errorf("%s: %s", c.name, a.Body)
		}
		if c.status == 400 && a.Get("error.param").Str != "thinking" && a.Get("error.param").Str != "x-gw-strict-open-ai-compliance" {
			t.Errorf("%s: %s", c.name, a.Body)
		}
	}
}

func TestErrorsOfProvidersSayWhoseTheyAre(t *testing.T) {
	l := newLab(t, "", "")
	html := "<html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"
	for _, c := range []struct {
		name    string
		serve   http.HandlerFunc
		status  int
		message string
		code    string
	}{
		{"OpenAI's", respond(404, `{"error":{"message":"no such model","type":"invalid_request_error","param":"model","code":"model_not_found"}}`), 404, "no such model", "model_not_found"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(502)
			_, _ = w.Write([]byte(html))
		}, 502, "502 Bad Gateway", ""},
		{"a text", respond(500, "boom\n  it broke"), 500, "boom it broke", ""},
		{"a member message", respond(400, `{"message":"bad input"}`), 400, "bad input", ""},
		{"details", respond(422, `{"detail":[{"loc":["body","n"],"msg":"too high"}]}`), 422, "body.n: too high", ""},
		{"a list", respond(429, `[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]`, "Retry-After", "3"), 429, "slow down", "429"},
		{"nothing", respond(503, ""), 503, "The provider answered 503 Service Unavailable", ""},
		{"an odd text", respond(400, `"just a text"`), 400, "just a text", ""},
	} {
		l.on(c.name, c.serve)
		a, err := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+c.name, "x-gw-provider: bad")
		if err != nil || a.Status != c.status || a.Get("error.message").Str != c.message || a.Get("error.code").String() != c.code || a.Get("provider").Str != "bad" || a.Get("error.type").Str == "" {
			t.Errorf("%s: %d %s, %v", c.name, a.Status, a.Body, err)
		}
		if c.status == 429 && a.Header.Get("Retry-After") != "3" {
			t.Errorf("%s: Retry-After %q", c.name, a.Header.Get("Retry-After"))
		}
	}
	// What is passed through is the provider's own, errors too.
	a, _ := l.ask("GET", "/v1/assistants", "", cue+"a text", "x-gw-provider: bad")
	if a.Status != 500 || a.Body != "boom\n  it broke" {
		t.Errorf("passed through: %d %s", a.Status, a.Body)
	}
}

// Nobody but who saved a credential says where it goes.
func TestSettingsOfACallDoNotLeadAStoredCredentialElsewhere(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("ok", respond(200, gatewaytest.Completion))
	l.Admin("POST", "/v1/virtual-keys", map[string]any{
		"name": "az", "slug": "az", "provider": "azure-openai", "key": "stored", "custom_host": l.bad.URL + "/openai",
		"model_config": map[string]any{"azure_deployment_id": "saved", "azure_api_version": "2024-10-21"},
	})
	elsewhere := []string{"x-gw-azure-api-version: evil", "x-gw-azure-ad-token: evil"}
	a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, append(elsewhere, cue+"ok", "x-gw-virtual-key: az")...)
	call := l.bad.Last(t)
	if a.Status != 200 || call.Path != "/openai/deployments/saved/chat/completions" || call.Query != "api-version=2024-10-21" || call.Header.Get("Api-Key") != "stored" || call.Header.Get("Authorization") != "" {
		t.Errorf("%d %s: %s?%s %v", a.Status, a.Body, call.Path, call.Query, call.Header)
	}
	a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"ok", "x-gw-config: "+`{"virtual_key":"az","azure_resource_name":"evil","azure_deployment_id":"evil"}`)
	if call = l.bad.Last(t); a.Status != 200 || call.Path != "/openai/deployments/saved/chat/completions" {
		t.Errorf("by a config: %d %s %s", a.Status, a.Body, call.Path)
	}
	// Besides the caller's own credential they count.
	a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"ok", "x-gw-provider: azure-openai", "authorization: Bearer own", "x-gw-custom-host: "+l.bad.URL+"/openai",
		"x-gw-azure-deployment-id: mine", "x-gw-azure-api-version: 2025-01-01")
	if call = l.bad.Last(t); a.Status != 200 || call.Path != "/openai/deployments/mine/chat/completions" || call.Header.Get("Api-Key") != "own" {
		t.Errorf("own: %d %s %s %v", a.Status, a.Body, call.Path, call.Header)
	}
	// A provider whose address is a setting takes it as a custom host, which is guarded.
	a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, cue+"ok", "x-gw-provider: azure-ai", "authorization: Bearer own", "x-gw-azure-foundry-url: "+l.bad.URL+"/models")
	if call = l.bad.Last(t); a.Status != 200 || call.Path != "/models/chat/completions" {
		t.Errorf("foundry: %d %s %s", a.Status, a.Body, call.Path)
	}
	a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: azure-ai", "authorization: Bearer own", "x-gw-azure-foundry-url: http://169.254.169.254/models")
	if a.Status != 400 || a.Get("error.field").Str != "custom_host" && a.Get("error.param").Str != "x-gw-custom-host" {
		t.Errorf("metadata service: %d %s", a.Status, a.Body)
	}
	a, _ = l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: azure-openai", "authorization: Bearer own")
	if a.Status != 400 || a.Get("error.code").Str != "missing_setting" || !strings.Contains(a.Get("error.message").Str, "azure_resource_name") {
		t.Errorf("no resource: %d %s", a.Status, a.Body)
	}
}

// What passes as it is shows no stored credential, in whatever portions it comes.
func TestAnAnswerThatPassesDoesNotShowTheCredential(t *testing.T) {
	l := newLab(t, "", "")
	l.on("echo", func(w http.ResponseWriter, r *http.Request) {
		credential := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range []string{"data: {\"seen\":\"", credential[:5], credential[5:], "\"}\n\n"} {
			_, _ = w.Write([]byte(part))
			w.(http.Flusher).Flush()
		}
	})
	l.on("encoded", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = w.Write([]byte(r.Header.Get("Authorization")))
	})
	for _, path := range []string{"/v1/assistants", "/v1/files/f/content"} {
		a, _ := l.ask("GET", path, "", cue+"echo", "x-gw-provider: bad")
		if a.Status != 200 || !strings.Contains(a.Body, `{"seen":"sk*************bad"}`) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a, _ = l.ask("GET", path, "", cue+"encoded", "x-gw-provider: bad"); a.Status != 502 || strings.Contains(a.Body, "of-the-file") {
			t.Errorf("%s, encoded: %d %s", path, a.Status, a.Body)
		}
	}
}

// What a provider repeats of the credential is masked.
func TestAnErrorDoesNotShowTheCredential(t *testing.T) {
	l := newLab(t, "", "")
	l.on("echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("Authorization"))
		respond(401, `{"error":{"message":"Incorrect API key provided: `+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+`","type":"invalid_request_error","code":"invalid_api_key"}}`)(w, r)
	})
	for _, path := range []string{"/v1/chat/completions", "/v1/assistants"} {
		a, _ := l.ask("POST", path, gatewaytest.Chat, cue+"echo", "x-gw-provider: bad")
		if a.Status != 401 || strings.Contains(a.Body, "sk-of-the-file-bad") || !strings.Contains(a.Get("error.message").Str, "Incorrect API key provided: sk") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if seen := a.Header.Get("X-Seen"); seen == "" || strings.Contains(seen, "sk-of-the-file-bad") {
			t.Errorf("%s: a header says %q", path, seen)
		}
	}
}

// Neither hints nor trailers of a provider reach the client, nor headers that are about
// the provider's own site.
func TestAnAnswerCarriesNothingAroundTheChecks(t *testing.T) {
	l := newLab(t, "", "")
	l.on("around", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Gw-Provider", "evil")
		w.Header().Set("Link", "</a>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Gw-Provider")
		w.Header().Set("Clear-Site-Data", "*")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		respond(200, gatewaytest.Completion)(w, r)
		w.Header().Set(http.TrailerPrefix+"X-Gw-Trace-Id", "evil")
	})
	hints := 0
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil }}
	req := l.Request("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, cue+"around", "x-gw-provider: bad")
	res, err := http.DefaultClient.Do(req.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != gatewaytest.Completion || res.Header.Get("X-Gw-Provider") != "bad" || len(res.Header.Values("X-Gw-Provider")) != 1 {
		t.Errorf("%v %s %v", res.Header, body, err)
	}
	if hints != 0 || len(res.Trailer) != 0 || res.Header.Get("Clear-Site-Data") != "" || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d hints, trailers %v, header %v", hints, res.Trailer, res.Header)
	}
}

// A provider's own id of a response does not take the place of another's.
func TestAResponseOfTheCacheIsEachCallersOwn(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("ok", respond(200, `{"id":"m","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"4"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`))
	config := fmt.Sprintf(`{"provider":"anthropic","api_key":"sk","custom_host":"%s/v1","cache":"simple"}`, l.bad.URL)
	ask := func(body, status string) *gatewaytest.Answer {
		t.Helper()
		a, err := l.ask("POST", "/v1/responses", body, cue+"ok", "x-gw-config: "+config)
		if err != nil || a.Status != 200 || a.Header.Get("x-gw-cache-status") != status {
			t.Fatalf("%d %v %s %v", a.Status, a.Header, a.Body, err)
		}
		return a
	}
	first := ask(`{"model":"c","input":"2+2"}`, "MISS").Get("id").Str
	again := ask(`{"model":"c","input":"2+2"}`, "HIT")
	second := again.Get("id").Str
	if first == second || again.Get("output.0.content.0.text").Str != "4" {
		t.Fatalf("%s and %s: %s", first, second, again.Body)
	}
	streamed := ask(`{"model":"c","input":"2+2","stream":true}`, "HIT").Body
	if strings.Contains(streamed, first) || strings.Contains(streamed, second) || !strings.Contains(streamed, "response.completed") {
		t.Errorf("a stream has another's id:\n%s", streamed)
	}
	if a, _ := l.ask("DELETE", "/v1/responses/"+first, ""); a.Status != 200 {
		t.Errorf("delete: %d %s", a.Status, a.Body)
	}
	for id, want := range map[string]int{first: 404, second: 200} {
		if a, _ := l.ask("GET", "/v1/responses/"+id, ""); a.Status != want {
			t.Errorf("%s: %d %s", id, a.Status, a.Body)
		}
	}
}

// A form that would say with its model where it goes, and says so too late, is told.
func TestAFormThatNamesItsProviderTooLateIsTold(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_replay 1KiB\n}")
	const boundary = "xxx"
	form := func(parts ...string) string { return strings.Join(parts, "") + "--" + boundary + "--\r\n" }
	file := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + strings.Repeat("x", 4000) + "\r\n"
	model := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n@good/whisper\r\n"
	for body, want := range map[string]int{form(model, file): 200, form(file, model): 400} {
		a, _ := l.ask("POST", "/v1/audio/transcriptions", body, "content-type:", "content-type: multipart/form-data; boundary="+boundary)
		if a.Status != want || want == 400 && (a.Get("error.code").Str != "model_after_file" || !strings.Contains(a.Get("message").Str, "before the file")) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
}

// What is fetched was counted when it was made, and of a stream that is cut counts what
// was told.
func TestTokensAreCountedOnce(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("response", respond(200, `{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":10,"output_tokens":7,"total_tokens":17}}`))
	l.on("cut", then(stream("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":18,\"output_tokens\":1}}}\n\n"+
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hel\"}}\n\n"), cut))
	made, _ := l.ask("POST", "/v1/responses", `{"model":"m","input":"x"}`, cue+"response", "x-gw-provider: bad")
	fetched, _ := l.ask("GET", "/v1/responses/resp_1", "", cue+"response", "x-gw-provider: bad")
	if made.Status != 200 || fetched.Status != 200 {
		t.Fatalf("%d %d", made.Status, fetched.Status)
	}
	config := fmt.Sprintf(`{"provider":"anthropic","api_key":"sk","custom_host":"%s/v1"}`, l.bad.URL)
	broken, _ := l.ask("POST", "/v1/chat/completions", streamedChat, cue+"cut", "x-gw-config: "+config)
	for _, c := range []struct {
		name string
		a    *gatewaytest.Answer
		want string
	}{{"made", made, "10"}, {"fetched", fetched, ""}, {"cut", broken, "18"}} {
		row := logOf(l.Gateway, c.a)
		if got := row.Get("metrics.req_units"); got.Type == gjson.Null && c.want != "" || got.Type != gjson.Null && got.Raw != c.want {
			t.Errorf("%s: %s in %s", c.name, got.Raw, row.Body)
		}
	}
}

// A stream that only began before it failed is an error with a status, for which clients retry.
func TestAStreamThatOnlyBeganIsAnError(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":1}}}\n\n"))
		w.(http.Flusher).Flush()
		_, _ = w.Write([]byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"))
	})
	g := gatewaytest.Start(t, strings.Replace(up.Provider("claude"), "type openai", "type anthropic", 1))
	key, _ := g.Key("k")
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"c","stream":true,"messages":[{"role":"user","content":"Hi"}]}`,
		"/v1/responses":        `{"model":"c","stream":true,"store":false,"input":"Hi"}`,
	} {
		a := g.Do("POST", path, body, "x-gw-api-key: "+key, "x-gw-provider: claude")
		if a.Status != 529 || a.Get("error.message").Str != "busy" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}
