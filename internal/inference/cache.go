package inference

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
)

// A cacheHook answers calls from the cache, and keeps the answers of others in it.
type cacheHook struct{ f *Forwarder }

// Before answers the call from the cache. If an equal call is under way, it waits for that call's
// answer, as long as it would wait for its own; otherwise it leads a flight, which is ended with
// the visit.
func (h *cacheHook) Before(ctx context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	maxAge, ok := c.Cached(c.Target)
	answers := h.f.Answers()
	if !ok || answers == nil {
		if c.Endpoint.Cacheable {
			c.CacheStatus = exchange.CacheDisabled
		}
		return nil, nil, nil
	}
	rt, refusal := c.first(ctx)
	if refusal != nil {
		return nil, nil, refusal
	}
	call, err := h.f.cacheCall(rt, c.Target, c.Vary)
	var key cache.Key
	if err == nil {
		key, err = call.Key()
	}
	if err != nil { // a body that is not JSON is not cached
		c.CacheStatus = exchange.CacheDisabled
		return nil, nil, nil //nolint:nilerr // such a call is forwarded as it is
	}
	l := &lookup{h: h, x: c.Exchange, answers: answers, key: key, maxAge: maxAge, store: rt.store, gone: ctx.Done()}
	if s := h.f.Semantic; s != nil && c.Options.Caching.Semantic(c.Target) {
		if q, ok := call.Question(s.Provider + "/" + s.Model); ok {
			l.question = &question{Question: q}
		}
	}
	if c.Options.Caching.Refresh {
		c.CacheStatus = exchange.CacheRefresh
		return l, nil, nil
	}
	c.CacheStatus = exchange.CacheMiss
	r, refusal := l.find(ctx, c)
	return l, r, refusal
}

// A lookup is the visit of a call to the cache: its key, and the flight that it leads.
type lookup struct {
	h        *cacheHook
	x        *exchange.Exchange
	answers  Answers
	key      cache.Key
	maxAge   time.Duration
	flight   *cache.Flight // nil: no other call may wait for its answer
	question *question     // nil: only equal questions share answers
	recorder *recorder     // nil: no answer is being sent
	gone     <-chan struct{}
	cached   Reply
	// store stores an answer that is a response stored by the gateway; nil: it is none.
	store func(response []byte) error
}

// find looks for an answer. If there is none, the call leads a flight, or goes alone.
func (l *lookup) find(ctx context.Context, c *Candidate) (*Reply, *exchange.Error) {
	begun := time.Now()
	for {
		entry, err := l.answers.Get(ctx, l.key, l.maxAge)
		if entry != nil {
			if err := l.x.Memory.Reserve(2 * len(entry.Body)); err != nil { // twice, since it may be converted
				return nil, exchange.Overloaded(err)
			}
		}
		if err != nil && ctx.Err() == nil {
			l.h.f.logger.Error("reading the cache", zap.String("trace_id", l.x.Trace.ID), zap.Error(err))
			return nil, nil
		}
		if r := l.reply(entry, exchange.CacheHit); r != nil {
			return r, nil
		}
		flight, leads := l.answers.Join(l.key)
		if leads {
			l.flight = flight
			return nil, nil
		}
		inTime := await(ctx, flight, c.Timeout, begun)
		c.Waited = time.Since(begun)
		switch {
		case !inTime:
			return nil, exchange.TimedOut(c.Timeout, errAttemptTimeout)
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // it is logged, and the call is forwarded
		}
		entry, failed := flight.Result()
		if r := l.reply(entry, exchange.CacheHit); r != nil {
			return r, nil
		}
		if failed || entry != nil { // an answer that cannot be shared
			return nil, nil
		}
	}
}

// After maxHeld, a leader whose client does not read is replaced.
const (
	maxHeld   = time.Second
	heldEvery = 250 * time.Millisecond
)

// await waits for a flight to end, or for the client to leave. It reports false if the timeout,
// which runs since begun, is over first; 0: there is none.
func await(ctx context.Context, flight *cache.Flight, timeout time.Duration, begun time.Time) (inTime bool) {
	look := time.NewTicker(heldEvery)
	defer look.Stop()
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout - time.Since(begun))
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-flight.Done():
			return true
		case <-ctx.Done():
			return true
		case <-over:
			return false
		case <-look.C:
			if flight.WriteTime() > maxHeld {
				flight.Abandon()
			}
		}
	}
}

// Counted answers with the cached answer to a question of the same meaning. That costs a call to
// a model of embeddings, so that the call is counted first.
func (l *lookup) Counted(ctx context.Context) (*Reply, *exchange.Error) {
	if l.question == nil || l.flight == nil && !l.x.Options.Caching.Refresh {
		return nil, nil
	}
	entry := l.similar(ctx)
	r := l.reply(entry, exchange.CacheSemanticHit)
	if r != nil {
		l.flight.Complete(entry)
	}
	return r, nil
}

// reply converts a cached answer to the form that the call asks for; nil: there is none, or it
// cannot be converted.
func (l *lookup) reply(entry *cache.Entry, status string) *Reply {
	if entry == nil {
		return nil
	}
	streams := l.x.Chosen().Payload().Streams()
	media := entry.Type
	own, err := l.own(entry)
	var body []byte
	if err == nil {
		body, err = own.As(l.x.Endpoint.Name, streams)
	}
	if err != nil {
		l.h.f.logger.Error("a cached answer cannot be given", zap.String("trace_id", l.x.Trace.ID), zap.Error(err))
		return nil
	}
	switch {
	case streams:
		media = "text/event-stream"
	case entry.Stream:
		media = "application/json"
	}
	l.cached = Reply{Type: media, Body: body, CacheStatus: status}
	return &l.cached
}

// own returns a cached answer for another caller. A response that the gateway itself stores gets
// a new id and is stored again: each caller may continue or delete its own.
func (l *lookup) own(entry *cache.Entry) (*cache.Entry, error) {
	if l.store == nil {
		return entry, nil
	}
	whole, err := entry.As(l.x.Endpoint.Name, false)
	if err != nil {
		return nil, err
	}
	id, ours := strings.CutPrefix(gjson.GetBytes(whole, "id").Str, "resp_")
	if !ours || len(id) < minID {
		return nil, errors.New("a response without an id of the gateway's")
	}
	fresh := l.x.NewID()
	if err := l.store(bytes.ReplaceAll(whole, []byte(id), []byte(fresh))); err != nil {
		return nil, err
	}
	other := *entry
	other.Body = bytes.ReplaceAll(entry.Body, []byte(id), []byte(fresh))
	return &other, nil
}

const minID = 16 // characters of the unique part

// Deliver records the answer, unless it is private to the call.
func (l *lookup) Deliver(res *http.Response, attempt *exchange.Attempt) {
	if attempt.Private {
		return
	}
	l.recorder = record(l.x.Call, l.flight, res)
}

// Delivered keeps the answer, and gives it to the calls that wait for it.
func (l *lookup) Delivered(ctx context.Context, attempt *exchange.Attempt) {
	entry := l.recorder.entry(l.x.Endpoint.Name, &attempt.Outcome, attempt.Mask)
	if entry == nil || attempt.Private {
		l.fail()
		return
	}
	entry.At, entry.Provider = l.x.Gateway.Now(), attempt.Route.Provider
	// Even if the client leaves now, it has its answer.
	if err := l.answers.Put(context.WithoutCancel(ctx), l.key, entry, l.question.learned(), l.maxAge); err != nil {
		l.h.f.logger.Error("keeping an answer", zap.String("trace_id", l.x.Trace.ID), zap.Error(err))
	}
	if l.flight != nil {
		l.flight.Complete(entry)
	}
}

// fail ends the flight without an answer. The calls that wait are made one by one; if only this
// call's client left, one of them leads.
func (l *lookup) fail() {
	if l.flight == nil {
		return
	}
	select {
	case <-l.gone:
		l.flight.Abandon()
	default:
		l.flight.Fail()
	}
}

// Header returns nil: a lookup adds no headers.
func (l *lookup) Header() []exchange.HeaderField { return nil }

// Settle ends the flight of a call whose answer cannot be shared. If the answer broke off,
// another call may lead.
func (l *lookup) Settle([]*exchange.Attempt) {
	if l.flight != nil && l.recorder != nil {
		l.flight.Abandon()
	}
	l.fail()
}

// Release ends the flight of a call that was not sent.
func (l *lookup) Release() { l.fail() }

// Interface guards
var (
	_ Hook         = (*cacheHook)(nil)
	_ Visit        = (*lookup)(nil)
	_ CountedHook  = (*lookup)(nil)
	_ DeliveryHook = (*lookup)(nil)
)
