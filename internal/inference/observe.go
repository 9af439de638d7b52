package inference

import (
	"context"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/telemetry"
)

// startSpan starts the span of an attempt. If a config or the call forwards the header
// traceparent, the provider gets that of the span; otherwise it gets none.
func (rt *roundTrip) startSpan() {
	x := rt.x
	if x.Trace.Telemetry == nil || rt.over {
		return
	}
	rt.span = x.Trace.Telemetry.Attempt(&telemetry.AttemptStart{
		Provider: rt.attempt.Route.Provider, Dialect: rt.attempt.Route.Dialect, Model: rt.attempt.Model, Target: rt.attempt.Target, Retry: rt.attempt.Retry, URL: rt.url,
	})
	if rt.header["Traceparent"] != nil {
		rt.header["Traceparent"] = []string{rt.span.Header()}
		delete(rt.header, "Tracestate") // it belongs to another span
	}
}

// count counts an attempt and ends its span, once: an attempt that failed, and whose answer is
// given to the client later, has ended already.
func (rt *roundTrip) count(ctx context.Context, why error) {
	if rt.over {
		return
	}
	rt.over = true
	x := rt.x
	if m := x.Gateway.Metrics; m != nil && rt.estimate == nil { // the gateway's own answer is no request to a provider
		t := x.MetricTarget(rt.attempt)
		m.Attempt(&t, rt.attempt.ProviderStatus, ctx.Err() != nil, rt.attempt.Retry > 0)
	}
	if rt.span == nil {
		return
	}
	o := telemetry.Outcome{Status: rt.attempt.ProviderStatus, Error: rt.errorType(ctx, why)}
	rt.out.ErrorType = o.Error
	if why == nil {
		if x.Stream {
			o.FirstToken = rt.out.FirstByte
		}
		if u := rt.attempt.Usage; u.Known {
			o.Usage = &u.Usage
		}
	}
	rt.span.End(&o)
	rt.span = nil
}

// errorType is why an attempt failed, in one word; "" if it did not, or if the status says it.
func (rt *roundTrip) errorType(ctx context.Context, why error) string {
	switch {
	case ctx.Err() != nil && !rt.out.Complete:
		return "canceled"
	case rt.attempt.ProviderStatus >= 400:
		return ""
	case rt.held != nil && errors.As(why, new(incompleteError)):
		return "stream_interrupted"
	case why != nil && rt.held != nil, why == nil && (rt.out.Failure == failureIn200 || rt.out.Failure == failureInStream):
		return "error_in_answer"
	case errors.Is(why, errAttemptTimeout), errors.Is(why, errHeadersLate), errors.Is(why, errBodyStalled), timedOut(why):
		return "provider_timeout"
	case why != nil:
		if code := rt.failure(why).Code; code != "" {
			return code
		}
		return "_OTHER"
	case rt.out.Cut != "":
		return rt.out.Cut
	case rt.out.Failure != "":
		return "stream_interrupted"
	}
	return ""
}

// timedOut reports whether an attempt failed because the provider was silent for too long.
func timedOut(why error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(why, &timeout) && timeout.Timeout()
}

// describe notes the id, the model and the finish reasons of an answer or event for the span, if
// there is one.
func (w *watcher) describe(data []byte) {
	if w.x.Trace.Telemetry == nil {
		return
	}
	answer := gjson.ParseBytes(data)
	for _, inner := range []string{"response", "message"} { // of the events of Responses, and of Messages
		if v := answer.Get(inner); v.IsObject() {
			answer = v
		}
	}
	a := telemetry.Answer{ID: answer.Get("id").Str, Model: answer.Get("model").Str}
	for _, reason := range answer.Get("choices.#.finish_reason").Array() {
		if reason.Str != "" {
			a.Finish = append(a.Finish, reason.Str)
		}
	}
	for _, path := range []string{"stop_reason", "delta.stop_reason", "incomplete_details.reason"} {
		if reason := answer.Get(path).Str; reason != "" {
			a.Finish = append(a.Finish, reason)
		}
	}
	w.x.Trace.Telemetry.Answered(a)
}
