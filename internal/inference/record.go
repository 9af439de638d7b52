package inference

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// Record returns the record of a call that was admitted and has ended.
func Record(x *exchange.Exchange) *reqlog.Record {
	now := x.Gateway.Now()
	r := &reqlog.Record{
		TraceID: x.Trace.ID, At: x.Start.UTC(), DurationMS: milliseconds(now.Sub(x.Start)),
		OrganisationID: x.Caller.OrganisationID, WorkspaceID: x.Caller.WorkspaceID, KeyID: x.Caller.KeyID, UserID: x.Caller.UserID,
		Endpoint: x.Endpoint.Name, Method: x.Method(), Path: x.URLPath(), Model: x.AskedModel(), Stream: x.Stream,
		Config: x.ConfigSource.Slug, ConfigVersion: x.ConfigSource.Version, LastUsed: x.LastUsed(), Retries: x.Retries(),
		Status: x.Status, Attempts: len(x.Attempts), Failure: x.Failure, Malformed: x.Malformed, CacheStatus: x.CacheStatus,
		SpanID: x.Trace.Span.ID, ParentSpanID: x.Trace.Span.Parent, SpanName: x.Trace.Span.Name, Metadata: x.Metadata.All(),
	}
	setPrompt(r, x.Prompt)
	if r.Cost, r.CostKnown = x.Cost(); r.CostKnown {
		r.PriceVersion = x.PriceVersion()
	}
	if a := x.Latest(); a != nil {
		setPrompt(r, a.Prompt)
		r.Provider, r.VirtualKey = a.Route.Provider, a.Route.VirtualKey
		u, known, estimated := a.Used()
		r.UsageKnown, r.UsageEstimated, r.PromptTokens, r.CompletionTokens = known, estimated, u.Prompt, u.Completion
		r.CacheRead, r.CacheWrite, r.Reasoning = u.CacheRead, u.CacheWrite, u.Reasoning
	}
	if r.Failure == "" && r.Status >= http.StatusBadRequest && r.Provider != "" { // its answer was passed on
		r.Failure = "the provider answered " + statusOf(r.Status)
	}
	if !x.FirstByte.IsZero() {
		r.FirstByteMS = milliseconds(x.FirstByte.Sub(x.Start))
	}
	r.AttemptLog = tries(x)
	if request, size, answer, answerSize := x.Excerpts.Parts(); request != nil || answer != nil {
		if request != nil {
			r.Request = &reqlog.Body{Size: size, Bytes: request}
		}
		if answer != nil {
			for _, a := range x.Attempts {
				if !a.Route.Stored { // others' credentials are hidden from the caller, too
					a.Mask.Hide(answer)
				}
			}
			r.Response = &reqlog.Body{Size: answerSize, Bytes: answer}
		}
	}
	if len(x.Started) > 0 {
		r.HookResults = logged(x, nil, nil)
	}
	for n := range x.Notes.All() {
		n.Record(r)
	}
	return r
}

// tries are the attempts of a call; none if there was just one that the record describes.
func tries(x *exchange.Exchange) []reqlog.Attempt {
	if n := len(x.Attempts); n == 0 || n == 1 && x.Attempts[0].Status == x.Status && x.Attempts[0].Failure == x.Failure {
		return nil
	}
	all := make([]reqlog.Attempt, len(x.Attempts))
	for i, t := range x.Attempts {
		all[i] = reqlog.Attempt{Provider: t.Route.Provider, Target: t.Target, Retry: t.Retry, MS: milliseconds(t.Duration), Status: t.Status, Failure: t.Failure}
	}
	return all
}

// conclude notes how an attempt ended that began at a time; why is as returned by forward. If it
// is nil, the client has its answer, or left, or the answer broke off with a panic: those who
// watched the answer have noted it.
func (rt *roundTrip) conclude(begun time.Time, why *error) {
	rt.attempt.Duration = rt.x.Gateway.Now().Sub(begun)
	if rt.session != nil {
		rt.session.End()
	}
	if rt.paced != nil {
		if why := rt.paced.failure(); why != "" {
			rt.fail(why)
		}
	}
	if rt.x.Client.AnswerStalled() { // the provider's may have come to its end already
		rt.out.Complete = false
		rt.fail(answerStalled)
	}
	switch {
	case *why == nil:
	case rt.held != nil:
		rt.out.Status, rt.out.Failure = rt.held.StatusCode, reason(*why)
	default:
		rt.out.Failure = rt.failure(*why).Message
	}
}

// plain is the text of an error without credentials and the addresses of connections: callers can
// read records.
func (w *watcher) plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	return w.attempt.Mask.Text(err.Error())
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// reason is why an attempt failed, without the text that Caddy adds.
func reason(why error) string {
	var failed *attemptError
	if errors.As(why, &failed) {
		return failed.Error()
	}
	return why.Error()
}

// setPrompt sets which version of a saved prompt a call was made of, if any.
func setPrompt(r *reqlog.Record, of exchange.PromptVersion) {
	r.PromptSlug, r.PromptVersion, r.PromptID, r.PromptVersionID = of.Slug, int64(of.Version), of.ID, of.VersionID
}
