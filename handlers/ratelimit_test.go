package handlers_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// policy creates a rate-limit policy and returns its id. fields are those of the
// body besides type and unit.
func policy(g *gatewaytest.Gateway, fields map[string]any) string {
	g.T.Helper()
	body := map[string]any{"type": "requests", "unit": "rpm"}
	for k, v := range fields {
		body[k] = v
	}
	return g.Admin("POST", "/v1/policies/rate-limits", body).Get("id").Str
}

func when(key string, value any) []any { return []any{map[string]any{"key": key, "value": value}} }

func by(key string) []any { return []any{map[string]any{"key": key}} }

func call(g *gatewaytest.Gateway, key string, headers ...string) *gatewaytest.Answer {
	g.T.Helper()
	return g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append([]string{"x-gw-api-key: " + key, "x-gw-provider: file"}, headers...)...)
}

func TestALimitAdmitsItsValueAndSaysWhatIsLeft(t *testing.T) {
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ratelimit-Limit-Requests", "the provider's")
		w.Header().Set("X-Ratelimit-Limit-Tokens", "the provider's")
		_, _ = w.Write([]byte("{}"))
	})
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	if a := call(g, key); a.Header.Get("x-ratelimit-limit-requests") != "the provider's" {
		t.Errorf("without a policy the provider's header is %q", a.Header.Get("x-ratelimit-limit-requests"))
	}
	id := policy(g, map[string]any{"name": "three", "value": 3})
	for left := 2; left >= 0; left-- {
		a := call(g, key)
		if a.Status != 200 || a.Header.Get("x-ratelimit-limit-requests") != "3" || a.Header.Get("x-ratelimit-remaining-requests") != strconv.Itoa(left) {
			t.Fatalf("%d %v", a.Status, a.Header)
		}
		reset, err := time.ParseDuration(a.Header.Get("x-ratelimit-reset-requests"))
		if err != nil || reset <= 0 || reset > 62*time.Second {
			t.Errorf("reset %q", a.Header.Get("x-ratelimit-reset-requests"))
		}
		if a.Header.Get("x-ratelimit-limit-tokens") != "the provider's" || len(a.Header.Values("x-ratelimit-limit-requests")) != 1 {
			t.Errorf("the provider's headers: %v", a.Header)
		}
	}
	before := len(up.Calls())
	a := call(g, key)
	after, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.Status != 429 || err != nil || after < 1 || after > 61 || a.Get("error.type").Str != "rate_limits_policy_exhaust_error" || a.Get("error.code").Type.String() != "Null" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	if a.Header.Get("x-ratelimit-remaining-requests") != "0" || a.Header.Get("x-gw-trace-id") == "" {
		t.Errorf("%v", a.Header)
	}
	if len(up.Calls()) != before {
		t.Error("a refused call reached the provider")
	}
	// A change is in force for the next request.
	g.Admin("PUT", "/v1/policies/rate-limits/"+id, map[string]any{"value": 4})
	if a := call(g, key); a.Status != 200 {
		t.Errorf("after the limit was raised: %d", a.Status)
	}
	g.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
	if a := call(g, key); a.Status != 200 || a.Header.Get("x-ratelimit-limit-requests") != "the provider's" {
		t.Errorf("after the policy was archived: %d %v", a.Status, a.Header)
	}
}

// A key that is limited gains nothing by making more keys: they are counted with it, and so
// are those that they make. What the organisation makes is counted alone.
func TestKeysThatAKeyMadeAreCountedWithIt(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	made := func(by string) string {
		return g.Do("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["completions.write","workspace_service_api_keys.create"]}`, "x-gw-api-key: "+by).Get("key").Str
	}
	one, other := made(gatewaytest.OwnerKey), made(gatewaytest.OwnerKey)
	twin := made(one)
	third := made(twin)
	policy(g, map[string]any{"value": 2, "group_by": []any{map[string]any{"key": "api_key"}}})
	for i, c := range []struct {
		key    string
		status int
	}{{twin, 200}, {third, 200}, {one, 429}, {twin, 429}, {third, 429}, {other, 200}, {other, 200}, {other, 429}} {
		if a := call(g, c.key); a.Status != c.status {
			t.Errorf("call %d: %d %s, want %d", i, a.Status, a.Body, c.status)
		}
	}
}

func TestConditionsAndGroupsChooseTheCalls(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n"+up.Provider("file")+up.Provider("other"))
	one, oneID := g.Key("one")
	two, _ := g.Key("two")
	_, threeID := g.Key("three")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil)
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk", "custom_host": up.URL + "/v1"})
	vk := []string{"x-gw-provider: @vk"}
	hit := func(key string, headers ...string) func() *gatewaytest.Answer {
		return func() *gatewaytest.Answer {
			return g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, append([]string{"x-gw-api-key: " + key}, headers...)...)
		}
	}
	file := "x-gw-provider: file"
	for name, c := range map[string]struct {
		conditions, groupBy []any
		counted, free       func() *gatewaytest.Answer
	}{
		"api_key":                     {when("api_key", oneID), nil, hit(one, file), hit(two, file)},
		"any of several":              {when("api_key", []string{threeID, oneID}), nil, hit(one, file), hit(two, file)},
		"grouped by api_key":          {nil, by("api_key"), hit(one, file), hit(two, file)},
		"workspace by slug":           {when("workspace_id", workspace.Get("data.0.slug").Str), by("provider"), hit(one, file), hit(one, "x-gw-provider: other")},
		"workspace by id":             {when("workspace_id", workspace.Get("data.0.id").Str), by("provider"), hit(one, file), hit(one, "x-gw-provider: other")},
		"provider":                    {when("provider", "file"), nil, hit(one, file), hit(one, "x-gw-provider: other")},
		"api_key in capitals":         {when("api_key", strings.ToUpper(oneID)), nil, hit(one, file), hit(two, file)},
		"provider by its virtual key": {when("provider", "@vk"), nil, hit(one, vk...), hit(one, file)},
		"virtual_key":                 {when("virtual_key", "vk"), nil, hit(one, vk...), hit(one, file)},
		"model":                       {when("model", "@file/m"), nil, hit(one, file), hit(one, "x-gw-provider: other")},
		"model of override_params": {
			when("model", "cheap"), nil,
			hit(one, `x-gw-config: {"provider":"@file","override_params":{"model":"cheap"}}`),
			hit(one, `x-gw-config: {"provider":"@file","override_params":{"model":"dear"}}`),
		},
		"model of the body, overridden": {
			when("model", "m"), nil, hit(one, file), hit(one, `x-gw-config: {"provider":"@file","override_params":{"model":"dear"}}`),
		},
		"model of a nested target": {
			when("model", "cheap"), nil,
			hit(one, `x-gw-config: {"strategy":{"mode":"single"},"targets":[{"provider":"@file"}],"override_params":{"model":"cheap"}}`),
			hit(one, `x-gw-config: {"strategy":{"mode":"single"},"targets":[{"provider":"@file","override_params":{"model":"dear"}}],"override_params":{"model":"cheap"}}`),
		},
		"models of":           {when("model", "@vk/*"), nil, hit(one, vk...), hit(one, file)},
		"metadata":            {when("metadata.team", "red"), nil, hit(one, file, `x-gw-metadata: {"team":"red"}`), hit(one, file, `x-gw-metadata: {"team":"blue"}`)},
		"grouped by metadata": {nil, by("metadata.team"), hit(one, file, `x-gw-metadata: {"team":"red"}`), hit(one, file)},
	} {
		t.Run(name, func(t *testing.T) {
			id := policy(g, map[string]any{"value": 1, "conditions": c.conditions, "group_by": c.groupBy})
			defer g.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
			for i, want := range []int{200, 429} {
				if a := c.counted(); a.Status != want {
					t.Errorf("counted call %d: %d %s", i, a.Status, a.Body)
				}
			}
			if a := c.free(); a.Status != 200 {
				t.Errorf("call that does not match: %d %s", a.Status, a.Body)
			}
		})
	}
}

func TestARefusalConsumesNothingOfTheOtherPolicies(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	policy(g, map[string]any{"value": 10, "unit": "rph"})
	tight := policy(g, map[string]any{"value": 1})
	for range 5 {
		call(g, key)
	}
	g.Admin("DELETE", "/v1/policies/rate-limits/"+tight, nil)
	if a := call(g, key); a.Header.Get("x-ratelimit-remaining-requests") != "8" {
		t.Errorf("remaining %s of 10 after two admitted calls", a.Header.Get("x-ratelimit-remaining-requests"))
	}
}

func TestCallsThatAreRefusedLaterAreNotCounted(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	policy(g, map[string]any{"value": 2})
	if a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: nope", "x-gw-provider: file"); a.Status != 401 {
		t.Errorf("%d", a.Status)
	}
	if a := g.Do("POST", "/v1/chat/completions", "[]", "x-gw-api-key: "+key, "x-gw-provider: file"); a.Status != 400 {
		t.Errorf("%d", a.Status)
	}
	if a := call(g, key); a.Header.Get("x-ratelimit-remaining-requests") != "1" {
		t.Errorf("remaining %s", a.Header.Get("x-ratelimit-remaining-requests"))
	}
}

func TestConcurrentCallsNeverExceedALimit(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	policy(g, map[string]any{"value": 50, "unit": "rpd"})
	var admitted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				switch a := call(g, key); a.Status {
				case 200:
					admitted.Add(1)
				case 429:
					refused.Add(1)
				default:
					t.Errorf("%d %s", a.Status, a.Body)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 50 || refused.Load() != 110 {
		t.Errorf("%d admitted, %d refused", admitted.Load(), refused.Load())
	}
	if n := len(up.Calls()); n != 50 {
		t.Errorf("the provider saw %d calls", n)
	}
}

func TestCountersSurviveARestart(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	policy(g, map[string]any{"value": 5, "unit": "rpd"})
	for range 3 {
		call(g, key)
	}
	g.Stop()
	g.Load()
	got := ""
	for range 3 {
		got += fmt.Sprint(call(g, key).Status, " ")
	}
	if got != "200 200 429 " {
		t.Errorf("after the restart: %s", got)
	}
}
