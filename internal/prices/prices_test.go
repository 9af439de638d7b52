package prices

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func table(t *testing.T, own ...Override) *Table {
	t.Helper()
	table, err := NewTable(own, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func TestCallsCostWhatProvidersList(t *testing.T) {
	for _, c := range []struct {
		provider, model string
		usage           Usage
		want            Amount // in pico-dollars
	}{
		// Prices of the published list, which do not change for models of old.
		{"openai", "gpt-4o-mini", Usage{Prompt: 1000, Completion: 500}, 150e6 + 300e6},
		{"openai", "gpt-4o-mini-2024-07-18", Usage{Prompt: 1000, CacheRead: 600, Completion: 1}, 400*150e3 + 600*75e3 + 600e3},
		{"openai", "text-embedding-3-small", Usage{Prompt: 7}, 7 * 20e3},
		{"openai", "whisper-1", Usage{Milliseconds: 90_000}, 9e9},
		{"azure-openai", "gpt-4o", Usage{Prompt: 2, Completion: 1}, 15e6},
		{"anthropic", "claude-sonnet-4-5-20250929", Usage{Prompt: 100, CacheRead: 20, CacheWrite: 30, CacheHour: 10, Completion: 5}, 50*3e6 + 20*300e3 + 20*3.75e6 + 10*6e6 + 5*15e6},
		{"anthropic", "claude-sonnet-4-5", Usage{Prompt: 200_000}, 200_000 * 3e6},
		{"anthropic", "claude-sonnet-4-5", Usage{Prompt: 200_001, Completion: 1}, 200_001*6e6 + 22.5e6},
		{"vertex-ai", "claude-sonnet-4-5@20250929", Usage{Prompt: 1}, 3e6},
		{"google", "gemini-2.5-flash", Usage{Prompt: 10, AudioIn: 4, Completion: 3, Reasoning: 2}, 6*300e3 + 4*1e6 + 3*2.5e6},
		{"google", "gemini-2.5-pro", Usage{Prompt: 1}, 1.25e6},
		{"anthropic", "claude-sonnet-4-6", Usage{Prompt: 1, WebSearches: 3}, 3e6 + 3*10e9},
		{"openai", "gpt-4.1", Usage{Prompt: 1, WebSearches: 1, FileSearches: 2}, 2e6 + 10e9 + 2*2.5e9},
		{"mistral-ai", "mistral-ocr-2505", Usage{Pages: 3}, 3e9},
	} {
		p := table(t).Of(c.model, now, c.provider)
		if p == nil {
			t.Errorf("%s %s has no price", c.provider, c.model)
			continue
		}
		if got, known := p.Cost(&c.usage); got != c.want || !known {
			t.Errorf("%s %s %+v costs %d %v, want %d", c.provider, c.model, c.usage, got, known, c.want)
		}
	}
}

func TestWhatHasNoPriceHasNoCost(t *testing.T) {
	for _, c := range [][2]string{{"openai", "llama-3"}, {"nobody", "gpt-4o"}, {"openai", ""}, {"ollama", "gpt-4o"}} {
		if p := table(t).Of(c[1], now, c[0]); p != nil {
			t.Errorf("%v has a price", c)
		}
	}
	if _, known := table(t).Of("text-embedding-3-small", now, "openai").Cost(&Usage{Prompt: 1, Completion: 1}); known {
		t.Error("a completion of a model that has no price for one has a cost")
	}
	if _, known := table(t).Of("gpt-4o", now, "openai").Cost(&Usage{Pages: 1}); known {
		t.Error("pages of a model that has no price for them have a cost")
	}
	if cost, known := table(t).Of("gpt-4o", now, "openai").Cost(&Usage{Prompt: 10, CacheRead: math.MaxInt64, AudioIn: 5}); cost != 10*1.25e6 || !known {
		t.Error("a part of more than the whole costs", cost, known)
	}
	if cost, known := table(t).Of("gpt-4o", now, "openai").Cost(new(Usage)); cost != 0 || !known {
		t.Error("what used nothing costs", cost, known)
	}
	if p := (*Table)(nil).Of("gpt-4o", now, "openai"); p != nil {
		t.Error("no table has a price")
	}
}

func TestTheOperatorsPricesComeFirst(t *testing.T) {
	price := func(input string) *Price {
		p, err := ParsePrice(map[string]string{"input_mtok": input, "requests_kcount": "1"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	tab := table(t, Override{"mine", "gpt-4o", price("7")}, Override{"openai", "gpt-4o*", price("8")}, Override{"mine", "*", price("9")}, Override{"openai", "*", price("10")})
	for _, c := range []struct {
		model     string
		providers []string
		want      Amount
	}{
		{"gpt-4o", []string{"mine", "openai"}, 7e6},
		{"gpt-4o", []string{"other", "openai"}, 8e6},
		{"gpt-4o-mini", []string{"mine", "openai"}, 8e6},
		{"o1", []string{"mine", "openai"}, 9e6},
		{"gpt-4o-mini", []string{"openai"}, 8e6},
		{"llama", []string{"mine", "openai"}, 9e6},
		{" GPT-4o ", []string{"mine", "openai"}, 7e6},
		{"GPT-4o-Mini", []string{"openai"}, 8e6},
	} {
		if got, known := tab.Of(c.model, now, c.providers...).Cost(&Usage{Prompt: 1}); got != c.want+1e9 || !known {
			t.Errorf("%+v costs %d", c, got)
		}
	}
	calls, err := ParsePrice(map[string]string{"requests_kcount": "2"})
	if err != nil {
		t.Fatal(err)
	}
	if got, known := calls.Cost(&Usage{Prompt: 5, Completion: 5}); got != 2e9 || !known {
		t.Error("where only calls are charged, one costs", got, known)
	}
	if got, known := tab.Of("llama", now, "mine").Cost(new(Usage)); got != 1e9 || !known {
		t.Error("a request costs", got, known)
	}
}

func TestPricesHoldFromADayOnAndAtHours(t *testing.T) {
	tab, err := NewTable(nil, []byte(`[{"id":"p","models":[{"id":"m","match":{"equals":"M"},"prices":[
		{"prices":{"input_mtok":1}},
		{"constraint":{"type":"start_date","start_date":"2026-03-13"},"prices":{"input_mtok":2}},
		{"constraint":{"type":"time_of_date","start_time":"23:00:00Z","end_time":"01:30:00Z"},"prices":{"input_mtok":3}}]}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]Amount{
		"2026-03-12T22:59:59Z": 1e6, "2026-03-13T02:00:00Z": 2e6, "2026-03-12T23:00:00Z": 3e6, "2026-03-14T01:29:59Z": 3e6, "2026-03-14T01:30:00Z": 2e6,
	} {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := tab.Of("m", when, "p").Cost(&Usage{Prompt: 1}); got != want {
			t.Errorf("%s: %d, want %d", at, got, want)
		}
	}
}

func TestAmountsAreExact(t *testing.T) {
	for s, want := range map[string]Amount{"0": 0, "0.15": 15e10, "3": 3e12, "0.000000000001": 1, "0.0000000000004": 0, "0.0000000000005": 1, "1e-6": 1e6, "1000000": 1e18} {
		if got, err := ParseAmount(s); got != want || err != nil {
			t.Errorf("%s is %d %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-1", "1/3", "1e99", "1000000.1", "NaN", "0x10", "$1", "1_0", strings.Repeat("9", 50)} {
		if got, err := ParseAmount(s); err == nil {
			t.Errorf("%q is %d", s, got)
		}
	}
	if _, err := ParsePrice(map[string]string{"input": "1"}); err == nil || !strings.Contains(err.Error(), "input_mtok") {
		t.Error(err)
	}
	if _, err := ParsePrice(nil); err == nil {
		t.Error("no price is one")
	}
}

// The cost is that of a naive sum of fractions, and no usage makes it overflow or negative.
func TestCostIsTheSumOfItsParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var p Price
		for i := range p {
			p[i] = rate{known: true, base: Amount(random.Int64N(1e15))}
		}
		part := func(of int64) int64 { return random.Int64N(of/8 + 1) }
		u := Usage{Prompt: random.Int64N(1e6), Completion: random.Int64N(1e6), Pages: random.Int64N(1e3), Milliseconds: random.Int64N(1e6)}
		u.CacheRead, u.CacheWrite, u.AudioIn, u.ImageIn = part(u.Prompt), part(u.Prompt), part(u.Prompt), part(u.Prompt)
		u.CacheHour = part(u.CacheWrite)
		u.AudioOut, u.ImageOut, u.Reasoning = part(u.Completion), part(u.Completion), part(u.Completion)
		want := new(big.Rat)
		add := func(i int, n int64) {
			want.Add(want, new(big.Rat).Mul(big.NewRat(n, int64(units[i].per)), big.NewRat(int64(p[i].base), 1)))
		}
		for i, n := range []int64{
			u.Prompt - u.CacheRead - u.CacheWrite - u.AudioIn - u.ImageIn, u.CacheRead, u.CacheWrite - u.CacheHour, u.CacheHour, u.AudioIn, u.ImageIn,
			u.Completion - u.AudioOut - u.ImageOut - u.Reasoning, u.AudioOut, u.ImageOut, u.Reasoning, 1, u.Pages, u.Milliseconds,
		} {
			add(i, n)
		}
		got, known := p.Cost(&u)
		difference := new(big.Rat).Sub(want, big.NewRat(int64(got), 1))
		if !known || difference.Abs(difference).Cmp(big.NewRat(int64(len(units)), 2)) > 0 { // each part is rounded
			t.Fatalf("%+v %+v: %d, want %s", p, u, got, want.FloatString(2))
		}
	}
	huge := Usage{Prompt: math.MaxInt64, CacheRead: math.MaxInt64, CacheWrite: math.MaxInt64, CacheHour: math.MaxInt64, Completion: math.MaxInt64, Reasoning: math.MinInt64}
	if got, known := table(t).Of("claude-sonnet-4-5", now, "anthropic").Cost(&huge); got != MaxAmount || !known {
		t.Error(got, known)
	}
	if got, _ := table(t).Of("gpt-4o", now, "openai").Cost(&Usage{Prompt: -5, Completion: -5}); got != 0 {
		t.Error(got)
	}
}

func TestUnitsStandWhereTheyAreLookedFor(t *testing.T) {
	for i, name := range map[int]string{prompts: "input_mtok", written: "cache_write_mtok", completions: "output_mtok", calls: "requests_kcount"} {
		if units[i].name != name {
			t.Errorf("unit %d is %s, want %s", i, units[i].name, name)
		}
	}
}

// Each other name is of a provider that the catalogue has.
func TestOtherNamesAreKnown(t *testing.T) {
	c := embedded()
	for name, id := range catalogueNames {
		if c[id] == nil {
			t.Errorf("%s is to be %s, which the catalogue has not", name, id)
		}
		if c[name] != nil {
			t.Errorf("the catalogue has %s itself", name)
		}
	}
}

// The build's own catalogue is valid, and read provider by provider it is what it is as a whole.
func TestProvidersAreReadOneByOne(t *testing.T) {
	whole, err := parse([]byte(published))
	if err != nil {
		t.Fatal(err)
	}
	own := index(published)
	if len(own) != len(whole) || len(own) < 20 {
		t.Fatalf("%d providers, want %d", len(own), len(whole))
	}
	for id, p := range whole {
		models := own[id].models()
		if want := p.models(); len(models) != len(want) || !slices.Equal(own[id].fallbacks, p.fallbacks) {
			t.Errorf("%s: %d models, want %d", id, len(models), len(want))
			continue
		}
		for i, want := range p.models() {
			if !reflect.DeepEqual(models[i].Model, want.Model) || !reflect.DeepEqual(models[i].at(now), want.at(now)) {
				t.Errorf("%s: %s differs", id, want.ID)
			}
		}
	}
}

func TestNamesThatCallersMakeUpAreNotKept(t *testing.T) {
	tab := table(t)
	for i := range 3 * maxNames {
		tab.Of(strings.Repeat("x", i%5)+time.Unix(int64(i), 0).String(), now, "openai")
	}
	n := 0
	tab.found.Range(func(any, any) bool { n++; return true })
	if n > maxNames+1 {
		t.Error(n)
	}
	if tab.Of("gpt-4o", now, "openai") == nil {
		t.Error("a model is not found any more")
	}
}

func TestBrokenCataloguesSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "genai-prices",
		`[{"id":"p","models":[{"id":"m","prices":{"input_mtok":1}}]}]`:                                                                              "model m: match: it is missing",
		`[{"id":"p","models":[{"id":"m","match":{"equals":"a"},"prices":{"input_mtok":-1}}]}]`:                                                      "model m: input_mtok: expected US dollars",
		`[{"id":"p","models":[{"id":"m","match":{"like":"a"},"prices":{}}]}]`:                                                                       "expected equals",
		`[{"id":"p","models":[{"id":"m","match":{"regex":"("},"prices":{}}]}]`:                                                                      "match: error parsing regexp",
		`[{"id":"p","models":[{"id":"m","match":{"equals":"a"},"prices":[]}]}]`:                                                                     "there are none",
		`[{"id":"p","models":[{"id":"m","match":{"equals":"a"},"prices":[{"constraint":{"type":"start_date","start_date":"soon"},"prices":{}}]}]}]`: "constraint",
	} {
		if _, err := NewTable(nil, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := NewTable(nil, []byte(`[{"id":"p","name":"P","models":[{"id":"m","match":{"or":[{"equals":"a"}]},"prices":{"input_mtok":1,"new_unit":{"x":1}}}]}]`)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"id":"p","fallback_model_providers":["p"],"models":[{"id":"m","match":{"or":[{"regex":"^(?!a)"},{"and":[]}]},"prices":{"input_mtok":{"base":1,"tiers":[{"start":1,"price":2}]}}}]}]`))
	f.Add([]byte(published[:2000]))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := NewTable(nil, b)
		if err != nil {
			return
		}
		for id := range tab.catalogue {
			if p := tab.Of("m", now, id); p != nil {
				if cost, _ := p.Cost(&Usage{Prompt: 5, Completion: 1 << 62}); cost < 0 {
					t.Fatal(cost)
				}
			}
		}
	})
}

func BenchmarkOf(b *testing.B) {
	tab, err := NewTable(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	u := Usage{Prompt: 1000, Completion: 500}
	b.ReportAllocs()
	for b.Loop() {
		tab.Of("gpt-4o-mini", now, "mine", "openai").Cost(&u)
	}
}

// Whatever parts a call's tokens have, it costs no more than the bound.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Price
		for i := range p {
			if p[i].known = rapid.Bool().Draw(t, units[i].name); p[i].known {
				p[i].base = Amount(rapid.Int64Range(0, 100*int64(Dollar)).Draw(t, "price"))
			}
		}
		n := func(most int64, name string) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		u := Usage{Prompt: n(1e6, "prompt"), Completion: n(1e6, "completion"), Pages: n(1000, "pages"), Milliseconds: n(1e8, "heard")}
		u.CacheRead = n(u.Prompt, "read")
		u.CacheWrite = n(u.Prompt-u.CacheRead, "written")
		u.CacheHour = n(u.CacheWrite, "for an hour")
		u.Reasoning = n(u.Completion, "reasoning")
		audio := rapid.Bool().Draw(t, "audio")
		if audio {
			u.AudioIn, u.AudioOut = n(u.Prompt, "heard"), n(u.Completion, "spoken")
		}
		cost, known := p.Cost(&u)
		most := Usage{Prompt: u.Prompt, Completion: u.Completion, Pages: u.Pages, Milliseconds: u.Milliseconds}
		bound, ok := p.Bound(&most, audio)
		if known && cost > bound+Amount(len(units)) { // each part is rounded
			t.Fatalf("%d, and at most %d", cost, bound)
		}
		if _, priced := p.Cost(&most); ok && bound > 0 && !priced && !audio && p[prompts].known && p[completions].known {
			t.Fatalf("a bound of %d for what has no price", bound)
		}
	})
}

func TestABoundOfWhatHasNoPriceIsNotKnown(t *testing.T) {
	priced := func(units map[string]string) *Price {
		p, err := ParsePrice(units)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, c := range map[string]struct {
		price map[string]string
		u     Usage
		known bool
	}{
		"of both":                {map[string]string{"input_mtok": "1", "output_mtok": "2"}, Usage{Prompt: 1, Completion: 1}, true},
		"of an answer only":      {map[string]string{"output_mtok": "2"}, Usage{Prompt: 1, Completion: 1}, false},
		"of a prompt only":       {map[string]string{"input_mtok": "2"}, Usage{Prompt: 1, Completion: 1}, false},
		"without an answer":      {map[string]string{"input_mtok": "2"}, Usage{Prompt: 1}, true},
		"of hours":               {map[string]string{"input_audio_hours": "0.36"}, Usage{Prompt: 1, Completion: 1, Milliseconds: 1}, true},
		"of pages":               {map[string]string{"input_document_kpages": "1"}, Usage{Pages: 1}, true},
		"of calls":               {map[string]string{"requests_kcount": "1"}, Usage{Prompt: 1, Completion: 1}, true},
		"of what is no text":     {map[string]string{"input_mtok": "1", "output_audio_mtok": "2"}, Usage{Prompt: 1, Completion: 1}, false},
		"more than there can be": {map[string]string{"input_mtok": "1000000", "output_mtok": "2"}, Usage{Prompt: 1 << 53, Completion: 1 << 53}, true},
	} {
		bound, known := priced(c.price).Bound(&c.u, false)
		if known != c.known || known && bound <= 0 {
			t.Errorf("%s: %d, %v", name, bound, known)
		}
	}
}

// A version stands for the same prices, and changes with each of them.
func TestVersionsTellPricesApart(t *testing.T) {
	price := func(usd string) *Price {
		p, err := ParsePrice(map[string]string{"input_mtok": usd})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	own := func(provider, model, usd string) string {
		return table(t, Override{provider, model, price(usd)}).Version()
	}
	if a, b := own("p", "m", "1"), own("p", "m", "1"); a != b || len(a) != 12 {
		t.Errorf("the same prices have the versions %q and %q", a, b)
	}
	other, err := NewTable(nil, []byte("[]"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for name, version := range map[string]string{
		"the list": table(t).Version(), "another list": other.Version(), "a price": own("p", "m", "1"), "another price": own("p", "m", "2"),
		"of another model": own("p", "n", "1"), "of another provider": own("q", "m", "1"),
	} {
		if seen[version] != "" {
			t.Errorf("%s has the version of %s", name, seen[version])
		}
		seen[version] = name
	}
	if v := (*Table)(nil).Version(); v != "" {
		t.Errorf("no table has the version %q", v)
	}
}
