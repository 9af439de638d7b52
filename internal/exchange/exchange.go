// Package exchange is one inference call, from its first byte to its record: caller, endpoint,
// body, attempts, usage. The handlers of a request share the exchange in its context; the first
// one that needs it begins and prepares it.
package exchange

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/internal/tokens"
)

// A Gateway is what all exchanges of a configuration share.
type Gateway struct {
	Authenticator Authenticator
	Router        *credentials.Router
	Headers       *Headers
	Now           func() time.Time
	Random        io.Reader
	// ID is sent along with calls to hosts that callers or tenants chose. Calls that come back
	// with it are refused; "": it is not sent.
	ID string
	// Acquire keeps the gateway's state open until the release function is called, so that a
	// stream can outlive its configuration.
	Acquire func() (release func())
	Configs *Configs
	// WorkspaceMetadata returns the default metadata of a workspace's calls, an object; may be
	// nil.
	WorkspaceMetadata func(workspaceID string) json.RawMessage
	// Responses knows the stored responses; nil: there are none.
	Responses Responses
	// Owners knows which workspace made an object with a credential that several share; nil:
	// owners are not tracked.
	Owners Owners
	// Batches are those that providers have accepted; nil: they are not known.
	Batches Batches
	// Prompts are the saved prompts; nil: there are none.
	Prompts Prompts
	// Guardrails are the saved guardrails; nil: there are none.
	Guardrails Guardrails
	// CheckServices are what checks of a workspace's calls ask others with, with the header that [Gateway.Through]
	// returns; nil: no service can be asked.
	CheckServices func(workspaceID string, through http.Header) guardrails.Services
	// Aliases are the model aliases that the calls of a workspace may name; nil: there are none.
	Aliases func(workspaceID string) []string
	// ControlPlane are the paths of the control plane, which errors about others name.
	ControlPlane []string
	// Several reports whether the organisation has several workspaces; nil: it has one.
	Several func() bool
	// Metrics counts calls and attempts; nil: they are not counted.
	Metrics *telemetry.Metrics
	// InFlight bounds the memory of all calls under way; nil: it is not bounded.
	InFlight *inflight.Budget
	// Calls bounds how many calls are under way; nil: they are not bounded.
	Calls *inflight.Budget
	// Texts counts the text of streams whose providers do not say what was used; nil: it is estimated.
	Texts *tokens.Queue
	// Prices knows what models cost; nil: no price is known.
	Prices *prices.Table
	// Unpriced is called for each call whose cost is not known, because its model has no price; may be nil.
	Unpriced func(provider, model string)
}

// An Exchange is a call, its attempts, and what became of it.
type Exchange struct {
	*Call
	Attempts []*Attempt // that were sent, in order

	// Outcome is what became of the call. [Exchange.End] takes it from the attempt that answered,
	// unless the gateway answered itself.
	Outcome

	// CacheStatus is the value of x-gw-cache-status; "": the endpoint's answers are not cached.
	CacheStatus string

	// Admitted: the call may be sent to the target that was chosen.
	Admitted bool

	// AnswerHeader is set on every answer, and replaces the provider's own. A field without a value is on
	// none.
	AnswerHeader []HeaderField

	Excerpts Excerpts
	Notes    Notes

	warnings []string // about the call itself
	warned   bool     // there are warnings of an attempt in the header

	limiters []Limiter
	limiter  [1]Limiter  // room for the first
	chosen   *Attempt    // the target that the next attempts are for
	only     Attempt     // the target of a call without a config
	sent     [1]*Attempt // room for the first of Attempts
	answer   *Attempt    // the attempt whose answer goes to the client; nil: there is none
	prepared bool
	err      *Error // of Prepare
	release  func()

	counted    bool     // it is counted in the background what was used
	afterwards []func() // what is done once the text of the answer was counted

	callAdmitted           bool // by the limits that do not depend on the target
	callHolds, targetHolds holds
}

// A HeaderField is one line of a header; Name is in canonical form.
type HeaderField struct{ Name, Value string }

// Usage is what a call used, according to its provider. The prompt includes what was read from or
// written to the provider's cache, the completion includes reasoning.
type Usage struct {
	Known   bool
	Partial bool // it was reported at the beginning of the answer, and not at its end
	prices.Usage
}

// Nothing reports whether the provider says that nothing at all was used.
func (u *Usage) Nothing() bool { return u.Known && u.Usage == (prices.Usage{}) }

const contextVar = "gw.exchange"

// Of returns the exchange of a request, or nil.
func Of(r *http.Request) *Exchange {
	x, _ := caddyhttp.GetVar(r.Context(), contextVar).(*Exchange)
	return x
}

// Begin starts the exchange of a request for endpoint, with its trace id set on w.
// The caller of Begin calls Close when the request is done.
func (g *Gateway) Begin(w http.ResponseWriter, r *http.Request, endpoint *Endpoint) *Exchange {
	both := &struct { // one allocation for both
		Exchange
		call Call
	}{call: Call{
		Gateway: g, Endpoint: endpoint, Start: g.Now(), Path: strings.TrimPrefix(RequestPath(r), "/v1"), Query: r.URL.RawQuery,
	}}
	x := &both.Exchange
	x.Call, x.release = &both.call, g.Acquire()
	x.attach(w, r)
	p := preparation{Call: x.Call}
	p.readTrace(r.Header)
	g.Headers.Set(w.Header(), HeaderTraceID, x.Trace.ID)
	if warning := g.Headers.Mistyped(r.Header); warning != "" {
		x.warnings = []string{warning}
		g.Headers.set(w.Header(), HeaderWarning, x.warnings)
	}
	caddyhttp.SetVar(r.Context(), contextVar, x)
	x.publish()
	return x
}

// Prepare authenticates the caller, reads and scans the body, or makes ready to pass
// it through, and resolves the route. It does so once; later calls return the same
// answer, but a limit that is lower than the first is still enforced.
func (x *Exchange) Prepare(limits Limits) *Error {
	if !x.prepared {
		x.prepared = true
		var route *credentials.Route
		p := preparation{Call: x.Call}
		if route, x.err = p.prepare(limits); x.err == nil {
			p.startSpan()
		}
		if route != nil {
			x.chosen = &x.only
			x.choose(x.chosen, "config", route, nil)
			if x.err == nil {
				x.err = x.chosen.integrate()
			}
		}
	}
	if x.err == nil && x.Body.buffer != nil && int64(len(x.Body.buffer.b)) > limits.Body {
		return tooLarge(limits.Body)
	}
	return x.err
}

// Commit releases the request's body: an answer goes to the client, and no other attempt follows.
// A transport that is still reading it may continue. With aliased, parts of the body may be in
// use elsewhere, so that its buffer is not used again.
func (x *Exchange) Commit(aliased bool) {
	if x.Body.spool != nil {
		x.Body.spool.commit()
	}
	if x.Body.buffer == nil {
		return
	}
	x.Body.committed = true
	x.keepRequest()
	if aliased {
		x.Body.buffer.Forget()
	} else {
		x.Body.buffer.Release()
	}
	x.Body.buffer = nil
}

// AnswerBy has the outcome of the call taken from an attempt, whose answer goes to the client.
func (x *Exchange) AnswerBy(a *Attempt) { x.answer = a }

// Fail answers with an error of the gateway's.
func (x *Exchange) Fail(w http.ResponseWriter, e *Error) {
	x.Conclude(e.Status, e.Message)
	x.SetHeader(w.Header())
	if x.Excerpts.Kept() {
		x.Excerpts.Sent(e.JSON(x.envelope()))
	}
	linger := x.Body.lingers(w)
	e.Write(w, x.Gateway.Headers, x.envelope())
	if linger {
		x.Body.linger(w, x.Caller != nil)
	}
}

// Conclude sets the outcome of a call that no attempt answered: the gateway itself did, or the
// client left.
func (x *Exchange) Conclude(status int, failure string) {
	if a := x.Latest(); a != nil {
		x.Outcome = a.Outcome
	}
	x.answer = nil
	x.Status, x.Failure = status, failure
}

// AnswerStatus is the status of the answer, which is known before the call ends.
func (x *Exchange) AnswerStatus() int {
	if x.answer != nil {
		return x.answer.Status
	}
	return x.Status
}

// End takes the outcome of the call from the attempt that answered it, and what is kept of its body. It is called once, when
// the call has been forwarded.
func (x *Exchange) End() {
	x.keepRequest()
	if x.answer != nil {
		x.Outcome = x.answer.Outcome
	}
}

// Close ends the exchange: it ends the holds, counts the call, and releases its memory. If text has to be counted
// before it is known what was used, what depends on that is done afterwards, in the background.
func (x *Exchange) Close() {
	x.LeaveTarget()
	x.endHolds(&x.callHolds, 0)
	x.Body.committed = true
	x.endSpan()
	if x.Body.buffer != nil {
		x.Body.buffer.Release()
		x.Body.buffer = nil
	}
	x.slot.Close()
	if x.counts() {
		x.counted = true
		x.whenBooked(x.end)
		x.countText()
		return
	}
	x.end()
}

// end is the end of [Exchange.Close], when it is known what was used.
func (x *Exchange) end() {
	x.count()
	for _, a := range x.Attempts {
		a.sample.release()
	}
	x.Memory.lease.Close()
	x.release()
}

// count counts a call that has ended.
func (x *Exchange) count() {
	m, cost, unpriced := x.Gateway.Metrics, prices.Amount(0), false
	if len(x.Attempts) > 0 && !x.Hit() {
		var priced bool
		cost, priced = x.Cost()
		unpriced = !priced && x.Usage().Known
	}
	if unpriced && x.Gateway.Unpriced != nil {
		x.Gateway.Unpriced(x.Provider(), x.AskedModel())
	}
	if m == nil {
		return
	}
	call := telemetry.Call{
		Target: x.MetricTarget(x.Latest()), Cost: cost, Unpriced: unpriced,
		Status: x.Status, Duration: x.Gateway.Now().Sub(x.Start), Cache: x.CacheStatus,
	}
	if len(x.Attempts) > 0 && !x.Hit() { // the cache uses no tokens
		call.Usage = x.Usage().Usage
	}
	if x.Stream && Succeeded(x.Status) && !x.FirstByte.IsZero() {
		call.FirstToken = x.FirstByte.Sub(x.Start)
	}
	m.Call(&call)
}

// endSpan ends the call's span.
func (x *Exchange) endSpan() {
	if x.Trace.Telemetry == nil {
		return
	}
	x.Trace.Telemetry.End(&telemetry.Ending{Status: x.Status, Attempts: len(x.Attempts), Provider: x.Provider(), Cache: x.CacheStatus, Error: x.failureType()})
}

// failureType is why the call failed, in one word.
func (x *Exchange) failureType() string {
	switch {
	case x.Failure == "":
		return ""
	case x.ErrorType != "":
		return x.ErrorType
	}
	return "_OTHER"
}

// NextTarget notes that the target that was chosen failed, and that another follows.
func (x *Exchange) NextTarget() {
	if m := x.Gateway.Metrics; m != nil {
		t := x.MetricTarget(x.chosen)
		m.Fallback(&t)
	}
}

// warn sets the warnings about the call and its latest attempt, and none of earlier attempts.
func (x *Exchange) warn(h http.Header) {
	all := x.warnings
	if a := x.Latest(); a != nil && a.Warnings != nil {
		all = slices.Concat(all, a.Warnings)
	}
	switch {
	case len(all) > len(x.warnings):
		x.warned = true
	case !x.warned:
		return
	}
	x.Gateway.Headers.set(h, HeaderWarning, all)
}

// Warn adds a warning about the call to the answers from now on, once.
func (x *Exchange) Warn(warning string) {
	if !slices.Contains(x.warnings, warning) {
		x.warnings, x.warned = append(slices.Clip(x.warnings), warning), true
	}
}

// SetHeader sets the gateway's own headers on an answer.
func (x *Exchange) SetHeader(h http.Header) {
	const own = 5                                     // headers that are set below
	all := make([]string, 0, len(x.AnswerHeader)+own) // one allocation for the values of all
	values := func(v string) []string {
		all = append(all, v)
		return all[len(all)-1 : len(all) : len(all)]
	}
	for _, f := range x.AnswerHeader {
		if f.Value == "" {
			delete(h, f.Name)
			continue
		}
		h[f.Name] = values(f.Value)
	}
	if provider := x.Provider(); provider != "" {
		x.Gateway.Headers.set(h, HeaderProvider, values(provider))
	}
	if a := x.Latest(); a != nil && a.Estimated {
		x.Gateway.Headers.set(h, HeaderTokenCount, values("estimated"))
	}
	x.warn(h)
	if x.CacheStatus != "" {
		x.Gateway.Headers.set(h, HeaderCacheStatus, values(x.CacheStatus))
	}
	if target := x.LastUsed(); target != "" {
		x.Gateway.Headers.set(h, HeaderLastUsed, values(target))
		x.Gateway.Headers.set(h, HeaderRetryCount, values(strconv.Itoa(x.Retries())))
	}
}
