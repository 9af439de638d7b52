package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/storage"
)

func init() {
	caddy.RegisterModule(RateLimit{})
}

// RateLimit is gw_ratelimit: it admits inference calls by the rate-limit policies
// that match them. It stands before gw_inference, to which it leaves every call
// that would be refused there anyway.
type RateLimit struct {
	running func(context.Context) (limitingServices, error)
	most    func() exchange.Limits // of a body, that any handler of the gateway reads
	access  *accessLog
	logger  *zap.Logger

	stopping <-chan struct{} // closed when the configuration is unloaded
}

// limitingServices are what gw_ratelimit uses of the gateway, once it has started.
type limitingServices struct {
	calls    calls
	policies rateLimits
}

// rateLimits are the policies that calls are counted by, see [policies.RateLimits].
type rateLimits interface {
	Admit(ctx context.Context, workspaceID string, call policies.Call, which policies.Scope) (*policies.Verdict, error)
	Release(*policies.Verdict)
}

// CaddyModule returns the Caddy module information.
func (RateLimit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_ratelimit", New: func() caddy.Module { return new(RateLimit) }}
}

// Provision sets up the handler.
func (h *RateLimit) Provision(ctx caddy.Context) error {
	h.logger, h.stopping = ctx.Logger(), ctx.Done()
	gw, access, err := gateway(ctx, "gw_ratelimit")
	if err != nil {
		return err
	}
	h.access, h.most = access, gw.Limits
	h.running = func(ctx context.Context) (limitingServices, error) {
		rt, err := gw.Runtime(ctx)
		if err != nil {
			return limitingServices{}, err
		}
		return limitingServices{rt.Gateway, rt.RateLimits}, nil
	}
	if !holds(ctx, "gw_inference") {
		return errors.New("gw_ratelimit: its server has no gw_inference, so it could limit nothing; add gw_inference to the site or remove gw_ratelimit")
	}
	return nil
}

func (h *RateLimit) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	defer h.access.guard(w, r).done()
	if exchange.OpensResponses(r) {
		gw, err := h.running(r.Context())
		if err == nil { // otherwise the client left before the gateway had started
			h.access.serveTurns(w, r, gw.calls, h.stopping, func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) })
		}
		return nil
	}
	endpoint, refusal := endpointOf(r, h.access)
	if endpoint == nil || refusal != nil {
		return next.ServeHTTP(w, r)
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
	x.Limit(&limiter{gw.policies, h.logger})
	_ = x.Prepare(h.most()) // what placeholders say is known from here on; gw_inference says why it refuses
	return next.ServeHTTP(w, r)
}

// A limiter holds calls against rate-limit policies.
type limiter struct {
	policies rateLimits
	logger   *zap.Logger
}

// Admit counts a call by the policies that match it.
func (l *limiter) Admit(ctx context.Context, call *exchange.Call, target *exchange.Attempt) (exchange.Hold, *exchange.Error) {
	var facts policies.Call = call
	if target != nil {
		facts = target
	}
	which := policies.ScopeAll
	switch {
	case call.Config == nil:
	case target == nil:
		which = policies.ScopeCall
	default:
		which = policies.ScopeTarget
	}
	verdict, err := l.policies.Admit(ctx, call.Caller.WorkspaceID, facts, which)
	if err != nil {
		if ctx.Err() == nil {
			l.logger.Error("call not counted, and so not admitted", zap.String("trace_id", call.TraceID), zap.Error(err))
		}
		return nil, uncounted(err)
	}
	if verdict.Undecided != nil {
		return nil, call.RefuseUnread("a rate limit depends on it")
	}
	if verdict.Denied != nil {
		refusal := exchange.RateLimited(limitMessage(verdict.Denied), verdict.Tightest.RetryAfter)
		refusal.Header = limitHeader(verdict.Tightest)
		return nil, refusal
	}
	return &hold{l.policies, verdict}, nil
}

// A hold is a call that was counted.
type hold struct {
	policies rateLimits
	verdict  *policies.Verdict
}

// Header says which limit is the tightest.
func (h *hold) Header() []exchange.HeaderField {
	if h.verdict.Tightest == nil {
		return nil
	}
	return limitHeader(h.verdict.Tightest)
}

// Settle does nothing: a request counts as one, whatever it used.
func (h *hold) Settle([]*exchange.Attempt) {}

func (h *hold) Release() { h.policies.Release(h.verdict) }

func uncounted(err error) *exchange.Error {
	if errors.Is(err, storage.ErrUnwritable) {
		return exchange.Unavailable("The call cannot be counted against its rate limit, because the store cannot be written", err)
	}
	return exchange.Unavailable("The call cannot be counted against its rate limit for now", err)
}

// Names of the headers that tell a caller of its limits, as OpenAI spells them.
const (
	limitRequests     = "X-Ratelimit-Limit-Requests"
	remainingRequests = "X-Ratelimit-Remaining-Requests"
	resetRequests     = "X-Ratelimit-Reset-Requests"
)

func limitHeader(s *ledger.State) []exchange.HeaderField {
	return []exchange.HeaderField{
		{Name: limitRequests, Value: strconv.FormatInt(s.Limit, 10)},
		{Name: remainingRequests, Value: strconv.FormatInt(max(s.Remaining, 0), 10)},
		{Name: resetRequests, Value: roundUp(s.Reset).String()},
	}
}

// roundUp makes a duration readable and never too short: whole seconds, or
// milliseconds below one.
func roundUp(d time.Duration) time.Duration {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	}
	return (d + unit - 1) / unit * unit
}

func limitMessage(p *policies.RateLimit) string {
	name := p.ID
	if p.Name != "" {
		name = p.Name + " (" + p.ID + ")"
	}
	return fmt.Sprintf("Rate limit exceeded: policy %s allows %d %s", name, p.Value, p.Unit)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*RateLimit)(nil)
	_ caddyhttp.MiddlewareHandler = (*RateLimit)(nil)
	_ policies.Call               = (*exchange.Call)(nil)
	_ policies.Call               = (*exchange.Attempt)(nil)
	_ exchange.Limiter            = (*limiter)(nil)
)
