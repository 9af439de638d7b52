package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestFallbackHeedsTheListedStatuses(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	l.on("429", respond(429, overloaded))
	listed := `{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	if a := l.chat(gatewaytest.Chat, listed, cue+"500"); a.Status != 500 || !saying(overloaded)(a.Body) {
		t.Errorf("not listed: %d %s", a.Status, a.Body)
	} else {
		mustHaveUsed(t, a, "config.targets[0]", "0", "bad")
	}
	if a := l.chat(gatewaytest.Chat, listed, cue+"429"); a.Status != 200 {
		t.Errorf("listed: %d %s", a.Status, a.Body)
	} else {
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	}
	// A target that leads nowhere is a failure like another one.
	for _, first := range []string{`{"provider":"@none"}`, `{"virtual_key":"none"}`, `{"provider":"nonsense","api_key":"sk"}`} {
		a := l.chat(gatewaytest.Chat, `{"strategy":{"mode":"fallback"},"targets":[`+first+`,{"provider":"@good"}]}`)
		if a.Status != 200 {
			t.Errorf("%s: %d %s", first, a.Status, a.Body)
			continue
		}
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	}
	for _, only := range []string{`{"virtual_key":"none"}`, `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@none"},{"virtual_key":"none"}]}`} {
		if a := l.chat(gatewaytest.Chat, only); a.Status != 400 || a.Get("error.code").Str != "invalid_virtual_key" {
			t.Errorf("%s: %d %s", only, a.Status, a.Body)
		}
	}
	// What is missing after the config was merged in is the caller's fault.
	if a := l.chat(`{"messages":[{"role":"user","content":"hi"}]}`, `{"provider":"@good","cache":"simple"}`); a.Status != 400 || a.Get("error.code").Str != "missing_required_parameter" || a.Get("error.param").Str != "model" {
		t.Errorf("no model: %d %s", a.Status, a.Body)
	}
}

// The provider that said when to come back was not the last one.
func TestRetryAfterOutlivesTheTargetsThatFollow(t *testing.T) {
	l := newLab(t, gatewaytest.UnreachableProvider(t, "dead"), "")
	l.on("429", respond(429, overloaded, "Retry-After", "70"))
	config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@dead"}]}`
	if a := l.chat(gatewaytest.Chat, config, cue+"429"); a.Status != 503 || a.Header.Get("Retry-After") != "70" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
}

func TestAStoredResponseThatNobodyKnowsIsNotFound(t *testing.T) {
	l := newLab(t, "", "")
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}} {
		a, _ := l.ask(c[0], "/v1/responses/resp_nope"+c[1], "")
		if a.Status != 404 || a.Get("error.code").Str != "response_not_found" || a.Get("error.param").Str != "response_id" {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.Status, a.Body)
		}
	}
}

func TestAConfigMayNotTakeTheModelAway(t *testing.T) {
	l := newLab(t, "", "")
	a := l.chat(gatewaytest.Chat, `{"provider":"@good","drop_params":["model"]}`)
	if a.Status != 400 || a.Get("error.param").Str != "model" || len(l.good.Calls()) != 0 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestACallMakesOnlySoManyAttempts(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	inner := `{"strategy":{"mode":"fallback"},"targets":[` + strings.Repeat(`{"provider":"@bad"},`, 19) + `{"provider":"@bad"}]}`
	outer := `{"strategy":{"mode":"fallback"},"retry":{"attempts":0},"targets":[` + strings.Repeat(inner+",", 19) + inner + `]}`
	slug := l.save(outer)
	var a *gatewaytest.Answer
	bad, _ := l.calls(func() { a = l.chat(gatewaytest.Chat, slug, cue+"500") })
	if bad != 100 || a.Status != 500 {
		t.Errorf("%d attempts, %d %s", bad, a.Status, a.Body)
	}
}

func TestLoadBalance(t *testing.T) {
	l := newLab(t, "", "")
	l.on("ok", respond(200, gatewaytest.Completion))
	l.on("500", respond(500, overloaded))
	balance := func(bad, good string) string {
		return `{"strategy":{"mode":"loadbalance"},"targets":[{"provider":"@bad"` + bad + `},{"provider":"@good"` + good + `}]}`
	}
	for range 20 {
		a := l.chat(gatewaytest.Chat, balance(`,"weight":0`, `,"weight":1`), cue+"ok")
		if mustHaveUsed(t, a, "config.targets[1]", "0", "good"); t.Failed() {
			break
		}
	}
	bad, good := l.calls(func() {
		for range 60 {
			l.chat(gatewaytest.Chat, balance("", ""), cue+"ok")
		}
	})
	if bad+good != 60 || bad < 5 || good < 5 { // less than one in a billion runs
		t.Errorf("of 60 calls %d went to one and %d to the other", bad, good)
	}
	// What is chosen is chosen: its failure is the call's.
	if a := l.chat(gatewaytest.Chat, balance("", `,"weight":0`), cue+"500"); a.Status != 500 || !saying(overloaded)(a.Body) {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	// Sticky: who calls with the same fields gets the same target.
	slug := l.save(`{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"]}},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`)
	used := map[string]int{}
	for user := range 40 {
		var first string
		for range 3 {
			a := l.chat(gatewaytest.Chat, slug, cue+"ok", fmt.Sprintf(`x-gw-metadata: {"user":"u%d"}`, user))
			index := a.Header.Get("x-gw-last-used-option-index")
			if first == "" {
				first = index
			}
			if index != first || a.Status != 200 {
				t.Fatalf("user %d: %s after %s, %d", user, index, first, a.Status)
			}
		}
		used[first]++
	}
	if len(used) != 2 {
		t.Errorf("40 users went to %v", used)
	}
}

func TestConditionalRouting(t *testing.T) {
	l := newLab(t, "", "")
	l.on("ok", respond(200, gatewaytest.Completion))
	config := func(query, rest string) string {
		return `{"strategy":{"mode":"conditional","conditions":[{"query":` + query + `,"then":"pro"}]` + rest + `},"targets":[{"name":"free","provider":"@good"},{"name":"pro","provider":"@bad"}]}`
	}
	const byDefault = `,"default":"free"`
	for _, c := range []struct {
		query   string
		yes, no []string // headers
		body    [2]string
	}{
		{`{"metadata.plan":{"$eq":"pro"}}`, []string{`x-gw-metadata: {"plan":"pro"}`}, []string{`x-gw-metadata: {"plan":"free"}`}, [2]string{}},
		{`{"metadata.plan":"pro"}`, []string{`x-gw-metadata: {"plan":"pro"}`}, nil, [2]string{}},
		{`{"metadata.plan":{"$ne":"free"}}`, nil, []string{`x-gw-metadata: {"plan":"free"}`}, [2]string{}},
		{`{"metadata.age":{"$gte":18,"$lt":65}}`, []string{`x-gw-metadata: {"age":"18"}`}, []string{`x-gw-metadata: {"age":65}`}, [2]string{}},
		{`{"metadata.plan":{"$in":["pro","team"]}}`, []string{`x-gw-metadata: {"plan":"team"}`}, []string{`x-gw-metadata: {"plan":"x"}`}, [2]string{}},
		{`{"$or":[{"metadata.a":"1"},{"$and":[{"metadata.b":"2"},{"metadata.c":"3"}]}]}`, []string{`x-gw-metadata: {"b":"2","c":"3"}`}, []string{`x-gw-metadata: {"b":"2"}`}, [2]string{}},
		{`{"params.model":{"$regex":"^gpt-4"}}`, nil, nil, [2]string{`"gpt-4o"`, `"gpt-3"`}},
		{`{"params.max_tokens":{"$gt":100}}`, nil, nil, [2]string{`"m","max_tokens":101`, `"m","max_tokens":100`}},
		{`{"params.stream":{"$ne":false}}`, nil, nil, [2]string{`"m"`, `"m","stream":false`}},
		{`{"url.pathname":{"$regex":"/chat/completions$"},"headers.x-tier":"gold"}`, []string{"x-tier: gold"}, []string{"x-tier: lead"}, [2]string{}},
	} {
		for i, headers := range [][]string{c.yes, c.no} {
			body := gatewaytest.Chat
			if c.body[i] != "" {
				body = strings.Replace(body, `"m"`, c.body[i], 1)
			}
			a := l.chat(body, config(c.query, byDefault), append([]string{cue + "ok"}, headers...)...)
			want := []string{"config.targets[1]", "config.targets[0]"}[i]
			if got := a.Header.Get("x-gw-last-used-option-index"); got != want || a.Status != 200 {
				t.Errorf("%s with %q and %s: %d, got %q, want %q", c.query, headers, body, a.Status, got, want)
			}
		}
	}
	// Nothing matches, and there is no default.
	var a *gatewaytest.Answer
	bad, good := l.calls(func() { a = l.chat(gatewaytest.Chat, config(`{"metadata.plan":"pro"}`, "")) })
	if a.Status != 400 || a.Get("status").Str != "failure" || a.Get("error.param").Str != "x-gw-config" || a.Get("message").Str == "" || bad+good != 0 {
		t.Errorf("no target: %d %s, %d calls", a.Status, a.Body, bad+good)
	}
	if strings.Contains(l.Logs(), "panic") {
		t.Error("a handler panicked")
	}
	if a := l.chat(gatewaytest.Chat, config(`{"metadata.plan":"pro"}`, `,"default":"nobody"`)); a.Status != 400 || a.Get("errors.#").Int() != 1 {
		t.Errorf("an unknown target: %d %s", a.Status, a.Body)
	}
}

func TestStrategiesNest(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	l.on("ok", respond(200, gatewaytest.Completion))
	inner := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@bad"}]}`
	for _, c := range []struct{ name, config, cue, index, provider string }{
		{"the inner fails, the outer goes on", `{"strategy":{"mode":"fallback"},"targets":[` + inner + `,{"provider":"@good"}]}`, "500", "config.targets[1]", "good"},
		{"the inner works", `{"strategy":{"mode":"fallback"},"targets":[` + inner + `,{"provider":"@good"}]}`, "ok", "config.targets[0].targets[0]", "bad"},
		{"the inner falls back", `{"strategy":{"mode":"loadbalance"},"targets":[{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}]}`, "500", "config.targets[0].targets[1]", "good"},
		{"a condition leads to a fallback", `{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.x":null},"then":"f"}],"default":"g"},"targets":[{"name":"g","provider":"@good"},{"name":"f","strategy":{"mode":"fallback"},"targets":[` + inner + `,{"provider":"@good"}]}]}`, "500", "config.targets[1].targets[1]", "good"},
		{"three deep", `{"strategy":{"mode":"single"},"targets":[{"strategy":{"mode":"loadbalance"},"targets":[{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}]}]}`, "500", "config.targets[0].targets[0].targets[1]", "good"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			for _, config := range []string{c.config, l.save(c.config)} {
				a := l.chat(gatewaytest.Chat, config, cue+c.cue)
				if a.Status != 200 {
					t.Errorf("got %d %s", a.Status, a.Body)
				}
				mustHaveUsed(t, a, c.index, "0", c.provider)
			}
		})
	}
}

// An open breaker leaves its target out, and the control plane says why.
func TestABreakerLeavesATargetOut(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	l.on("ok", respond(200, gatewaytest.Completion))
	slug := l.save(`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":2}},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`)
	other := l.save(`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":2}},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`)
	for n, want := range []int{1, 1, 0, 0} {
		var a *gatewaytest.Answer
		bad, good := l.calls(func() { a = l.chat(gatewaytest.Chat, slug, cue+"500") })
		if a.Status != 200 || bad != want || good != 1 {
			t.Errorf("call %d: %d, %d calls of the bad provider, %d of the good one", n, a.Status, bad, good)
		}
		mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	}
	if bad, _ := l.calls(func() { l.chat(gatewaytest.Chat, other, cue+"ok") }); bad != 1 {
		t.Error("the breaker of another config is open too")
	}
	health := l.Admin("GET", "/v1/gateway/health", nil)
	if !strings.Contains(health.Body, slug) || !strings.Contains(health.Body, "config.targets[0]") || strings.Contains(health.Body, other) {
		t.Errorf("health: %s", health.Body)
	}
}

// A limit of one target refuses that target, not the call.
func TestARateLimitOfATarget(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	l.on("ok", respond(200, gatewaytest.Completion))
	policy(l.Gateway, map[string]any{"value": 1, "conditions": when("provider", "bad")})
	fallback := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	if a := l.chat(gatewaytest.Chat, fallback, cue+"ok"); a.Status != 200 || a.Header.Get("x-gw-provider") != "bad" {
		t.Errorf("the first call: %d %v", a.Status, a.Header)
	}
	var a *gatewaytest.Answer
	bad, good := l.calls(func() { a = l.chat(gatewaytest.Chat, fallback, cue+"ok") })
	if a.Status != 200 || bad != 0 || good != 1 {
		t.Errorf("the second call: %d %s; %d and %d calls", a.Status, a.Body, bad, good)
	}
	mustHaveUsed(t, a, "config.targets[1]", "0", "good")
	if bad, _ = l.calls(func() { a = l.chat(gatewaytest.Chat, `{"provider":"@bad","cache":"simple"}`, cue+"ok") }); a.Status != 429 || a.Get("error.type").Str != "rate_limits_policy_exhaust_error" || a.Header.Get("Retry-After") == "" || bad != 0 {
		t.Errorf("the limited target alone: %d %s %v", a.Status, a.Body, a.Header)
	}
}

func TestBatchesAndFilesTakeOneTarget(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	two := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad"},{"provider":"@good"}]}`
	form, contentType := upload(30)
	for _, c := range [][4]string{
		{"GET", "/v1/batches", ""},
		{"GET", "/v1/batches/b_1", ""},
		{"POST", "/v1/batches/b_1/cancel", ""},
		{"POST", "/v1/batches", `{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}`},
		{"GET", "/v1/files", ""},
		{"GET", "/v1/files/f/content", ""},
		{"DELETE", "/v1/files/f", ""},
		{"POST", "/v1/files", form, contentType},
		{"GET", "/v1/fine_tuning/jobs", ""},
		{"POST", "/v1/fine_tuning/jobs/ft/cancel", ""},
		{"POST", "/v1/fine_tuning/jobs", `{"model":"m","training_file":"f"}`},
	} {
		headers := []string{cue + "500"}
		if c[3] != "" {
			headers = append(headers, "content-type:", c[3])
		}
		for _, config := range []string{two, l.save(two)} {
			var a *gatewaytest.Answer
			bad, good := l.calls(func() { a, _ = l.ask(c[0], c[1], c[2], append(headers, "x-gw-config: "+config)...) })
			if a.Status != 400 || !strings.Contains(a.Get("message").Str, "Maximum one target is allowed for batch/file/fine_tuning requests") || bad+good != 0 {
				t.Errorf("%s %s: %d %s after %d calls", c[0], c[1], a.Status, a.Body, bad+good)
			}
		}
		if a, _ := l.ask(c[0], c[1], c[2], append(headers, `x-gw-config: {"provider":"@good","cache":"simple"}`)...); a.Status != 200 {
			t.Errorf("%s %s, one target: %d %s", c[0], c[1], a.Status, a.Body)
		}
	}
}

func TestBlockInlineConfigRefusesConfigsAndForwardHeaders(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file")) // on by default, as fresh installs are
	l := &lab{Gateway: g, bad: up, good: up}
	l.key, _ = g.Key("k")
	saved := l.save(`{"provider":"@file","forward_headers":["x-a"]}`)
	for name, c := range map[string]struct {
		headers []string
		code    string
		field   string
	}{
		"a config":                           {[]string{`x-gw-config: {"provider":"@file","cache":"simple"}`}, "inline_config_blocked", "x-gw-config"},
		"a config with space before it":      {[]string{`x-gw-config:  {"provider":"@file","cache":"simple"}`}, "inline_config_blocked", "x-gw-config"},
		"a config that is bad":               {[]string{`x-gw-config: {`}, "inline_config_blocked", "x-gw-config"},
		"a config and forward headers":       {[]string{`x-gw-config: {"cache":"simple"}`, "x-gw-forward-headers: x-b"}, "inline_config_blocked", "x-gw-config"},
		"forward headers":                    {[]string{"x-gw-provider: file", "x-gw-forward-headers: x-b"}, "inline_forward_headers_blocked", "x-gw-forward-headers"},
		"forward headers and a saved config": {[]string{"x-gw-config: " + saved, "x-gw-forward-headers: x-b"}, "inline_forward_headers_blocked", "x-gw-forward-headers"},
		"a provider by name":                 {[]string{"x-gw-provider: openai", "authorization: Bearer sk"}, "inline_provider_blocked", "x-gw-provider"},
		"a host":                             {[]string{"x-gw-provider: file", "x-gw-custom-host: https://a.example"}, "inline_custom_host_blocked", "x-gw-custom-host"},
	} {
		before := len(up.Calls())
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, c.headers...)
		if a.Status != 400 || a.Get("error.code").Str != c.code || a.Get("error.field").Str != c.field || a.Get("status").Str != "failure" || a.Get("message").Str == "" || len(up.Calls()) != before {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-config: "+saved, "x-a: 1", "x-gw-request-timeout: 60000")
	if a.Status != 200 || up.Last(t).Header.Get("X-A") != "1" {
		t.Errorf("a saved config: %d %s", a.Status, a.Body)
	}
}
