package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers"
)

// priced adds the list prices to a control plane.
func (a *api) priced() {
	a.t.Helper()
	table, err := prices.NewTable(nil, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	router := &credentials.Router{
		Keyring: a.s.Keyring, BuiltIn: providers.BaseURL, Guard: a.s.Guard.(*credentials.HostGuard), SlugOf: func(string) string { return "" },
		Providers: map[string]*credentials.Provider{"local": {Slug: "local", Dialect: "anthropic"}},
	}
	a.s.Price = func(workspaceID, provider, model string) *prices.Price {
		return router.Price(workspaceID, provider, model, func(model string, providers ...string) *prices.Price {
			return table.Of(model, time.Unix(0, a.now.Load()), providers...)
		})
	}
	a.serve()
}

func TestTheCostOfAModelIsLookedUp(t *testing.T) {
	a := newAPI(t)
	a.priced()
	a.workspace("blue")
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"vk","provider":"openai","key":"sk-1"}`)
	a.ok("POST", "/v1/virtual-keys", `{"name":"n","slug":"of-blue","provider":"openai","key":"sk-1","workspace_id":"blue"}`)
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`"}`)
	a.ok("PUT", "/v1/integrations/main/workspaces", `{"workspaces":[{"id":"`+a.s.Directory.DefaultWorkspace().ID+`","enabled":true}]}`)
	a.ok("PUT", "/v1/integrations/main/models", `{"models":[{"slug":"gpt-4o-mini","enabled":true,"pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":0.5},"additional_units":{"request":{"price":3}}}},"pricing_adjustments":{"multiplier":{"default":9}}},
		{"slug":"org/tuned","enabled":true,"is_finetune":true,"base_model_slug":"gpt-4o-mini"}]}`)
	// What the list of prices knows is no model of one's own.
	if got := a.ok("GET", "/v1/integrations/main/models", "").get("models.#.is_custom").Raw; got != "[false,true]" {
		t.Errorf("is_custom: %s", got)
	}
	const path = "/v1/model-configs/pricing/"
	for lookup, want := range map[string]float64{
		"openai/gpt-4o-mini":                     0.000015,
		"openai/gpt-4o-mini-2024-07-18":          0.000015,
		"@vk/gpt-4o-mini":                        0.000015,
		"vk/gpt-4o-mini":                         0.000015,
		"@main/gpt-4o-mini":                      0.5,
		"main/GPT-4o-mini":                       0.5,
		"main/org%2Ftuned":                       0.000015,
		"main/org/tuned":                         0.000015,
		"local/claude-sonnet-4-5":                0.0003,
		"@of-blue/gpt-4o-mini?workspace_id=blue": 0.000015,
		"@of-blue/gpt-4o-mini":                   0,
		"@main/gpt-4o-mini?workspace_id=blue":    0,
		"@openai/gpt-4o-mini":                    0,
		"openai/llama":                           0,
		"nobody/gpt-4o":                          0,
	} {
		out := a.do("GET", path+lookup, "")
		if want == 0 {
			if out.status != 404 || !strings.Contains(out.get("error").Str, "No price is known") {
				t.Errorf("%s: %d %s", lookup, out.status, out.body)
			}
			continue
		}
		if got := out.get("pay_as_you_go.request_token.price"); out.status != 200 || got.Float() != want || out.get("currency").Str != "USD" {
			t.Errorf("%s: %d %s, want %v", lookup, out.status, out.body, want)
		}
	}
	// Without an API key, it is what built-in providers cost, and nothing that anybody has saved.
	for lookup, want := range map[string]int{
		"openai/gpt-4o-mini": 200, "openai/llama": 404, "@vk/gpt-4o-mini": 404, "vk/gpt-4o-mini": 404, "main/gpt-4o-mini": 404, "@openai/gpt-4o-mini": 404,
		"openai/gpt-4o-mini?workspace_id=blue": 400, "openai/gpt-4o-mini?nope=1": 400,
	} {
		if out := a.as("", "GET", path+lookup, ""); out.status != want || want == 200 && out.get("pay_as_you_go.request_token.price").Float() != 0.000015 {
			t.Errorf("a stranger, %s: %d %s, want %d", lookup, out.status, out.body, want)
		}
	}
	if out := a.as("unknown", "GET", path+"openai/gpt-4o-mini", ""); out.status != 401 {
		t.Errorf("an unknown key: %d %s", out.status, out.body)
	}
	out := a.ok("GET", "/v2/model-configs/pricing/main/gpt-4o-mini", "")
	if out.get("pay_as_you_go.additional_units.request.price").Float() != 3 ||
		out.get("calculate.request.operands.#.operands.#.value").Raw != `[["input_tokens","rates.request_token"],["requests","rates.additional_units.request"]]` ||
		out.get("calculate.request.operation").Str != "sum" || out.get("calculate.response").Exists() {
		t.Errorf("%s", out.body)
	}
	if out := a.ok("GET", path+"anthropic/claude-sonnet-4-5", ""); out.get("pay_as_you_go.request_token.tiers").Raw != `[{"above":200000,"price":0.0006}]` ||
		out.get("calculate.response.operands.0.operands.0.value").Str != "output_tokens" {
		t.Errorf("%s", out.body)
	}
	key, _ := a.key("workspace/service", `"completions.write"`)
	if out := a.as(key, "GET", path+"main/gpt-4o-mini", ""); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if out := a.as(key, "GET", path+"@of-blue/gpt-4o-mini?workspace_id=blue", ""); out.status != 403 {
		t.Errorf("%d %s", out.status, out.body)
	}
}

func TestPricingAdjustmentsAreKept(t *testing.T) {
	a := newAPI(t)
	a.ok("POST", "/v1/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai","key":"`+integrationSecret+`","pricing_adjustments":{"multiplier":{"default":0.8,"request_token":null}}}`)
	const one, models = "/v1/integrations/main", "/v1/integrations/main/models"
	if out := a.ok("GET", one, ""); out.get("pricing_adjustments.multiplier.default").Float() != 0.8 {
		t.Errorf("%s", out.body)
	}
	a.ok("PUT", one, `{"name":"m"}`)
	a.ok("PUT", models, `{"models":[{"slug":"m","enabled":true,"pricing_adjustments":{"multiplier":{"response_token":2}}}]}`)
	a.ok("PUT", models, `{"models":[{"slug":"m","enabled":true}]}`)
	if out := a.ok("GET", models, ""); out.get("models.0.pricing_adjustments.multiplier.response_token").Float() != 2 {
		t.Errorf("%s", out.body)
	}
	for path, body := range map[string]string{one: `{"pricing_adjustments":{"multiplier":{"nope":1}}}`, models: `{"models":[{"slug":"m","enabled":true,"pricing_adjustments":{"multiplier":{"default":-1}}}]}`} {
		if out := a.do("PUT", path, body); out.status != 400 || !strings.Contains(out.message(), "pricing_adjustments: multiplier.") {
			t.Errorf("%s: %d %s", path, out.status, out.body)
		}
	}
	if out := a.ok("GET", one, ""); out.get("pricing_adjustments.multiplier.default").Float() != 0.8 {
		t.Errorf("%s", out.body)
	}
	a.ok("PUT", one, `{"pricing_adjustments":null}`)
	a.ok("PUT", models, `{"models":[{"slug":"m","enabled":true,"pricing_adjustments":null}]}`)
	if out := a.ok("GET", one, "").body + a.ok("GET", models, "").body; strings.Contains(out, "pricing_adjustments") {
		t.Errorf("%s", out)
	}
}
