package handlers_test

import (
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
			t.Errorf("a key that is no value: %d %s", a.Status, a.Body)
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

// Beside a stored credential no header of a call says where it goes.
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
