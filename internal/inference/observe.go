package inference

import (
	"context"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/telemetry"
)

// startSpan starts the span of an attempt. Where a config or the call forwards the header
// traceparent to the provider, it is that of the span; nobody else gets one.
func (a *attempt) startSpan() {
	x := a.x
	if x.Trace == nil || a.over {
		return
	}
	a.span = x.Trace.Attempt(&telemetry.Try{
		Provider: a.try.Route.Provider, Dialect: a.try.Route.Dialect, Model: a.try.Model, Target: a.try.Target, Retry: a.try.Retry, URL: a.url,
	})
	if a.header["Traceparent"] != nil {
		a.header["Traceparent"] = []string{a.span.Header()}
		delete(a.header, "Tracestate") // it speaks of another span
	}
}

// count counts an attempt and ends its span, once: one that failed and is given to the
// client later, as nothing followed it, is over already.
func (a *attempt) count(ctx context.Context, why error) {
	if a.over {
		return
	}
	a.over = true
	x := a.x
	if m := x.Gateway.Metrics; m != nil {
		t := x.MetricTarget(a.try)
		m.Attempt(&t, a.try.ProviderStatus, ctx.Err() != nil, a.try.Retry > 0)
	}
	if a.span == nil {
		return
	}
	o := telemetry.Outcome{Status: a.try.ProviderStatus, Error: a.errorType(ctx, why)}
	a.out.ErrorType = o.Error
	if why == nil {
		if x.Stream {
			o.FirstToken = a.out.FirstByte
		}
		if u := a.try.Usage; u.Known {
			o.Usage = &u.Usage
		}
	}
	a.span.End(&o)
	a.span = nil
}

// errorType is why an attempt failed, in one word; "" where it did not, or where its
// status says it.
func (a *attempt) errorType(ctx context.Context, why error) string {
	switch {
	case ctx.Err() != nil && !a.out.Complete:
		return "canceled"
	case a.try.ProviderStatus >= 400:
		return ""
	case a.held != nil && errors.As(why, new(brokenOff)):
		return "stream_interrupted"
	case why != nil && a.held != nil, why == nil && (a.out.Failure == failureIn200 || a.out.Failure == failureInStream):
		return "error_in_answer"
	case errors.Is(why, errAttemptTimeout), errors.Is(why, errHeadersLate), errors.Is(why, errBodyStalled), timedOut(why):
		return "provider_timeout"
	case why != nil:
		if code := a.failure(why).Code; code != "" {
			return code
		}
		return "_OTHER"
	case a.out.Cut != "":
		return a.out.Cut
	case a.out.Failure != "":
		return "stream_interrupted"
	}
	return ""
}

// timedOut reports whether an attempt failed because the provider was silent for too long.
func timedOut(why error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(why, &timeout) && timeout.Timeout()
}

// describe notes what an answer, or an event of it, says of itself, if there is a span to
// tell of it.
func (w *watcher) describe(data []byte) {
	if w.x.Trace == nil {
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
	w.x.Trace.Answered(a)
}
