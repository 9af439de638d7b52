package credentials

import (
	"net/http"
	"net/url"
	"slices"
)

// A Provider is a provider in the operator's configuration, which callers use by its slug.
// Its base URL is chosen by the operator and may be private.
type Provider struct {
	Slug       string
	Dialect    string
	BaseURL    *url.URL
	Key        Secret
	Settings   map[string]Secret
	Header     http.Header // added to every request
	Workspaces []string    // ids or slugs of the workspaces that may use it; empty: all
	// Passthrough lists further paths that its credential may be used for.
	Passthrough Paths
	Machine     bool // its settings say that it is what the gateway's machine is
}

// MayUse reports whether a workspace, or for "" any, may use a provider in the operator's
// configuration.
func (r *Router) MayUse(workspace, slug string) bool {
	if workspace == "" {
		return r.Providers[slug] != nil
	}
	return r.provider(workspace, slug) != nil
}

// Hides reports whether a slug is that of one of the operator's providers that a workspace may not
// use.
func (r *Router) Hides(workspace, slug string) bool {
	return r.Providers[slug] != nil && r.provider(workspace, slug) == nil
}

// provider returns one of the operator's providers, or nil. Everything that a call names is looked
// up here: for a workspace that may not use a provider, it is as if there was none, and the slug
// stands for what else has it.
func (r *Router) provider(workspace, slug string) *Provider {
	if p := r.Providers[slug]; p != nil && r.mayUse(p, workspace) {
		return p
	}
	return nil
}

// saved finds a slug among the operator's providers and the virtual keys.
func (r *Router) saved(c *Caller, slug, field string) (*Route, *Error) {
	if p := r.provider(c.WorkspaceID, slug); p != nil {
		return p.route(), nil
	}
	return r.virtualKey(c, slug, field)
}

// mayUse reports whether a workspace may use one of the operator's providers.
func (r *Router) mayUse(p *Provider, workspace string) bool {
	return len(p.Workspaces) == 0 || slices.Contains(p.Workspaces, workspace) || slices.Contains(p.Workspaces, r.SlugOf(workspace))
}

// Own returns the route to one of the operator's providers for the gateway's own calls, or
// nil.
func (r *Router) Own(slug string) *Route {
	if p := r.Providers[slug]; p != nil {
		return p.route()
	}
	return nil
}

func (p *Provider) route() *Route {
	route := &Route{Provider: p.Slug, Dialect: p.Dialect, BaseURL: p.BaseURL, Key: p.Key, Settings: p.Settings, Header: p.Header, Passthrough: p.Passthrough, Stored: true, Machine: p.Machine}
	if len(p.Workspaces) != 1 {
		route.Account = p.Slug
	}
	return route
}

// Saved lists the slugs that a caller may use: the operator's providers, then the virtual
// keys of its workspace.
func (r *Router) Saved(c *Caller) []string {
	var slugs []string
	for slug, p := range r.Providers {
		if r.mayUse(p, c.WorkspaceID) {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	for _, v := range r.Keyring.VirtualKeysIn(c.WorkspaceID) {
		if r.provider(c.WorkspaceID, v.Slug) == nil && !v.Expired(r.Keyring.now()) {
			slugs = append(slugs, v.Slug)
		}
	}
	return slugs
}
