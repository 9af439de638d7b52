package credentials

import (
	"net/http"
	"net/url"
	"strings"
)

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
	// Machine is set if the credential may be what the gateway's machine is: an API key of the
	// organisation has saved it so, or it is the operator's.
	Machine bool
	// Account is what objects at the provider are told apart by where workspaces may share the
	// credential: the slug of an operator's provider, an integration, a secret reference, or what
	// the gateway's machine is; "": the credential is the caller's own, or a single workspace's.
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
		refusal := inlineProvider(field)
		refusal.Message += "; " + Clip(n.builtIn) + " of the model " + Clip(s.Model) + " was read as a provider: write @<slug of a saved provider>/" + Clip(model) + ", or make the model an alias (/v1/model-aliases)"
		return nil, refusal
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
			"Provider %s needs a credential: send it as Authorization: Bearer along with x-gw-api-key, or name a saved provider", s.Provider)
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
