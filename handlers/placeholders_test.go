package handlers_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// entries are the access log entries of inference calls.
func entries(t *testing.T, g *gatewaytest.Gateway, n int) []gjson.Result {
	t.Helper()
	var found []gjson.Result
	eventually(t, "the access log", func() bool {
		found = nil
		for line := range strings.Lines(g.Logs()) {
			if strings.Contains(line, `"logger":"http.log.access`) && strings.Contains(line, "/v1/chat/completions") {
				found = append(found, gjson.Parse(line))
			}
		}
		return len(found) >= n
	})
	return found
}

func TestPlaceholdersInLogs(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	var site strings.Builder
	want := map[string]string{
		"endpoint": `"chatComplete"`, "trace_id": `"mine"`, "span_id": `"span-1"`, "provider": `"file"`, "model": `"m-2"`, "stream": "false", "config": `""`,
		"last_used_option_index": `"config"`, "attempts": "1", "retries": "0", "prompt_tokens": "3", "completion_tokens": "2", "total_tokens": "5", "cache_status": `"DISABLED"`,
		"metadata.team": `"blue"`, "metadata.absent": `""`,
	}
	for name := range want {
		site.WriteString("log_append f." + name + " {http.gw." + name + "}\n")
	}
	g := start(t, up.Provider("file")+"block_inline_config off\n", site.String()+"log_append key {http.gw.key_id}\nlog_append in {http.gw.workspace}\nlog_append none {http.gw.nonsense}\ngw_admin\ngw_ratelimit\ngw_inference")
	key, id := g.Key("k")
	config := `x-gw-config: {"provider":"@file","override_params":{"model":"m-2"}}`
	g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "authorization: Bearer "+key, config, `x-gw-metadata: {"team":"blue"}`, "x-gw-trace-id: mine", "x-gw-span-id: span-1")
	slug := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.slug").Str
	entry := entries(t, g, 1)[0]
	// x-gw-metadata and x-gw-config are redacted, and so the entry is the gateway's own.
	of := entry.Get("gw")
	for name, v := range map[string]string{
		"trace_id": "mine", "endpoint": "chatComplete", "workspace": slug, "key_id": id, "provider": "file", "model": "m-2", "last_used_option_index": "config",
		"attempts": "1", "retries": "0", "prompt_tokens": "3", "completion_tokens": "2",
	} {
		if of.Get(name).String() != v {
			t.Errorf("gw.%s is %q, want %q", name, of.Get(name), v)
		}
	}

	// Without such headers it is Caddy's.
	g.Admin("PUT", "/v1/admin/workspaces/"+slug, map[string]any{"defaults": map[string]any{"metadata": map[string]any{"team": "blue"}}})
	saved := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "isDefault": 1, "config": map[string]any{"provider": "@file", "override_params": map[string]any{"model": "m-2"}}}).Get("slug").Str
	g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "authorization: Bearer "+key, "x-gw-trace-id: mine", "x-gw-span-id: span-1")
	entry = entries(t, g, 2)[1]
	want["config"], want["key"], want["in"] = `"`+saved+`"`, `"`+id+`"`, `"`+slug+`"`
	for name, v := range want {
		if name != "key" && name != "in" {
			name = "f." + name
		}
		if got := entry.Get(strings.ReplaceAll(name, ".", `\.`)).Raw; got != v {
			t.Errorf("%s is %s, want %s", name, got, v)
		}
	}
	if entry.Get("gw.model").Str != "m-2" || entry.Get("none").Raw == `"m-2"` {
		t.Errorf("the entry is %s", entry)
	}
}

func TestPlaceholdersInMatchersAfterTheRateLimit(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := start(t, up.Provider("file"), `route {
		gw_admin
		gw_ratelimit
		@expensive vars {http.gw.model} gpt-gold
		respond @expensive "too dear" 402
		@blue expression {http.gw.metadata.team} == "blue" && {http.gw.endpoint} == "chatComplete"
		header @blue X-Team blue
		gw_inference
	}`)
	key, _ := g.Key("k")
	ask := func(model string, headers ...string) *gatewaytest.Answer {
		t.Helper()
		return g.Do("POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, append(headers, "x-gw-api-key: "+key, "x-gw-provider: file")...)
	}
	if a := ask("gpt-gold"); a.Status != 402 || a.Body != "too dear" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := ask("m"); a.Status != 200 || a.Header.Get("X-Team") != "" {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	if a := ask("m", `x-gw-metadata: {"team":"blue"}`); a.Status != 200 || a.Header.Get("X-Team") != "blue" {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	if len(up.Calls()) != 2 {
		t.Errorf("the provider got %d calls", len(up.Calls()))
	}
}
