package handlers_test

import (
	"net/http"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A virtual key that leads back to the gateway with a service key of it, which again calls
// the virtual key, would make of one call as many as there is room for.
func TestACallThatComesBackIsRefused(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`{"id":"x"}`)) })
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n")
	key, id := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "round", "slug": "round", "provider": "openai", "key": key, "custom_host": g.URL + "/v1"})
	config := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": map[string]any{"virtual_key": "round", "override_params": map[string]any{"user": "u"}}})
	g.Admin("PUT", "/v1/api-keys/"+id, map[string]any{"defaults": map[string]any{"config_id": config.Get("slug").Str}})
	a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key)
	if a.Status != http.StatusLoopDetected || a.Get("error.code").Str != "loop_detected" {
		t.Errorf("got %d %s", a.Status, a.Body)
	}

	// What another gateway sent on comes with what it came through.
	other, _ := g.Key("other")
	direct := []string{"x-gw-api-key: " + other, "x-gw-provider: openai", "authorization: Bearer own", "x-gw-custom-host: " + up.URL + "/v1"}
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(direct, "cdn-loop: another; v=1")...); a.Status != 200 {
		t.Errorf("through another gateway: %d %s", a.Status, a.Body)
	}
	through := up.Last(t).Header["Cdn-Loop"]
	if len(through) != 2 || through[0] != "another; v=1" {
		t.Fatalf("sent on with %q", through)
	}
	for _, header := range []string{"cdn-loop: " + through[1], "cdn-loop: x, " + through[1] + ";a=b", "cdn-loop: a,b,c,d,e,f,g,h,i,j,k"} {
		if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(direct, header)...); a.Status != http.StatusLoopDetected {
			t.Errorf("%s: %d %s", header, a.Status, a.Body)
		}
	}
}
