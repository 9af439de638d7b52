package credentials

import (
	"strings"
)

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
