package inference

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/exchange"
)

// A Forwarder forwards calls through a reverse proxy of Caddy's.
type Forwarder struct {
	proxy  *reverseproxy.Handler
	logger *zap.Logger
}

// NewForwarder returns a forwarder over a provisioned transport. WebSockets outlive
// a reload of the configuration for streamCloseDelay. Call Cleanup when done.
func NewForwarder(ctx caddy.Context, t *Transport, streamCloseDelay time.Duration) (*Forwarder, error) {
	f := &Forwarder{
		proxy: &reverseproxy.Handler{
			Transport: t, DynamicUpstreams: Upstreams{}, StreamCloseDelay: caddy.Duration(streamCloseDelay),
		},
		logger: ctx.Logger(),
	}
	return f, f.proxy.Provision(ctx)
}

// Cleanup releases what the forwarder holds.
func (f *Forwarder) Cleanup() error { return f.proxy.Cleanup() }

// Serve answers a prepared exchange.
func (f *Forwarder) Serve(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	a := newAttempt(x)
	defer a.close()
	x.Attempts++
	x.SetHeader(w.Header())
	err := f.proxy.ServeHTTP(w, shell(r, a), caddyhttp.HandlerFunc(noNext))
	switch {
	case err == nil && x.Status == 0, r.Context().Err() != nil:
		x.Status, x.Failure = statusClientGone, "the client left"
	case err != nil:
		e := failed(x, err)
		f.logger.Error("provider could not be reached",
			zap.String("provider", x.Route.Provider), zap.String("trace_id", x.TraceID), zap.Error(err))
		x.Fail(w, e)
	}
}

// statusClientGone is what Caddy answers, and logs, when the client left.
const statusClientGone = 499

func noNext(http.ResponseWriter, *http.Request) error { return nil }

// shell is the request that reverse_proxy sees. It carries the attempt and nothing
// of the client's headers or body: Caddy's debug log prints it.
func shell(r *http.Request, a *attempt) *http.Request {
	out := r.WithContext(withAttempt(r.Context(), a))
	out.Header = make(http.Header)
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
	return out
}

// failed turns a failure to get an answer into what the client sees.
func failed(x *exchange.Exchange, err error) *exchange.Error {
	var host *credentials.HostError
	if errors.As(err, &host) {
		return exchange.Refused(credentials.RefuseHost(err))
	}
	e := &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error", Code: "provider_unreachable", Err: err}
	var dial *dialError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dial):
		e.Status = http.StatusServiceUnavailable
		e.Message = "Provider " + x.Route.Provider + " could not be reached"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		e.Status, e.Code = http.StatusGatewayTimeout, "provider_timeout"
		e.Message = "Provider " + x.Route.Provider + " did not answer in time"
	default:
		e.Message = "Provider " + x.Route.Provider + " closed the connection without an answer"
	}
	return e
}
