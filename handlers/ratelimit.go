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
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/storage"
)

func init() {
	caddy.RegisterModule(RateLimit{})
}

// RateLimit is gw_ratelimit: it admits inference calls by the rate-limit and usage-limit policies
// that match them. It stands before gw_inference, to which it leaves every call
// that would be refused there anyway.
type RateLimit struct {
	// What happens to calls that policies match while the store cannot be written, so that they cannot
	// be counted: "refuse", with 503, or "allow", uncounted. Default: refuse.
	OnStoreFailure string `json:"on_store_failure,omitempty"`

	running func(context.Context) (limitingServices, error)
	most    func() exchange.Limits // of a body, that any handler of the gateway reads
	access  *accessLog
	logger  *zap.Logger

	stopping <-chan struct{} // closed when the configuration is unloaded
}

// Values of OnStoreFailure.
const (
	refuse = "refuse"
	allow  = "allow"
)

// limitingServices are what gw_ratelimit uses of the gateway, once it has started.
type limitingServices struct {
	calls    calls
	policies rateLimits
}

// rateLimits are the policies that calls are counted by, see [policies.Limits].
type rateLimits interface {
	Admit(ctx context.Context, workspaceID string, call policies.Call, which policies.Scope, maxWait time.Duration) (*policies.Verdict, error)
	Grow(context.Context, *policies.Verdict, policies.Used) (*policies.Denial, error)
	Settle(context.Context, *policies.Verdict, policies.Used) error
	Release(*policies.Verdict)
	Estimates() *estimate.Estimator
	Uncounted(why error)
}

// CaddyModule returns the Caddy module information.
func (RateLimit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gw_ratelimit", New: func() caddy.Module { return new(RateLimit) }}
}

// Provision sets up the handler.
func (h *RateLimit) Provision(ctx caddy.Context) error {
	if h.OnStoreFailure != "" && h.OnStoreFailure != refuse && h.OnStoreFailure != allow {
		return fmt.Errorf("gw_ratelimit: on_store_failure: expected refuse or allow, got %q", h.OnStoreFailure)
	}
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
		return limitingServices{rt.Gateway, rt.Limits}, nil
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
			h.access.serveTurns(w, r, gw.calls, h.stopping, h.most().StallTimeout, func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) })
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
	l := &limiter{policies: gw.policies, logger: h.logger, maxWait: maxWait}
	if h.OnStoreFailure == allow {
		l.allow = x.Warn
	}
	x.Limit(l)
	_ = x.Prepare(h.most()) // what placeholders say is known from here on; gw_inference says why it refuses
	return next.ServeHTTP(w, r)
}

// maxWait is how long a call waits for what other calls have reserved of a budget.
const maxWait = time.Second

// A limiter holds a call against policies.
type limiter struct {
	policies rateLimits
	logger   *zap.Logger
	maxWait  time.Duration        // that is left of the call's
	allow    func(warning string) // calls pass that cannot be counted because the store cannot be written; nil: none do

	// The tightest policies that count the call, of those that do not depend on the target.
	requests, tokens *ledger.State
}

// Admit counts a call by the policies that match it.
func (l *limiter) Admit(ctx context.Context, call *exchange.Call, target *exchange.Attempt) (exchange.Hold, *exchange.Error) {
	which := policies.ScopeAll
	switch {
	case call.Config == nil:
	case target == nil:
		which = policies.ScopeCall
	default:
		which = policies.ScopeTarget
	}
	if target == nil || !target.ReadsFile() {
		h, refusal := l.admit(ctx, call, target, which)
		if h == nil {
			return nil, refusal
		}
		return h, refusal
	}
	// What counts tokens and costs has a file read, so that policies of requests are asked before.
	first, refusal := l.admit(ctx, call, target, which|policies.OfRequests)
	if refusal != nil {
		return nil, refusal
	}
	second, refusal := l.admit(ctx, call, target, which|policies.OfUsage)
	if refusal != nil {
		if first != nil {
			first.Release()
		}
		return nil, refusal
	}
	switch {
	case first == nil && second == nil:
		return nil, nil
	case first == nil:
		return second, nil
	case second != nil:
		first.also = second
		first.requests, first.tokens = ledger.Tighter(first.requests, second.requests), ledger.Tighter(first.tokens, second.tokens)
	}
	return first, nil
}

// admit counts a call by some of the policies that match it; nil: they count nothing.
func (l *limiter) admit(ctx context.Context, call *exchange.Call, target *exchange.Attempt, which policies.Scope) (*hold, *exchange.Error) {
	var facts policies.Call = call
	if target != nil {
		facts = target
	}
	begun := time.Now()
	verdict, err := l.policies.Admit(ctx, call.Caller.WorkspaceID, facts, which, l.maxWait)
	l.maxWait -= time.Since(begun)
	if err != nil && l.allow != nil && errors.Is(err, storage.ErrUnwritable) {
		l.policies.Uncounted(err)
		l.allow(notCounted)
		return nil, nil
	}
	if refusal := (*exchange.Error)(nil); errors.As(err, &refusal) { // what the call may use cannot be known
		return nil, refusal
	}
	if err != nil {
		if ctx.Err() == nil {
			l.logger.Error("call not counted, and so not admitted", zap.String("trace_id", call.Trace.ID), zap.Error(err))
		}
		return nil, uncounted(err)
	}
	if verdict.Undecided != nil {
		const why = "a limit depends on it"
		if target != nil {
			return nil, target.RefuseUnread(why)
		}
		return nil, call.RefuseUnread(why)
	}
	if verdict.Denied != nil {
		refusal := deny(verdict.Denied).OfCarrier(verdict.Denied.Carrier())
		refusal.Header = limitHeader(verdict.Requests, verdict.Tokens)
		return nil, refusal
	}
	if d := verdict.Demand(); d != nil && target != nil {
		target.Metered(d, verdict.Most(), l.policies.Estimates())
		if d.Lines != nil {
			target.Reserved(verdict)
		}
	}
	h := &hold{policies: l.policies, verdict: verdict, logger: l.logger}
	h.requests, h.tokens = ledger.Tighter(l.requests, verdict.Requests), ledger.Tighter(l.tokens, verdict.Tokens)
	if target == nil {
		l.requests, l.tokens = h.requests, h.tokens
	}
	return h, nil
}

// A hold is a call that was counted.
type hold struct {
	policies         rateLimits
	verdict          *policies.Verdict
	logger           *zap.Logger
	requests, tokens *ledger.State
	also             *hold // of the same call; may be nil
}

// Header says which limits are the tightest.
func (h *hold) Header() []exchange.HeaderField { return limitHeader(h.requests, h.tokens) }

// Settle books what the attempts used. A request counts as one, whatever it used.
func (h *hold) Settle(sent []*exchange.Attempt) {
	if h.also != nil {
		h.also.Settle(sent)
	}
	var used policies.Used
	if h.verdict.Demand() != nil {
		for _, a := range sent {
			tokens, cost := a.Spent()
			used.Tokens += tokens
			used.Cost = used.Cost.Plus(cost)
		}
	}
	// What was used is booked even if the client has left.
	if err := h.policies.Settle(context.Background(), h.verdict, used); err != nil {
		h.logger.Error("booking what a call used; it counts until the gateway ends", zap.Error(err))
	}
}

// Grow counts what a session has used so far, and refuses that it goes on if there is no room for that.
func (h *hold) Grow(ctx context.Context, tokens int64, cost prices.Amount) *exchange.Error {
	if h.also != nil {
		if refusal := h.also.Grow(ctx, tokens, cost); refusal != nil {
			return refusal
		}
	}
	if h.verdict.Demand() == nil {
		return nil
	}
	denied, err := h.policies.Grow(ctx, h.verdict, policies.Used{Tokens: tokens, Cost: cost})
	switch {
	case err != nil:
		h.logger.Error("counting what a session uses, which is ended", zap.Error(err))
		return uncounted(err)
	case denied == nil:
		return nil
	}
	name, _ := named(denied)
	allows := name + " allows " + denied.Text(denied.Rule.Limit)
	if denied.Budget() {
		return exchange.OverBudget("Usage limit exceeded: " + allows + ", and the session has used what was left")
	}
	return exchange.RateLimited("Rate limit exceeded: "+allows+" "+denied.Unit+", and the session has used what was left", 0)
}

// Release gives back what was counted.
func (h *hold) Release() {
	if h.also != nil {
		h.also.Release()
	}
	h.policies.Release(h.verdict)
}

// notCounted is the warning of a call that passes uncounted.
const notCounted = "the call is not counted against its limits, because the store cannot be written"

func uncounted(err error) *exchange.Error {
	if errors.Is(err, storage.ErrUnwritable) {
		return exchange.Unavailable("The call cannot be counted against its rate limit, because the store cannot be written", err)
	}
	return exchange.Unavailable("The call cannot be counted against its rate limit for now", err)
}

// Names of the headers with the limits of a caller, as OpenAI spells them.
const (
	limitRequests     = "X-Ratelimit-Limit-Requests"
	remainingRequests = "X-Ratelimit-Remaining-Requests"
	resetRequests     = "X-Ratelimit-Reset-Requests"
	limitTokens       = "X-Ratelimit-Limit-Tokens"
	remainingTokens   = "X-Ratelimit-Remaining-Tokens"
	resetTokens       = "X-Ratelimit-Reset-Tokens"
)

// limitHeader returns the headers for the tightest policies; either may be nil. A budget that is never reset has no time
// until that.
func limitHeader(requests, tokens *ledger.State) (fields []exchange.HeaderField) {
	const each = 3
	switch {
	case requests != nil && tokens != nil:
		fields = make([]exchange.HeaderField, 0, 2*each)
	case requests != nil || tokens != nil:
		fields = make([]exchange.HeaderField, 0, each)
	}
	add := func(s *ledger.State, limit, remaining, reset string) {
		if s == nil {
			return
		}
		fields = append(fields,
			exchange.HeaderField{Name: limit, Value: strconv.FormatInt(s.Limit, 10)},
			exchange.HeaderField{Name: remaining, Value: strconv.FormatInt(max(s.Remaining, 0), 10)})
		at := ""
		if s.Reset != ledger.Never {
			at = roundUp(s.Reset).String()
		}
		fields = append(fields, exchange.HeaderField{Name: reset, Value: at})
	}
	add(requests, limitRequests, remainingRequests, resetRequests)
	add(tokens, limitTokens, remainingTokens, resetTokens)
	return fields
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

// carriedBy names the limits that objects have themselves, by the kind of object.
var carriedBy = map[string]string{
	policies.KeyAPIKey:      "the API key's own limit",
	policies.KeyToken:       "the JWT's own limit",
	policies.KeyWorkspace:   "the workspace's own limit",
	policies.KeyVirtualKey:  "the provider's own limit",
	policies.KeyIntegration: "the limit of the provider's integration in the workspace",
}

// deny is the answer to a call that a policy refused.
func deny(d *policies.Denial) *exchange.Error {
	name, price := named(d)
	switch {
	case d.Unmetered != "" && d.Type == policies.Requests:
		return exchange.Unmetered(d.Budget(), "Limit: "+name+" counts requests of some models, and those of the batch are not known: "+d.Unmetered)
	case d.Unmetered != "":
		return exchange.Unmetered(d.Budget(), "Usage limit: "+name+" counts "+counted(d.Type)+", and what the call uses is not known: "+d.Unmetered)
	case d.Unpriced != "":
		return exchange.OverBudget("Usage limit: " + name + " counts costs, and the price of " + d.Unpriced + " is not known; leave it out, or set its price, if there is one of the kind, or " + price + " to allow")
	case d.UnknownPrice:
		return exchange.OverBudget("Usage limit: " + name + " counts costs, and the price of the model is not known; set its price, or " + price + " to allow")
	case !d.Budget():
		message, wait := fmt.Sprintf("Rate limit exceeded: %s allows %d %s", name, d.Rule.Limit, d.Unit), d.RetryAfter
		switch {
		case d.Never && d.Type == policies.Tokens:
			message, wait = message+" of tokens, and the call may use "+uses(d), 0
		case d.Never:
			wait = 0
		case d.Type == policies.Tokens:
			message += " of tokens, of which " + d.Text(max(d.Remaining, 0)) + " are left, and the call may use " + uses(d)
		}
		return exchange.RateLimited(message, wait)
	}
	message := fmt.Sprintf("Usage limit exceeded: %s allows %s", name, d.Text(d.Rule.Limit))
	if d.Carrier() == "" {
		message += " for " + d.Group
	}
	if d.Spent {
		if d.Remaining > 0 && d.Type != policies.Requests {
			message += ", of which " + d.Text(d.Remaining) + " are left, and the call may use " + uses(d)
		}
		return exchange.OverBudget(message)
	}
	if d.Batches { // nobody knows for how long
		return exchange.BudgetReserved(message+", of which batches or fine-tuning jobs that are not settled have reserved the rest: read the output of the batches and the status of the jobs, or wait until they have ended", 0)
	}
	return exchange.BudgetReserved(message+", of which other calls have reserved the rest", d.RetryAfter)
}

// named is what a policy that refused a call is called, and the setting by which it would have allowed an unknown price.
func named(d *policies.Denial) (name, price string) {
	switch own, carried := carriedBy[d.Carrier()]; {
	case carried:
		return own, "on_unknown_price in its usage_limits"
	case d.Name != "":
		return "policy " + d.Name + " (" + d.ID + ")", "the policy's on_unknown_price"
	}
	return "policy " + d.ID, "the policy's on_unknown_price"
}

// uses says how much a refused call may use, and of what that is made up.
func uses(d *policies.Denial) string {
	return d.Text(d.Needs) + " (what its prompt has at most, and its maximum of tokens)"
}

// counted is what policies of a type count.
func counted(kind string) string {
	if kind == policies.Cost {
		return "costs"
	}
	return kind
}

// Interface guards
var (
	_ caddy.Provisioner           = (*RateLimit)(nil)
	_ caddyhttp.MiddlewareHandler = (*RateLimit)(nil)
	_ policies.Call               = (*exchange.Call)(nil)
	_ policies.Call               = (*exchange.Attempt)(nil)
	_ exchange.Limiter            = (*limiter)(nil)
	_ exchange.Growing            = (*hold)(nil)
)
