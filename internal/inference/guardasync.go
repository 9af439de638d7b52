package inference

import (
	"context"
	"net/http"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
)

// Delivered has the hooks run that judge the call once it is over.
func (g *guard) Delivered(_ context.Context, attempt *exchange.Attempt) { g.Answered(attempt, true) }

// Answered has the hooks run once the call is over that decide nothing: those of the call and, if a
// provider has answered it, those of the answer. What the cache has was judged when it was made.
func (g *guard) Answered(attempt *exchange.Attempt, sent bool) {
	l := &deferredJudgment{guard: g, call: g.subject(attempt, guardrails.Input), answer: g.subject(attempt, guardrails.Output)}
	l.call.Header = l.call.Header.Clone()
	l.answer.Header, l.answer.Status = l.call.Header, http.StatusOK
	l.answer.Response = g.answer
	l.size = len(g.request) + 2*len(g.answer)
	if sent {
		l.stream, l.judges = g.recorder, hooks.Has(g.after, true)
		if r := g.recorder; r != nil {
			l.size += 3 * len(r.b) // in one piece, and its texts
		}
	}
	if l.stream != nil {
		l.informed = g.informed()
	}
	if !l.judges && !hooks.Has(g.before, true) && len(l.informed) == 0 {
		return
	}
	g.judgment.deferred = l
}

// A deferredJudgment is of a call that is over.
type deferredJudgment struct {
	*guard
	call, answer guardrails.Subject
	size         int           // of the memory that it needs, in bytes
	stream       *recorder     // has the answer; nil: it is in answer
	judges       bool          // hooks run after the answer
	informed     []*hooks.Hook // of the answer, which is over although they are not async
}

// informed are the hooks that judge a stream when it is over: those that are not async, and that
// have not judged it window by window.
func (g *guard) informed() (list []*hooks.Hook) {
	for _, h := range g.after {
		if !h.Async && h.ModeOf() == hooks.After {
			list = append(list, h)
		}
	}
	return list
}

// run runs the hooks, if there is room for that.
func (l *deferredJudgment) run(room bool) {
	ctx, j, now := context.Background(), l.judgment, l.x.Gateway.Now
	drop := func(list []*hooks.Hook, phase guardrails.Phase, async bool) []hooks.Result {
		return hooks.DroppedResults(list, phase, async, now())
	}
	var results []hooks.Result
	if room {
		results = hooks.Run(ctx, l.before, l.call, true, now).Results
	} else {
		results = drop(l.before, guardrails.Input, true)
	}
	l.count("input", results)
	j.before = append(j.before, results...)
	if l.stream == nil && !l.judges {
		return
	}
	if l.stream != nil {
		whole, err := l.whole(room)
		if err != nil {
			results = drop(l.informed, guardrails.Output, false)
		} else {
			l.answer.Response = whole
			out := hooks.Run(ctx, l.informed, l.answer, false, now)
			if out.Unread != "" {
				results = drop(l.informed, guardrails.Output, false)
			} else {
				results = out.Informed()
			}
			j.hideAnswer = j.hideAnswer || out.Unfinished || out.Body != nil
		}
		l.count("output", results)
		j.after = append(j.after, results...)
	}
	if room && l.answer.Response != nil {
		results = hooks.Run(ctx, l.after, l.answer, true, now).Results
	} else {
		results = drop(l.after, guardrails.Output, true)
	}
	l.count("output", results)
	j.after = append(j.after, results...)
}

// whole is a stream in one piece.
func (l *deferredJudgment) whole(room bool) ([]byte, error) {
	if !room || l.stream.full {
		return nil, inflight.ErrFull
	}
	return (&cache.Entry{Stream: true, Body: l.stream.b}).As(l.x.Endpoint.Name, false)
}

// Deliver keeps a stream for the hooks that judge it when it is over.
func (g *guard) Deliver(res *http.Response, attempt *exchange.Attempt) {
	if g.answer != nil || len(g.after) == 0 || res.Body == nil || mediaType(res.Header) != "text/event-stream" || res.Header.Get("Content-Encoding") != "" {
		return
	}
	g.recorder = &recorder{call: g.x.Call, src: res.Body, media: res.Header.Get("Content-Type"), stream: true}
	res.Body = g.recorder
	if len(g.informed()) > 0 { // nobody knows yet what they will say
		attempt.Private = true
	}
}

// Interface guards
var (
	_ AnsweredHook = (*guard)(nil)
	_ DeliveryHook = (*guard)(nil)
)
