package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/internal/prices"
)

// An IntegrationModel is what an integration says of one model.
type IntegrationModel struct {
	Slug      string          `json:"slug"` // what the provider calls it
	Enabled   bool            `json:"enabled"`
	Custom    bool            `json:"custom,omitempty"`
	Finetune  bool            `json:"finetune,omitempty"`
	BaseModel string          `json:"base_model,omitempty"`
	Pricing   json.RawMessage `json:"pricing,omitempty"` // see ParsePricing

	// CustomHost is where the calls for it go, with the integration's key and settings, none of
	// which is a credential, and without its headers. Headers are those of the model.
	CustomHost string            `json:"custom_host,omitempty"`
	Headers    []byte            `json:"headers,omitempty"` // sealed; see [Keyring.SealHeaders]
	Hints      map[string]string `json:"hints,omitempty"`   // the headers, masked
}

// Normal is a model's name as providers may take it for the same.
func Normal(model string) string { return strings.ToLower(strings.TrimSpace(model)) }

// Model is what the integration says of a model, by its name in any letter case.
func (i *Integration) Model(slug string) (*IntegrationModel, bool) {
	for n := range i.Models {
		if Normal(i.Models[n].Slug) == Normal(slug) {
			return &i.Models[n], true
		}
	}
	return nil, false
}

func headersOf(i *Integration, model string) string {
	return "headers/" + i.ID + "/" + model
}

// SealHeaders seals the headers of a model into it.
func (k *Keyring) SealHeaders(i *Integration, m *IntegrationModel, headers map[string]string) error {
	m.Headers, m.Hints = nil, nil
	if len(headers) == 0 {
		return nil
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return err
	}
	m.Hints = make(map[string]string, len(headers))
	for name, v := range headers {
		m.Hints[name] = NewSecret(v).Hint()
	}
	m.Headers, err = k.SealText(headersOf(i, m.Slug), string(text))
	return err
}

// OpenHeaders returns what SealHeaders sealed.
func (k *Keyring) OpenHeaders(i *Integration, m *IntegrationModel) (headers map[string]string, err error) {
	if m.Headers == nil {
		return headers, nil
	}
	text, err := k.UnsealText(headersOf(i, m.Slug), m.Headers)
	if err == nil {
		err = json.Unmarshal([]byte(text), &headers)
	}
	return headers, err
}

// pricing is a pricing_config: cents for a token.
type pricing struct {
	Type       string `json:"type"`
	PayAsYouGo *struct {
		Request  *tokenPrice `json:"request_token"`
		Response *tokenPrice `json:"response_token"`
	} `json:"pay_as_you_go"`
}

type tokenPrice struct {
	Price json.Number `json:"price"`
}

// ParsePricing reads a pricing_config.
func ParsePricing(raw json.RawMessage) (*prices.Price, error) {
	var p pricing
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, errors.New("expected type static and pay_as_you_go, with a price of request_token and one of response_token")
	}
	if p.Type != "static" || p.PayAsYouGo == nil {
		return nil, errors.New("expected type static, and pay_as_you_go")
	}
	dollars := make(map[string]string, 2)
	for unit, t := range map[string]*tokenPrice{"input_mtok": p.PayAsYouGo.Request, "output_mtok": p.PayAsYouGo.Response} {
		if t == nil {
			continue
		}
		const most = 40
		cents, ok := new(big.Rat).SetString(t.Price.String())
		if len(t.Price) > most || strings.ContainsAny(t.Price.String(), "eE/_xX") && len(t.Price) > 12 || !ok {
			return nil, fmt.Errorf("pay_as_you_go: a price in cents for a token is a number, such as 0.003, got %.40q", t.Price)
		}
		// A million tokens in dollars.
		dollars[unit] = cents.Mul(cents, big.NewRat(10_000, 1)).FloatString(12)
	}
	return prices.ParsePrice(dollars)
}

// modelRules are what an integration says of models, ready for use. Nobody changes them.
type modelRules struct {
	onlyListed bool
	listed     map[string]*modelRule // by their normal names
	slugs      []string              // of those that are enabled
}

type modelRule struct {
	slug    string
	enabled bool
	base    *url.URL // nil: the integration's
	header  http.Header
	price   *prices.Price
}

// rulesOf makes the rules of an integration; nil where it has none.
func (r *Router) rulesOf(i *Integration) (rules *modelRules, err error) {
	if i == nil || len(i.Models) == 0 && !i.OnlyListed {
		return rules, nil
	}
	rules = &modelRules{onlyListed: i.OnlyListed, listed: make(map[string]*modelRule, len(i.Models))}
	for n := range i.Models {
		m := &i.Models[n]
		rule := &modelRule{slug: m.Slug, enabled: m.Enabled}
		if m.CustomHost != "" {
			u, err := r.Guard.Check(m.CustomHost)
			if err != nil {
				return nil, err
			}
			rule.base = u
		}
		headers, err := r.Keyring.OpenHeaders(i, m)
		if err != nil {
			return nil, err
		}
		for name, v := range headers {
			if rule.header == nil {
				rule.header = make(http.Header, len(headers))
			}
			rule.header.Set(name, v)
		}
		if m.Pricing != nil {
			if rule.price, err = ParsePricing(m.Pricing); err != nil {
				return nil, err
			}
		}
		rules.listed[Normal(m.Slug)] = rule
		if m.Enabled {
			rules.slugs = append(rules.slugs, m.Slug)
		}
	}
	return rules, nil
}

// Ruled reports whether the route depends on the model.
func (r *Route) Ruled() bool { return r.rules != nil }

// Allows reports whether the integration of the route lets a model be called.
func (r *Route) Allows(model string) bool {
	if r.rules == nil {
		return true
	}
	rule := r.rules.listed[Normal(model)]
	if r.rules.onlyListed {
		return rule != nil && rule.enabled && rule.slug == model
	}
	return rule == nil || rule.enabled
}

// Listed are the models that the integration of the route names and has enabled.
func (r *Route) Listed() []string {
	if r.rules == nil {
		return nil
	}
	return r.rules.slugs
}

// PriceOf is what the integration of the route says that a model costs, nil where it says
// nothing.
func (r *Route) PriceOf(model string) *prices.Price {
	if r.rules != nil {
		if rule := r.rules.listed[Normal(model)]; rule != nil {
			return rule.price
		}
	}
	return nil
}

// Settle makes the route that to a model, which it allows: to the model's own host, with its
// headers. It is called once.
func (r *Route) Settle(model string) {
	if r.rules == nil {
		return
	}
	rule := r.rules.listed[Normal(model)]
	if rule == nil {
		return
	}
	if rule.base != nil {
		r.BaseURL, r.CustomHost, r.Header = rule.base, true, nil
	}
	if rule.header != nil {
		h := r.Header.Clone()
		if h == nil {
			h = make(http.Header, len(rule.header))
		}
		for name, values := range rule.header {
			h[name] = values
		}
		r.Header = h
	}
}
