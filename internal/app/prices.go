package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers"
)

// Price is what a model costs an operator. It has precedence over list prices.
type Price struct {
	// The provider: a slug of the configuration, or the name of a built-in one. Required.
	Provider string `json:"provider"`

	// The model, as the provider gets it; with * at its end, every model whose name
	// begins so. Required.
	Model string `json:"model"`

	// US dollars by unit: input_mtok, output_mtok, cache_read_mtok, … for a million
	// tokens, requests_kcount and input_document_kpages for a thousand, input_audio_hours
	// for one. At least one.
	USD map[string]json.Number `json:"usd"`
}

// maxPricesFile bounds a price file, in bytes; the published one has 1 MB.
const maxPricesFile = 16 << 20

// loadPrices creates the table of prices.
func (a *App) loadPrices() error {
	own := make([]prices.Override, len(a.Prices))
	for i, p := range a.Prices {
		name := fmt.Sprintf("price %s %s", p.Provider, p.Model)
		if _, _, known := providers.BaseURL(p.Provider); !known && a.Providers[p.Provider] == nil {
			return fmt.Errorf("%s: there is no provider %q", name, p.Provider)
		}
		if p.Model == "" {
			return fmt.Errorf("%s: model: it is missing", name)
		}
		dollars := make(map[string]string, len(p.USD))
		for unit, n := range p.USD {
			dollars[unit] = n.String()
		}
		price, err := prices.ParsePrice(dollars)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		own[i] = prices.Override{Provider: p.Provider, Model: p.Model, Price: price}
	}
	var file []byte
	if a.PricesFile != "" {
		path, err := caddy.NewReplacer().ReplaceOrErr(a.PricesFile, true, true)
		if err != nil {
			return fmt.Errorf("prices_file: %w", err)
		}
		if file, err = readPrices(path); err != nil {
			return fmt.Errorf("prices_file: %w", err)
		}
	}
	var err error
	if a.prices, err = prices.NewTable(own, file); err != nil {
		return fmt.Errorf("prices_file %s: %w", a.PricesFile, err)
	}
	return nil
}

// readPrices reads a file up to the bound, regardless of the size that it reports.
func readPrices(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPricesFile+1))
	if err == nil && len(b) > maxPricesFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxPricesFile)
	}
	return b, err
}

func (a *App) unmarshalPrice(d *caddyfile.Dispenser) error {
	p := Price{USD: make(map[string]json.Number)}
	if !d.AllArgs(&p.Provider, &p.Model) {
		return d.ArgErr()
	}
	for _, other := range a.Prices {
		if other.Provider == p.Provider && other.Model == p.Model {
			return d.Errf("price %s %s is given twice", p.Provider, p.Model)
		}
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		unit := d.Val()
		var dollars string
		if p.USD[unit] != "" {
			return d.Errf("%s is given twice", unit)
		}
		if err := one(d, &dollars); err != nil {
			return err
		}
		if _, err := prices.ParsePrice(map[string]string{unit: dollars}); err != nil {
			return d.Errf("price: %v", err)
		}
		p.USD[unit] = json.Number(dollars)
	}
	if len(p.USD) == 0 {
		return d.Errf("price %s %s: expected a block with at least one price, such as input_mtok 0.15", p.Provider, p.Model)
	}
	a.Prices = append(a.Prices, p)
	return nil
}
