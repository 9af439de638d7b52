// Package handlers holds the gateway's HTTP handlers, each thin over the service
// that does the work, and their Caddyfile syntax.
package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/app"
	"github.com/caddy-gw/gateway/exchange"
	"github.com/caddy-gw/gateway/inference"
)

func init() {
	caddy.RegisterModule(Inference{})
}

// Inference is gw_inference: it forwards inference calls to model providers. Paths
// outside /v1 and /v2 go to the next handler; what nobody serves inside them is
// answered with 404.
type Inference struct {
	// The largest request body, in bytes. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How long WebSockets outlive a reload of the configuration. Default: 5 minutes.
	StreamCloseDelay caddy.Duration `json:"stream_close_delay,omitempty"`

	// Options of Caddy's HTTP transport. Default: the connection pools that all
	// handlers of the gateway share.
	Transport *inference.Transport `json:"transport,omitempty"`

	app       *app.App
	access    *accessLog
	forwarder *inference.Forwarder
	logger    *zap.Logger
}

const (
	defaultMaxBody          = 32 << 20
	defaultStreamCloseDelay = 5 * time.Minute
)

// CaddyModule returns the Caddy module information.
func (Inference) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_inference", New: func() caddy.Module { return new(Inference) }}
}

// Provision sets up the handler.
func (h *Inference) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	if h.app, h.access, err = gateway(ctx, "gw_inference"); err != nil {
		return err
	}
	switch {
	case h.MaxBody < 0:
		return fmt.Errorf("max_body: expected a positive number of bytes, got %d", h.MaxBody)
	case h.MaxBody == 0:
		h.MaxBody = defaultMaxBody
	}
	h.app.RaiseMaxBody(h.MaxBody)
	if h.StreamCloseDelay == 0 {
		h.StreamCloseDelay = caddy.Duration(defaultStreamCloseDelay)
	}
	transport := h.app.Transport()
	if h.Transport != nil {
		h.Transport.Guarded(h.app.Guard())
		if err := h.Transport.Provision(ctx); err != nil {
			return err
		}
		transport = h.Transport
	}
	h.forwarder, err = inference.NewForwarder(ctx, transport, time.Duration(h.StreamCloseDelay))
	return err
}

// Cleanup releases what the handler holds.
func (h *Inference) Cleanup() error {
	var errs []error
	if h.forwarder != nil {
		errs = append(errs, h.forwarder.Cleanup())
	}
	if h.Transport != nil {
		errs = append(errs, h.Transport.Cleanup())
	}
	return errors.Join(errs...)
}

func (h *Inference) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	defer h.access.guard(w, r)()
	endpoint := exchange.EndpointOf(r.URL.Path)
	if endpoint == nil {
		if strings.HasPrefix(r.URL.Path, "/v1/") || admin.Reserved(r.URL.Path) {
			exchange.NotFound(r.URL.Path).Write(w, h.app.Headers())
			return nil
		}
		return next.ServeHTTP(w, r)
	}
	rt, err := h.app.Runtime(r.Context())
	if err != nil {
		return nil // the client left before the gateway had started
	}
	x := exchange.Of(r)
	if x == nil {
		x = rt.Gateway.Begin(w, r, endpoint)
		defer x.Close()
	}
	if refusal := x.Prepare(h.MaxBody); refusal != nil {
		if refusal.Err != nil {
			h.logger.Warn("call refused", zap.String("trace_id", x.TraceID), zap.String("why", refusal.Message), zap.Error(refusal.Err))
		}
		x.Fail(w, refusal)
		return nil
	}
	defer func() { rt.Records.Add(inference.Record(x)) }() // also when the answer breaks off and panics
	h.forwarder.Serve(w, r, x)
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Inference)(nil)
	_ caddy.CleanerUpper          = (*Inference)(nil)
	_ caddyhttp.MiddlewareHandler = (*Inference)(nil)
)
