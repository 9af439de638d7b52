package prices

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// catalogueNames maps providers to their names in genai-prices, if they differ.
var catalogueNames = map[string]string{
	"azure-ai": "azure", "azure-openai": "azure", "bedrock": "aws", "fireworks-ai": "fireworks", "mistral-ai": "mistral",
	"moonshot": "moonshotai", "novita-ai": "novita", "perplexity-ai": "perplexity", "together-ai": "together", "vertex-ai": "google",
	"voyage": "voyageai", "workers-ai": "cloudflare", "z-ai": "zai", "zhipu": "zhipuai",
}

// An Override is a price set by the operator.
type Override struct {
	Provider string // slug or name
	Model    string // with * at the end: every model whose name has this prefix
	Price    *Price
}

// A Table has the prices of models.
type Table struct {
	own       []Override // the first that matches is used
	catalogue catalogue
	version   string
	found     sync.Map // name → *model, nil: there is none
	names     atomic.Int64
}

type name struct{ provider, model string }

// maxNames bounds the number of remembered names, which callers choose.
const maxNames = 2048

// embedded is the catalogue of this build.
var embedded = sync.OnceValue(func() catalogue { return index(published) })

// NewTable returns a table with the operator's prices and, as a fallback, those in file,
// which has the form of genai-prices' data.json. If it is nil, those of this build are
// used.
func NewTable(own []Override, file []byte) (*Table, error) {
	t := &Table{own: own}
	var err error
	sum := sha256.New()
	if file == nil {
		t.catalogue = embedded()
		_, _ = io.WriteString(sum, published)
	} else {
		t.catalogue, err = parse(file)
		_, _ = sum.Write(file)
	}
	for _, o := range own {
		fmt.Fprintf(sum, "\x00%s\x00%s\x00%v", o.Provider, o.Model, *o.Price)
	}
	t.version = ShortSum(sum)
	return t, err
}

// Version identifies the list of prices together with those of the operator, in twelve hexadecimal digits: two tables
// with the same version have the same prices.
func (t *Table) Version() string {
	if t == nil {
		return ""
	}
	return t.version
}

// ShortSum is the beginning of a checksum by which versions of prices are told apart.
func ShortSum(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:6]) }

// Of returns the price of a model at a time, or nil if there is none. providers are the
// names of the provider.
func (t *Table) Of(model string, at time.Time, providers ...string) *Price {
	if model = strings.TrimSpace(model); t == nil || model == "" {
		return nil
	}
	for i := range t.own {
		if o := &t.own[i]; slices.Contains(providers, o.Provider) && o.matches(model) {
			return o.Price
		}
	}
	for _, p := range providers {
		if m := t.lookup(p, model); m != nil {
			return m.at(at)
		}
	}
	return nil
}

func (o *Override) matches(model string) bool {
	if begin, some := strings.CutSuffix(o.Model, "*"); some {
		return len(model) >= len(begin) && strings.EqualFold(model[:len(begin)], begin)
	}
	return strings.EqualFold(o.Model, model)
}

// lookup finds a model. For new names, this searches all models of the provider.
func (t *Table) lookup(provider, called string) *model {
	key := name{provider, called}
	if m, ok := t.found.Load(key); ok {
		return m.(*model)
	}
	id := provider
	if other := catalogueNames[provider]; other != "" {
		id = other
	}
	lower := strings.ToLower(called)
	m := t.catalogue.find(id, lower)
	if m == nil {
		if dashed := compactDate.ReplaceAllString(lower, "-$1-$2-$3"); dashed != lower {
			m = t.catalogue.find(id, dashed)
		}
	}
	if t.names.Load() < maxNames {
		t.names.Add(1)
		t.found.Store(name{strings.Clone(provider), strings.Clone(called)}, m)
	}
	return m
}

// compactDate matches a date at the end of a name, which may have dashes in the catalogue.
var compactDate = regexp.MustCompile(`-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])\b`)

// find finds a model of a provider, or of providers whose models it serves too.
func (c catalogue) find(id, lower string) *model {
	p := c[id]
	if p == nil {
		return nil
	}
	for _, id := range append([]string{id}, p.fallbacks...) {
		of := c[id]
		if of == nil {
			continue
		}
		models := of.models()
		if i := slices.IndexFunc(models, func(m model) bool { return m.matches(lower) }); i >= 0 {
			return &models[i]
		}
	}
	return nil
}

// at returns the price at a time.
func (m *model) at(now time.Time) *Price {
	for i := len(m.prices) - 1; i > 0; i-- {
		if d := &m.prices[i]; d.holds == nil || d.holds(now) {
			return d.price
		}
	}
	return m.prices[0].price
}
