package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A host that the operator trusts is trusted on any port, and Caddy's admin endpoint
// may be on one: it must not take what a caller sends there.
func TestATrustedHostDoesNotOpenCaddysAdminEndpoint(t *testing.T) {
	g := gatewaytest.New(t, trustLoopback+"trusted_custom_hosts 127.0.0.2\n")
	g.AdminAt = gatewaytest.FreeAddress(t)
	g.Load()
	key, _ := g.Key("k")
	g.Do("POST", "/v1/virtual-keys", `{"name":"e","slug":"evil","provider":"openai","key":"x","custom_host":"http://`+g.AdminAt+`/config/apps/http/servers"}`, "x-gw-api-key: "+gatewaytest.OwnerKey)
	for name, headers := range map[string][]string{
		"a virtual key": {"x-gw-api-key: " + key, "x-gw-virtual-key: evil"},
		"a custom host": {"x-gw-api-key: " + key, "authorization: Bearer x", "x-gw-provider: openai", "x-gw-custom-host: http://" + g.AdminAt + "/config/apps/http/servers"},
	} {
		for _, path := range []string{"/v1/embeddings", "/v1/evil"} {
			a := g.Do("POST", path, `{"model":"m","input":"x","listen":["127.0.0.1:0"]}`, headers...)
			if a.Status == http.StatusOK || a.Get("error").Type.String() == "Null" {
				t.Errorf("%s %s: %d %s", name, path, a.Status, a.Body)
			}
			if a := g.Do("GET", "/v1/metrics", "", headers...); a.Status == http.StatusOK {
				t.Errorf("%s: read %s", name, a.Body)
			}
		}
	}
	// It is refused before a connection is made, by the address.
	for _, host := range []string{g.AdminAt, strings.Replace(g.AdminAt, "127.0.0.1", "127.0.0.2", 1)} {
		a := g.Do("POST", "/v1/embeddings", `{"model":"m","input":"x"}`, "x-gw-api-key: "+key, "authorization: Bearer x", "x-gw-provider: openai", "x-gw-custom-host: http://"+host)
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "Caddy's admin endpoint") {
			t.Errorf("%s: %d %s", host, a.Status, a.Body)
		}
	}
	res, err := http.Get("http://" + g.AdminAt + "/config/apps/http/servers/embeddings")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && res.ContentLength > 5 {
		t.Error("the admin endpoint took a server from a caller")
	}
}

// The mark by which Caddy's admin endpoint refuses a request is on a WebSocket's, too.
func TestWebSocketsToHostsThatCallersChoseAreMarked(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, trustLoopback+up.Provider("file"))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk-of-a-tenant", "custom_host": up.URL + "/v1"})
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"a call's host":       {[]string{"authorization: Bearer x", "x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/v1"}, "no-cors"},
		"a tenant's host":     {[]string{"x-gw-virtual-key: vk"}, "no-cors"},
		"the operator's host": {[]string{"x-gw-provider: file"}, ""},
	} {
		before := len(up.Calls())
		g.Do("GET", "/v1/realtime?model=m", "", append(c.headers, "x-gw-api-key: "+key,
			"connection: Upgrade", "upgrade: websocket", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version: 13")...)
		if len(up.Calls()) != before+1 {
			t.Fatalf("%s: %d calls came", name, len(up.Calls())-before)
		}
		sent := up.Last(t).Header
		if sent.Get("Upgrade") != "websocket" || sent.Get("Sec-Fetch-Mode") != c.want {
			t.Errorf("%s: %v", name, sent)
		}
	}
}

// A client would follow a redirect with its service key.
func TestRedirectsOfProvidersReachNobody(t *testing.T) {
	elsewhere := gatewaytest.NewUpstream(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		g := gatewaytest.Start(t, up.Provider("file"))
		key, _ := g.Key("k")
		a := call(g, key)
		if a.Status != http.StatusBadGateway || a.Header.Get("Location") != "" || strings.Contains(a.Body, elsewhere.URL) || strings.Contains(a.Body, ".go:") || len(elsewhere.Calls()) != 0 {
			t.Errorf("%d: %d %v %s", status, a.Status, a.Header, a.Body)
		}
		g.Stop()
	}
}

func TestSwitchingProtocolsUnaskedIsAFault(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		conn.Close()
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	if a := call(g, key); a.Status != http.StatusBadGateway {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
