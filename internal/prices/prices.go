// Package prices says what calls to models cost, at list prices.
//
// A [Table] has the prices of the operator, and below them those of data.json, which
// Pydantic's genai-prices publishes (MIT; `make prices` renews it). They are US dollars
// of the providers' standard tier: neither discounts nor what batches or service tiers
// differ by are in them.
//
// Money is in whole pico-dollars ([Amount]): a price of up to six decimals a million
// tokens is exact, and so is every sum.
package prices

import (
	"math"
	"math/bits"
)

// An Amount is money, in pico-dollars (10⁻¹² US dollars). Amounts end at [MaxAmount]
// rather than overflow.
type Amount int64

// Amounts by which others are made and bounded.
const (
	Dollar    Amount = 1e12
	MaxAmount Amount = math.MaxInt64 // 9.2 million dollars
)

// Dollars is the amount in US dollars.
func (a Amount) Dollars() float64 { return float64(a) / float64(Dollar) }

// Cents is the amount in US cents.
func (a Amount) Cents() float64 { return float64(a) / float64(Dollar/100) }

// FromCents is an amount of US cents, which are not negative.
func FromCents(cents float64) Amount {
	if pico := math.Round(cents * float64(Dollar/100)); pico < float64(MaxAmount) {
		return Amount(pico)
	}
	return MaxAmount
}

// Plus is the sum of two amounts that are not negative.
func (a Amount) Plus(b Amount) Amount {
	if a > MaxAmount-b {
		return MaxAmount
	}
	return a + b
}

// Usage is what a call used.
type Usage struct {
	Prompt     int64 // tokens; of them:
	CacheRead  int64
	CacheWrite int64 // and of these, for an hour:
	CacheHour  int64
	AudioIn    int64
	ImageIn    int64

	Completion int64 // tokens; of them:
	AudioOut   int64
	ImageOut   int64
	Reasoning  int64

	Pages        int64 // of documents
	Milliseconds int64 // of audio that was heard
}

// Settle makes the completion include its reasoning, as most providers have it. Some count
// it beside the completion: then their total says so.
func (u *Usage) Settle(total int64) {
	if u.Reasoning > 0 && total == u.Prompt+u.Completion+u.Reasoning {
		u.Completion += u.Reasoning
	}
}

// Bound makes no part more than what it is part of.
func (u *Usage) Bound() {
	for _, part := range []*int64{&u.CacheRead, &u.CacheWrite, &u.AudioIn, &u.ImageIn} {
		*part = min(*part, u.Prompt)
	}
	u.CacheHour = min(u.CacheHour, u.CacheWrite)
	for _, part := range []*int64{&u.AudioOut, &u.ImageOut, &u.Reasoning} {
		*part = min(*part, u.Completion)
	}
}

// A unit is something that has a price.
type unit struct {
	name   string // of the price: US dollars for so many
	per    uint64 // of what count counts
	partOf int    // index of the unit that counts it too, and whose price it has where it has none; -1: none
	free   bool   // who has no price for it does not charge it
	count  func(*Usage) int64
}

// The units, with what is part of another behind it: the prompt is the first. Their names
// are genai-prices'.
var units = [...]unit{
	{"input_mtok", million, -1, false, func(u *Usage) int64 { return u.Prompt }},
	{"cache_read_mtok", million, prompts, false, func(u *Usage) int64 { return u.CacheRead }},
	{"cache_write_mtok", million, prompts, false, func(u *Usage) int64 { return u.CacheWrite }},
	{"cache_write_1h_mtok", million, written, false, func(u *Usage) int64 { return u.CacheHour }},
	{"input_audio_mtok", million, prompts, false, func(u *Usage) int64 { return u.AudioIn }},
	{"input_image_mtok", million, prompts, false, func(u *Usage) int64 { return u.ImageIn }},
	{"output_mtok", million, -1, false, func(u *Usage) int64 { return u.Completion }},
	{"output_audio_mtok", million, completions, false, func(u *Usage) int64 { return u.AudioOut }},
	{"output_image_mtok", million, completions, false, func(u *Usage) int64 { return u.ImageOut }},
	{"output_reasoning_mtok", million, completions, false, func(u *Usage) int64 { return u.Reasoning }},
	{"requests_kcount", thousand, -1, true, func(*Usage) int64 { return 1 }},
	{"input_document_kpages", thousand, -1, true, func(u *Usage) int64 { return u.Pages }},
	{"input_audio_hours", 3600 * thousand, -1, true, func(u *Usage) int64 { return u.Milliseconds }},
}

// Indices of units that others are part of.
const (
	prompts     = 0
	written     = 2
	completions = 6
	calls       = 10
)

const (
	thousand = 1000
	million  = 1e6
)

// Units are the names of what can have a price, such as input_mtok: US dollars for a
// million tokens of the prompt.
func Units() []string {
	names := make([]string, len(units))
	for i := range units {
		names[i] = units[i].name
	}
	return names
}

// A Price is what a model costs.
type Price [len(units)]rate

// A rate is the price of a unit.
type rate struct {
	known bool
	base  Amount // for as many as the unit's per
	steps []step // rising
}

// A step is the price of a unit in calls with a long prompt: of all of it.
type step struct {
	above int64 // tokens of the prompt
	price Amount
}

// of is the rate in a call with a prompt of so many tokens.
func (r *rate) of(prompt int64) Amount {
	price := r.base
	for _, s := range r.steps {
		if prompt > s.above {
			price = s.price
		}
	}
	return price
}

// OnlyCalls reports whether a call costs the same, whatever it uses.
func (p *Price) OnlyCalls() bool {
	for i := range p {
		if p[i].known != (i == calls) {
			return false
		}
	}
	return true
}

// Cost is what a call cost; known: the model has a price for all that was used. Parts
// count as far as the whole goes. Who charges neither prompts nor completions gives them
// for free.
func (p *Price) Cost(u *Usage) (cost Amount, known bool) {
	var rest [len(units)]int64 // what is of no other unit
	for i := range units {
		n := max(0, units[i].count(u))
		if of := units[i].partOf; of >= 0 {
			n = min(n, rest[of])
			rest[of] -= n
		}
		rest[i] = n
	}
	charged, tokens := false, p[prompts].known || p[completions].known
	for i := range units {
		if rest[i] == 0 {
			continue
		}
		by := i
		for !p[by].known && units[by].partOf >= 0 {
			by = units[by].partOf
		}
		switch {
		case p[by].known:
			charged = true
			cost = cost.Plus(times(rest[i], p[by].of(u.Prompt), units[by].per))
		case tokens && !units[i].free:
			return 0, false
		}
	}
	return cost, charged || *u == Usage{}
}

// times is n × price / per, rounded to the nearest.
func times(n int64, price Amount, per uint64) Amount {
	high, low := bits.Mul64(uint64(n), uint64(price))
	if high >= per {
		return MaxAmount
	}
	q, r := bits.Div64(high, low, per)
	if r >= per-r {
		q++
	}
	return Amount(min(q, uint64(MaxAmount)))
}
