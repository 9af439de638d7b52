package handlers_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// usageLimit creates a usage-limit policy and returns its id.
func usageLimit(g *gatewaytest.Gateway, fields map[string]any) string {
	g.T.Helper()
	return g.Admin("POST", "/v1/policies/usage-limits", fields).Get("id").Str
}

const boundedChat = `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`

const usage30 = `"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}`

func answerWithUsage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],` + usage30 + `}`))
}

func streamWithUsage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte(`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n\n" +
		`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + usage30 + "}\n\ndata: [DONE]\n\n"))
}

// 64 clients against a budget of 1000 calls, with answers in one piece and as streams: exactly
// so many requests pass; of tokens, all is used but less than one reservation.
func TestManyClientsSpendABudgetExactly(t *testing.T) {
	const clients, fits = 64, 1000
	for name, c := range map[string]struct {
		kind   string
		limit  float64
		stream bool
	}{
		"requests":           {"requests", fits, false},
		"requests, streamed": {"requests", fits, true},
		"tokens":             {"tokens", fits * 30, false},
		"tokens, streamed":   {"tokens", fits * 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := answerWithUsage, boundedChat
			if c.stream {
				answer, body = streamWithUsage, `{"stream":true,`+boundedChat[1:]
			}
			var forwarded atomic.Int64
			up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				forwarded.Add(1)
				answer(w, r)
			})
			g := gatewaytest.Start(t, up.Provider("file"))
			key, _ := g.Key("k")
			id := usageLimit(g, map[string]any{"type": c.kind, "credit_limit": c.limit})
			var passed atomic.Int64
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for {
						a, err := g.TryRequest("POST", "/v1/chat/completions", body, "x-gw-api-key: "+key, "x-gw-provider: file")
						if err != nil {
							t.Error(err)
							return
						}
						switch a.Status {
						case 200:
							passed.Add(1)
						case 429:
							if a.Header.Get("Retry-After") == "" {
								t.Errorf("a 429 without Retry-After: %s", a.Body)
							}
						case 412:
							if a.Get("error.type").Str != "usage_limits_policy_exhaust_error" || a.Get("error.code").Str != "06" {
								t.Errorf("%s", a.Body)
							}
							return
						default:
							t.Errorf("%d %s", a.Status, a.Body)
							return
						}
					}
				})
			}
			group.Wait()
			used := g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Float()
			if n := passed.Load(); n != forwarded.Load() {
				t.Errorf("%d passed, %d were forwarded", n, forwarded.Load())
			}
			each, reserved := 1.0, 1.0
			if c.kind == "tokens" {
				each, reserved = 30, float64(len(body)+20)
			}
			if used != each*float64(passed.Load()) || used > c.limit || used <= c.limit-reserved {
				t.Errorf("%v used of %v by %d calls", used, c.limit, passed.Load())
			}
		})
	}
}

// A target whose budget is spent is a failed attempt, and the next one is tried.
func TestASpentBudgetOfATargetFallsBack(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file")+up.Provider("other"))
	key, _ := g.Key("k")
	usageLimit(g, map[string]any{"type": "requests", "credit_limit": 1, "conditions": when("provider", "file")})
	config := `x-gw-config: {"strategy":{"mode":"fallback"},"targets":[{"provider":"@file"},{"provider":"@other"}]}`
	for i, provider := range []string{"file", "other", "other"} {
		a := g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, config)
		if a.Status != 200 || a.Header.Get("x-gw-provider") != provider {
			t.Errorf("call %d: %d by %s, want %s", i, a.Status, a.Header.Get("x-gw-provider"), provider)
		}
	}
	if a := g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file"); a.Status != 412 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestTokensOfALimitAreShownAndRefused(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	id := policy(g, map[string]any{"type": "tokens", "value": 200})
	ask := func() *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file")
	}
	a := ask()
	if a.Status != 200 || a.Header.Get("x-ratelimit-limit-tokens") != "200" || a.Header.Get("x-ratelimit-limit-requests") != "" {
		t.Fatalf("%d %v", a.Status, a.Header)
	}
	passed := 1
	for a = ask(); a.Status == 200; a = ask() {
		passed++
	}
	if a.Status != 429 || a.Header.Get("Retry-After") == "" || a.Get("error.type").Str != "rate_limits_policy_exhaust_error" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	// Each has used 30, and reserves its bytes and 20.
	if most := (200-len(boundedChat)-20)/30 + 1; passed != most {
		t.Errorf("%d calls of %s passed, want %d", passed, id, most)
	}
}

func TestACacheHitAndARefusedCallUseNothing(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("file"))
	key, _ := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1000})
	used := func() float64 {
		return g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Float()
	}
	for range 3 {
		a := g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, `x-gw-config: {"provider":"@file","cache":{"mode":"simple"}}`)
		if a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if n := used(); n != 30 {
		t.Errorf("%v tokens for a call and two hits", n)
	}
	policy(g, map[string]any{"value": 0})
	if a := g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file"); a.Status != 429 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if n := used(); n != 30 {
		t.Errorf("%v tokens after a call that was refused", n)
	}
}

// A price that is not known is refused, unless the policy says otherwise.
func TestABudgetOfCostNeedsAPrice(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerWithUsage)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1})
	ask := func() *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file")
	}
	if a := ask(); a.Status != 412 || len(up.Calls()) != 0 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	g.Admin("PUT", "/v1/policies/usage-limits/"+id, map[string]any{"on_unknown_price": "allow"})
	if a := ask(); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A stream that was cut, and an answer without a usage, are booked as what was seen.
func TestAnswersWithoutAUsageAreBookedAsWhatWasSeen(t *testing.T) {
	const chunk = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"12345678"}}]}` + "\n\n"
	cut := func(w http.ResponseWriter) {
		_, _ = w.Write([]byte(chunk + chunk))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		model  string
		answer func(http.ResponseWriter)
		prompt bool
		tokens int64 // of the answer
	}{
		"cut off":                    {"m", cut, true, 4},
		"cut off, of a known family": {"gpt-4o", cut, true, 6}, // three digits are a token, and the last one
		"without a usage": {"m", func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(chunk + chunk + chunk + "data: [DONE]\n\n"))
		}, true, 6},
		"an error": {"m", func(w http.ResponseWriter) { w.WriteHeader(500) }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				c.answer(w)
			})
			g := gatewaytest.Start(t, up.Provider("file"))
			key, _ := g.Key("k")
			id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1000})
			streamed := `{"stream":true,` + strings.Replace(boundedChat[1:], `"m"`, `"`+c.model+`"`, 1)
			want := c.tokens
			if c.prompt {
				want += int64(len(streamed)-1)/4 + 1
			}
			_, _ = g.TryRequest("POST", "/v1/chat/completions", streamed, "x-gw-api-key: "+key, "x-gw-provider: file")
			eventually(t, "the record", func() bool { return len(records(t)) == 1 }) // the client may have its answer before the call has ended
			if r := records(t)[0]; c.prompt && r.PromptTokens+r.CompletionTokens != want {
				t.Errorf("%d and %d tokens recorded, want %d", r.PromptTokens, r.CompletionTokens, want)
			}
			eventually(t, fmt.Sprintf("%d tokens booked", want), func() bool {
				used := g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default")
				return used.Get("current_usage").Int() == want && used.Get("reserved_usage").Int() == 0
			})
		})
	}
}

// What a client is told of its limits, of several kinds at once, and of a budget that is spent.
func TestTheTightestOfSeveralKindsOfLimitsIsShown(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"limit", "remaining", "reset"} { // of the provider's own limits
			w.Header().Set("x-ratelimit-"+name+"-requests", "777")
			w.Header().Set("x-ratelimit-"+name+"-tokens", "777")
		}
		answerWithUsage(w, r)
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, id := g.Key("k")
	ask := func() *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", boundedChat, "x-gw-api-key: "+key, "x-gw-provider: file")
	}
	shows := func(a *gatewaytest.Answer, want map[string]string) {
		t.Helper()
		for name, value := range want {
			if got := a.Header.Get("x-ratelimit-" + name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
	}
	policy(g, map[string]any{"value": 1000, "unit": "rpd"})
	policy(g, map[string]any{"value": 3000, "unit": "rpm"})
	policy(g, map[string]any{"type": "tokens", "value": 50_000, "unit": "rph"})
	budget := usageLimit(g, map[string]any{"name": "of each", "type": "requests", "credit_limit": 2, "group_by": []map[string]string{{"key": "api_key"}}})
	usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 40_000})
	usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1000, "on_unknown_price": "allow"})

	reserved := strconv.Itoa(40_000 - len(boundedChat) - 20)
	a := ask()
	shows(a, map[string]string{"limit-requests": "2", "remaining-requests": "1", "reset-requests": "", "limit-tokens": "40000", "remaining-tokens": reserved, "reset-tokens": ""})
	if a.Status != 200 || len(a.Header.Values("x-ratelimit-limit-requests")) != 1 {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	if a := ask(); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	a = ask()
	shows(a, map[string]string{"limit-requests": "2", "remaining-requests": "0"})
	message := "Usage limit exceeded: policy of each (" + budget + ") allows 2 requests for api_key:" + id
	want := `{"status":"failure","message":"` + message + `","error":{"message":"` + message + `","type":"usage_limits_policy_exhaust_error","param":null,"code":"06"}}`
	if a.Status != 412 || a.Body != want || a.Header.Get("Retry-After") != "" {
		t.Errorf("%d %s, want %s", a.Status, a.Body, want)
	}
	g.Admin("PUT", "/v1/policies/usage-limits/"+budget, map[string]any{"credit_limit": 5000, "periodic_reset_days": 365})
	if a = ask(); a.Status != 200 || a.Header.Get("x-ratelimit-limit-requests") != "1000" || a.Header.Get("x-ratelimit-remaining-requests") != "997" {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	rate := policy(g, map[string]any{"name": "burst", "value": 1, "unit": "rpm"})
	if a := ask(); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	a = ask()
	message = "Rate limit exceeded: policy burst (" + rate + ") allows 1 rpm"
	want = `{"status":"failure","message":"` + message + `","error":{"message":"` + message + `","type":"rate_limits_policy_exhaust_error","param":null,"code":null}}`
	if _, there := a.Header["X-Ratelimit-Reset-Tokens"]; there {
		t.Errorf("%v", a.Header)
	}
	if after, err := strconv.Atoi(a.Header.Get("Retry-After")); a.Status != 429 || a.Body != want || err != nil || after < 1 || after > 61 {
		t.Errorf("%d %v %s, want %s", a.Status, a.Header, a.Body, want)
	}

	// A call that is larger than a limit is told so, and not when to try again.
	small := policy(g, map[string]any{"type": "tokens", "value": 20, "unit": "rpm"})
	g.Admin("DELETE", "/v1/policies/rate-limits/"+rate, nil)
	a = ask()
	message = fmt.Sprintf("Rate limit exceeded: policy %s allows 20 rpm of tokens, and the call may use %d tokens (what its prompt has at most, and its maximum of tokens)", small, len(boundedChat)+20)
	if a.Status != 429 || a.Get("error.message").Str != message || a.Header.Get("Retry-After") != "" {
		t.Errorf("%d %v %s, want %s", a.Status, a.Header, a.Body, message)
	}
}

// What the provider of one workspace says that calls use reserves nothing for those of another, which has the same slug
// and model.
func TestBudgetsLearnNothingFromOtherWorkspaces(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		reported := `"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}`
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "absurd") {
			reported = `"usage":{"prompt_tokens":10,"completion_tokens":100000000,"total_tokens":100000010}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],` + reported + `}`))
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	keys := twoWorkspaces(g)
	for i, limit := range []float64{9e15, 10_000} {
		usageLimit(g, map[string]any{"type": "tokens", "credit_limit": limit, "workspace_id": []string{"first", "second"}[i]})
	}
	ask := func(key, text string) *gatewaytest.Answer {
		return g.Do("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`, "x-gw-api-key: "+key, "x-gw-provider: file")
	}
	for range 20 {
		if a := ask(keys[0], "absurd"); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	for range 3 {
		if a := ask(keys[1], "hi"); a.Status != 200 {
			t.Errorf("another workspace: %d %s", a.Status, a.Body)
		}
	}
}
