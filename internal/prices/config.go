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
	name       string // in pay_as_you_go
	additional bool   // it is one of its additional_units
	counted    string // how many a call had, in expressions of calculate
	size       uint64 // how much of what the unit counts is one
}

// titles are those of the units, in their order. Those that are additional are named by the gateway: they are
// not in the table of units that pricing documents share.
var titles = [len(units)]title{
	{"request_token", false, "input_tokens", 1},
	{"cache_read_input_token", false, "cache_read_tokens", 1},
	{"cache_write_input_token", false, "cache_write_tokens", 1},
	{"cache_write_1h_input_token", true, "cache_write_1h_tokens", 1},
	{"request_audio_token", false, "request_audio_tokens", 1},
	{"request_image_token", false, "request_image_tokens", 1},
	{"response_token", false, "output_tokens", 1},
	{"response_audio_token", false, "response_audio_tokens", 1},
	{"response_image_token", false, "response_image_tokens", 1},
	{"reasoning_token", false, "reasoning_tokens", 1},
	{"request", true, "requests", 1},
	{"document_page", true, "document_pages", 1},
	{"audio_second", true, "audio_seconds", thousand},
	{"web_search", true, "web_searches", 1},
	{"file_search", true, "file_searches", 1},
}

const additionalUnits = "additional_units"

// ConfigNames returns the names of prices in a pricing_config: those of pay_as_you_go, and of
// its additional_units.
func ConfigNames() (names, additional []string) {
	for _, t := range titles {
		if t.additional {
			additional = append(additional, t.name)
		} else {
			names = append(names, t.name)
		}
	}
	return names, additional
}

// titled returns the unit with a name, or -1.
func titled(name string, additional bool) int {
	return slices.IndexFunc(titles[:], func(t title) bool { return t.name == name && t.additional == additional })
}

// A Rate is the price of a unit in US cents.
type Rate struct {
	Name       string // as in [ConfigNames]
	Additional bool   // it is one of the additional_units
	Counted    string // what is multiplied by it, such as input_tokens
	Answer     bool   // it is part of an answer
	Cents      float64
	Tiers      []Tier
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
			Name: titles[i].name, Additional: titles[i].additional, Counted: titles[i].counted,
			Answer: i == completions || within(i, completions), Cents: cents(p[i].base),
		}
		for _, s := range p[i].steps {
			r.Tiers = append(r.Tiers, Tier{s.above, cents(s.price)})
		}
		all = append(all, r)
	}
	return all
}

// ParseConfig parses a pricing_config of a model: {"type": "static", "pay_as_you_go": {…}},
// with the price of each unit in US cents for one of it.
func ParseConfig(raw []byte) (*Price, error) {
	var config struct {
		Type       string                     `json:"type"`
		PayAsYouGo map[string]json.RawMessage `json:"pay_as_you_go"`
	}
	if err := unmarshal(raw, &config); err != nil || config.Type != "static" || config.PayAsYouGo == nil {
		return nil, errors.New("expected type static, and pay_as_you_go, and nothing else")
	}
	p := new(Price)
	err := eachUnit(config.PayAsYouGo, func(name string, i int, raw json.RawMessage) error {
		var token struct {
			Price json.RawMessage `json:"price"`
		}
		if i < 0 {
			return unknownUnit(name)
		}
		if err := unmarshal(raw, &token); err != nil || token.Price == nil {
			return fmt.Errorf("%s: expected an object with a price", name)
		}
		cents, err := parseDecimal(string(token.Price))
		if err != nil {
			return fmt.Errorf("%s.price: expected US cents for one, such as 0.003, got %.40q", name, token.Price)
		}
		picos := cents.Mul(cents, big.NewRat(int64(Dollar/100), int64(titles[i].size)))
		picos.Mul(picos, big.NewRat(int64(units[i].per), 1)).Add(picos, big.NewRat(1, 2))
		whole := new(big.Int).Quo(picos.Num(), picos.Denom())
		if whole.Cmp(big.NewInt(maxDollars*int64(Dollar))) > 0 {
			return fmt.Errorf("%s.price: expected at most %d US dollars for %d", name, maxDollars, units[i].per/titles[i].size)
		}
		p[i] = rate{known: true, base: Amount(whole.Int64())}
		return nil
	})
	if err == nil && len(p.Rates()) == 0 {
		names, _ := ConfigNames()
		err = fmt.Errorf("expected at least one price, of %s", strings.Join(names, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("pay_as_you_go: %w", err)
	}
	return p, nil
}

// eachUnit calls f with every member of an object of units that is not null, those of
// additional_units included, in the order of their names. The unit is -1 if there is none of
// the name.
func eachUnit(all map[string]json.RawMessage, f func(name string, unit int, raw json.RawMessage) error) error {
	each := func(all map[string]json.RawMessage, prefix string) error {
		for _, name := range sortedKeys(all) {
			if raw := all[name]; string(raw) != "null" && (prefix != "" || name != additionalUnits) {
				if err := f(prefix+name, titled(name, prefix != ""), raw); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var additional map[string]json.RawMessage
	if raw, ok := all[additionalUnits]; ok {
		if err := unmarshal(raw, &additional); err != nil {
			return fmt.Errorf("%s: expected an object", additionalUnits)
		}
	}
	if err := each(all, ""); err != nil {
		return err
	}
	return each(additional, additionalUnits+".")
}

func sortedKeys(all map[string]json.RawMessage) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func unknownUnit(name string) error {
	names, additional := ConfigNames()
	if rest, ok := strings.CutPrefix(name, additionalUnits+"."); ok {
		return fmt.Errorf("%s: %.40q is not counted; expected one of %s", additionalUnits, rest, strings.Join(additional, ", "))
	}
	return fmt.Errorf("%.40q is not counted; expected one of %s", name, strings.Join(append(names, additionalUnits), ", "))
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
