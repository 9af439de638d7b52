package handlers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/alerts"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A budget that is used up is an event of Caddy and a signed post, once, also after a restart.
func TestAnExhaustedBudgetIsAnEventAndASignedPost(t *testing.T) {
	const secret = "whsec-0123456789abcdef"
	posted := make(chan struct{}, 10)
	hook := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		posted <- struct{}{}
	})
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, up.Provider("file")+"alerts {\nwebhook "+hook.URL+"/alerts?team=x {\nsecret "+secret+"\n}\n}\n}\nevents {\non usage_limit_threshold_reached gw_test_seen\non usage_limit_exhausted gw_test_seen\n")
	key, keyID := g.Key("k")
	id := usageLimit(g, map[string]any{"name": "team", "type": "requests", "credit_limit": 2, "alert_threshold": 1, "group_by": []map[string]string{{"key": "api_key"}}})
	ask := func() int {
		return g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file").Status
	}
	check := func(kind string, usage float64) {
		t.Helper()
		await(t, posted, "the webhook gets no alert")
		calls := hook.Calls()
		c := &calls[len(calls)-1]
		e := <-seen
		body := gjson.Parse(c.Body)
		if e.Name() != kind || e.Data["id"] != body.Get("id").Str || e.Data["current_usage"] != usage || e.Data["policy_id"] != id {
			t.Errorf("event %+v", e)
		}
		for field, want := range map[string]any{"type": kind, "policy_id": id, "policy_name": "team", "api_key_id": keyID, "value_key": "api_key:" + keyID, "limit_type": "requests", "credit_limit": 2.0, "alert_threshold": 1.0, "current_usage": usage} {
			if got := body.Get(field).Value(); got != want {
				t.Errorf("%s: %v, want %v", field, got, want)
			}
		}
		signature := c.Header.Get("x-gw-signature")
		at, _, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
		if want := alerts.Sign(credentials.NewSecret(secret), time.Unix(gjson.Parse(at).Int(), 0), []byte(c.Body)); signature != want {
			t.Errorf("signature %q, want %q", signature, want)
		}
		if c.Method != "POST" || c.Path != "/alerts" || c.Query != "team=x" || c.Header.Get("content-type") != "application/json" {
			t.Errorf("%+v", c)
		}
		for name, values := range c.Header {
			if strings.Contains(strings.Join(values, " "), key) || strings.Contains(c.Body, key) {
				t.Errorf("the key is in %s or in the body", name)
			}
		}
	}
	if status := ask(); status != 200 {
		t.Fatal(status)
	}
	check("usage_limit_threshold_reached", 1)
	if status := ask(); status != 200 {
		t.Fatal(status)
	}
	check("usage_limit_exhausted", 2)
	if status := ask(); status != 412 {
		t.Fatal(status)
	}
	shown := g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map").Map()["api_key:"+keyID]
	if !shown.Get("is_threshold_alerts_sent").Bool() || !shown.Get("is_exhausted_alerts_sent").Bool() {
		t.Errorf("%s", shown.Raw)
	}

	g.Stop()
	g.Load()
	for range 3 {
		if status := ask(); status != 412 {
			t.Fatal(status)
		}
	}
	g.Stop() // what is queued is sent first
	if n := len(hook.Calls()); n != 2 || len(seen) != 0 {
		t.Errorf("%d posts, %d more events", n, len(seen))
	}
}
