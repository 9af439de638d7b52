package prices

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// A title is what the control plane calls a unit, and what of it has the price, which it has
// in US cents.
type title struct {
	name    string
	in      Place
	counted string // how many a call had, in expressions of calculate
	size    uint64 // how much of what the unit counts is one
}

// A Place is the object of a pricing_config that has the price of a unit.
type Place string

// The places: additional_units is a member of pay_as_you_go.
const (
	PayAsYouGo      Place = "pay_as_you_go"
	AdditionalUnits Place = "additional_units"
	FinetuneConfig  Place = "finetune_config"
)

// titles are those of the units, in their order. Those that are additional are named by the gateway: they are
// not in the table of units that pricing documents share.
var titles = [len(units)]title{
	{"request_token", PayAsYouGo, "input_tokens", 1},
	{"cache_read_input_token", PayAsYouGo, "cache_read_tokens", 1},
	{"cache_write_input_token", PayAsYouGo, "cache_write_tokens", 1},
	{"cache_write_1h_input_token", AdditionalUnits, "cache_write_1h_tokens", 1},
	{"request_audio_token", PayAsYouGo, "request_audio_tokens", 1},
	{"request_image_token", PayAsYouGo, "request_image_tokens", 1},
	{"response_token", PayAsYouGo, "output_tokens", 1},
	{"response_audio_token", PayAsYouGo, "response_audio_tokens", 1},
	{"response_image_token", PayAsYouGo, "response_image_tokens", 1},
	{"reasoning_token", PayAsYouGo, "reasoning_tokens", 1},
	{"request", AdditionalUnits, "requests", 1},
	{"document_page", AdditionalUnits, "document_pages", 1},
	{"audio_second", AdditionalUnits, "audio_seconds", thousand},
	{"web_search", AdditionalUnits, "web_searches", 1},
	{"file_search", AdditionalUnits, "file_searches", 1},
	{"pay_per_token", FinetuneConfig, "trained_tokens", 1},
}

// ConfigNames returns the names of the prices in a place of a pricing_config.
func ConfigNames(in Place) (names []string) {
	for _, t := range titles {
		if t.in == in {
			names = append(names, t.name)
		}
	}
	return names
}

// titled returns the unit with a name in a place, or -1.
func titled(name string, in Place) int {
	return slices.IndexFunc(titles[:], func(t title) bool { return t.name == name && t.in == in })
}

// A Rate is the price of a unit in US cents.
type Rate struct {
	Name    string // as in [ConfigNames]
	In      Place
	Counted string // what is multiplied by it, such as input_tokens
	Answer  bool   // it is part of an answer
	Cents   float64
	Tiers   []Tier
}

// A Tier is the price of a unit in calls whose prompt has more tokens.
type Tier struct {
	Above int64
	Cents float64
}

// Rates returns the prices of the units that have one.
func (p *Price) Rates() []Rate {
	var all []Rate
	for i := range p {
		if !p[i].known {
			continue
		}
		cents := func(a Amount) float64 {
			f, _ := new(big.Rat).Mul(big.NewRat(int64(a), int64(Dollar/100)), big.NewRat(int64(titles[i].size), int64(units[i].per))).Float64()
			return f
		}
		r := Rate{
			Name: titles[i].name, In: titles[i].in, Counted: titles[i].counted,
			Answer: i == completions || within(i, completions), Cents: cents(p[i].base),
		}
		for _, s := range p[i].steps {
			r.Tiers = append(r.Tiers, Tier{s.above, cents(s.price)})
		}
		all = append(all, r)
	}
	return all
}

// ParseConfig parses a pricing_config of a model: {"type": "static", "pay_as_you_go": {…}, "finetune_config": {…}}, of which the
// last may be missing, with the price of each unit in US cents for one of it.
func ParseConfig(raw []byte) (*Price, error) {
	var config struct {
		Type       string                     `json:"type"`
		PayAsYouGo map[string]json.RawMessage `json:"pay_as_you_go"`
		Finetune   map[string]json.RawMessage `json:"finetune_config"`
	}
	if err := unmarshal(raw, &config); err != nil || config.Type != "static" || config.PayAsYouGo == nil {
		return nil, errors.New("expected type static, pay_as_you_go, and finetune_config or nothing else")
	}
	p := new(Price)
	set := func(in Place) func(name string, i int, raw json.RawMessage) error {
		return func(name string, i int, raw json.RawMessage) error {
			if i < 0 {
				return unknownUnit(in, name)
			}
			return p.setUnit(name, i, raw)
		}
	}
	err := eachUnit(config.PayAsYouGo, set(PayAsYouGo))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PayAsYouGo, err)
	}
	if err = eachIn(FinetuneConfig, config.Finetune, set(FinetuneConfig)); err != nil {
		return nil, fmt.Errorf("%s: %w", FinetuneConfig, err)
	}
	if len(p.Rates()) == 0 {
		return nil, fmt.Errorf("%s: expected at least one price, of %s", PayAsYouGo, strings.Join(ConfigNames(PayAsYouGo), ", "))
	}
	return p, nil
}

// setUnit sets the price of a unit to an object that has it.
func (p *Price) setUnit(name string, i int, raw json.RawMessage) error {
	var one struct {
		Price json.RawMessage `json:"price"`
	}
	if err := unmarshal(raw, &one); err != nil || one.Price == nil {
		return fmt.Errorf("%s: expected an object with a price", name)
	}
	cents, err := parseDecimal(string(one.Price))
	if err != nil {
		return fmt.Errorf("%s.price: expected US cents for one, such as 0.003, got %.40q", name, one.Price)
	}
	picos := cents.Mul(cents, big.NewRat(int64(Dollar/100), int64(titles[i].size)))
	picos.Mul(picos, big.NewRat(int64(units[i].per), 1)).Add(picos, big.NewRat(1, 2))
	whole := new(big.Int).Quo(picos.Num(), picos.Denom())
	if whole.Cmp(big.NewInt(maxDollars*int64(Dollar))) > 0 {
		return fmt.Errorf("%s.price: expected at most %d US dollars for %d", name, maxDollars, units[i].per/titles[i].size)
	}
	p[i] = rate{known: true, base: Amount(whole.Int64())}
	return nil
}

// eachUnit calls f with every member of an object of units that is not null, those of
// additional_units included, in the order of their names. The unit is -1 if there is none of
// the name.
func eachUnit(all map[string]json.RawMessage, f func(name string, unit int, raw json.RawMessage) error) error {
	var additional map[string]json.RawMessage
	if raw, ok := all[string(AdditionalUnits)]; ok {
		if err := unmarshal(raw, &additional); err != nil {
			return fmt.Errorf("%s: expected an object", AdditionalUnits)
		}
	}
	if err := eachIn(PayAsYouGo, all, f); err != nil {
		return err
	}
	return eachIn(AdditionalUnits, additional, f)
}

// eachIn is eachUnit of the members of one place.
func eachIn(in Place, all map[string]json.RawMessage, f func(name string, unit int, raw json.RawMessage) error) error {
	for _, name := range sortedKeys(all) {
		raw, shown := all[name], name
		switch {
		case string(raw) == "null", in == PayAsYouGo && name == string(AdditionalUnits):
			continue
		case in == AdditionalUnits:
			shown = string(AdditionalUnits) + "." + name
		}
		if err := f(shown, titled(name, in), raw); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(all map[string]json.RawMessage) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// unknownUnit is the error of a member, as [eachUnit] names it, that is no unit.
func unknownUnit(in Place, name string) error {
	if rest, ok := strings.CutPrefix(name, string(AdditionalUnits)+"."); ok {
		return fmt.Errorf("%s: %.40q is not counted; expected one of %s", AdditionalUnits, rest, strings.Join(ConfigNames(AdditionalUnits), ", "))
	}
	names := ConfigNames(in)
	if in == PayAsYouGo {
		names = append(names, string(AdditionalUnits))
	}
	return fmt.Errorf("%.40q is not counted; expected one of %s", name, strings.Join(names, ", "))
}

// unmarshal decodes one JSON value with no member that v does not have.
func unmarshal(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// decimal matches numbers of JSON that are not negative, with exponents and digits that big.Rat
// can hold in little memory.
var decimal = regexp.MustCompile(`^\d{1,16}(\.\d{1,24})?([eE][+-]?\d{1,2})?$`)

func parseDecimal(s string) (*big.Rat, error) {
	if !decimal.MatchString(s) {
		return nil, errors.New("not a decimal")
	}
	r, _ := new(big.Rat).SetString(s)
	return r, nil
}
