package inference

import (
	"errors"
	"net"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// Record is the record of a call that was admitted, when it is over.
func Record(x *exchange.Exchange) *reqlog.Record {
	now := x.Gateway.Now()
	r := &reqlog.Record{
		TraceID: x.TraceID, At: x.Start.UTC(), DurationMS: milliseconds(now.Sub(x.Start)),
		OrganisationID: x.Caller.OrganisationID, WorkspaceID: x.Caller.WorkspaceID, KeyID: x.Caller.KeyID, UserID: x.Caller.UserID,
		Endpoint: x.Endpoint.Name, Method: x.Method(), Path: x.URLPath(), Model: x.SentModel(), Stream: x.Stream,
		Config: x.ConfigID, ConfigVersion: x.ConfigVersion, LastUsed: x.LastUsed, Retries: x.Retries,
		Status: x.Status, Attempts: x.Attempts, Failure: x.Failure, Malformed: x.Malformed, CacheStatus: x.CacheStatus,
		UsageKnown: x.Usage.Known, PromptTokens: x.Usage.Prompt, CompletionTokens: x.Usage.Completion,
		CacheRead: x.Usage.CacheRead, CacheWrite: x.Usage.CacheWrite, Reasoning: x.Usage.Reasoning,
		SpanID: x.Span.ID, ParentSpanID: x.Span.Parent, SpanName: x.Span.Name, Metadata: x.AllMetadata(),
	}
	r.Cost, r.CostKnown = x.Cost()
	if x.Route != nil {
		r.Provider, r.VirtualKey = x.Route.Provider, x.Route.VirtualKey
	}
	if !x.FirstByte.IsZero() {
		r.FirstByteMS = milliseconds(x.FirstByte.Sub(x.Start))
	}
	r.Tries = tries(x)
	if request, size, answer, answerSize := x.Excerpts(); request != nil || answer != nil {
		if request != nil {
			r.Request = &reqlog.Body{Size: size, Bytes: request}
		}
		if answer != nil {
			r.Response = &reqlog.Body{Size: answerSize, Bytes: answer}
		}
	}
	return r
}

// tries are the attempts of a call; none where there was one, of which the record says all.
func tries(x *exchange.Exchange) []reqlog.Try {
	if len(x.Tries) == 0 || len(x.Tries) == 1 && x.Tries[0].Status == x.Status && x.Tries[0].Failure == x.Failure {
		return nil
	}
	all := make([]reqlog.Try, len(x.Tries))
	for i, t := range x.Tries {
		all[i] = reqlog.Try{Provider: t.Provider, Target: t.Target, Retry: t.Retry, MS: milliseconds(t.Duration), Status: t.Status, Failure: t.Failure}
	}
	return all
}

// tried notes what became of an attempt that began at a time; why is as once has it.
func (a *attempt) tried(begun time.Time, why *error) {
	x := a.x
	t := exchange.Try{Provider: a.route.Provider, Target: x.LastUsed, Retry: x.Retries, Duration: x.Gateway.Now().Sub(begun)}
	switch {
	case *why == nil: // the client has its answer, or left; or the answer broke off with a panic
		t.Status, t.Failure = x.Status, x.Failure
		if x.Status == statusClientGone {
			t.Status = a.status // what the provider had answered until then; 0: nothing
		}
	case a.held != nil:
		t.Status, t.Failure = a.held.StatusCode, reason(*why)
	default:
		t.Failure = failed(a, *why).Message
	}
	x.Tries = append(x.Tries, t)
}

// plain is what an error says, without the addresses of connections: records are read by
// those who made the calls.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// reason is why an attempt failed, without what Caddy says around it.
func reason(why error) string {
	var failed *attemptError
	if errors.As(why, &failed) {
		return failed.Error()
	}
	return why.Error()
}
