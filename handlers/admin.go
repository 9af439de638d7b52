package handlers

import (
	"context"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/admin"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin is gw_admin: it serves the control plane's routes below /v1 and /v2. Any
// other path goes to the next handler; if none answers it, the answer is 404. It also
// answers /docs, a page about these routes, and the probes /health, /livez and /readyz,
// which need no key.
type Admin struct {
	ready   func() error                                // why the gateway cannot serve calls
	running func(context.Context) (http.Handler, error) // the control plane, once the gateway has started
	access  *accessLog
	only    bool // its server has no gw_inference, which would answer all other paths of the API
}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_admin", New: func() caddy.Module { return new(Admin) }}
}

// Provision sets up the handler.
func (h *Admin) Provision(ctx caddy.Context) error {
	gw, access, err := gateway(ctx, "gw_admin")
	if err != nil {
		return err
	}
	h.access, h.ready, h.only = access, gw.Ready, !holds(ctx, "gw_inference")
	h.running = func(ctx context.Context) (http.Handler, error) {
		rt, err := gw.Runtime(ctx)
		if err != nil {
			return nil, err
		}
		return rt.Admin, nil
	}
	return nil
}

func (h *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	defer h.access.guard(w, r).done()
	switch {
	case admin.Reserved(r.URL.Path), r.URL.Path == admin.DocsPath:
	case (strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/v2/")) && !h.only:
		return next.ServeHTTP(w, r)
	case probe{h.ready}.serve(w, r):
		return nil
	default:
		return h.access.serveNext(w, r, next)
	}
	api, err := h.running(r.Context())
	if err != nil {
		return nil // the client left before the gateway had started
	}
	api.ServeHTTP(w, r)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Admin)(nil)
	_ caddyhttp.MiddlewareHandler = (*Admin)(nil)
)
