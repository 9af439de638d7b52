package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// A workspace may refuse that bodies are kept, whatever the operator allows; the operator's
// default is that none are.
func TestBodiesAreKeptOnlyWhereAllAgree(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, keepBodies+up.Provider("file"))
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	kept := func() bool {
		return logOf(g, g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: file")).Get("request.body").Exists()
	}
	if !kept() {
		t.Error("not kept")
	}
	for _, c := range []struct {
		setting string
		want    int64
	}{{"0", 0}, {"true", 1}, {"false", 0}, {"1", 1}} {
		g.Admin("PUT", "/v1/admin/workspaces/"+workspace, map[string]any{"settings": map[string]any{"debug_log": json.RawMessage(c.setting)}})
		if got := g.Admin("GET", "/v1/admin/workspaces/"+workspace, nil).Get("settings.debug_log").Int(); got != c.want || kept() != (c.want == 1) {
			t.Errorf("debug_log %s: %d", c.setting, got)
		}
	}
	g.Options = up.Provider("file")
	g.Load()
	if kept() {
		t.Error("kept by default")
	}
}

// No credential of a call, of the gateway or of a provider is in a record, nor in the store
// with its bodies.
func TestNoSecretIsInARecord(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "canary-cookie")
		respond(200, gatewaytest.Completion)(w, r)
	})
	g := gatewaytest.Start(t, trustLoopback+keepBodies+"provider file {\ntype openai\nbase_url "+up.URL+"/v1\napi_key canary-of-the-file\nheader X-Extra canary-header\n}\n")
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "canary-of-the-virtual-key", "custom_host": up.URL + "/v1"})
	var last *gatewaytest.Answer
	for _, headers := range [][]string{
		{"x-gw-provider: file", "x-api-key: canary-x", "cookie: canary"},
		{"x-gw-virtual-key: vk"},
		{"authorization: Bearer canary-of-the-caller", "x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/v1"},
		{`x-gw-config: {"provider":"@file","api_key":"canary-in-a-config","retry":{"attempts":1}}`},
		{`x-gw-config: {"provider":"openai","api_key":"canary-in-a-config","custom_host":"` + up.URL + `/v1"}`},
		{"x-gw-provider: file", "x-gw-aws-secret-access-key: canary-of-aws"},
	} {
		last = g.Do("POST", "/v1/chat/completions?key=canary-in-the-query", gatewaytest.Chat, append(headers, "x-gw-api-key: "+key)...)
	}
	logOf(g, last)
	log := requestLog(t)
	list, err := log.List(t.Context(), &reqlog.Filter{}, reqlog.Page{Limit: 100})
	if err != nil || len(list.Records) < 4 {
		t.Fatal(len(list.Records), err)
	}
	for _, r := range list.Records {
		if err := log.Bodies(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(b, r.Request.Bytes...), r.Response.Bytes...)
		shown := g.Admin("GET", "/v1/logs/"+r.ID, nil)
		for _, secret := range []string{"canary", key, gatewaytest.OwnerKey} {
			if bytes.Contains(b, []byte(secret)) || strings.Contains(shown.Body, secret) {
				t.Errorf("%q is in %s or %s", secret, b, shown.Body)
			}
		}
	}
}
