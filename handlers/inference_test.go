package handlers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

const trustLoopback = "trusted_custom_hosts 127.0.0.1\nblock_inline_config off\n"

// Every inference endpoint takes every combination of credentials.
func TestEveryEndpointTakesEveryCombinationOfCredentials(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, trustLoopback+up.Provider("file"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{
		"name": "vk", "slug": "vk", "provider": "openai", "key": "sk-of-the-virtual-key", "custom_host": up.URL + "/v1",
	})
	service := "x-gw-api-key: " + key
	combinations := map[string]struct {
		headers  []string
		model    string
		auth     string
		provider string
	}{
		"virtual key":            {[]string{service, "x-gw-virtual-key: vk"}, "m", "Bearer sk-of-the-virtual-key", "openai"},
		"bearer and custom host": {[]string{service, "authorization: Bearer sk-mine", "x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/v1"}, "m", "Bearer sk-mine", "openai"},
		"provider of the file":   {[]string{service, "x-gw-provider: file"}, "m", "Bearer sk-of-the-file-file", "file"},
		"the caller's bearer is dropped for a saved provider": {[]string{service, "x-gw-provider: file", "authorization: Bearer sk-mine"}, "m", "Bearer sk-of-the-file-file", "file"},
		"@slug in the provider header":                        {[]string{service, "x-gw-provider: @vk"}, "m", "Bearer sk-of-the-virtual-key", "openai"},
		"@slug/model of the file":                             {[]string{service}, "@file/m", "Bearer sk-of-the-file-file", "file"},
		"@slug/model of a virtual key":                        {[]string{service}, "@vk/m", "Bearer sk-of-the-virtual-key", "openai"},
		"service key as bearer":                               {[]string{"authorization: Bearer " + key, "x-gw-virtual-key: vk"}, "m", "Bearer sk-of-the-virtual-key", "openai"},
		"service key in both places":                          {[]string{service, "authorization: Bearer " + key, "x-gw-virtual-key: vk"}, "m", "Bearer sk-of-the-virtual-key", "openai"},
		"the owner's key":                                     {[]string{"x-gw-api-key: " + gatewaytest.OwnerKey, "x-gw-provider: file"}, "m", "Bearer sk-of-the-file-file", "file"},
	}
	for _, path := range []string{"/chat/completions", "/completions", "/moderations", "/embeddings"} {
		for name, c := range combinations {
			t.Run(path+" "+name, func(t *testing.T) {
				body := `{"model":"` + c.model + `","input":"x","prompt":"y","messages":[{"role":"user","content":"hi"}]}`
				a := g.Do("POST", "/v1"+path, body, c.headers...)
				if a.Status != http.StatusOK || a.Body != gatewaytest.Completion {
					t.Fatalf("got %d %s", a.Status, a.Body)
				}
				call := up.Last(t)
				if call.Path != "/v1"+path || call.Header.Get("Authorization") != c.auth {
					t.Errorf("the provider got %s with %q, want %q", call.Path, call.Header.Get("Authorization"), c.auth)
				}
				if want := strings.Replace(body, c.model, "m", 1); call.Body != want {
					t.Errorf("the provider got %s, want %s", call.Body, want)
				}
				if a.Header.Get("x-gw-provider") != c.provider || a.Header.Get("x-gw-trace-id") == "" {
					t.Errorf("answered with provider %q, trace %q", a.Header.Get("x-gw-provider"), a.Header.Get("x-gw-trace-id"))
				}
			})
		}
	}
}

func TestRefusalsHaveTheDocumentedStatusAndEnvelope(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file"))
	key, _ := g.Key("k")
	revoked, revokedID := g.Key("revoked")
	g.Admin("DELETE", "/v1/api-keys/"+revokedID, nil)
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk-1"})
	noScope := g.Admin("POST", "/v1/api-keys/workspace/service", map[string]any{"name": "n", "scopes": []string{"logs.view"}}).Get("key").Str
	service := "x-gw-api-key: " + key
	inline := []string{service, "authorization: Bearer sk-mine", "x-gw-provider: openai"}

	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code, param        string
		message            string
	}{
		"missing key":               {"POST", "", gatewaytest.Chat, nil, 401, "03", "x-gw-api-key", "Invalid API Key. Error Code: 03"},
		"unknown key":               {"POST", "", gatewaytest.Chat, []string{"x-gw-api-key: nope"}, 401, "03", "x-gw-api-key", "Invalid API Key"},
		"unknown key as bearer":     {"POST", "", gatewaytest.Chat, []string{"authorization: Bearer nope"}, 401, "03", "x-gw-api-key", "Invalid API Key"},
		"revoked key":               {"POST", "", gatewaytest.Chat, []string{"x-gw-api-key: " + revoked}, 401, "03", "x-gw-api-key", "Invalid API Key"},
		"key without the scope":     {"POST", "", gatewaytest.Chat, []string{"x-gw-api-key: " + noScope}, 403, "033", "x-gw-api-key", "Forbidden!"},
		"two different keys":        {"POST", "", gatewaytest.Chat, []string{service, "x-gw-api-key: other"}, 400, "ambiguous_header", "x-gw-api-key", "twice"},
		"no provider":               {"POST", "", gatewaytest.Chat, []string{service}, 400, "provider_required", "x-gw-provider", "Either x-gw-config or x-gw-provider"},
		"bad provider":              {"POST", "", gatewaytest.Chat, []string{service, "x-gw-provider: nope"}, 400, "invalid_provider", "x-gw-provider", "Invalid provider passed"},
		"unknown virtual key":       {"POST", "", gatewaytest.Chat, []string{service, "x-gw-virtual-key: nope"}, 400, "invalid_virtual_key", "x-gw-virtual-key", "Following keys are not valid: nope"},
		"unknown saved config":      {"POST", "", gatewaytest.Chat, []string{service, "x-gw-config: pc-nope"}, 400, "invalid_config", "x-gw-config", "Invalid config id passed"},
		"private custom host":       {"POST", "", gatewaytest.Chat, append(inline, "x-gw-custom-host: http://10.0.0.1/v1"), 400, "invalid_custom_host", "x-gw-custom-host", "Invalid custom host"},
		"metadata custom host":      {"POST", "", gatewaytest.Chat, append(inline, "x-gw-custom-host: http://169.254.169.254/"), 400, "invalid_custom_host", "x-gw-custom-host", "Invalid custom host"},
		"host resolving to private": {"POST", "", gatewaytest.Chat, append(inline, "x-gw-custom-host: http://ip6-localhost.gw-test.example:"+portOf(up.URL)), 503, "provider_unreachable", "", "could not be reached"},
		"custom host, virtual key":  {"POST", "", gatewaytest.Chat, []string{service, "x-gw-virtual-key: vk", "x-gw-custom-host: https://a.example/v1"}, 400, "invalid_custom_host", "x-gw-custom-host", "stored credential"},
		"custom host, file":         {"POST", "", gatewaytest.Chat, []string{service, "x-gw-provider: file", "x-gw-custom-host: https://a.example/v1"}, 400, "invalid_custom_host", "x-gw-custom-host", "stored credential"},
		"custom host, @slug model":  {"POST", "", `{"model":"@file/m","messages":[{"role":"user","content":"hi"}]}`, []string{service, "x-gw-custom-host: https://a.example/v1"}, 400, "invalid_custom_host", "x-gw-custom-host", "stored credential"},
		"body is an array":          {"POST", "", `[]`, inline, 400, "invalid_json", "", "expected a JSON object"},
		"body is cut off":           {"POST", "", `{"model":"m"`, inline, 400, "invalid_json", "", "at byte 12"},
		"body is empty":             {"POST", "", "", inline, 400, "invalid_json", "", "expected a JSON object"},
		"model twice":               {"POST", "", `{"model":"a","model":"b"}`, inline, 400, "duplicate_field", "model", "more than once"},
		"model twice, escaped":      {"POST", "", `{"model":"a","mod\u0065l":"b"}`, inline, 400, "duplicate_field", "model", "more than once"},
		"model in another case":     {"POST", "", `{"model":"a","Model":"b"}`, inline, 400, "duplicate_field", "Model", "letter case"},
		"model of a wrong type":     {"POST", "", `{"model":7}`, inline, 400, "invalid_type", "model", "expected a string"},
		"stream of a wrong type":    {"POST", "", `{"model":"m","stream":"yes"}`, inline, 400, "invalid_type", "stream", "expected true or false"},
		"wrong content type":        {"POST", "", gatewaytest.Chat, append(inline, "content-type:", "content-type: text/plain"), 400, "invalid_content_type", "content-type", "Invalid content type passed"},
		"metadata is not an object": {"POST", "", gatewaytest.Chat, append(inline, "x-gw-metadata: [1]"), 400, "invalid_metadata", "x-gw-metadata", "JSON object"},
		"method not allowed":        {"GET", "/v1/embeddings", "", inline, 405, "method_not_allowed", "", "expected POST"},
		"other method, by id":       {"PATCH", "/v1/responses/resp_1", gatewaytest.Chat, inline, 405, "method_not_allowed", "", "expected GET, DELETE"},
		"method of no pass-through": {"OPTIONS", "/v1/nope", "", inline, 405, "method_not_allowed", "", "expected GET, POST, PUT, PATCH, DELETE"},
		"path with a slash at end":  {"POST", "/v1/chat/completions/", gatewaytest.Chat, inline, 404, "unknown_url", "", "Not Found"},
		"path with an empty part":   {"POST", "/v1//nope", gatewaytest.Chat, inline, 404, "unknown_url", "", "Not Found"},
		"path that leads up":        {"POST", "/v1/a/%2e%2e/nope", gatewaytest.Chat, inline, 404, "unknown_url", "", "Not Found"},
		"path with a hidden slash":  {"GET", "/v1/files/a%2f..%2fb", "", inline, 404, "unknown_url", "", "Not Found: nothing is served at /v1/files/a%2f..%2fb"},
		"no messages":               {"POST", "", `{"model":"m"}`, inline, 400, "missing_required_parameter", "messages", "Missing required parameter: 'messages'"},
		"no model":                  {"POST", "", `{"messages":[{"role":"user","content":"hi"}]}`, inline, 400, "missing_required_parameter", "model", "Missing required parameter: 'model'"},
		"a message without a role":  {"POST", "", `{"model":"m","messages":[{"role":"user"},{}]}`, inline, 400, "missing_required_parameter", "messages[1].role", "messages[1].role"},
		"no input":                  {"POST", "/v1/embeddings", `{"model":"m"}`, inline, 400, "missing_required_parameter", "input", "'input'"},
		"too many in a list":        {"GET", "/v1/batches?limit=101", "", inline, 400, "integer_above_max_value", "limit", "limit"},
		"no multipart":              {"POST", "/v1/files", gatewaytest.Chat, inline, 400, "invalid_content_type", "content-type", "Invalid content type passed"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			before := len(up.Calls())
			a := g.Do(c.method, path, c.body, c.headers...)
			if a.Status != c.status || !strings.Contains(a.Get("message").Str, c.message) {
				t.Fatalf("got %d %s, want %d %q", a.Status, a.Body, c.status, c.message)
			}
			if a.Get("status").Str != "failure" || a.Get("error.message").Str != a.Get("message").Str || a.Get("error.type").Str == "" ||
				!a.Get("error.param").Exists() || a.Get("error.param").Str != c.param || !a.Get("error.code").Exists() || a.Get("error.code").Str != c.code {
				t.Errorf("envelope %s, want code %q and param %q", a.Body, c.code, c.param)
			}
			if ct := a.Header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
			if len(up.Calls()) != before {
				t.Error("the provider was called")
			}
		})
	}
}

func portOf(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

func TestBlockInlineConfigRefusesWhatIsNotSaved(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file")) // on by default, as fresh installs are
	key, _ := g.Key("k")
	service := "x-gw-api-key: " + key
	for name, c := range map[string]struct {
		headers []string
		code    string
		field   string
	}{
		"inline config":        {[]string{service, `x-gw-config: {"provider":"openai","api_key":"sk"}`}, "inline_config_blocked", "x-gw-config"},
		"provider by name":     {[]string{service, "authorization: Bearer sk", "x-gw-provider: openai"}, "inline_provider_blocked", "x-gw-provider"},
		"provider comes first": {[]string{service, "authorization: Bearer sk", "x-gw-provider: openai", "x-gw-custom-host: https://a.example"}, "inline_provider_blocked", "x-gw-provider"},
		"custom host":          {[]string{service, "x-gw-provider: file", "x-gw-custom-host: https://a.example"}, "inline_custom_host_blocked", "x-gw-custom-host"},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, c.headers...)
			if a.Status != 400 || a.Get("error.code").Str != c.code || a.Get("error.field").Str != c.field {
				t.Fatalf("got %d %s", a.Status, a.Body)
			}
		})
	}
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, service, "x-gw-provider: file"); a.Status != 200 {
		t.Errorf("a provider of the file: %d %s", a.Status, a.Body)
	}
	// The organisation's setting counts at once, and that of a workspace which may decide.
	workspace := "/v1/admin/workspaces/" + gjson.Get(g.Admin("GET", "/v1/admin/workspaces", nil).Body, "data.0.slug").Str
	for _, set := range []struct {
		path, body string
		status     int
	}{
		{"/v1/admin/organisation", `{"data_plane_security_settings":{"block_inline_config":false},"workspace_overrides":{"data_plane_security_settings":true}}`, 200},
		{workspace, `{"data_plane_security_settings":{"block_inline_config":true}}`, 400},
		{"/v1/admin/organisation", `{"workspace_overrides":{"data_plane_security_settings":false}}`, 200},
	} {
		g.Admin("PUT", set.path, json.RawMessage(set.body))
		if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, service, `x-gw-config: {"provider":"@file"}`); a.Status != set.status {
			t.Errorf("%s: %d %s", set.body, a.Status, a.Body)
		}
	}
	t.Setenv("BLOCK_INLINE_CONFIG", "true")
	g.Options += "block_inline_config off\n"
	g.Load()
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, service, "authorization: Bearer sk", "x-gw-provider: openai"); a.Get("error.code").Str != "inline_provider_blocked" {
		t.Errorf("the environment does not win: %d %s", a.Status, a.Body)
	}
}

func TestAHostThatResolvesToAPrivateAddressIsRefusedWhenDialed(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.New(t, "block_inline_config off\n"+up.Provider("file"))
	// The name passes the spelling check; a resolver of ours answers 127.0.0.1.
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\n\ttransport {\n\t\tresolvers " + loopbackResolver(t) + "\n\t}\n}"
	g.Load()
	key, _ := g.Key("k")
	// A pooled connection to the same place, made for the operator, must not be used.
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file"); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	before := len(up.Calls())
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "authorization: Bearer sk",
		"x-gw-provider: openai", "x-gw-custom-host: http://models.rebound.net:"+portOf(up.URL)+"/v1")
	if a.Status != 400 || a.Get("error.code").Str != "invalid_custom_host" || !strings.Contains(a.Get("message").Str, "Invalid custom host") {
		t.Fatalf("got %d %s\n%s", a.Status, a.Body, g.Logs())
	}
	if len(up.Calls()) != before {
		t.Error("the private host was called")
	}
}

func TestTheProviderSeesOnlyWhatIsMeantForIt(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "header_prefix x-acme-\n"+up.Provider("file"))
	key, _ := g.Key("k")
	body := ` {"unknown" : [1e400, "\u00e9", {"a":null}],` + "\n\t" + `"messages":[{"role":"user","content":"naïve \ud83d\ude00"}], "model":"m","temperature":0.70}  `
	a := g.Do("POST", "/v1/chat/completions?x=1", body, "x-gw-api-key: "+key, "x-gw-provider: file", "x-gw-metadata: {\"a\":1}", "x-acme-debug: true",
		"cookie: a=b", "x-forwarded-for: 1.2.3.4", "x-other: 1", "proxy-authorization: Basic eDp5", "authorization: Bearer sk-mine",
		"openai-organization: org-of-the-caller", "idempotency-key: i-1", "user-agent: test/1", "accept-encoding: br", "te: trailers", "expect: 100-continue")
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	call := up.Last(t)
	if call.Body != body {
		t.Errorf("body changed to %q", call.Body)
	}
	if call.Host != strings.TrimPrefix(up.URL, "http://") {
		t.Errorf("host %q", call.Host)
	}
	allowed := map[string]string{
		"Authorization": "Bearer sk-of-the-file-file", "Content-Type": "application/json", "Idempotency-Key": "i-1", "User-Agent": "test/1",
		"Accept-Encoding": "identity",
	}
	for name, values := range call.Header {
		if name == "Content-Length" {
			continue
		}
		if want, ok := allowed[name]; !ok || values[0] != want {
			t.Errorf("the provider got %s: %q", name, values)
		}
	}
}

func TestAnswersCarryTheGatewaysHeadersUnderEveryPrefix(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Gw-Provider", "forged")
		w.Header().Set("X-Acme-Secret", "forged")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Request-Id", "req-1")
		_, _ = io.WriteString(w, "{}")
	})
	g := gatewaytest.Start(t, "header_prefix x-acme\n"+up.Provider("file"))
	key, _ := g.Key("k")
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-acme-api-key: "+key, "x-acme-provider: file", "x-acme-trace-id: trace-1")
	for name, want := range map[string]string{
		"x-gw-provider": "file", "x-acme-provider": "file", "x-gw-trace-id": "trace-1", "x-acme-trace-id": "trace-1", "x-request-id": "req-1",
		"set-cookie": "", "x-acme-secret": "",
	} {
		if got := a.Header.Values(name); strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestBodiesOverTheLimitAreRefused(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.New(t, up.Provider("file"))
	g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_body 1KiB\n}"
	g.Load()
	key, _ := g.Key("k")
	pad := func(n int) string {
		const empty = `{"model":"m","messages":[{"role":"user","content":"hi"}],"x":""}`
		return strings.Replace(empty, `""`, `"`+strings.Repeat("x", n-len(empty))+`"`, 1)
	}
	for n, want := range map[int]int{1024: 200, 1025: 413, 100_000: 413} {
		a := g.Do("POST", "/v1/chat/completions", pad(n), "x-gw-api-key: "+key, "x-gw-provider: file")
		if a.Status != want {
			t.Errorf("%d bytes: %d %s, want %d", n, a.Status, a.Body, want)
		}
	}
	chunked := g.Request("POST", "/v1/chat/completions", "", "x-gw-api-key: "+key, "x-gw-provider: file", "content-type: application/json")
	chunked.Body = io.NopCloser(strings.NewReader(pad(2000)))
	res, err := http.DefaultClient.Do(chunked)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("chunked: %d", res.StatusCode)
	}
}

func TestAProviderThatCannotBeReachedIsSaid(t *testing.T) {
	dead := gatewaytest.RefusingAddress(t)
	hangup := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	g := gatewaytest.Start(t, "provider dead {\ntype openai\nbase_url http://"+dead+"/v1\n}\n"+hangup.Provider("hangup"))
	key, _ := g.Key("k")
	for slug, want := range map[string]int{"dead": 503, "hangup": 502} {
		a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: "+slug)
		if a.Status != want || a.Get("error.code").Str != "provider_unreachable" || strings.Contains(a.Body, dead) {
			t.Errorf("%s: %d %s", slug, a.Status, a.Body)
		}
	}
}

// events sends the events that a test passes on, one at a time.
func events(next <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case e, ok := <-next:
				switch {
				case !ok:
					return
				case e == "break":
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

const streamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

func TestStreamsReachTheClientChunkByChunk(t *testing.T) {
	next := make(chan string, 1)
	up := gatewaytest.NewUpstream(t, events(next))
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	sent := []string{"data: {\"a\":1}\n\n", ": ping\n\n", "data: {\"b\":\"é\"}\r\n\r\n", "data: [DONE]\n\n"}
	next <- sent[0] // with which the answer begins
	res, err := http.DefaultClient.Do(g.Request("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for i, e := range sent {
		if i > 0 {
			next <- e // the next one is sent only after this one has arrived
		}
		for _, want := range strings.SplitAfter(strings.TrimSuffix(e, "\n"), "\n") {
			got, err := lines.ReadString('\n')
			if err != nil || strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want, "\n") {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	close(next)
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("after [DONE]: %q, %v", rest, err)
	}
}

func TestABrokenStreamEndsWithAnErrorEventAndNoDone(t *testing.T) {
	next := make(chan string, 3)
	up := gatewaytest.NewUpstream(t, events(next))
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	next <- "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"he\"},\"finish_reason\":null}]}\n\n"
	next <- "data: {\"choi"
	next <- "break"
	a := g.Do("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file")
	blocks := strings.Split(strings.TrimSpace(a.Body), "\n\n")
	if len(blocks) != 2 || !strings.HasPrefix(blocks[1], `data: {"error":{`) || strings.Contains(a.Body, "[DONE]") || strings.Contains(a.Body, `{"choi"`) {
		t.Fatalf("got %q", a.Body)
	}
}

func TestAClientThatLeavesCancelsTheUpstream(t *testing.T) {
	left := make(chan struct{})
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	ctx, leave := context.WithCancel(t.Context())
	res, err := http.DefaultClient.Do(g.Request("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	leave()
	select {
	case <-left:
	case <-time.After(time.Second):
		t.Fatal("the upstream request still runs a second after the client left")
	}
}

func TestReservedPathsNeverReachAProvider(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	for _, site := range []string{"gw_admin\ngw_ratelimit\ngw_inference", "gw_ratelimit\ngw_inference", "gw_inference"} {
		g.Site = site
		g.Load()
		for _, path := range []string{"/v1/guardrails", "/v1/scim/groups", "/v1/oauth/register", "/v2/anything", "/v1/analytics/graphs/cost", "/v1/admin/users", "/v1/logs/exports/x"} {
			a := g.Do("POST", path, gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file")
			// What is there refuses the key or the method.
			if a.Status != http.StatusNotFound && (!strings.Contains(site, "gw_admin") || a.Status != http.StatusForbidden && a.Status != http.StatusMethodNotAllowed) {
				t.Errorf("%q %s: %d %s", site, path, a.Status, a.Body)
			}
		}
	}
	if n := len(up.Calls()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
}

// What no row of the table serves goes to the provider as it came.
func TestOtherPathsBelowV1ArePassedThrough(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Query", r.URL.RawQuery)
		w.Header().Set("X-Escaped", r.URL.EscapedPath())
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "as it is")
	})
	g := gatewaytest.Start(t, strings.Replace(up.Provider("file"), "{\n", "{\npassthrough_paths /v1/a/* PATCH /v1/a\n", 1))
	key, _ := g.Key("k")
	form := "content-type: application/x-www-form-urlencoded"
	for _, c := range []struct {
		method, path, body string
		headers            []string
		upstream, query    string
	}{
		{"GET", "/v1/vector_stores?limit=3&after=a%20b", "", nil, "/v1/vector_stores", "limit=3&after=a%20b"},
		{"DELETE", "/v1/vector_stores/vs_1", "", nil, "/v1/vector_stores/vs_1", ""},
		{"POST", "/v1/vector_stores/vs%201/files", `{"model":"m","x":[1e400]}`, nil, "/v1/vector_stores/vs%201/files", ""},
		{"PUT", "/v1/a/b/c/d", `no JSON`, nil, "/v1/a/b/c/d", ""},
		{"PATCH", "/v1/a", "a=b&c=d", []string{"content-type:", form}, "/v1/a", ""},
	} {
		a := g.Do(c.method, c.path, c.body, append([]string{"x-gw-api-key: " + key, "x-gw-provider: file"}, c.headers...)...)
		if a.Status != http.StatusAccepted || a.Body != "as it is" {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.Status, a.Body)
			continue
		}
		call := up.Last(t)
		if call.Method != c.method || call.Body != c.body || a.Header.Get("X-Escaped") != c.upstream || a.Header.Get("X-Query") != c.query {
			t.Errorf("%s %s: the provider got %s %s?%s with %q", c.method, c.path, call.Method, a.Header.Get("X-Escaped"), a.Header.Get("X-Query"), call.Body)
		}
	}
	calls := len(up.Calls())
	for name, headers := range map[string][]string{"no key": {"x-gw-provider: file"}, "no provider": {"x-gw-api-key: " + key}} {
		if a := g.Do("GET", "/v1/vector_stores", "", headers...); a.Status/100 != 4 || a.Get("status").Str != "failure" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if len(up.Calls()) != calls {
		t.Error("the provider was called")
	}
}

func TestATextCompletionWithoutAPromptBeginsANewDocument(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	for body, want := range map[string]string{
		`{"model":"@file/m"}`: "<|endoftext|>", `{"model":"@file/m","prompt":null}`: "<|endoftext|>", `{"model":"@file/m","prompt":""}`: "", `{"model":"@file/m","prompt":"p"}`: "p",
	} {
		if a := g.Do("POST", "/v1/completions", body, "x-gw-api-key: "+key); a.Status != 200 {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
			continue
		}
		got := gjson.Parse(up.Last(t).Body)
		if got.Get("prompt").Type != gjson.String || got.Get("prompt").Str != want || got.Get("model").Str != "m" {
			t.Errorf("%s: the provider got %s", body, got.Raw)
		}
	}
}

func TestNewServiceKeysBeginWithTheConfiguredPrefix(t *testing.T) {
	t.Setenv("API_KEY_PREFIX", "acme-")
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file")
	if !strings.HasPrefix(key, "acme-") || a.Status != http.StatusOK {
		t.Errorf("key %.8s…: %d %s", key, a.Status, a.Body)
	}
}
