package handlers_test

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// scrape reads the gateway's metrics from Caddy's own endpoint: name and labels to value.
func scrape(t *testing.T, g *gatewaytest.Gateway) map[string]string {
	t.Helper()
	res, err := g.Send(func() *http.Request { // also shortly after a reload
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.AdminAt+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", res.StatusCode, body, err)
	}
	values := make(map[string]string)
	for line := range strings.Lines(string(body)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(line, "caddy_gw_") {
			values[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(line, "caddy_gw_") {
			values[name] = value
		}
	}
	return values
}

// mustCount does something and waits for the series to be as wanted: gauges at a value,
// counters, which are the process's, above where they began.
func mustCount(t *testing.T, g *gatewaytest.Gateway, do func(), want map[string]string) {
	t.Helper()
	before := scrape(t, g)
	since := func(series, now string) string {
		name, _, _ := strings.Cut(series, "{")
		if !strings.HasSuffix(name, "_total") && !strings.HasSuffix(name, "_count") {
			return now
		}
		n, _ := strconv.ParseFloat(now, 64)
		b, _ := strconv.ParseFloat(before[series], 64) // a series that is not there yet: 0
		return strconv.FormatFloat(n-b, 'f', -1, 64)
	}
	do()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		wrong := ""
		got := scrape(t, g)
		for series, v := range want {
			if n := since(series, got[series]); n != v {
				wrong += series + " is " + n + ", want " + v + "\n"
			}
		}
		switch {
		case wrong == "":
			return
		case time.Now().After(deadline):
			t.Fatal(wrong)
		}
	}
}

func startScraped(t *testing.T, options string, more ...func(*gatewaytest.Gateway)) *gatewaytest.Gateway {
	t.Helper()
	g := gatewaytest.New(t, options)
	withAdminEndpoint(g)
	for _, set := range more {
		set(g)
	}
	g.Load()
	return g
}

func TestCallsAreCounted(t *testing.T) {
	bad := gatewaytest.NewUpstream(t, respond(http.StatusServiceUnavailable, `{"error":{"message":"down"}}`))
	good := gatewaytest.NewUpstream(t, nil)
	live := gatewaytest.NewUpstream(t, stream(`data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":11,"prompt_tokens_details":{"cached_tokens":5}}}`+"\n\n", "data: [DONE]\n\n"))
	g := startScraped(t, trustLoopback+"metric_models listed\n"+bad.Provider("counted-bad")+good.Provider("counted-good")+live.Provider("counted-live")+gatewaytest.UnreachableProvider(t, "counted-dead"))
	key, _ := g.Key("k")
	slug := g.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": map[string]any{
		"strategy": map[string]any{"mode": "fallback", "cb_config": map[string]any{"failure_threshold": 1, "cooldown_interval": 60000}},
		"targets": []any{
			map[string]any{"provider": "@counted-bad", "retry": map[string]any{"attempts": 1}},
			map[string]any{"provider": "@counted-good", "override_params": map[string]any{"model": "of-a-config"}},
		},
	}}).Get("slug").Str
	chat := func(model, provider string, more ...string) {
		t.Helper()
		g.Do("POST", "/v1/chat/completions", `{"model":"`+model+`","stream":`+map[bool]string{true: "true", false: "false"}[provider == "counted-live"]+`,"messages":[{"role":"user","content":"hi"}]}`,
			append([]string{"x-gw-api-key: " + key, "x-gw-provider: " + provider}, more...)...)
	}
	const ofGood = `{endpoint="chatComplete",model="%",provider="counted-good",status="2xx"}`
	mustCount(t, g, func() {
		chat("listed", "counted-good")
		chat("made-up-1", "counted-good")
		chat("made-up-2", "counted-good")
		chat("made-up-3", "counted-good", `x-gw-config: {"provider":"@counted-good","override_params":{"model":"inline"}}`)
		chat("listed", "counted-live")
		chat("listed", "counted-dead")
		g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-config: "+slug)
		g.Do("POST", "/v1/moderations", `{"input":1.5}`, "x-gw-api-key: "+key, "x-gw-provider: counted-good")
	}, map[string]string{
		"caddy_gw_requests_total" + strings.Replace(ofGood, "%", "listed", 1):                                        "1",
		"caddy_gw_requests_total" + strings.Replace(ofGood, "%", "other", 1):                                         "3",
		"caddy_gw_requests_total" + strings.Replace(ofGood, "%", "of-a-config", 1):                                   "1",
		"caddy_gw_request_duration_seconds_count" + strings.Replace(ofGood, "%", "other", 1):                         "3",
		`caddy_gw_requests_total{endpoint="chatComplete",model="listed",provider="counted-dead",status="5xx"}`:       "1",
		`caddy_gw_attempts_total{endpoint="chatComplete",model="listed",provider="counted-dead",status="error"}`:     "1",
		`caddy_gw_time_to_first_token_seconds_count{endpoint="chatComplete",model="listed",provider="counted-live"}`: "1",
		`caddy_gw_tokens_total{endpoint="chatComplete",model="listed",provider="counted-live",type="prompt"}`:        "7",
		`caddy_gw_tokens_total{endpoint="chatComplete",model="listed",provider="counted-live",type="completion"}`:    "11",
		`caddy_gw_tokens_total{endpoint="chatComplete",model="listed",provider="counted-live",type="cache_read"}`:    "5",
		`caddy_gw_unpriced_calls_total{endpoint="chatComplete",model="listed",provider="counted-live"}`:              "1",
		`caddy_gw_unpriced_calls_total{endpoint="chatComplete",model="listed",provider="counted-dead"}`:              "0",
		`caddy_gw_attempts_total{endpoint="chatComplete",model="other",provider="counted-bad",status="5xx"}`:         "2",
		`caddy_gw_retries_total{endpoint="chatComplete",model="other",provider="counted-bad"}`:                       "1",
		`caddy_gw_fallbacks_total{endpoint="chatComplete",model="other",provider="counted-bad"}`:                     "1",
		`caddy_gw_attempts_total` + strings.Replace(ofGood, "%", "of-a-config", 1):                                   "1",
		`caddy_gw_open_breakers`: "1",
		`caddy_gw_breaker_state{config="` + slug + `",state="open",target="config.targets[0]"}`: "1",
		`caddy_gw_records_lost_total`: "0",
	})
	if refused := scrape(t, g)[`caddy_gw_requests_total{endpoint="moderate",model="",provider="",status="4xx"}`]; refused == "" || refused == "0" {
		t.Error("the refused call was not counted")
	}
}

func TestTheCacheIsCounted(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := startScraped(t, up.Provider("cached"))
	key, _ := g.Key("k")
	const of = `{endpoint="chatComplete",model="other",provider="cached",`
	mustCount(t, g, func() {
		for _, headers := range [][]string{{"x-gw-cache: simple"}, {"x-gw-cache: simple"}, {"x-gw-cache: simple"}, {"x-gw-cache: simple", "x-gw-cache-force-refresh: true"}, nil} {
			g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, "x-gw-api-key: "+key, "x-gw-provider: cached")...)
		}
	}, map[string]string{
		"caddy_gw_cache_total" + of + `result="miss"}`:    "1",
		"caddy_gw_cache_total" + of + `result="hit"}`:     "2",
		"caddy_gw_cache_total" + of + `result="refresh"}`: "1",
		"caddy_gw_requests_total" + of + `status="2xx"}`:  "5",
		"caddy_gw_attempts_total" + of + `status="2xx"}`:  "3",
		"caddy_gw_tokens_total" + of + `type="prompt"}`:   "9",
	})
}

// An estimate of tokens is the gateway's own answer, and no request to a provider that failed.
func TestAnEstimateOfTokensIsNoAttempt(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := startScraped(t, up.Provider("estimated"))
	key, _ := g.Key("k")
	mustCount(t, g, func() {
		if a := g.Do("POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "x-gw-api-key: "+key, "x-gw-provider: estimated"); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}, map[string]string{`caddy_gw_requests_total{endpoint="messagesCountTokens",model="other",provider="estimated",status="2xx"}`: "1"})
	for series := range scrape(t, g) {
		if strings.HasPrefix(series, "caddy_gw_attempts_total{") && strings.Contains(series, `provider="estimated"`) {
			t.Error(series)
		}
	}
}

func TestMetricsGoThroughReloads(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := startScraped(t, up.Provider("reloaded"))
	key, _ := g.Key("k")
	const series = `caddy_gw_requests_total{endpoint="chatComplete",model="other",provider="reloaded",status="2xx"}`
	mustCount(t, g, func() {
		for range 5 {
			g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: reloaded")
			g.Load() // a collector that is registered twice would be an error
		}
	}, map[string]string{series: "5"})
}

// Two workspaces that write the same into everything that they can name add to the same series: none
// tells whose it is, or what either wrote.
func TestSeriesTellNoWorkspace(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := startScraped(t, trustLoopback+up.Provider("both"))
	keys := twoWorkspaces(g)
	names := func(who int) string { return [...]string{"canary-first", "canary-second"}[who] }
	play := func(who int) {
		name, of := names(who), [...]string{"first", "second"}[who]
		create := func(path string, body map[string]any) string {
			body["name"], body["workspace_id"] = name, of
			a := g.Admin("POST", path, body)
			return a.Get("slug").Str
		}
		g.Admin("PUT", "/v1/admin/workspaces/"+of, map[string]any{"name": name, "defaults": map[string]any{"metadata": map[string]string{name: name}}})
		create("/v1/virtual-keys", map[string]any{"slug": name, "provider": "openai", "key": "sk", "custom_host": up.URL + "/v1"})
		create("/v1/model-aliases", map[string]any{"model": "@" + name + "/" + name})
		create("/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpm", "value": 1000, "group_by": []any{map[string]string{"key": "metadata." + name}}})
		config := create("/v1/configs", map[string]any{"config": map[string]any{"provider": "@" + name}})
		for n, headers := range [][]string{
			{"x-gw-provider: both"},
			{"x-gw-provider: both", "x-gw-cache: simple", "x-gw-cache-namespace: " + name},
			{"x-gw-virtual-key: " + name},
			{"x-gw-config: " + config},
			{},
			{"x-gw-provider: " + name + "-nobody"},
			{`x-gw-config: {"provider":"@both","override_params":{"model":"` + name + `-inline"}}`},
		} {
			for model := range 20 {
				body := strings.Replace(gatewaytest.Chat, `"m"`, `"`+name+map[bool]string{true: strconv.Itoa(model)}[n > 0 && n < 4]+`"`, 1)
				g.Do("POST", "/v1/chat/completions", body, append(headers, "x-gw-api-key: "+keys[who], `x-gw-metadata: {"`+name+`":"`+strconv.Itoa(model)+`"}`, "x-gw-trace-id: "+name)...)
			}
		}
	}
	play(0)
	series := scrape(t, g)
	play(1)
	for name := range scrape(t, g) {
		if strings.Contains(name, "canary") {
			t.Errorf("%s says what a workspace wrote", name)
		}
		if _, ok := series[name]; !ok {
			t.Errorf("%s is the second workspace's alone", name)
		}
	}
}

// No label comes from a caller: neither keys nor metadata, hosts or models.
func TestCallersMakeNoSeries(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := startScraped(t, trustLoopback+up.Provider("unlabelled"))
	key, id := g.Key("name-of-the-key")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "canary-vk", "slug": "canary-vk", "provider": "openai", "key": "canary-of-the-virtual-key", "custom_host": up.URL + "/v1"})
	for _, model := range []string{"canary-1", "canary-2", `canary"3`, strings.Repeat("canary", 60)} {
		for _, to := range [][]string{
			{"x-gw-provider: unlabelled"},
			{"x-gw-virtual-key: canary-vk"},
			{"x-gw-provider: openai", "x-gw-custom-host: " + up.URL + "/canary-path", "authorization: Bearer canary-of-the-caller"},
			{"x-gw-provider: canary-provider"},
			{`x-gw-config: {"provider":"@unlabelled","override_params":{"model":"canary-inline"}}`},
		} {
			quoted := strings.ReplaceAll(model, `"`, `\"`)
			g.Do("POST", "/v1/chat/completions", `{"model":"`+quoted+`","messages":[{"role":"user","content":"canary"}]}`, append(to, "x-gw-api-key: "+key,
				`x-gw-metadata: {"canary":"canary"}`, "x-gw-trace-id: canary", "x-gw-span-name: canary", "baggage: canary=canary")...)
			g.Do("POST", "/v1/vector_stores/canary/search", gatewaytest.Chat, append(to, "x-gw-api-key: "+key)...)
		}
	}
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	known := map[string]bool{"endpoint": true, "provider": true, "model": true, "status": true, "type": true, "le": true, "result": true, "config": true, "target": true, "state": true, "phase": true}
	for series := range scrape(t, g) {
		for _, secret := range []string{"canary", key, id, "name-of-the-key", up.URL} {
			if strings.Contains(series, secret) {
				t.Errorf("%q is in %s", secret, series)
			}
		}
		for _, l := range label.FindAllStringSubmatch(series, -1) {
			if !known[l[1]] {
				t.Errorf("an unknown label: %s", series)
			}
		}
	}
}

// Metrics show by the policy's id what was used and what is left, and name no key.
func TestWhatIsUsedAndLeftOfAPolicyIsAMetric(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := startScraped(t, up.Provider("file"))
	key, id := g.Key("k")
	budget := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1000, "group_by": []map[string]string{{"key": "api_key"}}})
	for range 2 {
		if a := g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file"); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	const labels = `{kind="usage_limit",policy="%",type="tokens"}`
	mustCount(t, g, func() {}, map[string]string{
		strings.Replace("caddy_gw_policy_used"+labels, "%", budget, 1): "60",
		strings.Replace("caddy_gw_policy_left"+labels, "%", budget, 1): "940",
	})
	for series := range scrape(t, g) {
		if strings.Contains(series, id) || strings.Contains(series, key) {
			t.Errorf("%s names the key", series)
		}
	}
}
