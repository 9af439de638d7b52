package handlers

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/app"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin is gw_admin: it serves the control plane's routes below /v1 and /v2. Any
// other path goes to the next handler.
type Admin struct {
	app    *app.App
	access *accessLog
}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_admin", New: func() caddy.Module { return new(Admin) }}
}

// Provision sets up the handler.
func (h *Admin) Provision(ctx caddy.Context) (err error) {
	h.app, h.access, err = gateway(ctx, "gw_admin")
	return err
}

func (h *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	defer h.access.guard(w, r)()
	if !admin.Reserved(r.URL.Path) {
		return next.ServeHTTP(w, r)
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
