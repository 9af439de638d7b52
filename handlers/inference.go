// Package handlers holds the gateway's HTTP handlers, each thin over the service
// that does the work, and their Caddyfile syntax.
package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inference"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

func init() {
	caddy.RegisterModule(Inference{})
}

// Inference is gw_inference: it forwards inference calls to model providers. Paths outside /v1
// and /v2 go to the next handler, and are answered with 404 if none answers them; other paths inside
// them are answered with 404. It also answers the probes /health, /livez and /readyz, which need no
// key.
type Inference struct {
	// The largest request body, in bytes. Default: 32 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// The largest body that passes through without being read whole (multipart,
	// audio), in bytes. Default: 512 MiB.
	MaxUpload int64 `json:"max_upload,omitempty"`

	// How much of such a body is kept in memory, in bytes, so that another attempt
	// can follow one that failed. Default: 1 MiB.
	MaxReplay int64 `json:"max_replay,omitempty"`

	// How long WebSockets outlive a reload of the configuration. Default: 5 minutes.
	StreamCloseDelay caddy.Duration `json:"stream_close_delay,omitempty"`

	// Options of Caddy's HTTP transport. Default: the connection pools that all
	// handlers of the gateway share.
	Transport *inference.Transport `json:"transport,omitempty"`

	// How long a stream that has begun may be silent before it is ended with an
	// error. Default: 5 minutes.
	StreamIdleTimeout caddy.Duration `json:"stream_idle_timeout,omitempty"`

	// How long a request body may take to go on; it also has to come with at least 1,024
	// bytes a second in the long run. By the same rule a client has to take its answer.
	// Default: 1 minute.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// How long a provider may take to send the headers of its answer if neither the call nor its
	// config nor REQUEST_TIMEOUT sets a timeout; and how long an answer in one piece may stand
	// still. Default: 10 minutes.
	ProviderHeaderTimeout caddy.Duration `json:"provider_header_timeout,omitempty"`

	// Where Caddy's admin endpoint listens, apart from localhost:2019 or the value of
	// CADDY_ADMIN: no host that a caller chooses may lead there. The Caddyfile's option admin
	// sets it.
	AdminListen string `json:"admin_listen,omitempty"`

	headers   *exchange.Headers
	ready     func() error // why the gateway cannot serve calls
	running   func(context.Context) (inferenceServices, error)
	access    *accessLog
	forwarder forwarder
	logger    *zap.Logger
	stopping  <-chan struct{} // closed when the configuration is unloaded
	unlimited func()          // warns, once, that gw_ratelimit does not see the calls
}

// inferenceServices are what gw_inference uses of the gateway, once it has started.
type inferenceServices struct {
	calls   calls
	records records
	// maxLoggedBody is what is kept of each body of a workspace's calls, in bytes.
	maxLoggedBody func(workspaceID string) int
}

// records are the request log.
type records interface {
	Add(*reqlog.Record) bool
}

// A forwarder answers calls that are prepared, see [inference.Forwarder].
type forwarder interface {
	Serve(http.ResponseWriter, *http.Request, *exchange.Exchange)
	ServeModels(http.ResponseWriter, *http.Request, *exchange.Exchange)
	ServeStored(http.ResponseWriter, *http.Request, *exchange.Exchange)
	// Conclude gives the record of a call that has ended to add.
	Conclude(x *exchange.Exchange, add func(*reqlog.Record) bool)
	Cleanup() error
}

const (
	defaultMaxBody           = 32 << 20
	defaultMaxUpload         = 512 << 20
	defaultMaxReplay         = 1 << 20
	defaultStreamCloseDelay  = 5 * time.Minute
	defaultStreamIdleTimeout = 5 * time.Minute
	defaultBodyTimeout       = time.Minute
	defaultHeaderTimeout     = 10 * time.Minute
)

// CaddyModule returns the Caddy module information.
func (Inference) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_inference", New: func() caddy.Module { return new(Inference) }}
}

// Provision sets up the handler.
func (h *Inference) Provision(ctx caddy.Context) error {
	h.logger, h.stopping = ctx.Logger(), ctx.Done()
	gw, access, err := gateway(ctx, "gw_inference")
	if err != nil {
		return err
	}
	h.access, h.headers, h.ready = access, gw.Headers(), gw.Ready
	h.running = func(ctx context.Context) (inferenceServices, error) {
		rt, err := gw.Runtime(ctx)
		if err != nil {
			return inferenceServices{}, err
		}
		return inferenceServices{rt.Gateway, rt.Records, rt.MaxLoggedBody}, nil
	}
	for _, size := range []struct {
		name  string
		value *int64
		other int64
	}{
		{"max_body", &h.MaxBody, defaultMaxBody},
		{"max_upload", &h.MaxUpload, defaultMaxUpload},
		{"max_replay", &h.MaxReplay, defaultMaxReplay},
	} {
		switch {
		case *size.value < 0:
			return fmt.Errorf("%s: expected a positive number of bytes, got %d", size.name, *size.value)
		case *size.value == 0:
			*size.value = size.other
		}
	}
	for _, limit := range []struct {
		name  string
		value *caddy.Duration
		other time.Duration
	}{
		{"stream_close_delay", &h.StreamCloseDelay, defaultStreamCloseDelay},
		{"stream_idle_timeout", &h.StreamIdleTimeout, defaultStreamIdleTimeout},
		{"body_timeout", &h.BodyTimeout, defaultBodyTimeout},
		{"provider_header_timeout", &h.ProviderHeaderTimeout, defaultHeaderTimeout},
	} {
		switch {
		case *limit.value < 0:
			return fmt.Errorf("%s: expected a positive duration, got %v", limit.name, time.Duration(*limit.value))
		case *limit.value == 0:
			*limit.value = caddy.Duration(limit.other)
		}
	}
	h.unlimited = sync.OnceFunc(func() {
		h.logger.Warn("limits and budgets have no effect on calls that gw_ratelimit does not see; put it before gw_inference")
	})
	if !holds(ctx, "gw_ratelimit") {
		h.unlimited()
	}
	if err := gw.GuardAdmin(h.AdminListen); err != nil {
		return fmt.Errorf("admin_listen: %w", err)
	}
	gw.RaiseLimits(h.limits())
	transport := gw.Transport()
	if h.Transport != nil {
		h.Transport.Guarded(gw.Guard())
		if err := h.Transport.Provision(ctx); err != nil {
			return err
		}
		transport = h.Transport
	}
	settings := gw.Forwarding()
	settings.Idle, settings.Headers = time.Duration(h.StreamIdleTimeout), time.Duration(h.ProviderHeaderTimeout)
	h.forwarder, err = inference.NewForwarder(ctx, transport, time.Duration(h.StreamCloseDelay), settings)
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
	defer h.access.guard(w, r).done()
	if exchange.OpensResponses(r) {
		gw, err := h.running(r.Context())
		if err == nil { // otherwise the client left before the gateway had started
			h.access.serveTurns(w, r, gw.calls, h.stopping, h.limits().StallTimeout, func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) })
		}
		return nil
	}
	endpoint, refusal := endpointOf(r, h.access)
	switch {
	case refusal != nil:
		refusal.Write(w, h.headers, exchange.EnvelopeOf(r))
		return nil
	case endpoint == nil && (probe{h.ready}).serve(w, r):
		return nil
	case endpoint == nil:
		return h.access.serveNext(w, r, next)
	}
	gw, err := h.running(r.Context())
	if err != nil {
		return nil // the client left before the gateway had started
	}
	x := exchange.Of(r)
	if x == nil {
		x = gw.calls.Begin(w, r, endpoint)
		defer x.Close()
	}
	if !x.Limited() {
		h.unlimited()
	}
	if refusal := x.Prepare(h.limits()); refusal != nil {
		if refusal.Err != nil {
			h.logger.Warn("call refused", zap.String("trace_id", x.Trace.ID), zap.String("why", refusal.Message), zap.Error(refusal.Err))
		}
		x.Fail(w, refusal)
		return nil
	}
	if x.Rendered {
		x.ServeRendered(w)
		return nil
	}
	x.KeepExcerpts(gw.maxLoggedBody(x.Caller.WorkspaceID))
	defer func() { // also when the answer breaks off and panics
		x.End()
		x.Booked(func() { h.forwarder.Conclude(x, gw.records.Add) })
	}()
	if x.Catalogue != nil {
		h.forwarder.ServeModels(w, r, x)
		return nil
	}
	if x.StoredResponse != nil {
		h.forwarder.ServeStored(w, r, x)
		return nil
	}
	h.forwarder.Serve(w, r, x)
	return nil
}

func (h *Inference) limits() exchange.Limits {
	return exchange.Limits{Body: h.MaxBody, Upload: h.MaxUpload, Replay: int(h.MaxReplay), StallTimeout: time.Duration(h.BodyTimeout)}
}

// endpointOf returns the endpoint of a request: nil if the path is not the gateway's, and an
// error if it is but has no endpoint.
func endpointOf(r *http.Request, log *accessLog) (*exchange.Endpoint, *exchange.Error) {
	path := exchange.RequestPath(r)
	endpoint, allow := exchange.EndpointOf(r.Method, path)
	ours := endpoint != nil || allow != nil || admin.Reserved(r.URL.Path) || strings.HasPrefix(r.URL.Path, "/v1/")
	switch {
	case ours && exchange.KeyInPath(path, log.own):
		return nil, exchange.RefuseKeyInPath()
	case admin.Reserved(r.URL.Path):
		return nil, exchange.NotFound(path)
	case endpoint != nil:
		return endpoint, nil
	case allow != nil:
		return nil, exchange.MethodNotAllowed(r.Method, allow)
	case ours:
		return nil, exchange.NotFound(path)
	}
	return nil, nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Inference)(nil)
	_ caddy.CleanerUpper          = (*Inference)(nil)
	_ caddyhttp.MiddlewareHandler = (*Inference)(nil)
)
