package credentials

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/prices"
)

// An IntegrationModel is what an integration says of one model.
type IntegrationModel struct {
	Slug      string `json:"slug"` // what the provider calls it
	Enabled   bool   `json:"enabled"`
	Custom    bool   `json:"custom,omitempty"`
	Finetune  bool   `json:"finetune,omitempty"`
	BaseModel string `json:"base_model,omitempty"`

	// Pricing is its pricing_config, and Adjustments its pricing_adjustments, which replace the
	// integration's. nil: none.
	Pricing     json.RawMessage `json:"pricing,omitempty"`     // see [prices.ParseConfig]
	Adjustments json.RawMessage `json:"adjustments,omitempty"` // see [prices.ParseAdjustment]

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

// Bounds of what an integration says of models.
const (
	MaxModels    = 2000
	MaxHeaders   = 64 // of a model
	maxHeader    = 16 << 10
	maxModelName = 255
)

// CheckHeader reports whether a model may have a header with a value.
func CheckHeader(name, value string) bool {
	return Configurable(name) && value != "" && len(value) <= maxHeader && Sendable(value)
}

// CheckModels refuses models of an integration that are named twice, or say of themselves what cannot be. Fields
// are those of models, by their names in rows.
func CheckModels(models []IntegrationModel, refuse Refuse) error {
	if len(models) > MaxModels {
		return refuse("", "an integration has at most %d models", MaxModels)
	}
	seen := make(map[string]bool)
	for n := range models {
		m := &models[n]
		at := "[" + strconv.Itoa(n) + "]."
		switch {
		case m.Slug == "" || len(m.Slug) > maxModelName:
			return refuse(at+"slug", "expected 1 to %d bytes", maxModelName)
		case seen[Normal(m.Slug)]:
			return refuse(at+"slug", "the model is named twice")
		case len(m.BaseModel) > maxModelName:
			return refuse(at+"base_model", "expected at most %d bytes", maxModelName)
		}
		seen[Normal(m.Slug)] = true
		if m.Pricing != nil {
			if _, err := prices.ParseConfig(m.Pricing); err != nil {
				return refuse(at+"pricing", "%v", err)
			}
		}
		if m.Adjustments != nil {
			if _, err := prices.ParseAdjustment(m.Adjustments); err != nil {
				return refuse(at+"adjustments", "%v", err)
			}
		}
	}
	return nil
}

// maxTags bounds the tags of an object.
const maxTags = 64

// CheckTags returns why tags are refused.
func CheckTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("expected at most %d", maxTags)
	}
	for name, v := range tags {
		if name == "" || len(name) > 255 || len(v) > 255 {
			return errors.New("expected names of 1 to 255 bytes, and values of at most 255")
		}
	}
	return nil
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

// modelRules are what an integration says of models, ready for use. Nobody changes them.
type modelRules struct {
	onlyListed bool
	listed     map[string]*modelRule // by their normal names
	slugs      []string              // of those that are enabled
	adjustment *prices.Adjustment    // of models without one of their own; nil: none
	// priceVersion identifies the prices; "": there are none.
	priceVersion string
}

type modelRule struct {
	slug      string
	enabled   bool
	base      *url.URL // nil: the integration's
	header    http.Header
	baseModel string // "": none
	pricing
}

// A pricing is what an integration says of the price of a model.
type pricing struct {
	price      *prices.Price // nil: the list price
	adjustment *prices.Adjustment
}

func pricingOf(config, adjustments json.RawMessage) (p pricing, err error) {
	if config != nil {
		if p.price, err = prices.ParseConfig(config); err != nil {
			return p, err
		}
	}
	if adjustments != nil {
		p.adjustment, err = prices.ParseAdjustment(adjustments)
	}
	return p, err
}

// versionOf identifies the prices of an integration; "": it has none of its own.
func versionOf(i *Integration) string {
	own, sum := i.Adjustments != nil, sha256.New()
	fmt.Fprintf(sum, "%s", i.Adjustments)
	for n := range i.Models {
		m := &i.Models[n]
		own = own || m.Pricing != nil || m.Adjustments != nil || m.BaseModel != ""
		fmt.Fprintf(sum, "\x00%s\x00%s\x00%s\x00%s", m.Slug, m.BaseModel, m.Pricing, m.Adjustments)
	}
	if !own {
		return ""
	}
	return prices.ShortSum(sum)
}

// PriceVersion identifies the prices that PriceOf knows, of which those of the list have a version.
func (r *Route) PriceVersion(list string) string {
	if r.rules == nil || r.rules.priceVersion == "" {
		return list
	}
	return list + "+" + r.rules.priceVersion
}

// rulesOf makes the rules of an integration; nil where it has none.
func (r *Router) rulesOf(i *Integration) (rules *modelRules, err error) {
	if i == nil || len(i.Models) == 0 && !i.OnlyListed && i.Adjustments == nil {
		return rules, nil
	}
	of, err := pricingOf(nil, i.Adjustments)
	if err != nil {
		return nil, err
	}
	rules = &modelRules{onlyListed: i.OnlyListed, listed: make(map[string]*modelRule, len(i.Models)), adjustment: of.adjustment, priceVersion: versionOf(i)}
	for n := range i.Models {
		m := &i.Models[n]
		rule := &modelRule{slug: m.Slug, enabled: m.Enabled, baseModel: m.BaseModel}
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
		if rule.pricing, err = pricingOf(m.Pricing, m.Adjustments); err != nil {
			return nil, err
		}
		rules.listed[Normal(m.Slug)] = rule
		if m.Enabled {
			rules.slugs = append(rules.slugs, m.Slug)
		}
	}
	return rules, nil
}

// Ruled reports whether the route, or whether it may be used, depends on the model.
func (r *Route) Ruled() bool {
	return r.rules != nil && (r.rules.onlyListed || len(r.rules.listed) > 0)
}

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

// Lists reports whether the integration of the route names a model and has enabled it.
func (r *Route) Lists(model string) bool {
	if r.rules == nil {
		return false
	}
	rule := r.rules.listed[Normal(model)]
	return rule != nil && rule.enabled && rule.slug == model
}

// Listed are the models that the integration of the route names and has enabled.
func (r *Route) Listed() []string {
	if r.rules == nil {
		return nil
	}
	return r.rules.slugs
}

// PriceOf returns what a model costs at the route: the price that the integration has for it,
// or else that of list, or that of the model that it was made of; nil: it is unknown. The
// integration's adjustments are included.
func (r *Route) PriceOf(model string, list func(model string) *prices.Price) *prices.Price {
	price, adjustment := r.rules.price(model, list)
	return adjustment.Of(price)
}

func (m *modelRules) price(model string, list func(model string) *prices.Price) (price *prices.Price, adjustment *prices.Adjustment) {
	if m == nil {
		return list(model), nil
	}
	adjustment = m.adjustment
	rule := m.listed[Normal(model)]
	if rule != nil {
		price = rule.price
		if rule.adjustment != nil {
			adjustment = rule.adjustment
		}
	}
	if price == nil {
		price = list(model)
	}
	if price == nil && rule != nil && rule.baseModel != "" {
		price = list(rule.baseModel)
	}
	return price, adjustment
}

// Price returns what a model of a provider costs in a workspace, without adjustments, or nil
// if that is not known. The provider is the slug of a saved one, with or without @, or the
// name of a built-in one. list returns the price of a model of the first of the named
// providers that has one.
func (r *Router) Price(workspace, provider, model string, list func(model string, providers ...string) *prices.Price) *prices.Price {
	slug, saved := strings.CutPrefix(provider, "@")
	if p := r.provider(workspace, slug); p != nil {
		return list(model, p.Slug, p.Dialect)
	}
	if !saved && r.isBuiltIn(provider) {
		return list(model, provider)
	}
	v, ok := r.Keyring.VirtualKey(workspace, slug)
	if !ok {
		return nil
	}
	var rules *modelRules
	if v.IntegrationID != "" {
		i, ok := r.Keyring.Integration(v.IntegrationID)
		if !ok || !i.EnabledIn(workspace) {
			return nil
		}
		o, refusal := r.open(&i.Credential, i, v.Slug, fieldProvider)
		if refusal != nil {
			return nil
		}
		rules = o.rules
	}
	price, _ := rules.price(model, func(model string) *prices.Price { return list(model, v.Provider) })
	return price
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
