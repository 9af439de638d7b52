package prices

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// maxDollars bounds the price of a unit, so that an [Amount] can hold it.
const maxDollars = 1_000_000

// ParseAmount parses US dollars in decimal, such as 0.075, and rounds to pico-dollars.
func ParseAmount(s string) (Amount, error) {
	if len(s) > 40 || strings.ContainsAny(s, "/_xXpP") { // which big.Rat would accept
		return 0, fmt.Errorf("expected US dollars, such as 0.15, got %.40q", s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || r.Sign() < 0 || r.Cmp(big.NewRat(maxDollars, 1)) > 0 {
		return 0, fmt.Errorf("expected US dollars from 0 to %d, such as 0.15, got %q", maxDollars, s)
	}
	r.Mul(r, big.NewRat(int64(Dollar), 1))
	r.Add(r, big.NewRat(1, 2))
	return Amount(new(big.Int).Quo(r.Num(), r.Denom()).Int64()), nil
}

// ParsePrice parses the prices of units in US dollars.
func ParsePrice(dollars map[string]string) (*Price, error) {
	p := new(Price)
	for name, s := range dollars {
		i := slices.IndexFunc(units[:], func(u unit) bool { return u.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s: expected one of %s", name, strings.Join(Units(), ", "))
		}
		amount, err := ParseAmount(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p[i] = rate{known: true, base: amount}
	}
	if len(dollars) == 0 {
		return nil, fmt.Errorf("expected at least one price, of %s", strings.Join(Units(), ", "))
	}
	return p, nil
}

// A catalogue has the prices of providers, by their ids in genai-prices.
type catalogue map[string]*provider

type provider struct {
	models    func() []model // the first that matches is used
	fallbacks []string
}

type model struct {
	Model

	matches func(lower string) bool
	prices  []dated // the last that applies is used
}

// A dated price applies from a day on, or at hours of the day.
type dated struct {
	price *Price
	holds func(time.Time) bool // nil: always
}

//go:embed data.json
var published string

// parse parses a catalogue in the form of genai-prices' data.json. It ignores what it does
// not know, such as new units.
func parse(data []byte) (catalogue, error) {
	var all []struct {
		ID        string          `json:"id"`
		Fallbacks []string        `json:"fallback_model_providers"`
		Models    json.RawMessage `json:"models"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("expected a JSON array of providers with their models, as genai-prices publishes it: %w", err)
	}
	c := make(catalogue, len(all))
	for _, p := range all {
		models, err := parseModels(p.Models)
		if err != nil {
			return nil, fmt.Errorf("provider %s%w", p.ID, err)
		}
		c[p.ID] = &provider{func() []model { return models }, p.Fallbacks}
	}
	return c, nil
}

// index finds the providers of the build's own catalogue, and parses the models of one when they
// are first needed: most gateways have a few providers, and the models of all of them took 3 MB.
func index(data string) catalogue {
	c := make(catalogue)
	for _, p := range gjson.Parse(data).Array() {
		id, models := p.Get("id").Str, p.Get("models").Raw
		var fallbacks []string
		for _, f := range p.Get("fallback_model_providers").Array() {
			fallbacks = append(fallbacks, f.Str)
		}
		c[id] = &provider{sync.OnceValue(func() []model {
			parsed, err := parseModels([]byte(models))
			if err != nil {
				panic("data.json: provider " + id + err.Error()) // it is part of the program
			}
			return parsed
		}), fallbacks}
	}
	return c
}

// parseModels parses the models of a provider. The message of an error follows the provider's name.
func parseModels(data []byte) ([]model, error) {
	var all []struct {
		ID            string          `json:"id"`
		Name          string          `json:"name"`
		ContextWindow int64           `json:"context_window"`
		Deprecated    bool            `json:"deprecated"`
		Match         match           `json:"match"`
		Prices        json.RawMessage `json:"prices"`
	}
	if len(data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf(": models: %w", err)
	}
	models := make([]model, 0, len(all))
	for _, m := range all {
		prices, err := parseDated(m.Prices)
		if err == nil && m.Match.test == nil {
			err = fmt.Errorf("match: it is missing")
		}
		if err != nil {
			return nil, fmt.Errorf(", model %s: %w", m.ID, err)
		}
		about := Model{ID: m.ID, Name: m.Name, ContextWindow: max(m.ContextWindow, 0), Deprecated: m.Deprecated}
		if err := about.readUnits(m.Prices); err != nil {
			return nil, fmt.Errorf(", model %s: %w", m.ID, err)
		}
		models = append(models, model{about, m.Match.test, prices})
	}
	return models, nil
}

func parseDated(raw json.RawMessage) ([]dated, error) {
	if len(raw) == 0 || raw[0] != '[' {
		p, err := parseRates(raw)
		return []dated{{price: p}}, err
	}
	var all []struct {
		Constraint *struct {
			Type  string `json:"type"`
			Date  string `json:"start_date"`
			Start string `json:"start_time"`
			End   string `json:"end_time"`
		} `json:"constraint"`
		Prices json.RawMessage `json:"prices"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("prices: there are none")
	}
	out := make([]dated, len(all))
	for i, one := range all {
		p, err := parseRates(one.Prices)
		if err != nil {
			return nil, err
		}
		out[i].price = p
		c := one.Constraint
		switch {
		case c == nil:
		case c.Type == "time_of_date" || c.Start != "":
			out[i].holds, err = between(c.Start, c.End)
		default:
			out[i].holds, err = since(c.Date)
		}
		if err != nil {
			return nil, fmt.Errorf("constraint: %w", err)
		}
	}
	return out, nil
}

func since(day string) (func(time.Time) bool, error) {
	begin, err := time.Parse(time.DateOnly, day)
	return func(at time.Time) bool { return !at.Before(begin) }, err
}

// between returns whether a time is within hours of the day, which may span midnight.
func between(start, end string) (func(time.Time) bool, error) {
	ofDay := func(t time.Time) time.Duration {
		t = t.UTC()
		return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
	}
	from, err := time.Parse("15:04:05Z07:00", start)
	if err != nil {
		return nil, err
	}
	to, err := time.Parse("15:04:05Z07:00", end)
	if err != nil {
		return nil, err
	}
	a, b := ofDay(from), ofDay(to)
	return func(at time.Time) bool {
		now := ofDay(at)
		if b < a {
			return now >= a || now < b
		}
		return now >= a && now < b
	}, nil
}

func parseRates(raw json.RawMessage) (*Price, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	p := new(Price)
	for i := range units {
		given, ok := all[units[i].name]
		if !ok || string(given) == "null" {
			continue
		}
		r, err := parseRate(given)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", units[i].name, err)
		}
		p[i] = r
	}
	return p, nil
}

func parseRate(raw json.RawMessage) (rate, error) {
	if raw[0] != '{' {
		base, err := ParseAmount(string(raw))
		return rate{known: true, base: base}, err
	}
	var tiered struct {
		Base  json.Number `json:"base"`
		Tiers []struct {
			Start int64       `json:"start"`
			Price json.Number `json:"price"`
		} `json:"tiers"`
	}
	if err := json.Unmarshal(raw, &tiered); err != nil {
		return rate{}, err
	}
	base, err := ParseAmount(tiered.Base.String())
	if err != nil {
		return rate{}, err
	}
	r := rate{known: true, base: base}
	for _, t := range tiered.Tiers {
		price, err := ParseAmount(t.Price.String())
		if err != nil {
			return rate{}, err
		}
		r.steps = append(r.steps, step{t.Start, price})
	}
	slices.SortFunc(r.steps, func(a, b step) int { return int(min(1, max(-1, a.above-b.above))) })
	return r, nil
}

// A match is a condition on a model's name: {"equals": "…"}, starts_with, ends_with,
// contains, regex, or {"or": […]} and {"and": […]} of them.
type match struct{ test func(lower string) bool }

// UnmarshalJSON parses a condition, or several, each with one member.
func (m *match) UnmarshalJSON(b []byte) error {
	var one map[string]json.RawMessage
	if err := json.Unmarshal(b, &one); err != nil {
		return fmt.Errorf("match: %w", err)
	}
	for name, raw := range one {
		if len(one) > 1 {
			break
		}
		if name == "or" || name == "and" {
			var inner []match
			if err := json.Unmarshal(raw, &inner); err != nil {
				return err
			}
			either := name == "or"
			m.test = func(s string) bool {
				for _, i := range inner {
					if i.test(s) == either {
						return either
					}
				}
				return !either
			}
			return nil
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("match: %w", err)
		}
		return m.onText(name, text)
	}
	return fmt.Errorf("match: expected an object with one member, got %.60q", b)
}

func (m *match) onText(name, text string) error {
	lower := strings.ToLower(text)
	switch name {
	case "equals":
		m.test = func(s string) bool { return s == lower }
	case "starts_with":
		m.test = func(s string) bool { return strings.HasPrefix(s, lower) }
	case "ends_with":
		m.test = func(s string) bool { return strings.HasSuffix(s, lower) }
	case "contains":
		m.test = func(s string) bool { return strings.Contains(s, lower) }
	case "regex":
		// Go's expressions have no lookahead. Here it is only used as a whole expression,
		// to say what the name must not begin with.
		inner, not := strings.CutPrefix(text, "^(?!")
		if not {
			inner = "^(?:" + inner
		}
		re, err := regexp.Compile("(?i)" + inner)
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		m.test = func(s string) bool { return re.MatchString(s) != not }
	default:
		return fmt.Errorf("match: expected equals, starts_with, ends_with, contains, regex, or, and; got %.40q", name)
	}
	return nil
}
