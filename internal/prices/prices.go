// Package prices computes what calls to models cost, at list prices.
//
// A [Table] has the prices set by the operator and, as a fallback, those of data.json,
// which is published by Pydantic's genai-prices (MIT; `make prices` renews it). They are US
// dollars of the providers' standard tier, without discounts: the list has no prices of service
// tiers, and of batches only where a provider has a model of its own for them.
//
// Amounts are whole pico-dollars ([Amount]), so that a price with up to six decimals for a
// million tokens is exact, and so are all sums.
package prices

import (
	"math"
	"math/bits"
	"strings"
)

// An Amount is money, in pico-dollars (10⁻¹² US dollars). Amounts saturate at [MaxAmount].
type Amount int64

// Amounts by which others are made and bounded.
const (
	Dollar    Amount = 1e12
	MaxAmount Amount = math.MaxInt64 // 9.2 million dollars
)

// Dollars returns the amount in US dollars.
func (a Amount) Dollars() float64 { return float64(a) / float64(Dollar) }

// Cents returns the amount in US cents.
func (a Amount) Cents() float64 { return float64(a) / float64(Dollar/100) }

// FromCents converts US cents, which must not be negative.
func FromCents(cents float64) Amount {
	if pico := math.Round(cents * float64(Dollar/100)); pico < float64(MaxAmount) {
		return Amount(pico)
	}
	return MaxAmount
}

// Plus returns the sum of two amounts, which must not be negative.
func (a Amount) Plus(b Amount) Amount {
	if a > MaxAmount-b {
		return MaxAmount
	}
	return a + b
}

// Usage is what a call used.
type Usage struct {
	Prompt     int64 // tokens, including:
	CacheRead  int64
	CacheWrite int64 // including, for an hour:
	CacheHour  int64
	AudioIn    int64
	ImageIn    int64
	Trained    int64 // by a fine-tuning job, which uses nothing else; their price is not that of the prompt

	Completion int64 // tokens, including:
	AudioOut   int64
	ImageOut   int64
	Reasoning  int64

	Pages        int64 // of documents
	Milliseconds int64 // of audio that was heard
	WebSearches  int64 // that the provider made
	FileSearches int64
}

// Settle makes the completion include its reasoning, as most providers report it. Some
// report reasoning separately, which shows in their total.
func (u *Usage) Settle(total int64) {
	if u.Reasoning > 0 && total == u.Prompt+u.Completion+u.Reasoning {
		u.Completion += u.Reasoning
	}
}

// Add adds what another answer of the same call used.
func (u *Usage) Add(other *Usage) {
	u.Prompt += other.Prompt
	u.CacheRead += other.CacheRead
	u.CacheWrite += other.CacheWrite
	u.CacheHour += other.CacheHour
	u.AudioIn += other.AudioIn
	u.ImageIn += other.ImageIn
	u.Trained += other.Trained
	u.Completion += other.Completion
	u.AudioOut += other.AudioOut
	u.ImageOut += other.ImageOut
	u.Reasoning += other.Reasoning
	u.Pages += other.Pages
	u.Milliseconds += other.Milliseconds
	u.WebSearches += other.WebSearches
	u.FileSearches += other.FileSearches
}

// Bound limits parts to the count that includes them.
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
	name   string // of the price: US dollars for a number of units
	per    uint64 // how much of what count returns the price is for
	partOf int    // index of the unit that includes this one, and whose price it has if it has none of its own; -1: none
	free   bool   // it is free if it has no price
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
	{"web_searches_kcount", thousand, -1, true, func(u *Usage) int64 { return u.WebSearches }},
	{"storage_searches_kcount", thousand, -1, true, func(u *Usage) int64 { return u.FileSearches }},
	{"training_mtok", million, -1, false, func(u *Usage) int64 { return u.Trained }},
}

// Indices of units that others are part of.
const (
	prompts      = 0
	cached       = 1
	written      = 2
	completions  = 6
	calls        = 10
	audioHours   = 12
	webSearches  = 13
	fileSearches = 14
	training     = 15
)

const (
	thousand = 1000
	million  = 1e6
)

// Units returns the names of the units of prices, such as input_mtok: US dollars for a
// million tokens of the prompt.
func Units() []string {
	names := make([]string, len(units))
	for i := range units {
		names[i] = units[i].name
	}
	return names
}

// A Price is the price of a model.
type Price [len(units)]rate

// A rate is the price of a unit.
type rate struct {
	known bool
	base  Amount // for per units
	steps []step // in ascending order
}

// A step is the price of a unit in calls with a long prompt. It applies to all units of the
// call.
type step struct {
	above int64 // tokens of the prompt
	price Amount
}

// of returns the rate for a call whose prompt has the given number of tokens.
func (r *rate) of(prompt int64) Amount {
	price := r.base
	for _, s := range r.steps {
		if prompt > s.above {
			price = s.price
		}
	}
	return price
}

// OnlyCalls reports whether every call costs the same.
func (p *Price) OnlyCalls() bool {
	for i := range p {
		if p[i].known != (i == calls) {
			return false
		}
	}
	return true
}

// Searches reports whether there are prices of searches of the web, and of files.
func (p *Price) Searches() (web, files bool) { return p[webSearches].known, p[fileSearches].known }

// Hears reports whether audio has a price by its duration.
func (p *Price) Hears() bool { return p[audioHours].known }

// Cost is what a call cost; known: the model has a price for all that was used. Parts
// count as far as the whole goes. Who charges neither prompts nor completions gives them
// for free.
func (p *Price) Cost(u *Usage) (cost Amount, known bool) {
	if u.Trained > 0 {
		return p.ofTraining(u)
	}
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

// Bound returns the most that so much costs, whatever part of the prompt is written to the
// provider's cache and whatever part of the completion is reasoning. Audio and images count only
// with media. known is as that of [Price.Cost].
func (p *Price) Bound(u *Usage, media bool) (bound Amount, known bool) {
	if u.Trained > 0 {
		return p.ofTraining(u)
	}
	tokens := p[prompts].known || p[completions].known
	bound, known = times(1, p[calls].of(u.Prompt), units[calls].per), true
	for whole := range units {
		if whole == calls || units[whole].partOf >= 0 {
			continue
		}
		n := max(units[whole].count(u), 0)
		var dearest Amount
		priced := false
		for i := range p {
			if p[i].known && (i == whole || within(i, whole) && (media || !ofMedia[i])) {
				dearest, priced = max(dearest, p[i].of(u.Prompt)), true
			}
		}
		if n > 0 && !priced && tokens && !units[whole].free {
			known = false
		}
		bound = bound.Plus(times(n, dearest, units[whole].per))
	}
	return bound, known
}

// ofTraining is what a fine-tuning job costs. Nothing else is charged for it.
func (p *Price) ofTraining(u *Usage) (cost Amount, known bool) {
	if !p[training].known {
		return 0, false
	}
	return times(u.Trained, p[training].base, units[training].per), true
}

// within reports whether a unit is part of another.
func within(unit, whole int) bool {
	for of := units[unit].partOf; of >= 0; of = units[of].partOf {
		if of == whole {
			return true
		}
	}
	return false
}

// ofMedia are the units of what is not text.
var ofMedia = func() (is [len(units)]bool) {
	for i, u := range units {
		is[i] = strings.Contains(u.name, "audio") || strings.Contains(u.name, "image")
	}
	return is
}()

// times returns n × price / per, rounded to the nearest integer.
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
