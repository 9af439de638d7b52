package inference

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// A Forwarder forwards calls through a reverse proxy of Caddy's.
type Forwarder struct {
	Settings
	proxy     *reverseproxy.Handler
	transport *Transport
	logins    logins
	logger    *zap.Logger
}

// Settings are what forwarders share.
type Settings struct {
	Breakers func() *routing.Breakers
	Cache    func() *cache.Cache // of answers
	// SharedCache: the workspaces of the organisation share answers.
	SharedCache bool
	Semantic    *Semantic // nil: questions are compared letter by letter
	Random      routing.Rand
	Timeout     time.Duration // of an attempt for which nobody sets one; 0: none
	Idle        time.Duration // that a stream may be silent once it has begun; 0: for ever
	Headers     time.Duration // that an answer\'s headers may take where nobody sets a timeout; 0: for ever
}

// NewForwarder returns a forwarder over a provisioned transport. WebSockets outlive
// a reload of the configuration for streamCloseDelay. Call Cleanup when done.
func NewForwarder(ctx caddy.Context, t *Transport, streamCloseDelay time.Duration, s Settings) (*Forwarder, error) {
	f := &Forwarder{
		Settings: s,
		proxy: &reverseproxy.Handler{
			Transport: t, DynamicUpstreams: Upstreams{}, StreamCloseDelay: caddy.Duration(streamCloseDelay),
		},
		transport: t,
		logger:    ctx.Logger(),
	}
	return f, f.proxy.Provision(ctx)
}

// Cleanup releases what the forwarder holds.
func (f *Forwarder) Cleanup() error { return f.proxy.Cleanup() }

// once sends one attempt. It reports whether the client has its answer; where it has
// not, why says what went wrong, and the attempt may hold the provider's answer.
func (f *Forwarder) once(w http.ResponseWriter, r *http.Request, a *attempt) (answered bool, why error) {
	x := a.x
	a.begin()
	defer func() { a.over(r.Context(), why) }() // also when the answer breaks off and panics
	if a.held == nil {                          // otherwise it was tried before
		defer a.tried(x.Gateway.Now(), &why)
	}
	why = f.proxy.ServeHTTP(w, shell(r, a), caddyhttp.HandlerFunc(noNext))
	if left(r, x) {
		why = nil
	}
	return why == nil, why
}

// statusClientGone is what Caddy answers, and logs, when the client left.
const statusClientGone = 499

// left reports whether the client of a call left before it had its whole answer, and notes it.
func left(r *http.Request, x *exchange.Exchange) bool {
	if r.Context().Err() == nil || x.Whole || x.BodyLate() != nil {
		return false
	}
	x.Status, x.Failure = statusClientGone, gone()
	return true
}

func noNext(http.ResponseWriter, *http.Request) error { return nil }

// shell is the request that reverse_proxy sees. It carries the attempt and nothing
// of the client's headers or body, save that it may want to become a WebSocket:
// Caddy's debug log prints it.
func shell(r *http.Request, a *attempt) *http.Request {
	out := r.WithContext(withAttempt(r.Context(), a))
	out.Header = make(http.Header)
	out.RequestURI, _ = a.x.Gateway.Headers.RedactQuery(r.RequestURI, nil)
	if exchange.UpgradesToWebSocket(r.Header) {
		out.Header["Connection"], out.Header["Upgrade"] = r.Header["Connection"], r.Header["Upgrade"]
	}
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
	return out
}

// gone says why nobody reads on.
func gone() string {
	if caddy.Exiting() {
		return gatewayStopped
	}
	return clientLeft
}

// headersTooLarge reports whether a provider's headers are larger than the transport reads.
// net/http has no types for these errors.
func headersTooLarge(err error) bool {
	said := err.Error()
	return strings.Contains(said, "server response headers exceeded") || strings.Contains(said, "response header list larger than")
}

// codeNotReplayable is the code of a call that was not tried again, though it should
// have been, because its body was too large to be kept.
const codeNotReplayable = "body_not_replayable"

// failed turns a failure to get an answer into what the client sees.
func failed(a *attempt, err error) *exchange.Error {
	var own *exchange.Error
	if errors.As(err, &own) {
		return own
	}
	var host *credentials.HostError
	if errors.As(err, &host) && a.route.CallerHost {
		return exchange.Refused(credentials.RefuseHost(err))
	}
	if inflight.Refused(err) && !errors.Is(err, exchange.ErrNotReplayable) {
		return exchange.Overloaded(err)
	}
	if errors.Is(err, errAttemptTimeout) {
		return exchange.TimedOut(a.timeout, err)
	}
	if refusal := a.x.BodyFault(err); refusal != nil {
		return refusal
	}
	if refusal := new(providers.Refusal); errors.As(err, &refusal) { // of a request that followed another
		e := refused(refusal)
		e.Caller = true
		return e
	}
	provider := a.route.Provider
	e := &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error", Code: "provider_unreachable", Err: err}
	var dial *dialError
	var unusable unusableError
	var timeout interface{ Timeout() bool }
	upload := new(providers.UploadError)
	switch {
	case headersTooLarge(err):
		e.Code, e.Pointless = "provider_misbehaved", true
		e.Message = "Provider " + provider + " sent response headers larger than " + humanize.IBytes(uint64(a.maxHeader))
	case errors.As(err, &unusable):
		e.Code, e.Pointless = "provider_misbehaved", true
		e.Message = "Provider " + provider + " could not be used: " + string(unusable)
	case errors.Is(err, errEmpty):
		e.Code = "provider_misbehaved"
		e.Message = "Provider " + provider + " answered 200 with an empty body, where there should be JSON"
	case errors.Is(err, errPage):
		e.Code = "provider_misbehaved"
		e.Message = "Provider " + provider + " answered 200 with a page in HTML, where there should be JSON"
	case errors.Is(err, exchange.ErrNotReplayable):
		e.Code = codeNotReplayable
		e.Message = "Provider " + provider + " could not be tried: " + exchange.ErrNotReplayable.Error()
	case errors.As(err, &upload):
		return unread(err)
	case errors.As(err, &dial):
		e.Status = http.StatusServiceUnavailable
		e.Message = "Provider " + provider + " could not be reached"
	case errors.Is(err, errHeadersLate):
		return exchange.ProviderTimedOut("Provider "+provider+" sent no response headers within "+strconv.FormatInt(a.headers.Milliseconds(), 10)+"ms (provider_header_timeout)", err)
	case errors.Is(err, errBodyStalled):
		return exchange.ProviderTimedOut("Provider "+provider+" sent no more of its answer within "+strconv.FormatInt(a.steady.after.Milliseconds(), 10)+"ms ("+a.steady.option+")", err)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return exchange.ProviderTimedOut("Provider "+provider+" did not answer in time", err)
	default:
		e.Message = "Provider " + provider + " closed the connection without an answer"
	}
	return e
}
