package inference

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// An engine runs the attempts of one call: the targets that its plan hands out, and
// each of them again as its retry setting says. One engine serves every endpoint.
type engine struct {
	f *Forwarder
	w http.ResponseWriter
	r *http.Request
	x *exchange.Exchange

	tried  *attempt        // the latest
	last   *attempt        // the latest that failed, which may hold an answer
	after  []string        // Retry-After of the latest answer that had one
	err    *exchange.Error // why it failed, where it holds none
	status int             // of the failure, as strategies see it
	path   string          // of the request, below the provider's base URL
	waited time.Duration   // for the answer of another call, before the next attempt
}

// maxAttempts bounds the upstream requests of one call, whatever its config nests: it is
// as many as a list of targets may have.
const maxAttempts = 100

// direct is the target of a call without a config.
var direct = routing.Target{Path: "config"}

// Serve answers a prepared exchange.
func (f *Forwarder) Serve(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	e := &engine{f: f, w: w, r: r, x: x}
	defer e.end()
	if x.Config == nil {
		if !e.target(&direct, false) {
			e.give()
		}
		return
	}
	facts := routing.Facts{
		KeyID: x.Caller.KeyID, Version: x.ConfigVersion, Now: x.Start, Body: x.Params(), Unread: x.ParamsUnread(), Model: x.NamedModel(), Metadata: x.MetadataJSON, Header: x.Header(), Path: r.URL.Path,
	}
	var circuit routing.ConfigBreakers
	if x.ConfigID != "" {
		circuit = f.Breakers().Of(x.ConfigID)
		facts.Circuit = circuit
	}
	plan, err := x.Config.Plan(facts, f.Random)
	for err == nil {
		t := plan.Target()
		done := e.target(t, !x.Config.Root.Leaf())
		own := e.err != nil && (e.err.Gateway || e.err.Caller) // no provider's fault
		if x.ConfigID != "" && (done || !own) {
			circuit.Report(t, e.outcome(done))
		}
		if done {
			return
		}
		if len(x.Attempts) >= maxAttempts {
			break
		}
		if _, more := plan.Next(routing.Outcome{Status: e.status, GatewayException: own}); !more {
			err = plan.Err()
			break
		}
		x.NextTarget()
	}
	if err != nil {
		x.Fail(w, exchange.Unroutable(err))
		return
	}
	e.give()
}

// outcome is the status of a target as its breaker sees it.
func (e *engine) outcome(done bool) int {
	if done {
		return e.x.AnswerStatus()
	}
	return e.status
}

// target tries one target until it answers or is given up, and reports whether the
// client has its answer. more says that another target might follow.
func (e *engine) target(t *routing.Target, more bool) bool {
	x := e.x
	e.waited = 0 // at the target before
	if x.Config != nil {
		if err := x.Choose(t); err != nil {
			e.fail(nil, err)
			return false
		}
	}
	if err := x.Chosen().CheckObject(); err != nil {
		e.fail(nil, err)
		return false
	}
	if why := x.Replayable(); len(x.Attempts) > 0 && why != nil {
		e.untried(why)
		return false
	}
	keep, a, refusal := e.keep(t)
	if refusal != nil {
		e.fail(nil, refusal)
		return false
	}
	if keep != nil {
		if done, refusal := e.kept(keep, t); done || refusal != nil { // what is not forwarded is not counted
			a.close()
			if refusal != nil {
				e.fail(nil, refusal)
			}
			return done
		}
	}
	defer keep.leave()
	if err := x.AdmitCall(e.r.Context()); err != nil {
		keep.fail(e.r.Context())
		if a != nil {
			a.close()
		}
		refusal := *err
		refusal.Caller = true // no other target would do
		e.fail(nil, &refusal)
		return false
	}
	if e.alike(keep, t) {
		a.close()
		return true
	}
	defer x.EndHolds(x.Holds())
	if err := x.AdmitTarget(e.r.Context()); err != nil {
		keep.fail(e.r.Context())
		if a != nil {
			a.close()
		}
		e.fail(nil, err)
		return false
	}
	e.path = x.Path
	if x.Endpoint.Name == exchange.BatchOutput {
		path, err := e.f.batchOutput(e.r.Context(), x, t)
		if err != nil {
			e.fail(nil, err)
			return false
		}
		e.path = path
	}
	if a != nil && a.unsigned {
		a.close()
		a = nil
	}
	x.Admitted = true
	answered := e.attempts(t, a, keep, more)
	if !answered {
		keep.fail(e.r.Context())
	}
	return answered
}

// timeout is how long an attempt at a target may take until its answer begins; 0: for ever.
func (e *engine) timeout(t *routing.Target) time.Duration {
	return cmp.Or(e.x.RequestTimeout, t.RequestTimeout, e.f.Timeout)
}

// attempts tries a target until it answers or is given up; a is the first attempt, where
// it is made already.
func (e *engine) attempts(t *routing.Target, a *attempt, keep *keeping, more bool) (answered bool) {
	x, timeout := e.x, e.timeout(t)
	if timeout > 0 && e.waited > 0 { // for another's answer
		timeout = max(timeout-e.waited, time.Millisecond)
		e.waited = 0
	}
	var waited time.Duration
	shortened := 0
	for n := 0; ; n++ {
		if a == nil {
			var refusal *exchange.Error
			if a, refusal = e.f.newAttempt(e.r.Context(), x, t, e.path, shortened, true); refusal != nil {
				e.fail(nil, refusal)
				return false
			}
		}
		a.recorder = keep.record()
		a.patience = patience{answer: timeout, headers: e.f.Headers, idle: e.f.Idle}
		a.tentative = more || t.Retry != nil || a.conversation.shortens()
		a.of(x.Begin(n))
		x.SetHeader(e.w.Header())
		e.tried = a
		answered, why := e.f.once(e.w, e.r, a)
		if answered {
			e.land(keep, a)
			a.close()
			return true
		}
		e.failed(a, why)
		shortens := a.overflowed && a.conversation.shortens() && len(x.Attempts) < maxAttempts
		a = nil
		if shortens { // no retry: it is another call
			shortened++
			n--
			continue
		}
		again := len(x.Attempts) < maxAttempts && (e.err == nil || !e.err.Gateway) && t.Retry.Again(e.status, n)
		if again {
			e.unrepeatable()
		}
		if !again || x.Replayable() != nil {
			if n > 0 {
				x.Latest().Exhausted = true
			}
			return false
		}
		wait, ok := t.Retry.Wait(n, e.status, e.header(), waited, x.Gateway.Now(), e.f.Random)
		if !ok || !e.sleep(wait) {
			x.Latest().Exhausted = true
			return false
		}
		waited += wait
	}
}

// header is that of the answer that the latest attempt holds.
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

// failed notes what became of an attempt that did not answer.
func (e *engine) failed(a *attempt, why error) {
	if a.held == nil {
		e.f.logger.Error("attempt failed",
			zap.String("provider", a.target.Route.Provider), zap.String("trace_id", e.x.TraceID), zap.Error(why))
		e.fail(a, a.failure(why))
		return
	}
	e.fail(a, nil)
	e.status = a.held.StatusCode
	if v := a.held.Header["Retry-After"]; v != nil {
		e.after = v
	}
	if e.status == http.StatusOK { // it said 200 and began with an error
		e.status = http.StatusInternalServerError
	}
}

// untried notes that a target cannot be tried, as the body cannot be sent again. What the
// target before it answered stays the failure of the call, with that said.
func (e *engine) untried(why error) {
	if !errors.Is(why, exchange.ErrNotReplayable) || e.last == nil || e.err != nil && e.err.Code == codeNotReplayable {
		if e.err == nil || e.err.Code != codeNotReplayable {
			e.fail(nil, (&request{call: e.x.Call, target: e.x.Chosen()}).failure(why))
		}
		return
	}
	e.replaced("provider " + e.x.Chosen().Route.Provider + " could not be tried, because " + notKept(why))
}

// unrepeatable turns the latest failure, which the target's retry setting is about, into
// one that says so where the body cannot be sent again. Its status stays, save that of
// an answer with status 200.
func (e *engine) unrepeatable() {
	a, why := e.last, e.x.Replayable()
	if why == nil || e.err != nil && e.err.Caller {
		return
	}
	if !errors.Is(why, exchange.ErrNotReplayable) {
		e.fail(a, a.failure(why))
		return
	}
	e.replaced("it could not be retried, because " + notKept(why))
}

// notKept says why an upload cannot be sent again.
func notKept(why error) string {
	if inflight.Refused(why) {
		return "the gateway had no memory to keep the upload (max_inflight_bytes)"
	}
	return "the upload is larger than max_replay"
}

// replaced makes an error of the gateway's own of the latest failure, which says what the
// provider answered, and what could not be done about it.
func (e *engine) replaced(but string) {
	a := e.last
	err := &exchange.Error{Status: http.StatusBadGateway, Type: "provider_error"}
	switch {
	case e.err != nil:
		*err = *e.err
	case a.held.StatusCode == http.StatusOK:
		err.Message = "Provider " + a.target.Route.Provider + " answered with an error and status 200"
	default:
		err.Status = a.held.StatusCode
		err.Message = "Provider " + a.target.Route.Provider + " answered " + strings.TrimSpace(strconv.Itoa(err.Status)+" "+http.StatusText(err.Status))
	}
	if said := a.said(); said != "" {
		err.Message += " (" + said + ")"
	}
	err.Code = codeNotReplayable
	err.Message += "; " + but
	status := e.status
	e.fail(a, err)
	e.status = status // as strategies see it
}

// said is the message in the error that the attempt holds, "" where there is none.
func (a *attempt) said() string {
	if a.held == nil || a.held.Header.Get("Content-Encoding") != "" {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(a.held.Body, maxPeeked)) // it was read before
	said := gjson.GetBytes(b, "error.message").Str
	if said == providers.Answered(a.held.StatusCode) {
		return ""
	}
	if len(said) > maxSaid {
		said = said[:maxSaid] + "…"
	}
	return strings.ToValidUTF8(said, "")
}

const maxSaid = 512 // bytes of a provider's message

// fail makes a failure the latest one.
func (e *engine) fail(a *attempt, err *exchange.Error) {
	e.drop()
	e.last, e.err = a, err
	if err != nil {
		e.status = err.Status
	}
}

// end gives back what is left, also where an answer broke off with a panic.
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

// give answers with the latest failure: nothing follows it.
func (e *engine) give() {
	if clientGone(e.r, e.x) {
		return
	}
	if e.last == nil || e.last.held == nil {
		if e.after != nil && e.err.RetryAfter == 0 && (e.err.Status >= http.StatusInternalServerError || e.err.Code == codeNotReplayable) {
			e.w.Header()["Retry-After"] = e.after
		}
		e.x.Fail(e.w, e.err)
		return
	}
	e.x.SetHeader(e.w.Header())
	e.last.out = &e.x.Outcome // the attempt itself is over
	if _, why := e.f.once(e.w, e.r, e.last); why != nil {
		e.x.Fail(e.w, e.last.failure(why))
	}
}
