package exchange

import (
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Configs finds the config of a call.
type Configs struct {
	Store   SavedConfigs
	Options routing.Options // of saved configs
}

// A ConfigSource is where the config of a call comes from: it is saved, or the call's own.
type ConfigSource struct {
	Slug    string // of a saved config
	Version string // id
	Inline  bool
}

// config resolves the config that a call names, or else, unless its prompt names a provider, the default of
// its key or workspace; nil: there is none.
func (p *preparation) config(named, version string) (*routing.Config, *Error) {
	fallback := p.Caller.ConfigID
	if fallback == "" {
		if d := p.Gateway.Configs.Store.DefaultOf(p.Caller.WorkspaceID); d != nil {
			fallback = d.ID
		}
	}
	switch {
	case named == "" && (fallback == "" || p.noDefault):
		return nil, nil
	case named == "":
		return p.savedConfig(fallback, "", "")
	case fallback != "" && p.Caller.ForbidsOverride:
		return nil, badRequest("x-gw-config", "config_override_forbidden", "Cannot override default config set for this API key.")
	case inline(named):
		o := p.Gateway.Configs.Options
		o.Saved, o.Workspace = false, p.Caller.WorkspaceID
		c, faults := routing.Parse([]byte(named), o)
		if len(faults) > 0 {
			return nil, badConfig(faults)
		}
		p.ConfigSource.Inline = true
		return c, nil
	}
	slug, pinned, _ := strings.Cut(named, "@")
	if pinned != "" {
		return p.savedConfig(slug, pinned, "x-gw-config")
	}
	return p.savedConfig(slug, version, "x-gw-config-version")
}

// passthrough reports whether the call's config sends it to the provider as it came, without
// validation.
func (c *Call) passthrough() bool { return c.Config != nil && c.Config.Passthrough }

// inline reports whether a config header contains a config.
func inline(named string) bool { return strings.HasPrefix(strings.TrimSpace(named), "{") }

// savedConfig returns a version of a saved config; versioned is the header that names the version.
func (p *preparation) savedConfig(slug, version, versioned string) (*routing.Config, *Error) {
	s, ok := p.Gateway.Configs.Store.Get(slug)
	if !ok || s.Archived || s.WorkspaceID != p.Caller.WorkspaceID {
		if strings.ContainsAny(slug, "{}[]\" ") {
			return nil, badRequest("x-gw-config", "invalid_config", "Invalid config passed. You need to pass a valid json")
		}
		return nil, badRequest("x-gw-config", "invalid_config", "Invalid config id passed: "+credentials.Clip(slug))
	}
	v, ok := s.Version(version)
	if !ok {
		return nil, badRequest(versioned, "invalid_config", "Invalid config version passed: the config "+s.Slug+" has no version "+credentials.Clip(version))
	}
	o := p.Gateway.Configs.Options
	o.Workspace = s.WorkspaceID
	c, err := p.Gateway.Configs.Store.Config(v, o)
	if err != nil {
		e := badRequest("x-gw-config", "invalid_config", "Invalid config passed: the saved config "+s.Slug+" cannot be used any more")
		e.Err = err
		return nil, e
	}
	p.ConfigSource.Slug, p.ConfigSource.Version = s.Slug, v.ID
	return c, nil
}

// badConfig lists all faults of a config.
func badConfig(faults routing.ConfigErrors) *Error {
	list := faults.Strings()
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Param: "x-gw-config", Code: "invalid_config",
		Message: "Invalid config passed: " + strings.Join(list, "; "), Errors: list,
	}
}
