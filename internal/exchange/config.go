package exchange

import (
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Configs finds the config of a call.
type Configs struct {
	Shelf   *routing.Shelf
	Options routing.Options // of saved configs
}

// config resolves the config that a call names, or that its key or workspace has as
// the default; nil where there is none.
func (x *Exchange) config(named, version string) (*routing.Config, *Error) {
	fallback := x.Caller.ConfigID
	if fallback == "" {
		if d := x.Gateway.Configs.Shelf.DefaultOf(x.Caller.WorkspaceID); d != nil {
			fallback = d.ID
		}
	}
	switch {
	case named == "" && fallback == "":
		return nil, nil
	case named == "":
		return x.savedConfig(fallback, "")
	case fallback == x.Caller.ConfigID && fallback != "" && x.Caller.ForbidsOverride:
		return nil, badRequest("x-gw-config", "config_override_forbidden", "Cannot override default config set for this API key.")
	case inline(named):
		o := x.Gateway.Configs.Options
		o.Saved = false
		c, faults := routing.Parse([]byte(named), o)
		if len(faults) > 0 {
			return nil, badConfig(faults)
		}
		x.InlineConfig = true
		return c, nil
	}
	slug, pinned, _ := strings.Cut(named, "@")
	if pinned == "" {
		pinned = version
	}
	return x.savedConfig(slug, pinned)
}

// passthrough reports whether the call's config has it go to the provider as it came,
// whatever the endpoint's tables say.
func (x *Exchange) passthrough() bool { return x.Config != nil && x.Config.Passthrough }

// inline reports whether a config header holds a config itself.
func inline(named string) bool { return strings.HasPrefix(strings.TrimSpace(named), "{") }

func (x *Exchange) savedConfig(slug, version string) (*routing.Config, *Error) {
	s, ok := x.Gateway.Configs.Shelf.Get(slug)
	if !ok || s.Archived || s.WorkspaceID != x.Caller.WorkspaceID {
		if strings.ContainsAny(slug, "{}[]\" ") {
			return nil, badRequest("x-gw-config", "invalid_config", "Invalid config passed. You need to pass a valid json")
		}
		return nil, badRequest("x-gw-config", "invalid_config", "Invalid config id passed: "+credentials.Clip(slug))
	}
	v, ok := s.Version(version)
	if !ok {
		return nil, badRequest("x-gw-config-version", "invalid_config", "Invalid config version passed: "+credentials.Clip(version))
	}
	c, err := x.Gateway.Configs.Shelf.Config(v, x.Gateway.Configs.Options)
	if err != nil {
		e := badRequest("x-gw-config", "invalid_config", "Invalid config passed: the saved config "+s.Slug+" cannot be used any more")
		e.Err = err
		return nil, e
	}
	x.ConfigID, x.ConfigVersion = s.Slug, v.ID
	return c, nil
}

// badConfig lists every fault of a config.
func badConfig(faults routing.Faults) *Error {
	list := faults.Strings()
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalidRequest, Param: "x-gw-config", Code: "invalid_config",
		Message: "Invalid config passed: " + strings.Join(list, "; "), Errors: list,
	}
}
