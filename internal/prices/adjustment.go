package prices

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

// An Adjustment multiplies the prices of units: the pricing_adjustments of an integration or of
// one of its models. A nil one changes nothing.
type Adjustment [len(units)]multiplier

// A multiplier is in billionths.
type multiplier uint64

const one multiplier = 1e9

const maxMultiplier = 1000

// unitsOfParts are names of multipliers for what is not counted apart, with the unit that it is
// counted in. They cannot differ from that.
var unitsOfParts = map[string]int{
	"request_text_token": prompts, "cache_read_text_input_token": cached, "cache_read_image_input_token": cached, "cache_read_audio_input_token": cached,
	"cache_write_text_input_token": written, "cache_write_image_input_token": written,
	"response_text_token": completions, "prediction_accepted_token": completions, "prediction_rejected_token": completions,
}

// MultiplierNames are the names of multipliers, besides default, image and additional_units.
func MultiplierNames() []string {
	names := ConfigNames(PayAsYouGo)
	for name := range unitsOfParts {
		names = append(names, name)
	}
	return names
}

// ParseAdjustment parses pricing_adjustments: {"multiplier": {…}}, with a number for each unit.
// A unit without one has the default, which is 1 if there is none.
func ParseAdjustment(raw []byte) (*Adjustment, error) {
	var config struct {
		Multiplier map[string]json.RawMessage `json:"multiplier"`
	}
	if err := unmarshal(raw, &config); err != nil {
		return nil, errors.New("expected an object with multiplier, an object, and nothing else")
	}
	a, err := parseMultipliers(config.Multiplier)
	if err != nil {
		return nil, fmt.Errorf("multiplier.%w", err)
	}
	return a, nil
}

func parseMultipliers(all map[string]json.RawMessage) (*Adjustment, error) {
	const unit, image = "default", "image"
	whole := one
	var err error
	if raw, ok := all[unit]; ok && string(raw) != "null" {
		if whole, err = parseMultiplier(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", unit, err)
		}
	}
	a := new(Adjustment)
	var given [len(units)]bool
	parts := make(map[string]multiplier)
	var images map[string]json.RawMessage
	err = eachUnit(all, func(name string, i int, raw json.RawMessage) error {
		_, part := unitsOfParts[name]
		switch {
		case name == unit:
			return nil
		case name == image:
			if err := unmarshal(raw, &images); err != nil {
				return errors.New("image: expected an object with default")
			}
			return nil
		case i < 0 && !part:
			return unknownUnit(PayAsYouGo, name)
		}
		m, err := parseMultiplier(raw)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case part:
			parts[name] = m
		default:
			a[i], given[i] = m, true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range a {
		switch of := units[i].partOf; {
		case given[i]:
		case titles[i].in == AdditionalUnits && of >= 0: // a part without a price of its own
			a[i] = a[of]
		default:
			a[i] = whole
		}
	}
	for name, m := range parts {
		if of := unitsOfParts[name]; m != a[of] {
			return nil, fmt.Errorf("%s: these tokens are not counted apart; leave it out, or give it what %s has", name, titles[of].name)
		}
	}
	for name, raw := range images {
		if name != unit {
			return nil, fmt.Errorf("image: %.40q is not known; expected default", name)
		}
		if m, err := parseMultiplier(raw); string(raw) != "null" && (err != nil || m != whole) {
			return nil, errors.New("image.default: images are not counted apart; leave it out, or give it what default has")
		}
	}
	return a, nil
}

func parseMultiplier(raw json.RawMessage) (multiplier, error) {
	r, err := parseDecimal(string(raw))
	if err != nil || r.Cmp(big.NewRat(maxMultiplier, 1)) > 0 {
		return 0, fmt.Errorf("expected a number from 0 to %d, such as 0.8, got %.40q", maxMultiplier, raw)
	}
	r.Mul(r, big.NewRat(int64(one), 1)).Add(r, big.NewRat(1, 2))
	return multiplier(new(big.Int).Quo(r.Num(), r.Denom()).Uint64()), nil
}

// Of returns what a price comes to, or nil if there is no price.
func (a *Adjustment) Of(p *Price) *Price {
	if a == nil || p == nil {
		return p
	}
	adjusted := new(Price)
	for i := range p {
		from := i
		for !p[from].known && units[from].partOf >= 0 {
			from = units[from].partOf
		}
		// Without a price of its own, a unit has that of the one that it is part of, but its own
		// multiplier.
		if r := &p[from]; r.known {
			adjusted[i] = r.times(a[i])
		}
	}
	return adjusted
}

func (r *rate) times(m multiplier) rate {
	out := rate{known: true, base: times(int64(m), r.base, uint64(one))}
	for _, s := range r.steps {
		out.steps = append(out.steps, step{s.above, times(int64(m), s.price, uint64(one))})
	}
	return out
}
