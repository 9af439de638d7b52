package credentials

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
}

// A Selection holds what a request says about its provider.
type Selection struct {
	VirtualKey string // x-gw-virtual-key
	Provider   string // x-gw-provider: a name, a slug, or @slug
	Config     string // x-gw-config
	CustomHost string // x-gw-custom-host
	Bearer     Secret // the provider credential of Authorization
	Model      string // the body's model: a name, an alias, @slug/name or provider/name
}

// Slug returns the slug of the saved provider that is selected, or "".
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

// A Route is the provider of a call, and the credential for it.
type Route struct {
	Provider   string // slug of a saved provider or name of a built-in one, as shown to callers
	VirtualKey string // slug; empty if the caller sent its own credential
	KeyID      string // id of the virtual key
	// Integration is the id of the integration whose provider the virtual key is; "": of none.
	Integration string
	Dialect     string
	BaseURL     *url.URL // nil: it depends on the settings
	Key         Secret
	Settings    map[string]Secret // such as aws_region
	Header      http.Header
	Model       string // overrides the body's model unless it is empty

	// Passthrough lists further paths that the stored credential may be used for.
	Passthrough Paths

	rules  *modelRules // of its integration; nil if it has none
	mapped *opened     // the credential, if it is not complete; see [Router.Fetch]

	// Inline is set if the route is to a built-in provider by its name.
	Inline bool
	// Stored is set if the credential is part of a saved resource, including a config, and
	// not sent by the caller. It is only sent to where that resource says, whatever the
	// request contains.
	Stored bool
	// Account is what objects at the provider are told apart by where workspaces may share the
	// credential: the slug of an operator's provider, or an integration or a secret reference;
	// "": the credential is the caller's own, or a single workspace's.
	Account string
	// Alone is set while no other workspace may use the Account.
	Alone bool
	// CustomHost is set if the host was chosen by a caller or a tenant and not by the
	// operator, so that its address must pass the host guard when it is dialed.
	CustomHost bool
}

// A Router determines the routes of calls.
type Router struct {
	Keyring   *Keyring
	Providers map[string]*Provider // in the operator's configuration, by slug
	// BuiltIn returns the base URL of a built-in provider, or nil if it has none or it
	// depends on settings (then settled is set), and whether the provider exists.
	BuiltIn func(name string) (base *url.URL, settled, ok bool)
	// HostSetting returns the setting that is the address of a provider, or "". In a
	// request, it counts as a custom host. It may be nil.
	HostSetting func(provider string) string
	Passthrough Paths                                  // of virtual keys
	Guard       *HostGuard                             // of custom hosts
	Secrets     SecretSource                           // of what credentials refer to; may be nil
	SlugOf      func(workspaceID string) (slug string) // of workspaces
	BlockInline bool                                   // block_inline_config, of the environment or the organisation
	BlockedIn   func(workspaceID string) bool          // whether it is set for a workspace; may be nil
	// Alias returns what a model stands for in a workspace: @slug/name, the id or slug of a
	// saved config, or "" if it is not an alias. It may be nil.
	Alias func(workspaceID, model string) string
}

const (
	fieldVirtualKey = "x-gw-virtual-key"
	fieldProvider   = "x-gw-provider"
	fieldConfig     = "x-gw-config"
	fieldCustomHost = "x-gw-custom-host"
	fieldModel      = "model"
)

// Route returns the route of a caller's call. [Router.Fetch] completes it. In order of precedence, the provider is named
// by: x-gw-provider with @slug, x-gw-virtual-key, x-gw-provider, the model (an alias,
// @slug/name, or provider/name).
func (r *Router) Route(c *Caller, s Selection) (*Route, *Error) {
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
		return nil, newError(NoProvider, fieldProvider, "Either x-gw-config or x-gw-provider header is required unless the model names its provider: use the model @provider/name, save a config as the API key's default, or make the model an alias (/v1/model-aliases)")
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
		return nil, newError(StoredSecretElsewhere, fieldCustomHost,
			"Invalid custom host: %s names a stored credential, which goes only where its owner said; drop x-gw-custom-host or send your own credential", field)
	}
	if name, ok := strings.CutPrefix(s.Model, "@"+route.VirtualKey+"/"); ok && route.VirtualKey != "" && route.VirtualKey != "cf" && route.VirtualKey != "hf" {
		model = name
	}
	route.Model = model
	return route, nil
}

// A naming says how a selection names its provider: by the slug of a saved one, or by the
// name of a built-in one. If it has neither, there is a virtual key, or nothing.
type naming struct {
	slug, builtIn string
	model         string // replaces the selection's model unless it is empty
	field         string // the field with the name
}

// named returns how a selection names its provider. Headers take precedence over the model.
// The prefix @slug/ of a model is only removed if it is the provider selected by the
// header, because it may be part of the provider's own name of the model, as @cf/ and @hf/
// always are.
func (r *Router) named(workspace string, s Selection) (n naming, refusal *Error) {
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
	case r.provider(workspace, s.Provider) != nil:
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

// namedByModel returns what a model names if no header names a provider.
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

// slugOf removes @slug/ from a model. Models of Workers AI and Hugging Face start with @cf/
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

// saves reports whether a workspace may use a saved provider with this slug, possibly
// expired.
func (r *Router) saves(workspace, slug string) bool {
	if r.provider(workspace, slug) != nil {
		return true
	}
	_, ok := r.Keyring.VirtualKey(workspace, slug)
	return ok
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

// Blocks reports whether a workspace may only use saved resources.
func (r *Router) Blocks(workspaceID string) bool {
	return r.BlockInline || r.BlockedIn != nil && r.BlockedIn(workspaceID)
}

// Inline returns an error if a request contains something that block_inline_config forbids,
// checking in the documented order.
func (r *Router) Inline(workspaceID string, s Selection) *Error {
	if !r.Blocks(workspaceID) {
		return nil
	}
	n, unknown := r.named(workspaceID, s)
	switch {
	case strings.HasPrefix(strings.TrimSpace(s.Config), "{"):
		return newError(InlineConfigBlocked, fieldConfig, "Inline configs are blocked"+inlineBlocked)
	case unknown != nil:
		return unknown
	case n.builtIn != "" && n.field == fieldProvider: // in the model, it is ignored if a config names another
		return inlineProvider(n.field)
	case s.CustomHost != "":
		return newError(InlineHostBlocked, fieldCustomHost, "Inline custom hosts are blocked"+inlineBlocked)
	}
	return nil
}

const inlineBlocked = "; the organisation accepts only saved resources (block_inline_config)"

func inlineProvider(field string) *Error {
	return newError(InlineProviderBlocked, field, "Inline providers are blocked"+inlineBlocked)
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
	route := &Route{Provider: p.Slug, Dialect: p.Dialect, BaseURL: p.BaseURL, Key: p.Key, Settings: p.Settings, Header: p.Header, Passthrough: p.Passthrough, Stored: true}
	if len(p.Workspaces) != 1 {
		route.Account = p.Slug
	}
	return route
}

func (r *Router) virtualKey(c *Caller, slug, field string) (*Route, *Error) {
	v, ok := r.Keyring.VirtualKey(c.WorkspaceID, slug)
	if !ok {
		return nil, r.unknownKey(c, slug, field)
	}
	if v.Expired(r.Keyring.now()) {
		return nil, newError(ExpiredVirtualKey, field, "Virtual key %q has expired", v.Slug)
	}
	cred := &v.Credential
	var i *Integration
	if v.IntegrationID != "" {
		if i, ok = r.Keyring.Integration(v.IntegrationID); !ok || !i.EnabledIn(c.WorkspaceID) {
			return nil, newError(IntegrationDisabled, field, "The integration of provider %q is not enabled for its workspace", v.Slug)
		}
		cred = &i.Credential
	}
	o, refusal := r.open(cred, i, v.Slug, field)
	if refusal != nil {
		return nil, refusal
	}
	route := &Route{
		Provider: v.Provider, VirtualKey: v.Slug, KeyID: v.ID, Dialect: v.Provider, BaseURL: o.base, Key: o.key, Settings: o.settings, Header: o.header, rules: o.rules,
		Integration: v.IntegrationID, CustomHost: cred.CustomHost != "", Passthrough: r.Passthrough, Stored: true,
	}
	route.Account, route.Alone = o.account, o.alone
	if len(o.mappings) > 0 {
		route.mapped = o
		r.accountOfSecret(route, o.mappings)
	}
	return route, nil
}

// accountOfSecret sets the account of a route whose credential is a secret reference: other
// virtual keys and integrations may refer to it, too.
func (r *Router) accountOfSecret(route *Route, mappings []SecretMapping) {
	of := &mappings[0]
	for i := range mappings {
		if mappings[i].Field == MappedKey {
			of = &mappings[i]
		}
	}
	ref, ok := r.Keyring.SecretReference(of.Reference)
	if !ok || !ref.Everywhere && len(ref.Workspaces) < 2 && route.Account == "" {
		return // without the reference, Fetch refuses the call
	}
	route.Account, route.Alone = "secret:"+ref.ID, !ref.Everywhere && len(ref.Workspaces) < 2
}

// open opens the credential of a slug, with the rules of its integration about models. The
// result is kept until the row or the configuration changes.
func (r *Router) open(c *Credential, of *Integration, slug, field string) (*opened, *Error) {
	if c.opened != nil {
		if o := c.opened.Load(); o != nil && o.by == r.Guard && o.of == c {
			return o, nil
		}
	}
	base, refusal := r.base(c.Provider, c.CustomHost)
	if refusal != nil {
		return nil, refusal
	}
	key, err := r.Keyring.OpenKey(c)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	settings, err := r.Keyring.OpenSettings(c)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	header, err := headerOf(settings)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	rules, err := r.rulesOf(of)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	o := &opened{header: header, rules: rules, by: r.Guard, of: c, base: base, key: key, settings: settings, mappings: c.Mappings}
	if of != nil {
		o.account, o.alone = of.account(), of.alone()
	}
	if c.opened != nil {
		c.opened.Store(o)
	}
	return o, nil
}

// CustomHeaders is the setting that has headers of every request: an object of texts.
const CustomHeaders = "custom_headers"

// headerOf takes the custom headers out of the settings of a credential.
func headerOf(settings map[string]Secret) (h http.Header, err error) {
	s, ok := settings[CustomHeaders]
	if !ok {
		return h, nil
	}
	delete(settings, CustomHeaders)
	var texts map[string]string
	if err := json.Unmarshal([]byte(s.Reveal()), &texts); err != nil {
		return nil, err
	}
	h = make(http.Header, len(texts))
	for name, v := range texts {
		h.Set(name, v)
	}
	return h, nil
}

func openError(slug, field string, err error) *Error {
	return &Error{Reason: SecretUnavailable, Field: field, Message: "The credential of virtual key " + slug + " cannot be opened", Err: err}
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
	for _, v := range r.Keyring.VirtualKeys() {
		if v.WorkspaceID == c.WorkspaceID && r.provider(c.WorkspaceID, v.Slug) == nil && !v.Expired(r.Keyring.now()) {
			slugs = append(slugs, v.Slug)
		}
	}
	return slugs
}

func unknownProvider(name string) *Error {
	return newError(UnknownProvider, fieldProvider, "Invalid provider passed: %s", Clip(name))
}

// unknownKey returns the error for an unknown slug. It only suggests slugs that the caller
// may use.
func (r *Router) unknownKey(c *Caller, slug, field string) *Error {
	meant := ""
	switch nearest := Nearest(slug, r.Saved(c)); nearest {
	case "":
		if field != fieldVirtualKey {
			meant = "; no provider or virtual key of the workspace has this slug"
		}
	case slug:
		meant = "; it is a provider: name it in " + fieldProvider
	default:
		meant = "; did you mean " + nearest + "?"
	}
	return newError(UnknownVirtualKey, field, "Following keys are not valid: %s%s", Clip(slug), meant)
}

// builtIn routes a call with its own credential to a built-in provider. A custom host may
// need no credential.
func (r *Router) builtIn(s Selection, model string) (*Route, *Error) {
	base, refusal := r.base(s.Provider, s.CustomHost)
	if refusal != nil {
		return nil, refusal
	}
	if _, settled, _ := r.BuiltIn(s.Provider); s.Bearer.Empty() && s.CustomHost == "" && !settled {
		return nil, newError(NoProvider, "authorization",
			"Provider %s needs a credential: send it as Authorization: Bearer beside x-gw-api-key, or name a saved provider", s.Provider)
	}
	return &Route{
		Provider: s.Provider, Dialect: s.Provider, BaseURL: base, Key: s.Bearer, Model: model, Inline: true, CustomHost: s.CustomHost != "",
	}, nil
}

// base returns the base URL of a built-in provider, or the custom host, which replaces the
// base URL entirely, including the version segment.
func (r *Router) base(provider, customHost string) (*url.URL, *Error) {
	base, settled, ok := r.BuiltIn(provider)
	if !ok {
		return nil, unknownProvider(provider)
	}
	if customHost != "" {
		u, err := r.Guard.Check(customHost)
		if err != nil {
			return nil, CustomHostError(err)
		}
		return u, nil
	}
	if base == nil && !settled {
		return nil, newError(BadCustomHost, fieldCustomHost, "Invalid custom host: provider %s has no address of its own, name one", provider)
	}
	return base, nil
}

// CustomHostError converts an error of the host guard, from checking or dialing a host.
func CustomHostError(err error) *Error {
	message := "Invalid custom host"
	var host *HostError
	if errors.As(err, &host) {
		message += ": " + host.Why
	}
	return &Error{Reason: BadCustomHost, Field: fieldCustomHost, Message: message, Err: err}
}

// Clip shortens what an error or a record repeats of a caller's input to 64 bytes.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
