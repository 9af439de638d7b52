package prices

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAPricingConfigHasCentsForOne(t *testing.T) {
	p, err := ParseConfig([]byte(`{"type":"static","pay_as_you_go":{"request_token":{"price":0.003},"response_token":{"price":1.5e-5},"cache_read_input_token":{"price":0},
		"cache_write_input_token":null,"additional_units":{"request":{"price":2},"audio_second":{"price":0.01}}},"finetune_config":{"pay_per_token":{"price":0.0025},"pay_per_hour":null}}`))
	if err != nil {
		t.Fatal(err)
	}
	// In pico-dollars: 0.003 cents are 3e7.
	if got, known := p.Cost(&Usage{Prompt: 10, CacheRead: 4, Completion: 2, Milliseconds: 3000}); got != 6*3e7+2*150e3+2e10+3*1e8 || !known {
		t.Errorf("%d %v", got, known)
	}
	if got, known := p.Cost(&Usage{Prompt: 10, Trained: 10}); got != 10*25e6 || !known {
		t.Errorf("%d %v of training", got, known)
	}
	for config, want := range map[string]string{
		`{"type":"static","pay_as_you_go":{},"finetune_config":{"pay_per_hour":{"price":1}}}`: `finetune_config: "pay_per_hour" is not counted; expected one of pay_per_token`,
		`{"type":"static","pay_as_you_go":{"pay_per_token":{"price":1}}}`:                     `"pay_per_token" is not counted`,
		`{"type":"static","pay_as_you_go":{},"finetune_config":1}`:                            "finetune_config",
		`{}`:                 "type static",
		`{"type":"dynamic"}`: "type static",
		`{"type":"static"}`:  "pay_as_you_go",
		`[]`:                 "type static",
		`{"type":"static","pay_as_you_go":{},"currency":"USD"}`:                                      "nothing else",
		`{"type":"static","pay_as_you_go":{}}`:                                                       "at least one price",
		`{"type":"static","pay_as_you_go":{"request_token":null}}`:                                   "at least one price",
		`{"type":"static","pay_as_you_go":{"request_token":1}}`:                                      "request_token: expected an object",
		`{"type":"static","pay_as_you_go":{"request_token":{}}}`:                                     "request_token: expected an object",
		`{"type":"static","pay_as_you_go":{"request_token":{"price":"1"}}}`:                          "cents",
		`{"type":"static","pay_as_you_go":{"request_token":{"price":-1}}}`:                           "cents",
		`{"type":"static","pay_as_you_go":{"request_token":{"price":1e-9999999}}}`:                   "cents",
		`{"type":"static","pay_as_you_go":{"request_token":{"price":1e9}}}`:                          "at most",
		`{"type":"static","pay_as_you_go":{"thinking_token":{"price":1}}}`:                           `"thinking_token" is not counted`,
		`{"type":"static","pay_as_you_go":{"additional_units":{"video_second":{"price":1}}}}`:        `"video_second" is not counted`,
		`{"type":"static","pay_as_you_go":{"additional_units":[]}}`:                                  "additional_units: expected an object",
		`{"type":"static","pay_as_you_go":{"request_token":{"price":1,"tiers":[]}}}`:                 "request_token: expected an object",
		`{"type":"static","pay_as_you_go":{"additional_units":{"request":{"price":1000000000000}}}}`: "at most",
	} {
		if _, err := ParseConfig([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

// Each price is shown as what it was made of.
func TestRatesAreThoseOfTheConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := make(map[string]string)
		config := map[string]any{}
		places := map[Place]map[string]any{PayAsYouGo: config, AdditionalUnits: {}, FinetuneConfig: {}}
		for i := range titles {
			if !rapid.Bool().Draw(t, titles[i].name) {
				continue
			}
			// With few enough digits to be exact in pico-dollars.
			digits := 8
			if titles[i].size > 1 || units[i].per == thousand {
				digits = 4
			}
			cents := fmt.Sprintf("%d.%0*d", rapid.IntRange(0, 50).Draw(t, "whole"), digits, rapid.IntRange(0, 9999).Draw(t, "part"))
			given[titles[i].name] = cents
			places[titles[i].in][titles[i].name] = map[string]any{"price": json.RawMessage(cents)}
		}
		config[string(AdditionalUnits)] = places[AdditionalUnits]
		raw, err := json.Marshal(map[string]any{"type": "static", "pay_as_you_go": config, "finetune_config": places[FinetuneConfig]})
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParseConfig(raw)
		if err != nil {
			if len(given) == 0 {
				return
			}
			t.Fatal(err)
		}
		rates := p.Rates()
		if len(rates) != len(given) {
			t.Fatalf("%d rates of %s", len(rates), raw)
		}
		for _, r := range rates {
			want, _ := new(big.Rat).SetString(given[r.Name])
			if f, _ := want.Float64(); r.Cents != f {
				t.Errorf("%s is %v, want %s", r.Name, r.Cents, given[r.Name])
			}
		}
	})
}

func TestListPricesHaveRatesAndTiers(t *testing.T) {
	rates := table(t).Of("claude-sonnet-4-5", now, "anthropic").Rates()
	if r := rates[0]; r.Name != "request_token" || r.Counted != "input_tokens" || r.Answer || r.Cents != 0.0003 || len(r.Tiers) != 1 || r.Tiers[0] != (Tier{200_000, 0.0006}) {
		t.Errorf("%+v", r)
	}
	for _, r := range rates {
		if r.Answer != (r.Name == "response_token") {
			t.Errorf("%+v", r)
		}
	}
}

func TestAdjustmentsMultiplyPrices(t *testing.T) {
	config := func(multiplier string) *Adjustment {
		t.Helper()
		a, err := ParseAdjustment([]byte(`{"multiplier":` + multiplier + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	usage := Usage{Prompt: 1000, CacheRead: 600, CacheWrite: 100, CacheHour: 50, Completion: 200, Reasoning: 50}
	// gpt-4o-mini in pico-dollars: 150e3, cached 75e3, answers 600e3.
	for multiplier, want := range map[string]Amount{
		`{}`:                                300*150e3 + 600*75e3 + 100*150e3 + 200*600e3,
		`{"default":null}`:                  300*150e3 + 600*75e3 + 100*150e3 + 200*600e3,
		`{"default":0.8}`:                   .8 * (300*150e3 + 600*75e3 + 100*150e3 + 200*600e3),
		`{"default":0.8,"request_token":1}`: 300*150e3 + .8*(600*75e3+100*150e3+200*600e3),
		`{"response_token":2,"reasoning_token":0}`:                                          300*150e3 + 600*75e3 + 100*150e3 + 150*1200e3,
		`{"cache_write_input_token":3}`:                                                     300*150e3 + 600*75e3 + 100*450e3 + 200*600e3,
		`{"cache_write_input_token":3,"additional_units":{"cache_write_1h_input_token":1}}`: 300*150e3 + 600*75e3 + 50*450e3 + 50*150e3 + 200*600e3,
		`{"default":0}`: 0,
		`{"default":0.5,"request_token":1,"request_text_token":1,"image":{"default":0.5},"response_text_token":0.5}`:   300*150e3 + .5*(600*75e3+100*150e3+200*600e3),
		`{"cache_read_input_token":0.1,"cache_read_audio_input_token":0.1,"image":null,"prediction_accepted_token":1}`: 300*150e3 + 600*7.5e3 + 100*150e3 + 200*600e3,
	} {
		if got, known := config(multiplier).Of(table(t).Of("gpt-4o-mini", now, "openai")).Cost(&usage); got != want || !known {
			t.Errorf("%s: %d %v, want %d", multiplier, got, known, want)
		}
	}
	// Prices of long prompts are multiplied, too.
	if got, _ := config(`{"default":0.5}`).Of(table(t).Of("claude-sonnet-4-5", now, "anthropic")).Cost(&Usage{Prompt: 200_001, Completion: 1}); got != (200_001*6e6+22.5e6)/2 {
		t.Error(got)
	}
	if config(`{}`).Of(nil) != nil || (*Adjustment)(nil).Of(nil) != nil {
		t.Error("what has no price has one")
	}
	for multiplier, want := range map[string]string{
		`[]`:                              "object",
		`{"default":-1}`:                  "multiplier.default: expected a number",
		`{"default":"1"}`:                 "default",
		`{"default":1001}`:                "default",
		`{"default":1e-99999}`:            "default",
		`{"request_token":true}`:          "multiplier.request_token",
		`{"nope":1}`:                      `"nope" is not counted`,
		`{"additional_units":{"nope":1}}`: `"nope" is not counted`,
		`{"image":{"nope":1}}`:            "image",
		`{"image":{"default":2}}`:         "image.default: images are not counted apart",
		`{"image":1}`:                     "image",
		`{"request_text_token":2}`:        "request_text_token: these tokens are not counted apart",
		`{"prediction_rejected_token":0}`: "leave it out, or give it what response_token has",
	} {
		if _, err := ParseAdjustment([]byte(`{"multiplier":` + multiplier + `}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", multiplier, err, want)
		}
	}
	for _, raw := range []string{`[]`, `1`, `{"default":1}`, `{"multiplier":{},"x":1}`} {
		if _, err := ParseAdjustment([]byte(raw)); err == nil {
			t.Errorf("%s is accepted", raw)
		}
	}
}

// An adjusted cost is what each part costs, times its multiplier.
func TestAdjustedCostsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dollars := map[string]string{"input_mtok": "2.5", "output_mtok": "10"}
		a := new(Adjustment)
		for i := range units {
			if units[i].per == million && rapid.Bool().Draw(t, units[i].name) {
				dollars[units[i].name] = fmt.Sprintf("%d.%02d", rapid.IntRange(0, 90).Draw(t, "dollars"), rapid.IntRange(0, 99).Draw(t, "cents"))
			}
			a[i] = multiplier(rapid.IntRange(0, 3000).Draw(t, "thousandths")) * one / 1000
		}
		p, err := ParsePrice(dollars)
		if err != nil {
			t.Fatal(err)
		}
		u := Usage{
			Prompt: 1000, CacheRead: rapid.Int64Range(0, 200).Draw(t, "read"), CacheWrite: rapid.Int64Range(0, 200).Draw(t, "write"),
			AudioIn: rapid.Int64Range(0, 200).Draw(t, "audio"), Completion: 500, Reasoning: rapid.Int64Range(0, 500).Draw(t, "reasoning"),
		}
		u.CacheHour = rapid.Int64Range(0, u.CacheWrite).Draw(t, "hour")
		price := func(i int) *big.Rat {
			from := i
			for !p[from].known {
				from = units[from].partOf
			}
			return new(big.Rat).Mul(big.NewRat(int64(p[from].base), 1e6), big.NewRat(int64(a[i]), int64(one)))
		}
		want := new(big.Rat)
		for i, n := range map[int]int64{
			0: u.Prompt - u.CacheRead - u.CacheWrite - u.AudioIn, 1: u.CacheRead, 2: u.CacheWrite - u.CacheHour, 3: u.CacheHour, 4: u.AudioIn,
			6: u.Completion - u.Reasoning, 9: u.Reasoning,
		} {
			want.Add(want, price(i).Mul(price(i), big.NewRat(n, 1)))
		}
		got, known := a.Of(p).Cost(&u)
		if exact, _ := want.Float64(); !known || float64(got) != exact {
			t.Fatalf("%d %v, want %s", got, known, want.FloatString(3))
		}
	})
}

func FuzzPricingConfig(f *testing.F) {
	f.Add([]byte(`{"type":"static","pay_as_you_go":{"request_token":{"price":0.003},"additional_units":{"request":{"price":1}}}}`))
	f.Add([]byte(`{"multiplier":{"default":0.8,"image":{"default":0.8}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseConfig(raw)
		if err == nil {
			for _, r := range p.Rates() {
				if r.Cents < 0 {
					t.Errorf("%s costs %v", r.Name, r.Cents)
				}
			}
		}
		a, err := ParseAdjustment(raw)
		if err != nil {
			return
		}
		dear := &Price{0: {known: true, base: MaxAmount}}
		if cost, known := a.Of(dear).Cost(&Usage{Prompt: 1 << 40}); cost < 0 || !known {
			t.Errorf("%d", cost)
		}
	})
}

func TestModelsAreKnownByTheListOfPrices(t *testing.T) {
	tab := table(t)
	about, ok := tab.About("gpt-4o-2024-08-06", "mine", "openai")
	if !ok || about.ID != "gpt-4o" || about.ContextWindow != 128_000 || about.Name == "" || about.Deprecated || !slices.Contains(about.Features, "prompt_caching") {
		t.Errorf("%+v %v", about, ok)
	}
	if about, ok = tab.About("gemini-2.5-flash", "vertex-ai"); !ok || strings.Join(about.Input, " ") != "audio text" || strings.Join(about.Output, " ") != "text" {
		t.Errorf("%+v %v", about, ok)
	}
	if _, ok := tab.About("llama", "openai"); ok {
		t.Error("a model of nobody is known")
	}
	if all := tab.Models("mistral-ai"); len(all) < 10 {
		t.Errorf("%+v", all)
	}
	if all := tab.Models("nobody"); all != nil {
		t.Errorf("%+v", all)
	}
	own, err := NewTable(nil, []byte(`[{"id":"openai","models":[{"id":"a","context_window":7,"match":{"equals":"a"},"prices":{"input_mtok":1}},{"id":"b","deprecated":true,"match":{"equals":"b"},"prices":[{"prices":{"input_mtok":1}},{"prices":{"web_searches_kcount":1}}]}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if all := own.Models("openai"); len(all) != 1 || all[0].ID != "a" || all[0].ContextWindow != 7 {
		t.Errorf("%+v", all)
	}
	if b, ok := own.About("b", "openai"); !ok || !b.Deprecated || len(b.Features) != 1 || b.Features[0] != "web_search" || b.Input != nil {
		t.Errorf("%+v", b)
	}
}
