package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A webhook with executeOnProxy is asked about calls of paths that pass through, and other checks are not.
func TestWebhooksJudgeWhatPassesThrough(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	var webhook *gatewaytest.Upstream
	webhook = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		calls := webhook.Calls()
		fmt.Fprintf(w, `{"verdict":%v,"transformedData":{"request":{"json":{"query":"changed"}}}}`, !strings.Contains(calls[len(calls)-1].Body, "bad"))
	})
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+strings.Replace(up.Provider("file"), "{\n", "{\npassthrough_paths /v1/a/* \"GET /v1/a\"\n", 1))
	key, _ := g.Key("k")
	for _, c := range []struct {
		name, method, path, contentType, body, on string
		status                                    int
		asked                                     string // of what the webhook got: the JSON
		sent                                      string
	}{
		{"a call", "POST", "/v1/a/b", "application/json", `{"query":"good"}`, "true", 200, `{"query":"good"}`, `{"query":"changed"}`},
		{"a call that is refused", "POST", "/v1/a/b", "application/json", `{"query":"bad"}`, "true", 446, `{"query":"bad"}`, ""},
		{"without a body", "GET", "/v1/a", "", ``, "true", 200, "null", ""},
		{"a body that nobody can read", "POST", "/v1/a/b", "text/plain", `bad`, "true", 400, "", ""},
		{"without executeOnProxy", "POST", "/v1/a/b", "application/json", `{"query":"bad"}`, "false", 200, "", `{"query":"bad"}`},
	} {
		before, asked := len(up.Calls()), len(webhook.Calls())
		config := `{"provider":"@file","input_guardrails":[{"default.webhook":{"webhookURL":"` + webhook.URL + `","executeOnProxy":` + c.on + `},"default.wordCount":{"minWords":99},"deny":true}]}`
		a := g.Do(c.method, c.path, c.body, "x-gw-api-key: "+key, "x-gw-config: "+config, "content-type: "+c.contentType)
		if a.Status != c.status {
			t.Errorf("%s: %d %s", c.name, a.Status, a.Body)
		}
		got := ""
		for _, call := range webhook.Calls()[asked:] {
			got += call.Body
		}
		if json := gjson.Get(got, "request.json").Raw; json != c.asked || json != "" && gjson.Get(got, "requestType").Str != "proxy" {
			t.Errorf("%s: the webhook got %s", c.name, got)
		}
		calls := up.Calls()[before:]
		if want := c.status < 400; (len(calls) == 1) != want || want && calls[0].Body != c.sent {
			t.Errorf("%s: the provider got %v", c.name, calls)
		}
	}
}
