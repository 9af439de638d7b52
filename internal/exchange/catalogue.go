package exchange

import "slices"

// catalogue reports whether a call for models is for the unified list: its config says so, it names
// no provider, or it asks for that list.
func (c *Call) catalogue() bool {
	if c.Config != nil {
		return c.Config.FetchIntegratedModels
	}
	for _, name := range []Header{HeaderFetchIntegrated, HeaderModelsEndpoint} {
		if v, _ := c.Gateway.Headers.Get(c.request.Header, name); v != "" && v != "false" {
			return true
		}
	}
	return c.selection.Provider == "" && c.selection.VirtualKey == "" && c.selection.Model == ""
}

// NamesNone reports whether a call for the unified list of models names no provider.
func (c *Call) NamesNone() bool { return len(c.listed()) == 0 }

// Listed returns the saved providers whose models a call for the unified list asks for: all of
// them, unless it names some.
func (c *Call) Listed(saved []string) []string {
	named := c.listed()
	if len(named) == 0 {
		return saved
	}
	return slices.DeleteFunc(saved, func(slug string) bool { return !named[slug] })
}

// listed are the slugs that a call for the unified list of models names.
func (c *Call) listed() map[string]bool {
	named := make(map[string]bool)
	if slug := c.selection.Slug(); slug != "" {
		named[slug] = true
	}
	if c.Config != nil {
		for _, t := range c.Config.Leaves() {
			if s := t.Selection(); s.Slug() != "" {
				named[s.Slug()] = true
			}
		}
	}
	return named
}
