package credentials

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Provider is a provider of the operator's file: a saved resource that callers
// use by its slug. Its base URL is the operator's choice and may be private.
type Provider struct {
	Slug       string
	Dialect    string
	BaseURL    *url.URL
	Key        Secret
	Settings   map[string]Secret
	Header     http.Header // added to every request
	Workspaces []string    // ids or slugs that may use it; empty: all
	// Passthrough are the paths beside the gateway's endpoints that its credential goes to.
	Passthrough Paths
}

// A Selection is what a request says about where it wants to go.
type Selection struct {
	VirtualKey string // x-gw-virtual-key
	Provider   string // x-gw-provider: a name, a slug, or @slug
	Config     string // x-gw-config
	CustomHost string // x-gw-custom-host
	Bearer     Secret // the provider credential of Authorization
	Model      string // the body's model: a name, an alias, @slug/name or provider/name
}

// Slug is the saved provider that the selection names, "" if it names none.
func (s *Selection) Slug() string {
	switch {
	case strings.HasPrefix(s.Provider, "@") || s.Provider != "" && s.VirtualKey == "":
		return strings.TrimPrefix(s.Provider, "@")
	case s.VirtualKey != "":
		return s.VirtualKey
	case strings.HasPrefix(s.Model, "@"):
		slug, _, _ := strings.Cut(s.Model[1:], "/")
		return slug
	}
	return ""
}

// A Route is where a call goes, and with whose credential.
type Route struct {
	Provider   string // slug of a saved provider or name of a built-in one, as shown to the caller
	VirtualKey string // slug; empty for a caller's own credential
	KeyID      string // id of the virtual key
	Dialect    string
	BaseURL    *url.URL // nil: the settings decide it
	Key        Secret
	Settings   map[string]Secret // of the provider, such as aws_region
	Header     http.Header
	Model      string // to send instead of the body's; empty: leave it

	// Passthrough are the paths beside the gateway's endpoints that the stored credential
	// goes to.
	Passthrough Paths

	// Inline: the route is to a built-in provider by its name, and not to a saved one.
	Inline bool
	// Stored: the credential is that of a saved resource, a config's own included, and not
	// the caller's. It goes only where that resource says, whatever the call brings.
	Stored bool
	// Shared: the credential is the operator's, and not of one workspace alone.
	Shared bool
	// CustomHost: the host was chosen by a caller or a tenant, not by the operator,
	// and its address must pass the host guard when it is dialed.
	CustomHost bool
}

// A Router turns selections into routes.
type Router struct {
	Keyring   *Keyring
	Providers map[string]*Provider // of the operator's file, by slug
	// BuiltIn returns the base URL of a provider, nil where it needs a custom host, or
	// where its settings decide it, which settled tells; and whether the provider exists.
	BuiltIn func(name string) (base *url.URL, settled, ok bool)
	// HostSetting is the setting of a provider that is its address, "" where it has
	// none; nil: none has. A request's own is its custom host.
	HostSetting func(provider string) string
	Passthrough Paths                                  // of virtual keys
	Guard       *HostGuard                             // of custom hosts
	SlugOf      func(workspaceID string) (slug string) // of workspaces
	BlockInline bool                                   // block_inline_config, of the environment or the organisation
	BlockedIn   func(workspaceID string) bool          // and of workspaces; nil: of none
	// Alias is what a model stands for in a workspace: @slug/name, or the id or slug of a
	// saved config; "": for itself. nil: every model does.
	Alias func(workspaceID, model string) string
}

const (
	fieldVirtualKey = "x-gw-virtual-key"
	fieldProvider   = "x-gw-provider"
	fieldConfig     = "x-gw-config"
	fieldCustomHost = "x-gw-custom-host"
	fieldModel      = "model"
)

// Route decides where the call of a caller goes. Precedence: x-gw-provider: @slug,
// then x-gw-virtual-key, then x-gw-provider, then the model: an alias, @slug/name, or
// provider/name.
func (r *Router) Route(c *Caller, s Selection) (*Route, *Refusal) {
	n, refusal := r.named(c.WorkspaceID, s)
	if refusal != nil {
		return nil, refusal
	}
	var route *Route
	field, model := n.field, n.model
	switch {
	case n.slug != "":
		route, refusal = r.saved(c, n.slug, field)
	case s.VirtualKey != "":
		field = fieldVirtualKey
		route, refusal = r.virtualKey(c, s.VirtualKey, field)
	case n.builtIn == "":
		return nil, refuse(NoProvider, fieldProvider, "Either x-gw-config or x-gw-provider header is required: name a provider with x-gw-virtual-key, x-gw-provider or model @slug/name")
	case field == fieldModel && r.Blocks(c.WorkspaceID):
		return nil, inlineProvider(field)
	default:
		s.Provider = n.builtIn
		return r.builtIn(s, model)
	}
	if refusal != nil {
		return nil, refusal
	}
	if s.CustomHost != "" {
		return nil, refuse(StoredSecretElsewhere, fieldCustomHost,
			"Invalid custom host: %s names a stored credential, which goes only where its owner said; drop x-gw-custom-host or send your own credential", field)
	}
	if name, ok := strings.CutPrefix(s.Model, "@"+route.VirtualKey+"/"); ok && route.VirtualKey != "" && route.VirtualKey != "cf" && route.VirtualKey != "hf" {
		model = name
	}
	route.Model = model
	return route, nil
}

// A naming is how a selection names its provider: by the slug of a saved one, or by the name
// of a built-in one. Where it has neither, there is a virtual key, or nothing.
type naming struct {
	slug, builtIn string
	model         string // to send in place of the selection's; empty: leave it
	field         string // that names it
}

// named reads what a selection names. A header comes before the model, whose @slug/ is
// taken off only if it is the header's: it may be part of the provider's own name for a
// model, as @cf/ and @hf/ always are.
func (r *Router) named(workspace string, s Selection) (n naming, refusal *Refusal) {
	at, isSlug := strings.CutPrefix(s.Provider, "@")
	switch {
	case isSlug:
		if n.slug, _, _ = strings.Cut(at, "/"); n.slug == "" {
			return n, unknownProvider(s.Provider)
		}
		n.field = fieldProvider
	case s.Provider == "":
		if s.VirtualKey == "" {
			return r.namedByModel(workspace, s.Model), nil
		}
	case r.Providers[s.Provider] != nil:
		n = naming{slug: s.Provider, field: fieldProvider}
	case r.isBuiltIn(s.Provider):
		n = naming{builtIn: s.Provider, field: fieldProvider}
	case r.saves(workspace, s.Provider):
		n = naming{slug: s.Provider, field: fieldProvider}
	default:
		return n, unknownProvider(s.Provider)
	}
	if s.VirtualKey != "" && !isSlug {
		n = naming{}
	}
	if of, name, ok := slugOf(s.Model); ok && (of == n.slug || of == s.VirtualKey) {
		n.model = name
	}
	return n, nil
}

// namedByModel is what a model names where no header names a provider.
func (r *Router) namedByModel(workspace, model string) naming {
	if r.Alias != nil {
		if to := r.Alias(workspace, model); strings.HasPrefix(to, "@") {
			model = to
		}
	}
	if slug, name, ok := slugOf(model); ok {
		return naming{slug: slug, model: name, field: fieldModel}
	}
	of, name, ok := strings.Cut(model, "/")
	switch {
	case !ok || of == "" || name == "":
	case r.saves(workspace, of):
		return naming{slug: of, model: name, field: fieldModel}
	case r.isBuiltIn(of):
		return naming{builtIn: of, model: name, field: fieldModel}
	}
	return naming{}
}

// slugOf takes @slug/ off a model. Models of Workers AI and Hugging Face start with @cf/
// and @hf/ themselves.
func slugOf(model string) (slug, name string, ok bool) {
	at, ok := strings.CutPrefix(model, "@")
	if !ok {
		return "", "", false
	}
	slug, name, ok = strings.Cut(at, "/")
	return slug, name, ok && slug != "cf" && slug != "hf"
}

func (r *Router) isBuiltIn(name string) bool {
	_, _, ok := r.BuiltIn(name)
	return ok
}

// saves reports whether a workspace may use a saved provider of this slug, be it expired.
func (r *Router) saves(workspace, slug string) bool {
	if p := r.Providers[slug]; p != nil {
		return r.mayUse(p, workspace)
	}
	_, ok := r.Keyring.VirtualKey(workspace, slug)
	return ok
}

// MayUse reports whether the calls of a workspace may use a provider of the file.
func (r *Router) MayUse(workspace, slug string) bool {
	p := r.Providers[slug]
	return p != nil && r.mayUse(p, workspace)
}

// Blocks reports whether the calls of a workspace may use saved resources only.
func (r *Router) Blocks(workspaceID string) bool {
	return r.BlockInline || r.BlockedIn != nil && r.BlockedIn(workspaceID)
}

// Inline refuses what block_inline_config blocks of what a request of a workspace
// itself says, in the documented order.
func (r *Router) Inline(workspaceID string, s Selection) *Refusal {
	if !r.Blocks(workspaceID) {
		return nil
	}
	n, unknown := r.named(workspaceID, s)
	switch {
	case strings.HasPrefix(strings.TrimSpace(s.Config), "{"):
		return refuse(InlineConfigBlocked, fieldConfig, "Inline configs are blocked"+instead)
	case unknown != nil:
		return unknown
	case n.builtIn != "" && n.field == fieldProvider: // one in the model counts where no config names another
		return inlineProvider(n.field)
	case s.CustomHost != "":
		return refuse(InlineHostBlocked, fieldCustomHost, "Inline custom hosts are blocked"+instead)
	}
	return nil
}

const instead = "; the organisation accepts only saved resources (block_inline_config)"

func inlineProvider(field string) *Refusal {
	return refuse(InlineProviderBlocked, field, "Inline providers are blocked"+instead)
}

// saved finds a slug among the providers of the file and the virtual keys.
func (r *Router) saved(c *Caller, slug, field string) (*Route, *Refusal) {
	if r.Providers[slug] != nil {
		return r.fileProvider(c, slug, field)
	}
	return r.virtualKey(c, slug, field)
}

func (r *Router) fileProvider(c *Caller, slug, field string) (*Route, *Refusal) {
	p := r.Providers[slug]
	if !r.mayUse(p, c.WorkspaceID) {
		return nil, r.unknownKey(c, slug, field)
	}
	return r.Own(slug), nil
}

// mayUse reports whether a provider of the file is for a workspace.
func (r *Router) mayUse(p *Provider, workspace string) bool {
	return len(p.Workspaces) == 0 || slices.Contains(p.Workspaces, workspace) || slices.Contains(p.Workspaces, r.SlugOf(workspace))
}

// Own is the route to a provider of the file for the gateway's own calls, nil where there
// is none.
func (r *Router) Own(slug string) *Route {
	p := r.Providers[slug]
	if p == nil {
		return nil
	}
	return &Route{Provider: p.Slug, Dialect: p.Dialect, BaseURL: p.BaseURL, Key: p.Key, Settings: p.Settings, Header: p.Header, Passthrough: p.Passthrough, Stored: true, Shared: len(p.Workspaces) != 1}
}

func (r *Router) virtualKey(c *Caller, slug, field string) (*Route, *Refusal) {
	v, ok := r.Keyring.VirtualKey(c.WorkspaceID, slug)
	if !ok {
		return nil, r.unknownKey(c, slug, field)
	}
	if v.Expired(r.Keyring.now()) {
		return nil, refuse(ExpiredVirtualKey, field, "Virtual key %q has expired", v.Slug)
	}
	o, refusal := r.open(v, field)
	if refusal != nil {
		return nil, refusal
	}
	return &Route{
		Provider: v.Provider, VirtualKey: v.Slug, KeyID: v.ID, Dialect: v.Provider, BaseURL: o.base, Key: o.key, Settings: o.settings, CustomHost: v.CustomHost != "", Passthrough: r.Passthrough, Stored: true,
	}, nil
}

// open opens a virtual key, once for as long as it is stored as it is and the configuration
// stays.
func (r *Router) open(v *VirtualKey, field string) (*opened, *Refusal) {
	if v.opened != nil {
		if o := v.opened.Load(); o != nil && o.by == r.Guard && o.of == v {
			return o, nil
		}
	}
	base, refusal := r.base(v.Provider, v.CustomHost)
	if refusal != nil {
		return nil, refusal
	}
	key, err := r.Keyring.OpenKey(v)
	if err != nil {
		return nil, unopened(v, field, err)
	}
	settings, err := r.Keyring.OpenSettings(v)
	if err != nil {
		return nil, unopened(v, field, err)
	}
	o := &opened{r.Guard, v, base, key, settings}
	if v.opened != nil {
		v.opened.Store(o)
	}
	return o, nil
}

func unopened(v *VirtualKey, field string, err error) *Refusal {
	return &Refusal{Reason: SecretUnavailable, Field: field, Message: "The credential of virtual key " + v.Slug + " cannot be opened", Err: err}
}

// Saved lists the slugs that a caller may use: the providers of the file, then the
// virtual keys of its workspace.
func (r *Router) Saved(c *Caller) []string {
	var slugs []string
	for slug, p := range r.Providers {
		if r.mayUse(p, c.WorkspaceID) {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	for _, v := range r.Keyring.VirtualKeys() {
		if v.WorkspaceID == c.WorkspaceID && r.Providers[v.Slug] == nil && !v.Expired(r.Keyring.now()) {
			slugs = append(slugs, v.Slug)
		}
	}
	return slugs
}

func unknownProvider(name string) *Refusal {
	return refuse(UnknownProvider, fieldProvider, "Invalid provider passed: %s", Clip(name))
}

// unknownKey refuses a slug. It tells of no other than those that the caller may use.
func (r *Router) unknownKey(c *Caller, slug, field string) *Refusal {
	meant := ""
	if nearest := Nearest(slug, r.Saved(c)); nearest != "" {
		meant = "; did you mean " + nearest + "?"
	}
	return refuse(UnknownVirtualKey, field, "Following keys are not valid: %s%s", Clip(slug), meant)
}

// builtIn routes a call that brings its own credential to a provider by name. A
// model server of the caller's own may need none.
func (r *Router) builtIn(s Selection, model string) (*Route, *Refusal) {
	base, refusal := r.base(s.Provider, s.CustomHost)
	if refusal != nil {
		return nil, refusal
	}
	if _, settled, _ := r.BuiltIn(s.Provider); s.Bearer.Empty() && s.CustomHost == "" && !settled {
		return nil, refuse(NoProvider, "authorization",
			"Provider %s needs a credential: send it as Authorization: Bearer beside x-gw-api-key, or name a saved provider", s.Provider)
	}
	return &Route{
		Provider: s.Provider, Dialect: s.Provider, BaseURL: base, Key: s.Bearer, Model: model, Inline: true, CustomHost: s.CustomHost != "",
	}, nil
}

// base is where a built-in provider is, or the custom host instead, which replaces
// the provider's base URL whole, version segment included.
func (r *Router) base(provider, customHost string) (*url.URL, *Refusal) {
	base, settled, ok := r.BuiltIn(provider)
	if !ok {
		return nil, unknownProvider(provider)
	}
	if customHost != "" {
		u, err := r.Guard.Check(customHost)
		if err != nil {
			return nil, RefuseHost(err)
		}
		return u, nil
	}
	if base == nil && !settled {
		return nil, refuse(BadCustomHost, fieldCustomHost, "Invalid custom host: provider %s has no address of its own, name one", provider)
	}
	return base, nil
}

// RefuseHost turns an error of the host guard, found in the spelling or when the
// host was dialed, into a Refusal.
func RefuseHost(err error) *Refusal {
	message := "Invalid custom host"
	var host *HostError
	if errors.As(err, &host) {
		message += ": " + host.Why
	}
	return &Refusal{Reason: BadCustomHost, Field: fieldCustomHost, Message: message, Err: err}
}

// Clip bounds what an error or a record repeats of a caller's words: 64 bytes.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
