package inference

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// An engine runs the attempts of one call: at the targets that its plan selects, and at each of
// them again as its retry setting says. One engine serves all endpoints.
type engine struct {
	f *Forwarder
	w http.ResponseWriter
	r *http.Request
	x *exchange.Exchange

	tried  *roundTrip      // the latest
	last   *roundTrip      // the latest that failed, which may hold an answer
	after  []string        // Retry-After of the latest answer that had one
	err    *exchange.Error // of the failure, if no answer is held
	status int             // of the failure, as strategies see it
	faults faults          // of the targets, for the caller

	candidate Candidate // the target that is tried
	visits    []Visit   // of the hooks, at that target
	room      [1]Visit  // for the first of them
}

// maxAttempts bounds the upstream requests of one call. It equals the most targets that a list
// may have.
const maxAttempts = 100

// direct is the target of a call without a config.
var direct = routing.Target{Path: "config"}

// Serve answers a prepared exchange.
func (f *Forwarder) Serve(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	e := &engine{f: f, w: w, r: r, x: x}
	e.visits = e.room[:0]
	defer e.end()
	if x.Config == nil {
		if !e.target(&direct, false) {
			e.answerFailure()
		}
		return
	}
	facts := routing.Input{
		KeyID: x.Caller.KeyID, Version: x.ConfigSource.Version, Now: x.Start, Body: x.Body.Params(), Unread: x.Body.ParamsUnread(), Model: x.NamedModel(), Metadata: x.Metadata.JSON, Header: x.Header(), Path: r.URL.Path,
	}
	var circuit routing.ConfigBreakers
	if x.ConfigSource.Slug != "" {
		circuit = f.Breakers(x.Caller.WorkspaceID, x.ConfigSource.Slug)
		facts.Circuit = circuit
	}
	plan, err := x.Config.Plan(facts, f.Random)
	for err == nil {
		t := plan.Target()
		done := e.target(t, !x.Config.Root.Leaf())
		own := e.err != nil && (e.err.Gateway || e.err.Caller) // the provider is not at fault
		unserved := e.err != nil && e.err.Unserved
		if x.ConfigSource.Slug != "" && (done || !own && !unserved) {
			circuit.Report(t, e.outcome(done))
		}
		if done {
			return
		}
		e.noteFault(t)
		if len(x.Attempts) >= maxAttempts {
			break
		}
		if _, more := plan.Next(routing.Outcome{Status: e.status, GatewayException: own, Unserved: unserved}); !more {
			err = plan.Err()
			break
		}
		x.NextTarget()
	}
	if err != nil {
		x.Fail(w, e.withFaults(exchange.Unroutable(err)))
		return
	}
	e.answerFailure()
}

// outcome is the status of a target for its circuit breaker.
func (e *engine) outcome(done bool) int {
	if done {
		return e.x.AnswerStatus()
	}
	return e.status
}

// target tries one target until it answers or is given up. It reports whether the client has its
// answer. more says that another target may follow.
func (e *engine) target(t *routing.Target, more bool) bool {
	x := e.x
	if x.Config != nil {
		if err := x.Choose(t); err != nil {
			e.fail(nil, err)
			return false
		}
	}
	e.candidate = Candidate{
		Exchange: x, Target: t, Timeout: cmp.Or(x.Options.RequestTimeout, t.RequestTimeout, e.f.Timeout), f: e.f, path: x.Chosen().Payload().Path(),
	}
	defer e.leaveTarget()
	r, refusal := e.before()
	if r == nil && refusal == nil {
		if why := x.Body.Replayable(); len(x.Attempts) > 0 && why != nil {
			e.notTried(why)
			return false
		}
		if clientGone(e.r, x) {
			return true
		}
		r, refusal = e.admit()
	}
	switch {
	case refusal != nil:
		e.fail(nil, refusal)
		return false
	case r != nil:
		reply(e.w, x, r, e.visits)
		answered(e.visits, x.Chosen(), false)
		return true
	}
	x.Admitted = true
	return e.attempts(more)
}

// before asks the hooks before the call is counted: what they answer or refuse is not forwarded.
func (e *engine) before() (*Reply, *exchange.Error) {
	for _, h := range e.f.hooks {
		visit, r, refusal := h.Before(e.r.Context(), &e.candidate)
		if visit != nil {
			e.x.HoldTarget(visit)
			e.visits = append(e.visits, visit)
		}
		if r != nil || refusal != nil {
			return r, refusal
		}
	}
	return nil, nil
}

// admit holds the call against its limits, and asks the hooks that run only once it is counted.
func (e *engine) admit() (*Reply, *exchange.Error) {
	ctx := e.r.Context()
	if err := e.x.AdmitCall(ctx); err != nil {
		refusal := *err
		refusal.Caller = true // other targets have the same limit
		return nil, &refusal
	}
	for _, v := range e.visits {
		if hook, ok := v.(CountedHook); ok {
			if r, refusal := hook.Counted(ctx); r != nil || refusal != nil {
				return r, refusal
			}
		}
	}
	if err := e.x.AdmitTarget(ctx); err != nil {
		return nil, err
	}
	for _, v := range e.visits {
		if hook, ok := v.(PathHook); ok {
			path, refusal := hook.Path(ctx)
			if refusal != nil {
				return nil, refusal
			}
			e.candidate.path = path
		}
	}
	return nil, nil
}

// leaveTarget ends the holds of the call at a target.
func (e *engine) leaveTarget() {
	e.candidate.drop()
	e.x.LeaveTarget()
	e.visits = e.room[:0]
}

// attempts tries the target until it answers or is given up.
func (e *engine) attempts(more bool) (answered bool) {
	x, t, path, timeout := e.x, e.candidate.Target, e.candidate.path, e.candidate.Timeout
	if waited := e.candidate.Waited; timeout > 0 && waited > 0 {
		timeout = max(timeout-waited, time.Millisecond)
	}
	var waited time.Duration
	shortened := 0
	retry := t.Retrying(x.Options.Retry)
	rt := e.candidate.take()
	for n := 0; ; n++ {
		if rt == nil {
			var refusal *exchange.Error
			if rt, refusal = e.f.newRoundTrip(e.r.Context(), x, t, path, shortened, true); refusal != nil {
				e.fail(nil, refusal)
				return false
			}
		}
		rt.visits = e.visits
		rt.withheld = withheld(e.visits)
		rt.timing.limits = timeouts{answer: timeout, headers: e.f.Headers, idle: e.f.Idle}
		rt.tentative = more || retry != nil || rt.conversation.shortens()
		rt.of(x.Begin(n))
		rt.attempt.Estimated, rt.attempt.Warnings = rt.estimate != nil, rt.warnings
		x.SetHeader(e.w.Header())
		e.tried = rt
		answered, why := e.f.forward(e.w, e.r, rt)
		if answered {
			e.delivered(rt)
			rt.close()
			return true
		}
		e.failed(rt, why)
		shortens := rt.overflowed && rt.conversation.shortens() && len(x.Attempts) < maxAttempts
		rt = nil
		if shortens { // this does not count as a retry
			shortened++
			n--
			continue
		}
		again := len(x.Attempts) < maxAttempts && (e.err == nil || !e.err.Gateway) && retry.Again(e.status, n)
		if again {
			e.checkReplay()
		}
		if again && x.Body.Replayable() == nil && x.AdmitRetry(e.r.Context()) != nil {
			e.explain("it could not be retried, because a limit has no room for what the attempts may use together")
			again = false
		}
		if !again || x.Body.Replayable() != nil {
			if n > 0 {
				x.Latest().Exhausted = true
			}
			return false
		}
		wait, ok := retry.Wait(n, e.status, e.header(), waited, x.Gateway.Now(), e.f.Random)
		if !ok || !e.sleep(wait) {
			x.Latest().Exhausted = true
			return false
		}
		waited += wait
	}
}

// delivered notifies the hooks that the client has the answer of an attempt.
func (e *engine) delivered(rt *roundTrip) {
	for _, v := range e.visits {
		if hook, ok := v.(DeliveryHook); ok {
			hook.Delivered(e.r.Context(), rt.attempt)
		}
	}
}

// header is that of the held answer of the latest attempt, or nil.
func (e *engine) header() http.Header {
	if e.last != nil && e.last.held != nil {
		return e.last.held.Header
	}
	return nil
}

func (e *engine) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.r.Context().Done():
		return false
	}
}

// failed notes the failure of an attempt.
func (e *engine) failed(rt *roundTrip, why error) {
	if rt.held == nil {
		failure := rt.failure(why)
		level := zapcore.ErrorLevel
		if failure.Status == exchange.StatusHooksDenied { // a hook does what it is for
			level = zapcore.DebugLevel
		}
		e.f.logger.Log(level, "attempt failed",
			zap.String("provider", rt.target.Route.Provider), zap.String("trace_id", e.x.Trace.ID), zap.Int("status", failure.Status), zap.String("error", reason(why)))
		e.fail(rt, failure)
		return
	}
	e.fail(rt, nil)
	e.status = rt.held.StatusCode
	if v := rt.held.Header["Retry-After"]; v != nil {
		e.after = v
	}
	if e.status == http.StatusOK { // an error with status 200
		e.status = http.StatusInternalServerError
	}
}

// notTried notes that a target cannot be tried because the body cannot be sent again. The answer
// of the target before it remains the failure of the call, with an explanation.
func (e *engine) notTried(why error) {
	if !errors.Is(why, exchange.ErrNotReplayable) || e.last == nil || e.err != nil && e.err.Code == codeNotReplayable {
		if e.err == nil || e.err.Code != codeNotReplayable {
			e.fail(nil, (&request{call: e.x.Call, target: e.x.Chosen()}).failure(why))
		}
		return
	}
	e.explain("provider " + e.x.Chosen().Route.Provider + " could not be tried, because " + notKept(why))
}

// checkReplay is called before a retry. If the body cannot be sent again, it turns the latest
// failure into one that says so. The status stays, unless it was 200.
func (e *engine) checkReplay() {
	rt, why := e.last, e.x.Body.Replayable()
	if why == nil || e.err != nil && e.err.Caller {
		return
	}
	if !errors.Is(why, exchange.ErrNotReplayable) {
		e.fail(rt, rt.failure(why))
		return
	}
	e.explain("it could not be retried, because " + notKept(why))
}

// notKept says why an upload cannot be sent again.
func notKept(why error) string {
	if inflight.Refused(why) {
		return "the gateway had no memory to keep the upload (max_inflight_bytes)"
	}
	return "the upload is larger than max_replay"
}

// explain replaces the latest failure by an error of the gateway's own, which repeats the
// provider's answer and says why nothing more was done.
func (e *engine) explain(but string) {
	rt := e.last
	err := &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error"}
	switch {
	case e.err != nil:
		*err = *e.err
	default:
		err.Message = rt.answeredWith()
		if rt.held.StatusCode != http.StatusOK {
			err.Status = rt.held.StatusCode
		}
	}
	if message := rt.message(); message != "" {
		err.Message += " (" + clip(message) + ")"
	}
	err.Code = codeNotReplayable
	err.Message += "; " + but
	status := e.status
	e.fail(rt, err)
	e.status = status // as strategies see it
}

// message is that of the error in the held answer; "" if there is none.
func (rt *roundTrip) message() string {
	if rt.held == nil || rt.held.Header.Get("Content-Encoding") != "" {
		return ""
	}
	held, ok := rt.held.Body.(*peeked)
	if !ok {
		return ""
	}
	message := gjson.GetBytes(held.rest(), "error.message").Str
	if message == providers.Answered(rt.held.StatusCode) {
		return ""
	}
	return message
}

// fail notes the latest failure.
func (e *engine) fail(rt *roundTrip, err *exchange.Error) {
	e.drop()
	e.last, e.err = rt, err
	if err != nil {
		e.status = err.Status
	}
}

// end releases what is left, even if the answer broke off with a panic.
func (e *engine) end() {
	e.drop()
	if e.tried != nil {
		e.tried.close()
	}
}

func (e *engine) drop() {
	if e.last != nil {
		e.last.close()
		e.last = nil
	}
}

// answerFailure answers with the latest failure, as no attempt follows.
func (e *engine) answerFailure() {
	if clientGone(e.r, e.x) {
		return
	}
	if e.last == nil || e.last.held == nil {
		if e.after != nil && e.err.RetryAfter == 0 && (e.err.Status >= http.StatusInternalServerError || e.err.Code == codeNotReplayable) {
			e.w.Header()["Retry-After"] = e.after
		}
		e.x.Fail(e.w, e.withFaults(e.err))
		return
	}
	e.x.SetHeader(e.w.Header())
	e.addFaults(e.last.held)
	e.last.out, e.last.visits = &e.x.Outcome, nil // the attempt itself has ended
	if _, why := e.f.forward(e.w, e.r, e.last); why != nil {
		e.x.Fail(e.w, e.last.failure(why))
	}
}
