package exchange

import (
	"slices"

	"github.com/caddy-gw/gateway/credentials"
)

// A Catalogue is the unified list of models that a call asks for: those of all saved providers, or
// of the ones that it names.
type Catalogue struct{ named map[string]bool } // by their slugs

// catalogue returns the unified list that a call for models asks for: its config says so, it names
// no provider, or it asks for that list; nil: it asks for a provider's own.
func (p *preparation) catalogue() *Catalogue {
	if !p.unified() {
		return nil
	}
	named := make(map[string]bool)
	if slug := p.selection.Slug(); slug != "" {
		named[slug] = true
	}
	if p.Config != nil {
		for _, t := range p.Config.Leaves() {
			if s := t.Selection(); s.Slug() != "" {
				named[s.Slug()] = true
			}
		}
	}
	return &Catalogue{named}
}

func (p *preparation) unified() bool {
	for _, name := range []Header{HeaderFetchIntegrated, HeaderModelsEndpoint} {
		if v, _ := p.Gateway.Headers.Get(p.request.Header, name); v != "" && v != "false" {
			return true
		}
	}
	names := func(s credentials.Selection) bool { return s.Provider != "" || s.VirtualKey != "" || s.Model != "" }
	if p.Config == nil {
		return !names(p.selection)
	}
	if p.Config.FetchIntegratedModels {
		return true
	}
	for _, t := range p.Config.Leaves() {
		if names(t.Selection()) {
			return false
		}
	}
	return !names(p.selection)
}

// NamesNone reports whether the call names no provider.
func (c *Catalogue) NamesNone() bool { return len(c.named) == 0 }

// Listed returns the saved providers whose models the call asks for.
func (c *Catalogue) Listed(saved []string) []string {
	if c.NamesNone() {
		return saved
	}
	return slices.DeleteFunc(saved, func(slug string) bool { return !c.named[slug] })
}
