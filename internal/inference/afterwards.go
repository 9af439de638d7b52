package inference

import (
	"context"
	"net/http"
	"sync"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// Conclude gives the record of a call that has ended to add, at once or when hooks have judged the
// call that run after it.
func (f *Forwarder) Conclude(x *exchange.Exchange, add func(*reqlog.Record) bool) {
	r := Record(x)
	if x.Afterwards == nil {
		add(r)
		return
	}
	memory := new(inflight.Lease)
	x.Later(memory)
	room := memory.Grow(x.Afterwards.Bytes) == nil
	release := x.Gateway.Acquire()
	end := func(room bool) {
		defer release()
		defer memory.Close()
		x.Afterwards.Run(room)
		r.HookResults = x.Judged.Logged(x.KeepsExcerpts())
		if x.Judged.HideAnswer {
			r.Response = nil
		}
		add(r)
	}
	if !room || !f.late.start(func() { end(true) }) {
		end(false)
	}
}

// Bounds of what runs after calls.
const (
	maxLate    = 1000 // calls that wait
	lateAtOnce = 32
)

// A lateQueue runs functions in the background, in their order, some of them at the same time.
type lateQueue struct {
	mu      sync.Mutex
	running int
	waiting []func()
}

// start has a function run, and reports whether there is room for it.
func (q *lateQueue) start(run func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.running < lateAtOnce:
		q.running++
		go q.work(run)
	case len(q.waiting) < maxLate:
		q.waiting = append(q.waiting, run)
	default:
		return false
	}
	return true
}

func (q *lateQueue) work(run func()) {
	for ; run != nil; run = q.next() {
		run()
	}
}

// next returns what waits, or nil: nothing does, and one function less is running.
func (q *lateQueue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return nil
	}
	run := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return run
}

// Delivered has the hooks run that judge the call once it is over.
func (g *guard) Delivered(_ context.Context, attempt *exchange.Attempt) { g.afterwards(attempt, true) }

// afterwards has the hooks run once the call is over that decide nothing: those of the call and,
// if a provider has answered it, those of the answer.
func (g *guard) afterwards(attempt *exchange.Attempt, answered bool) {
	l := &late{guard: g, call: g.subject(attempt, guardrails.Input), answer: g.subject(attempt, guardrails.Output)}
	l.call.Header = l.call.Header.Clone()
	l.answer.Header, l.answer.Status = l.call.Header, http.StatusOK
	l.answer.Response = g.answer
	size := len(g.request) + 2*len(g.answer)
	if answered {
		l.stream, l.judges = g.recorder, hooks.Asks(g.after, true)
		if r := g.recorder; r != nil {
			size += 3 * len(r.b) // in one piece, and its texts
		}
	}
	if l.stream != nil {
		l.informed = g.informed()
	}
	if !l.judges && !hooks.Asks(g.before, true) && len(l.informed) == 0 {
		return
	}
	g.x.Afterwards = &exchange.Afterwards{Bytes: size, Run: l.run}
}

// A late judgment is of a call that is over.
type late struct {
	*guard
	call, answer guardrails.Subject
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
func (l *late) run(room bool) {
	ctx, j, now := context.Background(), l.x.Judged, l.x.Gateway.Now
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
	j.Before = append(j.Before, results...)
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
			j.HideAnswer = j.HideAnswer || out.Unfinished || out.Body != nil
		}
		l.count("output", results)
		j.After = append(j.After, results...)
	}
	if room && l.answer.Response != nil {
		results = hooks.Run(ctx, l.after, l.answer, true, now).Results
	} else {
		results = drop(l.after, guardrails.Output, true)
	}
	l.count("output", results)
	j.After = append(j.After, results...)
}

// whole is a stream in one piece.
func (l *late) whole(room bool) ([]byte, error) {
	if !room || l.stream.full {
		return nil, inflight.ErrFull
	}
	return (&cache.Entry{Stream: true, Body: l.stream.b}).As(l.x.Endpoint.Name, false)
}

// Deliver keeps a stream for the hooks that judge it when it is over.
func (g *guard) Deliver(res *http.Response) {
	if g.answer != nil || len(g.after) == 0 || res.Body == nil || mediaType(res.Header) != "text/event-stream" || res.Header.Get("Content-Encoding") != "" {
		return
	}
	g.recorder = &recorder{call: g.x.Call, src: res.Body, media: res.Header.Get("Content-Type"), stream: true}
	res.Body = g.recorder
	if len(g.informed()) > 0 { // nobody knows yet what they will say
		g.x.Judged.Unshared = true
	}
}
