// Package exchange is one inference call, from its first byte to its record:
// caller, endpoint, body, route, attempts, usage. Every gw handler of a request
// shares the one in its context; whoever asks first does the work.
package exchange

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// A Gateway is what every exchange of a configuration shares.
type Gateway struct {
	Authenticator *credentials.Authenticator
	Router        *credentials.Router
	Headers       *Headers
	Now           func() time.Time
	Random        io.Reader
	// ID is what a call carries to a host that a caller or a tenant chose, by which it is
	// refused when that host leads back; "": none does.
	ID string
	// Acquire holds the gateway's state open until the release function is
	// called, so that a stream that outlives its configuration ends well.
	Acquire func() (release func())
	Configs *Configs
	// WorkspaceMetadata returns the metadata that the calls of a workspace have, an object;
	// nil: none do.
	WorkspaceMetadata func(workspaceID string) json.RawMessage
	// Responses are the stored responses: which provider holds one; nil: none are known.
	Responses *stored.Responses
	// Owners knows which workspace made an object with a credential that several share; nil:
	// owners are not tracked.
	Owners *stored.Owners
	// Several reports whether the organisation has more than one workspace; nil: it has not.
	Several func() bool
	// Metrics counts calls and attempts; nil: they are not counted.
	Metrics *telemetry.Metrics
	// InFlight bounds the memory of the calls that are under way; nil: nothing does.
	InFlight *inflight.Budget
	// Prices knows what models cost; nil: nothing has a price.
	Prices *prices.Table
}

// An Exchange is a call, its attempts, and what became of it.
type Exchange struct {
	*Call
	Attempts []*Attempt // that were sent, in order

	// Outcome is what became of the call. [Exchange.End] takes it from the attempt that
	// answered, unless the gateway itself did.
	Outcome

	// CacheStatus is what x-gw-cache-status says; "": answers of the endpoint are not cached.
	CacheStatus string

	// Admitted: the call may be sent to the target that was chosen.
	Admitted bool

	// AnswerHeader is set on every answer, and replaces the provider's own.
	AnswerHeader []HeaderField

	limiters []Limiter
	limiter  [1]Limiter  // room for the first
	chosen   *Attempt    // the target that the next attempts are for
	only     Attempt     // the target of a call without a config
	sent     [1]*Attempt // room for the first of Attempts
	answer   *Attempt    // the attempt whose answer goes to the client; nil: none does
	prepared bool
	err      *Error // of Prepare
	release  func()
	excerpts excerpts

	callAdmitted           bool // to its limits that do not depend on the target
	callHolds, targetHolds holds
}

// A HeaderField is one line of a header; Name is in canonical form.
type HeaderField struct{ Name, Value string }

// Usage is what a provider said a call used. The prompt includes what came from caches
// and what was written to them, the completion includes reasoning.
type Usage struct {
	Known bool
	prices.Usage
}

const contextVar = "gw.exchange"

// Of returns the exchange of a request, or nil.
func Of(r *http.Request) *Exchange {
	x, _ := caddyhttp.GetVar(r.Context(), contextVar).(*Exchange)
	return x
}

// Begin starts the exchange of a request for endpoint, with its trace id set on w.
// The caller of Begin calls Close when the request is done.
func (g *Gateway) Begin(w http.ResponseWriter, r *http.Request, endpoint *Endpoint) *Exchange {
	both := &struct { // in one piece of memory
		Exchange
		call Call
	}{call: Call{
		Gateway: g, Endpoint: endpoint, Start: g.Now(), Path: strings.TrimPrefix(r.URL.EscapedPath(), "/v1"), Query: r.URL.RawQuery,
		request: r, body: body{writer: w},
	}}
	x := &both.Exchange
	x.Call, x.release = &both.call, g.Acquire()
	x.readTrace(r.Header)
	g.Headers.Set(w.Header(), HeaderTraceID, x.TraceID)
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
		if route, x.err = x.prepare(limits); x.err == nil {
			x.startSpan()
		}
		if route != nil {
			x.chosen = &x.only
			x.choose(x.chosen, "config", route, nil)
		}
	}
	if x.err == nil && x.buffer != nil && int64(len(x.buffer.b)) > limits.Body {
		return tooLarge(limits.Body)
	}
	return x.err
}

// Commit lets go of the request's body: an answer goes to the client, and no other attempt
// follows. What a transport still reads of it stays until it was read. With aliased, parts
// of the body may be in use elsewhere, so that its buffer is not used again.
func (x *Exchange) Commit(aliased bool) {
	if x.spool != nil {
		x.spool.commit()
	}
	if x.buffer == nil {
		return
	}
	x.committed = true
	if x.KeepsExcerpts() {
		x.excerpts.request, x.excerpts.requestSize = x.excerpts.head(x.buffer.b), int64(len(x.buffer.b))
	}
	if aliased {
		x.buffer.Forget()
	} else {
		x.buffer.Release()
	}
	x.buffer = nil
}

// AnswerBy has the call's outcome be that of an attempt, whose answer goes to the client.
func (x *Exchange) AnswerBy(a *Attempt) { x.answer = a }

// Fail answers with an error of the gateway's own.
func (x *Exchange) Fail(w http.ResponseWriter, e *Error) {
	x.Conclude(e.Status, e.Message)
	x.SetHeader(w.Header())
	if x.KeepsExcerpts() {
		x.Sent(e.JSON())
	}
	linger := x.lingers(w)
	e.Write(w, x.Gateway.Headers)
	if linger {
		x.linger(w)
	}
}

// Conclude notes what became of a call that no attempt answered: the gateway itself did, or
// its client left.
func (x *Exchange) Conclude(status int, failure string) {
	if a := x.Latest(); a != nil {
		x.Outcome = a.Outcome
	}
	x.answer = nil
	x.Status, x.Failure = status, failure
}

// AnswerStatus is the status of the answer, as far as it is known before the call has ended.
func (x *Exchange) AnswerStatus() int {
	if x.answer != nil {
		return x.answer.Status
	}
	return x.Status
}

// End takes the outcome of the call from the attempt that answered it. Whoever forwards the
// call does that once, when it is over.
func (x *Exchange) End() {
	if x.answer != nil {
		x.Outcome = x.answer.Outcome
	}
}

// Close ends the exchange: it settles what its limits hold, counts it, and gives back what
// it has.
func (x *Exchange) Close() {
	x.LeaveTarget()
	x.callHolds.end(x.Attempts)
	x.committed = true
	x.count()
	x.endSpan()
	if x.buffer != nil {
		x.buffer.Release()
		x.buffer = nil
	}
	x.lease.Close()
	x.release()
}

// count counts a call that is over.
func (x *Exchange) count() {
	m := x.Gateway.Metrics
	if m == nil {
		return
	}
	call := telemetry.Call{
		Target: x.MetricTarget(x.Latest()),
		Status: x.Status, Duration: x.Gateway.Now().Sub(x.Start), Cache: x.CacheStatus,
	}
	if len(x.Attempts) > 0 && !x.Hit() { // what the cache answers was used before
		call.Usage = x.Usage().Usage
	}
	call.Cost, _ = x.Cost()
	if x.Stream && x.Status == http.StatusOK && !x.FirstByte.IsZero() {
		call.FirstToken = x.FirstByte.Sub(x.Start)
	}
	m.Call(&call)
}

// endSpan ends the call's span.
func (x *Exchange) endSpan() {
	if x.Trace == nil {
		return
	}
	x.Trace.End(&telemetry.Ending{Status: x.Status, Attempts: len(x.Attempts), Provider: x.Provider(), Cache: x.CacheStatus, Error: x.failureType()})
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

// SetHeader sets what the gateway says of the call on an answer.
func (x *Exchange) SetHeader(h http.Header) {
	values := make([]string, len(x.AnswerHeader))
	for i, f := range x.AnswerHeader {
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
	if provider := x.Provider(); provider != "" {
		x.Gateway.Headers.Set(h, HeaderProvider, provider)
	}
	if x.CacheStatus != "" {
		x.Gateway.Headers.Set(h, HeaderCacheStatus, x.CacheStatus)
	}
	if target := x.LastUsed(); target != "" {
		x.Gateway.Headers.Set(h, HeaderLastUsed, target)
		x.Gateway.Headers.Set(h, HeaderRetryCount, strconv.Itoa(x.Retries()))
	}
}
