package handlers

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/app"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin is gw_admin: it serves the control plane's routes below /v1 and /v2. Any
// other path goes to the next handler; if none answers it, the answer is 404. It also
// answers the probes /health, /livez and /readyz, which need no key.
type Admin struct {
	app    *app.App
	access *accessLog
	only   bool // its server has no gw_inference, which would answer all other paths of the API
}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_admin", New: func() caddy.Module { return new(Admin) }}
}

// Provision sets up the handler.
func (h *Admin) Provision(ctx caddy.Context) (err error) {
	h.app, h.access, err = gateway(ctx, "gw_admin")
	h.only = !holds(ctx, "gw_inference")
	return err
}

func (h *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	defer h.access.guard(w, r)()
	switch {
	case admin.Reserved(r.URL.Path):
	case strings.HasPrefix(r.URL.Path, "/v1/") && !h.only:
		return next.ServeHTTP(w, r)
	case probe{h.app.Ready}.serve(w, r):
		return nil
	default:
		return serveNext(w, r, next)
	}
	rt, err := h.app.Runtime(r.Context())
	if err != nil {
		return nil // the client left before the gateway had started
	}
	rt.Admin.ServeHTTP(w, r)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Admin)(nil)
	_ caddyhttp.MiddlewareHandler = (*Admin)(nil)
)
