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

// config resolves the config that a call names, or else the default of its key or workspace; nil:
// there is none.
func (call *Call) config(named, version string) (*routing.Config, *Error) {
	fallback := call.Caller.ConfigID
	if fallback == "" {
		if d := call.Gateway.Configs.Store.DefaultOf(call.Caller.WorkspaceID); d != nil {
			fallback = d.ID
		}
	}
	switch {
	case named == "" && fallback == "":
		return nil, nil
	case named == "":
		return call.savedConfig(fallback, "")
	case fallback == call.Caller.ConfigID && fallback != "" && call.Caller.ForbidsOverride:
		return nil, badRequest("x-gw-config", "config_override_forbidden", "Cannot override default config set for this API key.")
	case inline(named):
		o := call.Gateway.Configs.Options
		o.Saved, o.Workspace = false, call.Caller.WorkspaceID
		c, faults := routing.Parse([]byte(named), o)
		if len(faults) > 0 {
			return nil, badConfig(faults)
		}
		call.InlineConfig = true
		return c, nil
	}
	slug, pinned, _ := strings.Cut(named, "@")
	if pinned == "" {
		pinned = version
	}
	return call.savedConfig(slug, pinned)
}

// passthrough reports whether the call's config sends it to the provider as it came, without
// validation.
func (c *Call) passthrough() bool { return c.Config != nil && c.Config.Passthrough }

// inline reports whether a config header contains a config.
func inline(named string) bool { return strings.HasPrefix(strings.TrimSpace(named), "{") }

func (call *Call) savedConfig(slug, version string) (*routing.Config, *Error) {
	s, ok := call.Gateway.Configs.Store.Get(slug)
	if !ok || s.Archived || s.WorkspaceID != call.Caller.WorkspaceID {
		if strings.ContainsAny(slug, "{}[]\" ") {
			return nil, badRequest("x-gw-config", "invalid_config", "Invalid config passed. You need to pass a valid json")
		}
		return nil, badRequest("x-gw-config", "invalid_config", "Invalid config id passed: "+credentials.Clip(slug))
	}
	v, ok := s.Version(version)
	if !ok {
		return nil, badRequest("x-gw-config-version", "invalid_config", "Invalid config version passed: "+credentials.Clip(version))
	}
	o := call.Gateway.Configs.Options
	o.Workspace = s.WorkspaceID
	c, err := call.Gateway.Configs.Store.Config(v, o)
	if err != nil {
		e := badRequest("x-gw-config", "invalid_config", "Invalid config passed: the saved config "+s.Slug+" cannot be used any more")
		e.Err = err
		return nil, e
	}
	call.ConfigID, call.ConfigVersion = s.Slug, v.ID
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
