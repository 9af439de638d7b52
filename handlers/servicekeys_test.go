package handlers_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/routing"
)

// A key in a URL is in logs, histories and referrers: it is refused, goes to no provider,
// and is not logged.
func TestAServiceKeyInAQueryIsRefusedAndNotLogged(t *testing.T) {
	l := newLab(t, trustLoopbackHosts, "")
	other, _ := l.Key("other")
	for _, path := range []string{"/v1/chat/completions", "/v1/elsewhere", "/v1/realtime", "/v1/api-keys", "/v1/logs"} {
		for _, key := range []string{other, gatewaytest.OwnerKey} {
			for _, name := range []string{"api_key", "key", "x-gw-api-key", "X-GW-API-KEY", "anything"} {
				for _, headers := range [][]string{nil, {"x-gw-api-key: " + gatewaytest.OwnerKey, "x-gw-provider: bad"}} {
					for _, value := range []string{key, "Bearer " + key} {
						a := l.Do("GET", path+"?a=b&"+name+"="+url.QueryEscape(value), "", headers...)
						if a.Status != 400 || !strings.Contains(a.Body, "x-gw-api-key") || !strings.Contains(a.Body, "header") || strings.Contains(a.Body, key) {
							if path != "/v1/chat/completions" || a.Status != 405 {
								t.Errorf("%s %s %q: %d %s", path, name, headers, a.Status, a.Body)
							}
						}
					}
				}
			}
		}
	}
	for _, query := range []string{
		other, other + "=", other + "=1", "a=xx" + other, "a=" + other + "xx", "a=b," + other + ",c",
		"a=" + strings.ReplaceAll(other, "-", "%252d"), "a=" + strings.ReplaceAll(other, "-", "%25252D"),
	} {
		a := l.Do("POST", "/v1/chat/completions?api-version=1&"+query, gatewaytest.Chat, "x-gw-api-key: "+other, "x-gw-provider: bad")
		if a.Status != 400 || strings.Contains(a.Body, other) {
			t.Errorf("a key that is not a value: %d %s", a.Status, a.Body)
		}
	}
	if n := len(l.bad.Calls()); n != 0 {
		t.Errorf("the provider got %d calls", n)
	}
	l.Do("GET", "/v1/elsewhere?alt=sse&key=canary-of-a-provider", "", "x-gw-api-key: "+other)
	l.Do("GET", "/v1/elsewhere?alt=sse&key=canary-of-a-provider", "", "x-gw-api-key: "+other, "authorization: Bearer own", "x-gw-provider: openai", "x-gw-custom-host: "+l.bad.URL)
	if n := len(l.bad.Calls()); n != 1 {
		t.Errorf("the provider got %d calls", n)
	}
	logs := l.Logs()
	for _, secret := range []string{other, gatewaytest.OwnerKey, "canary-of-a-provider"} {
		for line := range strings.Lines(logs) {
			if strings.Contains(line, secret) {
				t.Fatalf("%q is in the log: %s", secret, line)
			}
		}
	}
	if !strings.Contains(logs, "alt=sse") {
		t.Error("the rest of a query is not logged")
	}
}

// What a URL's path has is in logs, spans and records, too.
func TestAServiceKeyInAPathIsRefusedAndShownNowhere(t *testing.T) {
	rec := receive(t)
	const dataToken = "data-service-token-of-the-tests-0123456789"
	l := newLab(t, trustLoopbackHosts+"data_service_token "+dataToken+"\npassthrough_paths /v1/*\n", "tracing\ngw_admin\ngw_ratelimit\ngw_inference", withAdminEndpoint)
	other, _ := l.Key("other")
	keys := []string{other, gatewaytest.OwnerKey, dataToken}
	trace := 0
	for _, path := range []string{"/v1/models/", "/v1/elsewhere/", "/v1/files/", "/v1/responses/", "/v1/chat/completions/", "/v1/chat/completions;key=", "/v1/a%2F", "/v1/api-keys/", "/v1/logs/", "/v1/nothing/x/"} {
		for _, key := range keys {
			for _, written := range []string{key, key + "/more", url.PathEscape("Bearer " + key), strings.ReplaceAll(key, "-", "%2D"), strings.ReplaceAll(key, "-", "%252d"), strings.ReplaceAll(key, "-", "%252525252D")} {
				for _, method := range []string{"GET", "POST", "DELETE"} {
					trace++
					a := l.Do(method, path+written, "", "x-gw-api-key: "+other, "x-gw-provider: bad", parent(fmt.Sprintf("%032x", trace)))
					if a.Status != 400 || !strings.Contains(a.Body, "path: ") || strings.Contains(a.Body, key) {
						t.Errorf("%s %s%s: %d %s", method, path, written, a.Status, a.Body)
					}
				}
			}
		}
	}
	for _, path := range []string{"/elsewhere/", "/health/"} { // these are none of the gateway's
		if a := l.Do("GET", path+other, ""); a.Status != 404 || strings.Contains(a.Body, other) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if n := len(l.bad.Calls()); n != 0 {
		t.Errorf("the provider got %d calls", n)
	}
	spans := rec.of(t, fmt.Sprintf("%032x", trace), 1)
	if got := attributes(spans[0])["url.path"]; got != "/v1/nothing/x/REDACTED" {
		t.Errorf("the span's path is %q", got)
	}
	l.isNowhere(t, rec, keys...)
	if !strings.Contains(l.Logs(), `"uri":"/v1/files/REDACTED/more"`) {
		t.Error("the rest of a path is not logged")
	}
}

// isNowhere checks that what was logged, recorded, counted, traced and sent to a provider has none
// of the keys.
func (l *lab) isNowhere(t *testing.T, rec *receiver, keys ...string) {
	t.Helper()
	l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, "x-gw-provider: good")
	eventually(t, "a record", func() bool { return len(records(t)) > 0 })
	places := map[string]string{"the log": l.Logs(), "a record": fmt.Sprintf("%+v", records(t)), "the metrics": fmt.Sprint(scrape(t, l.Gateway))}
	for _, c := range l.bad.Calls() {
		places["what the provider got"] += fmt.Sprintf("%+v\n", c)
	}
	for _, c := range l.good.Calls() {
		places["what the provider got"] += fmt.Sprintf("%+v\n", c)
	}
	rec.mu.Lock()
	places["a span"] = string(rec.raw)
	rec.mu.Unlock()
	for place, text := range places {
		for _, key := range keys {
			if bare := key[strings.LastIndexByte(key, '-')+1:]; strings.Contains(text, bare) {
				for line := range strings.Lines(text) {
					if strings.Contains(line, bare) {
						t.Errorf("a key is in %s: %s", place, line)
						break
					}
				}
			}
		}
	}
}

func TestAServiceKeyGoesToNoProviderInAHeader(t *testing.T) {
	rec := receive(t)
	l := newLab(t, trustLoopbackHosts, "tracing\ngw_admin\ngw_ratelimit\ngw_inference", withAdminEndpoint)
	l.on("", respond(200, gatewaytest.Completion))
	other, _ := l.Key("other")
	keys := []string{other, gatewaytest.OwnerKey}
	inline := []string{"x-gw-provider: openai", "x-gw-custom-host: " + l.bad.URL, "authorization: Bearer own"}
	stored := []string{"x-gw-provider: bad"}
	for name, more := range map[string][]string{
		"user-agent": stored, "idempotency-key": stored, "openai-beta": stored, "x-client-request-id": stored, "accept": stored,
		"openai-organization": inline, "openai-project": inline, "cdn-loop": inline,
		"x-mine":   {`x-gw-config: {"provider":"@bad","forward_headers":["x-mine"]}`},
		"x-second": {`x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad","forward_headers":["x-second"]},{"provider":"@bad"}]}`},
		"x-listed": append([]string{"x-gw-forward-headers: x-other, X-Listed"}, inline...),
	} {
		for _, key := range keys {
			for _, value := range []string{key, "Bearer " + key, "client/1.0 (" + key + "; linux)"} {
				headers := append([]string{"x-gw-api-key: " + l.key, name + ": " + value}, more...)
				a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, headers...)
				if a.Status != 400 || a.Get("error.code").Str != "key_in_header" || a.Get("error.param").Str != name || strings.Contains(a.Body, key) {
					t.Errorf("%s: %d %s", name, a.Status, a.Body)
				}
			}
		}
	}
	for _, more := range [][]string{
		{`x-gw-config: {"provider":"openai","api_key":"` + other + `","custom_host":"` + l.bad.URL + `"}`},
		{"x-gw-provider: bedrock", "x-gw-custom-host: " + l.bad.URL, "authorization: Bearer own", "x-gw-aws-region: us-east-1", "x-gw-aws-auth-type: apiKey", "x-gw-aws-session-token: " + other, "x-gw-aws-access-key-id: a", "x-gw-aws-secret-access-key: b"},
		{"x-gw-provider: bad", "connection: upgrade", "upgrade: websocket", "sec-websocket-protocol: realtime, x." + other},
	} {
		method, path, body := "POST", "/v1/chat/completions", gatewaytest.Chat
		if len(more) == 4 {
			method, path, body = "GET", "/v1/realtime?model=m", ""
		}
		if a := l.Do(method, path, body, append([]string{"x-gw-api-key: " + l.key}, more...)...); a.Status != 400 || a.Get("error.code").Str != "key_in_header" || strings.Contains(a.Body, other) {
			t.Errorf("%q: %d %s", more, a.Status, a.Body)
		}
	}
	if n := len(l.bad.Calls()); n != 0 {
		t.Errorf("the provider got %d calls", n)
	}
	// A header that is not forwarded is nobody's concern.
	if a := l.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+l.key, "x-gw-provider: bad", "x-mine: "+other, "referer: http://a/?key="+gatewaytest.OwnerKey); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	l.isNowhere(t, rec, keys...)
}

func TestNoHeaderOfACredentialIsLogged(t *testing.T) {
	l := newLab(t, "", "")
	names := []string{"api-key", "x-api-key", "x-goog-api-key", "x-amz-security-token", "authorization", "proxy-authorization", "cookie", "x-gw-api-key", "x-gw-config", "x-gw-custom-host", "x-gw-unknown-to-the-gateway"}
	for _, name := range routing.SecretKeys {
		names = append(names, "x-gw-"+strings.ReplaceAll(name, "_", "-"))
	}
	for _, name := range names {
		l.Do("GET", "/v1/models", "", name+": canary-in-a-header")
	}
	for line := range strings.Lines(l.Logs()) {
		if strings.Contains(line, "canary-in-a-header") {
			t.Errorf("it is in the log: %s", line)
		}
	}
}

// Besides a stored credential no header of a call says where it goes.
func TestNoHeaderNamesAPlaceBesideAStoredCredential(t *testing.T) {
	l := newLab(t, trustLoopbackHosts, "")
	l.on("ok", respond(200, gatewaytest.Completion))
	saved := l.save(`{"provider":"openai","api_key":"key-of-the-config","custom_host":"` + l.bad.URL + `/v1"}`)
	slug := l.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "v", "provider": "openai", "key": "key-of-the-virtual-key", "custom_host": l.bad.URL + "/v1"}).Get("data.slug").Str
	inline := `x-gw-config: {"virtual_key":"` + slug + `"}`
	for _, by := range []string{"x-gw-config: " + saved, "x-gw-virtual-key: " + slug, "x-gw-provider: @" + slug, "x-gw-provider: bad", inline} {
		if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, by, cue+"ok"); a.Status != 200 {
			t.Fatalf("%s: %d %s", by, a.Status, a.Body)
		}
		for _, key := range append([]string{"custom_host"}, routing.PlaceKeys...) {
			header := "x-gw-" + strings.ReplaceAll(key, "_", "-")
			a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, by, cue+"ok", header+": "+l.good.URL)
			if a.Status != 400 || a.Get("error.param").Str != header {
				t.Errorf("%s, %s: %d %s", by, header, a.Status, a.Body)
			}
		}
	}
}

const trustLoopbackHosts = "trusted_custom_hosts 127.0.0.1\n"
